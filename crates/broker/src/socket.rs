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

use bytes::{Buf, Bytes};
use futures_lite::io::{AsyncRead, AsyncWrite};
use glommio::net::{AcceptedTcpStream, TcpStream};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

/// Views of one call to `sendmsg`; the kernel takes 1,024.
const VIEWS_MAX: usize = 64;

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
        Ok(Socket { stream, early: VecDeque::new() })
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
