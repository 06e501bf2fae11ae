//! Waiting for a descriptor that is none of the executor's files.
#![allow(unsafe_code, reason = "entries that name descriptors: docs/unsafe.md")]

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;

use io_uring::opcode;
use io_uring::types::Fd;

use super::file::File;
use super::local;
use super::ops::{Kept, Wanted};

/// Ends when `fd` has something to read, an end or an error; at once where it has. The wait begins
/// here and now, on a descriptor of its own, and ends with the future.
///
/// # Errors
/// There is no descriptor left, or no executor.
pub(in crate::runtime) fn readable(
    fd: BorrowedFd<'_>,
) -> io::Result<impl Future<Output = ()> + 'static> {
    let ended = || io::Error::other("the shard has ended");
    let local = local::current().ok_or_else(ended)?;
    let file = File::unregistered(fd.try_clone_to_owned()?, &local);
    let number = Fd(file.as_fd().as_raw_fd());
    let entry = opcode::PollAdd::new(number, libc::POLLIN as u32).build();
    let kept = Kept { buffer: None, bytes: None, file: Rc::clone(file.opened()) };
    // SAFETY: the entry names the descriptor that is kept, and no memory.
    let op = unsafe { Wanted::start(&local, entry, kept) }.map_err(|(error, _)| error)?;
    Ok(async move {
        // An error is as good an answer: whoever waits asks the descriptor.
        let _ = op.await;
    })
}
