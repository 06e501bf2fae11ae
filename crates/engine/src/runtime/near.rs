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
//! On ext4 and its forerunners only. Opening a file whose name is known asks a server on others (FUSE,
//! NFS), and closing may begin a transaction (XFS). Who listens to openings by fanotify and has to
//! permit them makes a shard wait for each.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use corelog_io::{IoError, Open};
use rustix::fs::{CWD, Mode, ResolveFlags};

use super::fileops;

/// What ext2, ext3 and ext4 call themselves.
const EXT: u32 = 0xEF53;

/// A file system on which that is so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Near {
    device: u64,
}

impl Near {
    /// That of `dir`, where it is one of those.
    pub(super) fn of(dir: &Path) -> Option<Near> {
        let kind = rustix::fs::statfs(dir).ok()?.f_type;
        let device = rustix::fs::stat(dir).ok()?.st_dev;
        (u32::try_from(kind) == Ok(EXT)).then_some(Near { device })
    }

    /// As [`fileops::open`], where the kernel can do it at once. `None` leaves everything as it was.
    pub(super) fn open(
        self,
        path: &Path,
        how: Open,
        direct: bool,
    ) -> Option<Result<(OwnedFd, u64), IoError>> {
        if how.create_new {
            return None;
        }
        let flags = fileops::open_flags(how, direct);
        let fd = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED);
        Some(fileops::opened(fd.ok()?, path, how, direct))
    }

    /// True where the last reference to what is open as `fd` can go on this thread: the file has a
    /// name, so its blocks stay.
    pub(super) fn can_close(self, fd: BorrowedFd<'_>) -> bool {
        let stat = rustix::fs::fstat(fd);
        stat.is_ok_and(|stat| stat.st_dev == self.device && stat.st_nlink > 0)
    }
}
