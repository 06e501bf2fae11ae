//! One connection's socket on a shard: bytes into memory of ours, views out of the engine's.
//!
//! A batch is received into the memory that the engine then takes over: where a frame is too long for
//! what is received at once, its body has memory of its own, and only what came with the header is
//! moved there. Views go out by `sendmsg`, many in one call.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_lite::future::yield_now;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, getpeername, recv, sendmsg, shutdown,
    sockopt,
};

use crate::frame::HEADER_LEN;
use crate::limits::{AT_ONCE, Life};
use crate::sockets::{Sockets, Watched};

/// Views of one call to `sendmsg`; the kernel takes 1,024.
const VIEWS_MAX: usize = 64;

/// Memory through which passes what nobody wants.
const SKIP_MEMORY: usize = 64 << 10;

/// What a call may bring before others have their turn, bytes.
const MUCH: usize = 256 << 10;

/// Silence after which the kernel asks whether the other side is still there. Members of groups are
/// given up by other means, and sooner.
const SILENCE: Duration = Duration::from_secs(60);
/// Time between such questions, and how many stay without an answer.
const QUESTIONS: (Duration, u32) = (Duration::from_secs(10), 6);
/// Time for which a client may leave an answer unread, milliseconds. What it was sent may be memory
/// of a shard, and clients wait for their answers half as long.
const UNREAD_MS_MAX: u32 = 60_000;

pub(crate) struct Socket {
    watched: Watched,
    socket: OwnedFd,
    /// Is told of every byte.
    life: Rc<Life>,
    /// Received, and not asked for yet.
    received: BytesMut,
}

impl Socket {
    /// Takes over a connection that does not block.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn new(
        socket: OwnedFd,
        sockets: &Rc<Sockets>,
        life: Rc<Life>,
    ) -> io::Result<Socket> {
        // Answers are whole; there is nothing to gather them with.
        sockopt::set_tcp_nodelay(&socket, true)?;
        notice_silence(&socket)?;
        let watched = sockets.add(socket.as_fd())?;
        Ok(Socket { watched, socket, life, received: BytesMut::new() })
    }

    pub(crate) fn peer(&self) -> io::Result<SocketAddr> {
        let peer = getpeername(&self.socket)?.ok_or(io::ErrorKind::NotConnected)?;
        Ok(SocketAddr::try_from(peer)?)
    }

    /// Receives the header of a frame; `None` where the other side has ended before its first byte.
    ///
    /// # Errors
    /// Those of the socket; `UnexpectedEof` where it ended in the middle. What was received is kept
    /// where this is dropped.
    pub(crate) async fn header(&mut self) -> io::Result<Option<Bytes>> {
        // Of what came with the last frame, this one has begun.
        self.life.received(self.received.len());
        while self.received.len() < HEADER_LEN {
            if self.receive().await? == 0 {
                let none = self.received.is_empty();
                return if none { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
        Ok(Some(self.received.split_to(HEADER_LEN).freeze()))
    }

    /// Receives the `len` bytes behind a header.
    ///
    /// # Errors
    /// Those of the socket; `UnexpectedEof` where it ended before. What was received is lost then, as
    /// when this is dropped: the connection has no next frame.
    pub(crate) async fn body(&mut self, len: usize) -> io::Result<Bytes> {
        if self.received.len() >= len {
            return Ok(self.received.split_to(len).freeze());
        }
        let mut body = Vec::with_capacity(len);
        body.extend_from_slice(&self.received);
        self.received.clear();
        while body.len() < len {
            match self.receive_into(&mut body).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                // A client as fast as this shard must not keep it for itself.
                MUCH.. if body.len() < len => yield_now().await,
                _ => {}
            }
        }
        // The allocator may have given more room than it was asked for.
        self.received.extend_from_slice(&body[len..]);
        body.truncate(len);
        Ok(body.into())
    }

    /// Receives `len` bytes and keeps none of them.
    ///
    /// # Errors
    /// As those of [`Socket::body`].
    pub(crate) async fn skip(&mut self, len: usize) -> io::Result<()> {
        let early = len.min(self.received.len());
        self.received.advance(early);
        let mut left = len - early;
        let mut memory = Vec::with_capacity(SKIP_MEMORY.min(left));
        while left > 0 {
            memory.clear();
            if self.receive_into(&mut memory).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            yield_now().await;
            let got = memory.len().min(left);
            self.received.extend_from_slice(&memory[got..]);
            left -= got;
        }
        Ok(())
    }

    /// Receives something, behind what was received before; 0 at the end.
    async fn receive(&mut self) -> io::Result<usize> {
        let before = self.received.len();
        loop {
            self.watched.readable().await;
            self.received.resize(before + AT_ONCE, 0);
            let got = recv(&self.socket, &mut self.received[before..], RecvFlags::DONTWAIT);
            let got = got.map(|(got, _)| got);
            self.received.truncate(before + got.unwrap_or(0));
            if let Some(got) = self.received_some(got, AT_ONCE)? {
                return Ok(got);
            }
        }
    }

    /// Receives what there is into the room that `into` has; 0 at the end.
    async fn receive_into(&self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut has_waited = false;
        loop {
            if !has_waited && !self.watched.is_readable() {
                // A client that gathers its small writes sends the rest when this one is answered
                // for, which the kernel else puts off for 40 ms.
                sockopt::set_tcp_quickack(&self.socket, true)?;
                has_waited = true;
            }
            self.watched.readable().await;
            let room = into.capacity() - into.len();
            let got = recv(&self.socket, spare_capacity(into), RecvFlags::DONTWAIT);
            if let Some(got) = self.received_some(got.map(|(got, _)| got), room)? {
                return Ok(got);
            }
        }
    }

    /// What a call to receive has brought, where it is not to be made again.
    fn received_some(&self, got: Result<usize, Errno>, room: usize) -> io::Result<Option<usize>> {
        match got {
            Err(Errno::AGAIN) => {
                self.watched.was_emptied();
                Ok(None)
            }
            Err(Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(got) => {
                self.life.received(got);
                if got < room {
                    self.watched.was_emptied();
                }
                Ok(Some(got))
            }
        }
    }

    /// Sends all of `views`, which are dropped one by one as they are gone.
    ///
    /// # Errors
    /// Those of the socket. Not cancel-safe: part of a frame may be gone.
    pub(crate) async fn send(&mut self, views: Vec<Bytes>) -> io::Result<()> {
        let mut views = views.into_iter();
        let mut window: Vec<Bytes> = Vec::with_capacity(VIEWS_MAX.min(views.len()));
        loop {
            window.extend(views.by_ref().take(VIEWS_MAX - window.len()));
            if window.is_empty() {
                return Ok(());
            }
            match self.transmit(&window) {
                Err(Errno::AGAIN) => {
                    self.watched.was_filled();
                    self.watched.writable().await;
                }
                Err(Errno::INTR) => {}
                gone => {
                    let gone = gone?;
                    self.life.sent(gone);
                    drop_sent(&mut window, gone);
                }
            }
        }
    }

    /// Says that nothing more is sent, and receives until the other side has ended, too: closed with
    /// something unread, the connection would be reset, and with it what was sent last.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        shutdown(&self.socket, Shutdown::Write)?;
        let mut memory = Vec::with_capacity(AT_ONCE);
        while self.receive_into(&mut memory).await? > 0 {
            memory.clear();
        }
        Ok(())
    }

    fn transmit(&self, window: &[Bytes]) -> Result<usize, Errno> {
        let slices: Vec<IoSlice<'_>> = window.iter().map(|view| IoSlice::new(view)).collect();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.socket, &slices, &mut SendAncillaryBuffer::default(), flags)
    }
}

/// Lets the kernel end a connection whose other side is not there any more, or does not read.
fn notice_silence(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, SILENCE)?;
    sockopt::set_tcp_keepintvl(socket, QUESTIONS.0)?;
    sockopt::set_tcp_keepcnt(socket, QUESTIONS.1)?;
    sockopt::set_tcp_user_timeout(socket, UNREAD_MS_MAX)?;
    Ok(())
}

