//! Opening and closing on the shard itself, where neither waits for a device.
//!
//! The way to a file thread and back costs more than both: two threads that wait are woken. Where
//! partitions are more than handles, every visit of one closes a file and opens another.
//!
//! What the kernel has in memory it opens at once; it is asked for that and nothing else
//! (RESOLVE_CACHED, as io_uring does it before it takes a thread), and whatever it answers but a
//! file is left to a file thread: absent files, new ones, errors of all kinds. Closing frees blocks
//! where the file has no name any more, and only there.
//!
//! On ext4 and its forerunners only, with O_DIRECT, and inside of the one file system that the data
//! directory is on: opening a file whose name is known asks a server on others (FUSE, NFS), closing
//! may begin a transaction (XFS), or write what was written without O_DIRECT. Who listens to openings
//! by fanotify and has to permit them makes a shard wait for each.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use corelog_io::{IoError, Open};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::fileops;

/// What ext2, ext3 and ext4 call themselves.
const EXT: u32 = 0xEF53;

/// A directory on a file system on which that is so.
#[derive(Debug)]
pub(super) struct Near {
    path: PathBuf,
    /// The same, without its name: what lies below is found by fewer steps.
    dir: OwnedFd,
    device: u64,
}

impl Near {
    /// `path`, where it is on one of those.
    pub(super) fn of(path: &Path) -> Option<Near> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
        let kind = rustix::fs::fstatfs(&dir).ok()?.f_type;
        let device = rustix::fs::fstat(&dir).ok()?.st_dev;
        let is_ext = u32::try_from(kind) == Ok(EXT);
        is_ext.then(|| Near { path: path.to_path_buf(), dir, device })
    }

    /// As [`fileops::open`] with O_DIRECT, where the kernel can do it at once. `None` leaves
    /// everything as it was.
    pub(super) fn open(&self, path: &Path, how: Open) -> Option<Result<(OwnedFd, u64), IoError>> {
        if how.create_new {
            return None;
        }
        let below = path.strip_prefix(&self.path).ok()?;
        let (flags, mode) = (fileops::open_flags(how, true), Mode::empty());
        let resolve = ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        let fd = rustix::fs::openat2(&self.dir, below, flags, mode, resolve);
        Some(fileops::opened(fd.ok()?, path, how, true))
    }

    /// True where the last reference to what is open as `fd` can go on this thread: the file has a
    /// name, so its blocks stay.
    pub(super) fn can_close(&self, fd: BorrowedFd<'_>) -> bool {
        let stat = rustix::fs::fstat(fd);
        stat.is_ok_and(|stat| stat.st_dev == self.device && stat.st_nlink > 0)
    }
}

#[cfg(test)]
mod tests;
