//! One connection's socket on a shard: bytes into memory of ours, views out of the engine's.
//!
//! glommio's stream waits until the socket is ready; the bytes move by calls that do not wait.
//! Received ones land in spare memory, which nobody has to clear before, and views go out by
//! `sendmsg`, many in one call.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_lite::io::{AsyncRead, AsyncWrite};
use glommio::net::{AcceptedTcpStream, TcpStream};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg, sockopt};

/// Views of one call to `sendmsg`; the kernel takes 1,024.
const VIEWS_MAX: usize = 64;

/// Memory through which passes what nobody wants.
const SKIP_MEMORY: usize = 64 << 10;

/// Silence after which the kernel asks whether the other side is still there. Members of groups are
/// given up by other means, and sooner.
const SILENCE: Duration = Duration::from_secs(60);
/// Time between such questions, and how many stay without an answer.
const QUESTIONS: (Duration, u32) = (Duration::from_secs(10), 6);
/// Time for which a client may leave an answer unread, milliseconds. What it was sent may be memory
/// of a shard, and clients wait for their answers half as long.
const UNREAD_MS_MAX: u32 = 60_000;

pub(crate) struct Socket {
    stream: TcpStream,
    /// Received with what came before, and not asked for yet.
    early: VecDeque<u8>,
}

impl Socket {
    pub(crate) fn new(accepted: AcceptedTcpStream) -> io::Result<Socket> {
        let stream = accepted.bind_to_executor();
        // Answers are whole; there is nothing to gather them with.
        stream.set_nodelay(true)?;
        let socket = Socket { stream, early: VecDeque::new() };
        notice_silence(socket.fd())?;
        Ok(socket)
    }

    pub(crate) fn peer(&self) -> io::Result<SocketAddr> {
        Ok(self.stream.peer_addr()?)
    }

    /// Receives until `into` has `len` bytes more. False where the other side has ended before the
    /// first of them. `into` may have more capacity than that: what comes with it is kept for the
    /// next time.
    ///
    /// # Errors
    /// Those of the socket; `UnexpectedEof` where it ended in the middle. What was received is lost
    /// then, as when this is dropped: the connection has no next frame.
    pub(crate) async fn fill(&mut self, into: &mut Vec<u8>, len: usize) -> io::Result<bool> {
        let begin = into.len();
        let end = begin + len;
        into.reserve_exact(len);
        into.extend(self.early.drain(..len.min(self.early.len())));
        while into.len() < end {
            let got = match recv(self.fd(), spare_capacity(into), RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => self.wait_and_receive(into, end).await?,
                Err(Errno::INTR) => continue,
                got => got?.1,
            };
            if got == 0 {
                let none = into.len() == begin;
                return if none { Ok(false) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
        self.early.extend(into.drain(end..));
        Ok(true)
    }

    /// Receives `len` bytes and keeps none of them.
    ///
    /// # Errors
    /// As those of [`Socket::fill`].
    pub(crate) async fn skip(&mut self, mut len: usize) -> io::Result<()> {
        let mut memory = Vec::with_capacity(SKIP_MEMORY);
        while len > 0 {
            memory.clear();
            let next = len.min(SKIP_MEMORY);
            if !self.fill(&mut memory, next).await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            len -= next;
        }
        Ok(())
    }

    /// Waits for bytes and takes the first of them.
    async fn wait_and_receive(&mut self, into: &mut Vec<u8>, end: usize) -> io::Result<usize> {
        let mut few = [0; 256];
        let wanted = few.len().min(end - into.len());
        let few = &mut few[..wanted];
        let got = poll_fn(|cx| Pin::new(&mut self.stream).poll_read(cx, few)).await?;
        into.extend_from_slice(&few[..got]);
        Ok(got)
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
            let gone = match self.transmit(&window) {
                Err(Errno::AGAIN) => self.wait_and_transmit(&window[0]).await?,
                Err(Errno::INTR) => 0,
                gone => gone?,
            };
            drop_sent(&mut window, gone);
        }
    }

    fn transmit(&self, window: &[Bytes]) -> Result<usize, Errno> {
        let slices: Vec<IoSlice<'_>> = window.iter().map(|view| IoSlice::new(view)).collect();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(self.fd(), &slices, &mut SendAncillaryBuffer::default(), flags)
    }

    /// Waits until there is room, and sends the first of `view` that fits.
    async fn wait_and_transmit(&mut self, view: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| Pin::new(&mut self.stream).poll_write(cx, view)).await
    }

    #[expect(unsafe_code, reason = "glommio's stream tells its descriptor as a number only")]
    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the stream owns the descriptor and closes it when it is dropped, which the borrow
        // of `self` outlives.
        unsafe { BorrowedFd::borrow_raw(self.stream.as_raw_fd()) }
    }
}

/// Lets the kernel end a connection whose other side is not there any more, or does not read.
fn notice_silence(socket: BorrowedFd<'_>) -> io::Result<()> {
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
    use super::*;

    #[test]
    fn the_kernel_ends_what_is_silent_or_does_not_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        notice_silence(std::os::fd::AsFd::as_fd(&socket)).unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), SILENCE);
        assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap(), QUESTIONS.0);
        assert_eq!(sockopt::tcp_keepcnt(&socket).unwrap(), QUESTIONS.1);
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), UNREAD_MS_MAX);
    }
}
