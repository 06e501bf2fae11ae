//! A file: each of its operations is one entry of the ring.
#![allow(unsafe_code, reason = "entries that name memory and descriptors: docs/unsafe.md")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::rc::Rc;

use io_uring::types::{Fd, Fixed, FsyncFlags};
use io_uring::{opcode, squeue};

use super::buffer::Buffer;
use super::local::{self, Local};
use super::ops::{Kept, Op};

/// An open file of this thread's executor. It is closed with the last of its operations, and of its
/// handles.
pub(in crate::runtime) struct File {
    opened: Rc<Opened>,
}

/// What the operations on a file share.
pub(super) struct Opened {
    /// Taken out only to be closed.
    fd: Option<OwnedFd>,
    /// Its place in the table of registered files, which saves the kernel a reference an operation.
    place: Option<u32>,
    local: Rc<Local>,
}

impl File {
    /// A file whose I/O goes through `fd`, with the executor of this thread.
    pub(in crate::runtime) fn adopt(fd: OwnedFd) -> io::Result<File> {
        let local = local::current().ok_or_else(|| io::Error::other("the shard has ended"))?;
        let mut place = None;
        if let Some(queues) = &mut *local.queues.borrow_mut() {
            place = queues.register_file(fd.as_raw_fd());
        }
        Ok(File { opened: Rc::new(Opened { fd: Some(fd), place, local }) })
    }

    /// A file of `local`'s that takes no place among the registered ones: for a few operations.
    pub(super) fn unregistered(fd: OwnedFd, local: &Rc<Local>) -> File {
        let local = Rc::clone(local);
        File { opened: Rc::new(Opened { fd: Some(fd), place: None, local }) }
    }

    /// What its operations keep.
    pub(super) fn opened(&self) -> &Rc<Opened> {
        &self.opened
    }

    /// Reads up to `len` bytes at `at` to the beginning of `buffer`, and gives it back. May bring
    /// less, or be interrupted. Dropping the future loses the answer and, once the kernel has it,
    /// the buffer.
    ///
    /// # Panics
    ///
    /// Where the buffer is shorter than `len`.
    pub(in crate::runtime) async fn read_at(
        &self,
        buffer: Buffer,
        at: u64,
        len: usize,
    ) -> (io::Result<usize>, Buffer) {
        assert!(len <= buffer.len(), "a read of {len} bytes to {buffer:?}");
        let memory = buffer.memory();
        let (to, bytes, registered) = (memory.pointer(), call_len(len), memory.registered());
        let entry = match (self.opened.place, registered) {
            (Some(place), Some(index)) => {
                opcode::ReadFixed::new(Fixed(place), to, bytes, index).offset(at).build()
            }
            (None, Some(index)) => {
                opcode::ReadFixed::new(self.number(), to, bytes, index).offset(at).build()
            }
            (Some(place), None) => opcode::Read::new(Fixed(place), to, bytes).offset(at).build(),
            (None, None) => opcode::Read::new(self.number(), to, bytes).offset(at).build(),
        };
        let kept = Kept { buffer: Some(buffer), bytes: None, file: Rc::clone(&self.opened) };
        // SAFETY: the entry names the buffer and the file that are kept.
        let (result, kept) = unsafe { self.run(entry, kept) }.await;
        (result, kept.buffer.expect("a read keeps its buffer"))
    }

    /// Writes the bytes from `from` on at `at`, or the beginning of them, and answers how many that
    /// were. May be interrupted. Dropping the future loses the answer, never the operation.
    ///
    /// # Panics
    ///
    /// Where there are no bytes from `from` on.
    pub(in crate::runtime) async fn write_at(
        &self,
        bytes: &Rc<Buffer>,
        from: usize,
        at: u64,
    ) -> io::Result<usize> {
        assert!(from < bytes.len(), "a write from {from} of {bytes:?}");
        let memory = bytes.memory();
        let start = memory.pointer().wrapping_add(from).cast_const();
        let (len, registered) = (call_len(bytes.len() - from), memory.registered());
        let entry = match (self.opened.place, registered) {
            (Some(place), Some(index)) => {
                opcode::WriteFixed::new(Fixed(place), start, len, index).offset(at).build()
            }
            (None, Some(index)) => {
                opcode::WriteFixed::new(self.number(), start, len, index).offset(at).build()
            }
            (Some(place), None) => opcode::Write::new(Fixed(place), start, len).offset(at).build(),
            (None, None) => opcode::Write::new(self.number(), start, len).offset(at).build(),
        };
        let (bytes, file) = (Some(Rc::clone(bytes)), Rc::clone(&self.opened));
        // SAFETY: the entry names the bytes and the file that are kept.
        unsafe { self.run(entry, Kept { buffer: None, bytes, file }) }.await.0
    }

    /// Syncs the file's data and length; what was written before is durable when it has ended well.
    pub(in crate::runtime) async fn fdatasync(&self) -> io::Result<()> {
        let flags = FsyncFlags::DATASYNC;
        let entry = match self.opened.place {
            Some(place) => opcode::Fsync::new(Fixed(place)).flags(flags).build(),
            None => opcode::Fsync::new(self.number()).flags(flags).build(),
        };
        let kept = Kept { buffer: None, bytes: None, file: Rc::clone(&self.opened) };
        // SAFETY: the entry names the file that is kept, and no memory.
        unsafe { self.run(entry, kept) }.await.0.map(|_| ())
    }

    /// Closes it, and answers the error of that; where operations are under way, the last of them
    /// closes it, and this says nothing.
    pub(in crate::runtime) fn close(self) -> io::Result<()> {
        Rc::into_inner(self.opened).map_or(Ok(()), |mut opened| opened.close())
    }

    #[cfg(test)]
    pub(super) fn is_registered(&self) -> bool {
        self.opened.place.is_some()
    }

    fn number(&self) -> Fd {
        Fd(self.as_fd().as_raw_fd())
    }

    /// # Safety
    ///
    /// As [`Op::start`].
    async unsafe fn run(&self, entry: squeue::Entry, kept: Kept) -> (io::Result<usize>, Kept) {
        // SAFETY: passed on.
        let op = match unsafe { Op::start(&self.opened.local, entry, kept) } {
            Ok(op) => op,
            Err((error, kept)) => return (Err(error), kept),
        };
        let (result, kept) = op.await;
        let count = usize::try_from(result);
        (count.map_err(|_| io::Error::from_raw_os_error(-result)), kept)
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.opened.fd.as_ref().expect("only the last owner takes it").as_fd()
    }
}

impl Opened {
    fn close(&mut self) -> io::Result<()> {
        let Some(fd) = self.fd.take() else { return Ok(()) };
        if let (Some(place), Some(queues)) =
            (self.place.take(), &mut *self.local.queues.borrow_mut())
        {
            queues.forget_file(place);
        }
        // SAFETY: the number is ours and open, and nobody knows it any more: no operation is under
        // way on it, as each keeps `self`.
        match unsafe { libc::close(fd.into_raw_fd()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // A dropped handle has nobody to tell.
        let _ = self.close();
    }
}

/// The kernel moves less than 2 GiB a call; the rest is asked for again.
fn call_len(len: usize) -> u32 {
    const MOST: usize = 1 << 30;
    len.min(MOST) as u32
}
