//! Waiting for a descriptor that is none of the engine's files: an embedder's sockets, or his set of
//! them.
#![allow(unsafe_code, reason = "glommio takes descriptors by number only: docs/unsafe.md")]

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd};
use std::pin::Pin;

use futures_lite::io::AsyncRead;
use glommio::net::TcpStream;

/// Ends when `fd` has something to read, an end or an error; at once where it has. The wait begins
/// here and now, and ends with the future.
///
/// # Errors
/// There is no descriptor left: the wait has one of its own.
pub(in crate::runtime) fn readable(
    fd: BorrowedFd<'_>,
) -> io::Result<impl Future<Output = ()> + 'static> {
    let number = fd.try_clone_to_owned()?.into_raw_fd();
    // glommio waits for sockets only, and waits before it reads: it asks the ring whether there is
    // something to read as soon as it has a stream. What it reads then is nothing, whatever `fd` is:
    // the buffer has no room.
    // SAFETY: the number is that of a descriptor of ours, which the stream owns from here on.
    let mut stream = unsafe { TcpStream::from_raw_fd(number) };
    Ok(async move {
        // Read from what is no socket is an error, and as good an answer.
        let _ = poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut [])).await;
    })
}
