//! One connection: frames in, answers out, one after the other.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use bytes::Bytes;

use crate::answer::Answer;
use crate::frame::{FrameError, HEADER_LEN, Request, eviction, frame_len, reply};
use crate::limits::{Ended, Life, OWN_BODY, Room};
use crate::serve::{self, Here};
use crate::session::Session;
use crate::socket::Socket;

/// Requests that are served in one go where a client has sent many. Nothing of them may ever wait,
/// and other connections want their turn.
const IN_ONE_GO: u32 = 16;

/// Why a connection ended that its client did not end.
#[derive(Debug)]
pub(crate) enum ConnectionError {
    Io(io::Error),
    /// What follows cannot be told apart.
    Frame(FrameError),
    /// There are as many connections as there may be.
    TooMany(usize),
    /// It took too long for something, or the broker stops.
    Ended(Ended),
}

impl ConnectionError {
    /// True where nothing is wrong with the connection.
    pub(crate) fn is_of_a_stop(&self) -> bool {
        matches!(self, ConnectionError::Ended(Ended::Stopping))
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionError::Io(error) => error.fmt(f),
            ConnectionError::Frame(error) => error.fmt(f),
            ConnectionError::TooMany(max) => {
                write!(
                    f,
                    "there are {max} already (connections, connections_per_shard, half of \
                    what files the process may open)"
                )
            }
            ConnectionError::Ended(why) => why.fmt(f),
        }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        ConnectionError::Io(error)
    }
}

/// Serves a connection until its client ends it, or the broker stops. Dropped, it ends at once.
///
/// # Errors
/// Those of the socket, and a frame whose length nobody can believe.
pub(crate) async fn run(
    here: &Rc<Here>,
    life: &Life,
    mut socket: Socket,
    peer: SocketAddr,
) -> Result<(), ConnectionError> {
    let may = &here.shared.may;
    if here.lives.count() > may.connections_per_shard {
        return Err(ConnectionError::TooMany(may.connections_per_shard));
    }
    let seat = here.shared.clients.seat(peer, may.connections);
    let seat = seat.ok_or(ConnectionError::TooMany(may.connections))?;
    let mut session = Session::new(seat, peer, here.groups.clone());
    let counters = here.counters();
    let mut in_turn = 0..IN_ONE_GO;
    loop {
        if in_turn.next().is_none() {
            here.shard.yield_now().await;
            in_turn = 0..IN_ONE_GO;
        }
        if here.lives.stopping().is_given() {
            life.closing();
            socket.finish().await?;
            return Err(ConnectionError::Ended(Ended::Stopping));
        }
        life.idle();
        let Some(header) = socket.header().await? else { return Ok(()) };
        let header: &[u8; HEADER_LEN] = header[..].try_into().expect("so many bytes were received");
        let len = frame_len(header, may.frame_bytes).map_err(ConnectionError::Frame)?;
        let mut request = Request::decode(header);
        let body_len = len - HEADER_LEN;
        let mut body = Bytes::new();
        let mut room = None;
        if body_len > OWN_BODY && session.login.is_none() {
            socket.skip(body_len).await?;
            // No answer to a stranger depends on such a body.
            if let Ok(request) = &mut request {
                request.checksum = 0;
            }
        } else if body_len > 0 {
            if body_len > OWN_BODY {
                life.serving();
                room = here.frames.take(body_len).await;
                life.receiving();
            }
            body = socket.body(body_len).await?;
        }
        life.serving();
        counters.received_bytes.add(len as u64);
        match request {
            Ok(request) => {
                counters.request(request.operation, request.code);
                let (answer, _taken) = answer(here, &mut session, &request, body).await;
                life.stranger(session.login.is_none());
                drop(room);
                life.replying();
                socket.send(frame(here, &request, &session, answer)).await?;
            }
            // Nobody can be answered: the header may not even say to whom.
            Err(why) => {
                counters.passed_over.add(1);
                here.shared.events.frame_passed_over(peer, &why);
            }
        }
    }
}

/// The answer, and the memory that it takes until it is sent. Nothing is polled for a client before
/// there is room for whatever it may get.
async fn answer(
    here: &Here,
    session: &mut Session,
    request: &Request,
    body: Bytes,
) -> (Answer, Option<Room>) {
    let room = match request.is_poll() {
        true => Some(here.replies.promise(here.poll_bytes).await),
        false => None,
    };
    let answer = serve::answer(here, session, request, body).await;
    let room = room.map(|mut room| {
        room.settle(answer.views_len());
        room
    });
    (answer, room)
}

/// An answer as it goes to the wire.
fn frame(here: &Here, request: &Request, session: &Session, answer: Answer) -> Vec<Bytes> {
    let counters = here.counters();
    match answer {
        Answer::Evict(why) => {
            counters.evictions.add(1);
            counters.sent_bytes.add(HEADER_LEN as u64);
            vec![Bytes::copy_from_slice(&eviction(request.client, why))]
        }
        Answer::Reply { status, body } => {
            if status != 0 {
                counters.error(status);
            } else if let Some(code) = body.failure {
                counters.error(code);
            }
            counters.sent_bytes.add((HEADER_LEN + body.len()) as u64);
            let op = session.login.as_ref().map_or(0, |login| login.session);
            let operation = request.operation.prepared();
            let header = reply(request, operation, op, status, body.len());
            let mut head = Vec::with_capacity(HEADER_LEN + body.head.len());
            head.extend_from_slice(&header);
            head.extend_from_slice(&body.head);
            let mut views = Vec::with_capacity(1 + body.views.len());
            views.push(Bytes::from(head));
            views.extend(body.views);
            views
        }
    }
}