/// Takes `gone` bytes from the front.
fn drop_sent(window: &mut Vec<Bytes>, mut gone: usize) {
    let mut whole = 0;
    for view in window.iter_mut() {
        if gone < view.len() {
            view.advance(gone);
            break;
        }
        gone -= view.len();
        whole += 1;
    }
    window.drain(..whole);
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use futures_lite::future::block_on;

    use super::*;

    #[test]
    fn the_kernel_ends_what_is_silent_or_does_not_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        notice_silence(&socket).unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), SILENCE);
        assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap(), QUESTIONS.0);
        assert_eq!(sockopt::tcp_keepcnt(&socket).unwrap(), QUESTIONS.1);
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), UNREAD_MS_MAX);
    }

    /// A connection, its other end, and the set that it is in.
    fn connected() -> (Socket, std::net::TcpStream, Rc<Sockets>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let other = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = OwnedFd::from(listener.accept().unwrap().0);
        let sockets = Sockets::new().unwrap();
        (Socket::new(accepted, &sockets, Rc::default()).unwrap(), other, sockets)
    }

    /// Bytes of a frame, each of which says where it is.
    fn frame(body: usize) -> Vec<u8> {
        (0..HEADER_LEN + body).map(|at| (at % 251) as u8).collect()
    }

    /// How many bytes of a body were moved behind the call that received them, for a client that
    /// sends a frame in these pieces.
    fn moved(body: usize, pieces: &[usize]) -> usize {
        let (mut socket, mut other, sockets) = connected();
        let frame = frame(body);
        let mut rest = &frame[..];
        block_on(async {
            let mut send = |len: usize| {
                let (piece, behind) = rest.split_at(len);
                other.write_all(piece).unwrap();
                rest = behind;
                sockets.look(&mut Vec::with_capacity(8));
            };
            send(pieces[0]);
            let header = socket.header().await.unwrap().unwrap();
            assert_eq!(header[..], frame[..HEADER_LEN]);
            pieces[1..].iter().for_each(|len| send(*len));
            let before = socket.received.len();
            let at = header.as_ptr().wrapping_add(HEADER_LEN);
            let got = socket.body(body).await.unwrap();
            assert_eq!(got[..], frame[HEADER_LEN..]);
            if got.as_ptr() == at { 0 } else { before }
        })
    }

    #[test]
    fn a_batch_stays_where_it_was_received() {
        assert_eq!(moved(1300, &[HEADER_LEN + 1300]), 0, "small, as it comes from clients");
        assert_eq!(moved(10_000, &[HEADER_LEN, 10_000]), 0, "larger, behind its header alone");
        assert_eq!(moved(40_000, &[HEADER_LEN, 20_000, 20_000]), 0, "in pieces");
        let behind_header = AT_ONCE - HEADER_LEN;
        assert_eq!(moved(50_000, &[HEADER_LEN + 50_000]), behind_header, "the worst there is");
    }
}
