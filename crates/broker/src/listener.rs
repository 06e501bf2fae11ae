//! The listener of one shard: it accepts, and each connection is a task of the same shard.
//!
//! All shards listen on one address; the kernel deals the connections out.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use glommio::net::{AcceptedTcpStream, TcpListener};

use crate::connection;
use crate::serve::Here;
use crate::socket::Socket;

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
                    // Out of descriptors, or the client is gone already. Others are served first,
                    // so that some of them may end.
                    serving.shared.note(format_args!("no connection accepted: {error}"));
                    serving.shard.yield_now().await;
                }
            }
        }
    });
    Ok(())
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
