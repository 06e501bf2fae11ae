//! From a descriptor of ours to a glommio file and back: the only place that handles raw ones.
#![allow(unsafe_code, reason = "glommio's file type takes and gives descriptors by number only")]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use glommio::io::{BufferedFile, DmaFile};
use rustix::io::DupFlags;

use super::error::os_error;

/// A glommio file whose I/O goes through the open file description of `fd`.
///
/// glommio opens by path only: it panics where the path is gone, asks the file system about the
/// path on the executor's thread, probes the first file of a device (wrongly, where it is empty),
/// and its description would not be the one that carries our flock. So each file starts as a
/// duplicate of `template`, which was opened and probed once, and its NUMBER is then pointed at our
/// description (dup3 replaces atomically). Everything that glommio remembers of a file besides the
/// number (alignment, whether the device can be polled) is a property of the device.
pub(in crate::runtime) fn adopt(template: &DmaFile, fd: OwnedFd) -> io::Result<DmaFile> {
    let file = template.dup().map_err(os_error)?;
    // SAFETY: the number is open, `file` has just created it and has no I/O on it, and nobody else
    // knows it. `ManuallyDrop`: it stays `file`'s to close.
    let mut slot = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(file.as_raw_fd()) });
    rustix::io::dup3(&fd, &mut slot, DupFlags::CLOEXEC)?;
    Ok(file)
}

/// The descriptor of `file`.
pub(in crate::runtime) fn borrowed(file: &DmaFile) -> BorrowedFd<'_> {
    // SAFETY: `file` keeps its number open at least as long as the reference to it lives.
    unsafe { BorrowedFd::borrow_raw(file.as_raw_fd()) }
}

/// A file to read the ticks of a timerfd from, which is never closed through it: its owner closes
/// `fd` after the executor has gone.
pub(in crate::runtime) fn ticking(fd: BorrowedFd<'_>) -> ManuallyDrop<BufferedFile> {
    // SAFETY: the number is open. Nothing is written through it, and the owner outlives the executor.
    ManuallyDrop::new(unsafe { BufferedFile::from_raw_fd(fd.as_raw_fd()) })
}
