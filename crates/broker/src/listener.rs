//! The listener of one shard: it accepts, and each connection is a task of the same shard.
//!
//! All shards listen on one address; the kernel deals the connections out.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use futures_lite::future::or;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, listen, socket_with, sockopt,
};

use crate::connection::{self, ConnectionError};
use crate::limits::{Lives, Living};
use crate::serve::Here;
use crate::socket::Socket;
use crate::sockets::Watched;

/// Rest after a connection that could not be accepted: where descriptors are used up, the next try
/// would fail as well.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Connections that wait to be accepted.
const WAITING_MAX: i32 = 1024;

/// Between two looks for silent members.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Listens, and serves whoever connects until the broker stops.
///
/// # Errors
/// The address cannot be listened on.
pub(crate) fn start(here: &Rc<Here>, address: SocketAddr) -> io::Result<()> {
    let listener = Listener::bind(here, address)?;
    let serving = Rc::clone(here);
    here.shard.spawn(async move {
        let accept = async {
            loop {
                match listener.accept().await {
                    Ok(accepted) => {
                        serve(&serving, accepted);
                        // Others have their turn, however many connect.
                        serving.shard.yield_now().await;
                    }
                    Err(error) => {
                        // Out of descriptors, or the client is gone already.
                        serving.shared.events.connection_lost(&error);
                        serving.shard.sleep(ACCEPT_AGAIN).await;
                    }
                }
            }
        };
        or(serving.lives.stopping().given(), accept).await;
    });
    Ok(())
}

/// A socket that accepts.
struct Listener {
    watched: Watched,
    socket: OwnedFd,
}

impl Listener {
    /// One of many on `address`: see [`bound`].
    fn bind(here: &Here, address: SocketAddr) -> io::Result<Listener> {
        let socket = bound(address)?;
        listen(&socket, WAITING_MAX)?;
        let watched = here.sockets.add(socket.as_fd())?;
        Ok(Listener { watched, socket })
    }

    async fn accept(&self) -> io::Result<OwnedFd> {
        loop {
            self.watched.readable().await;
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Err(Errno::AGAIN) => self.watched.was_emptied(),
                Err(Errno::INTR) => {}
                accepted => return Ok(accepted?),
            }
        }
    }
}

/// A socket on `address`, which it shares with others of this user that ask for it.
///
/// # Errors
/// The address cannot be had.
pub(crate) fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    bind(&socket, &address)?;
    Ok(socket)
}

/// Ends connections that take too long for something, until the engine closes.
pub(crate) fn look_after_connections(here: &Rc<Here>) {
    let serving = Rc::clone(here);
    here.shard.spawn(async move {
        let Here { shard, lives, frames, replies, shared, .. } = &*serving;
        let interval = Lives::interval(&shared.may);
        loop {
            shard.sleep(interval).await;
            lives.look(&shared.may, frames.is_short(), replies.is_short());
        }
    });
}

/// Stops to accept when the word is given: see [`Lives::stop`].
pub(crate) fn stop_when(here: &Rc<Here>, stopped: oneshot::Receiver<()>) {
    let serving = Rc::clone(here);
    here.shard.spawn(async move {
        if stopped.await.is_ok() {
            serving.lives.stop();
        }
    });
}

/// Looks after the members of groups that are silent, until the engine closes: nobody else gets
/// their partitions otherwise.
pub(crate) fn look_after_members(here: &Rc<Here>) {
    let serving = Rc::clone(here);
    here.shard.spawn(async move {
        loop {
            serving.shard.sleep(LOOK_EVERY).await;
            let Here { groups, shared, .. } = &*serving;
            let now = shared.clients.now();
            for client in shared.clients.end_stale(now, |client| groups.disconnect(client) > 0) {
                shared.events.member_silent(client);
            }
        }
    });
}

/// Begins to serve a connection.
fn serve(here: &Rc<Here>, accepted: OwnedFd) {
    let counters = here.counters();
    counters.accepted.add(1);
    let living = here.lives.begin();
    let socket = Socket::new(accepted, &here.sockets, Rc::clone(living.life()));
    let socket = socket.and_then(|socket| Ok((socket.peer()?, socket)));
    let (peer, socket) = match socket {
        Ok(both) => both,
        Err(error) => {
            counters.ended(Err(None));
            return here.shared.events.connection_lost(&error);
        }
    };
    let serving = Rc::clone(here);
    here.shard.spawn(async move {
        let events = &serving.shared.events;
        let ended = live(&serving, &living, socket, peer).await;
        let counters = serving.counters();
        match &ended {
            Ok(()) => counters.ended(Ok(())),
            Err(ConnectionError::Ended(why)) => counters.ended(Err(Some(*why))),
            Err(ConnectionError::TooMany(_)) => counters.refused.add(1),
            Err(_) => counters.ended(Err(None)),
        }
        match ended {
            Err(error @ ConnectionError::TooMany(_)) => events.connection_refused(peer, &error),
            Err(error) if !error.is_of_a_stop() => events.connection_ended(peer, &error),
            _ => {}
        }
    });
}

/// Serves a connection until it is over, or until the word comes that it has to be.
async fn live(
    here: &Rc<Here>,
    living: &Living,
    socket: Socket,
    peer: SocketAddr,
) -> Result<(), ConnectionError> {
    let ended = async { Err(ConnectionError::Ended(living.life().ended().await)) };
    or(ended, connection::run(here, living.life(), socket, peer)).await
}
