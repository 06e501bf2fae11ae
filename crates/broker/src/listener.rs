//! The listener of one shard: it accepts, and each connection is a task of the same shard.
//!
//! All shards listen on one address; the kernel deals the connections out.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use glommio::net::{AcceptedTcpStream, TcpListener};

use crate::connection;
use crate::serve::Here;
use crate::socket::Socket;

/// Rest after a connection that could not be accepted: where descriptors are used up, the next try
/// would fail as well.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Between two looks for silent members.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Listens, and serves whoever connects until the engine closes.
///
/// # Errors
/// The address cannot be listened on.
pub(crate) fn start(here: &Rc<Here>, address: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let serving = Rc::clone(here);
    here.shard.spawn(async move {
        loop {
            match listener.shared_accept().await {
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
fn serve(here: &Rc<Here>, accepted: AcceptedTcpStream) {
    let socket = match Socket::new(accepted) {
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
