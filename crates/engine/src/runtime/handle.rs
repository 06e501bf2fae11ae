//! An open file as its runtime has it, and the single calls on it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use glommio::io::{DmaBuffer, DmaFile};

use super::boxes::Memory;
use super::buffer::{Frozen, Piece, RealBytes};
use super::glommio::error::os_error;
use super::glommio::fd;
use super::ring;

/// An open file.
pub(super) enum Handle {
    Glommio(DmaFile),
    Ring(ring::File),
}

/// What makes open files out of descriptors.
pub(super) enum Adopter {
    /// A file of glommio's that each one begins as: see [`fd::adopt`].
    Glommio(DmaFile),
    Ring,
}

impl Adopter {
    /// A file whose I/O goes through the open file description of `fd`.
    pub(super) fn adopt(&self, fd: OwnedFd) -> io::Result<Handle> {
        match self {
            Adopter::Glommio(template) => fd::adopt(template, fd).map(Handle::Glommio),
            Adopter::Ring => ring::File::adopt(fd).map(Handle::Ring),
        }
    }
}

impl Handle {
    /// One read of up to `len` bytes at `at`, both of whole blocks.
    pub(super) async fn read(&self, at: u64, len: usize) -> io::Result<Piece> {
        match self {
            Handle::Glommio(file) => {
                // Only the aligned call: `read_at` answers bytes beyond the end of the file.
                file.read_at_aligned(at, len).await.map(Piece::Glommio).map_err(os_error)
            }
            Handle::Ring(file) => {
                let (read, buffer) = file.read_at(ring::Buffer::alloc(len), at, len).await;
                read.map(|len| Piece::Ring(buffer, len))
            }
        }
    }

    /// One write of what follows the first `done` of `bytes`, which belong at `at`; answers how much
    /// that was.
    pub(super) async fn write(&self, bytes: &RealBytes, done: usize, at: u64) -> io::Result<usize> {
        let to = at + done as u64;
        match (self, bytes.writable()) {
            (Handle::Ring(file), Some(Frozen::Ring(shared))) => {
                file.write_at(shared.data(), done, to).await
            }
            (Handle::Ring(file), _) => file.write_at(&copied(bytes, done), 0, to).await,
            (Handle::Glommio(file), Some(Frozen::Glommio(shared))) if done == 0 => {
                file.write_rc_at(Rc::clone(shared.data()), to).await.map_err(os_error)
            }
            // glommio writes whole buffers, so a rest needs one of its own, and so does what a read
            // brought.
            (Handle::Glommio(file), _) => {
                file.write_rc_at(copied::<DmaBuffer>(bytes, done), to).await.map_err(os_error)
            }
        }
    }

    pub(super) async fn fdatasync(&self) -> io::Result<()> {
        match self {
            Handle::Glommio(file) => file.fdatasync().await.map_err(os_error),
            Handle::Ring(file) => file.fdatasync().await,
        }
    }

    /// Closes it; it has no I/O on its way.
    pub(super) async fn close(self) -> io::Result<()> {
        match self {
            Handle::Glommio(file) => file.close().await.map_err(os_error),
            Handle::Ring(file) => file.close(),
        }
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Handle::Glommio(file) => fd::borrowed(file),
            Handle::Ring(file) => file.as_fd(),
        }
    }
}

/// A buffer with a copy of what follows the first `done` of `bytes`. It is not counted against the
/// budget: waiting for room here could wait for this very write.
fn copied<M: Memory>(bytes: &RealBytes, done: usize) -> Rc<M> {
    let rest = &bytes.as_ref()[done..];
    let mut data = M::alloc(rest.len());
    data.bytes_mut().copy_from_slice(rest);
    Rc::new(data)
}
