//! The listener of one shard: it accepts, and each connection is a task of the same shard.
//!
//! All shards listen on one address; the kernel deals the connections out.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, listen, socket_with, sockopt,
};

use crate::connection;
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

/// Listens, and serves whoever connects until the engine closes.
///
/// # Errors
/// The address cannot be listened on.
pub(crate) fn start(here: &Rc<Here>, address: SocketAddr) -> io::Result<()> {
    let listener = Listener::bind(here, address)?;
    let serving = Rc::clone(here);
    here.shard.spawn(async move {
        loop {
            match listener.accept().await {
                Ok(accepted) => serve(&serving, accepted),
                Err(error) => {
                    // Out of descriptors, or the client is gone already.
                    serving.shared.note(format_args!("no connection accepted: {error}"));
                    serving.shard.sleep(ACCEPT_AGAIN).await;
                }
            }
        }
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

/// Looks after the members of groups that are silent, until the engine closes: nobody else gets
/// their partitions otherwise.
pub(crate) fn look_after_members(here: &Rc<Here>) {
    let serving = Rc::clone(here);
    here.shard.spawn(async move {
        loop {
            serving.shard.sleep(LOOK_EVERY).await;
            let Here { groups, shared, .. } = &*serving;
            let now = shared.clients.now();
            for client in shared.clients.mark_stale(now, |client| !groups.of(client).is_empty()) {
                groups.disconnect(client);
                shared.note(format_args!("{client} was silent for too long, its groups go on"));
            }
        }
    });
}

/// Begins to serve a connection.
fn serve(here: &Rc<Here>, accepted: OwnedFd) {
    let socket = match Socket::new(accepted, &here.sockets) {
        Ok(socket) => socket,
        Err(error) => return here.shared.note(format_args!("a connection was lost: {error}")),
    };
    let serving = Rc::clone(here);
    here.shard.spawn(async move {
        if let Err(error) = connection::run(&serving, socket).await {
            serving.shared.note(format_args!("a connection ended: {error}"));
        }
    });
}
