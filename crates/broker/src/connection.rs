//! One connection: frames in, answers out, one after the other.

use std::fmt;
use std::io;
use std::rc::Rc;

use bytes::Bytes;

use crate::answer::Answer;
use crate::frame::{FrameError, HEADER_LEN, Request, eviction, frame_len, reply};
use crate::serve::{self, Here};
use crate::session::Session;
use crate::socket::Socket;

/// Longest body of a client that has not logged in, bytes; of a longer one nothing is kept. Logins
/// are a few hundred.
const BEFORE_LOGIN_MAX: usize = 64 << 10;

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
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionError::Io(error) => error.fmt(f),
            ConnectionError::Frame(error) => error.fmt(f),
            ConnectionError::TooMany(max) => {
                write!(f, "there are {max} already, half of what files the process may open")
            }
        }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        ConnectionError::Io(error)
    }
}

/// Serves a connection until its client ends it.
///
/// # Errors
/// Those of the socket, and a frame whose length nobody can believe.
pub(crate) async fn run(here: &Rc<Here>, mut socket: Socket) -> Result<(), ConnectionError> {
    let peer = socket.peer()?;
    let max = here.shared.clients_max;
    let seat = here.shared.clients.seat(peer, max).ok_or(ConnectionError::TooMany(max))?;
    let mut session = Session::new(seat, peer, here.groups.clone());
    let mut in_turn = 0..IN_ONE_GO;
    loop {
        if in_turn.next().is_none() {
            here.shard.yield_now().await;
            in_turn = 0..IN_ONE_GO;
        }
        let Some(header) = socket.header().await? else { return Ok(()) };
        let header: &[u8; HEADER_LEN] = header[..].try_into().expect("so many bytes were received");
        let body_len = frame_len(header).map_err(ConnectionError::Frame)? - HEADER_LEN;
        let mut request = Request::decode(header);
        let mut body = Bytes::new();
        if session.login.is_none() && body_len > BEFORE_LOGIN_MAX {
            socket.skip(body_len).await?;
            // No answer to a stranger depends on such a body.
            if let Ok(request) = &mut request {
                request.checksum = 0;
            }
        } else if body_len > 0 {
            body = socket.body(body_len).await?;
        }
        match request {
            Ok(request) => {
                let answer = serve::answer(here, &mut session, &request, body).await;
                socket.send(frame(&request, &session, answer)).await?;
            }
            // Nobody can be answered: the header may not even say to whom.
            Err(why) => here.shared.note(format_args!("{peer}: frame passed over: {why}")),
        }
    }
}

/// An answer as it goes to the wire.
fn frame(request: &Request, session: &Session, answer: Answer) -> Vec<Bytes> {
    match answer {
        Answer::Evict(why) => vec![Bytes::copy_from_slice(&eviction(request.client, why))],
        Answer::Reply { status, body } => {
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
