//! What the file-operations threads do: everything about files that may block.

use std::any::Any;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use corelog_io::{BLOCK, IoError, IoOp, Open, align_down, align_up};
use rustix::fs::{FallocateFlags, FileType, FlockOperation, Mode, OFlags};

/// A panic's message, for an error or a report.
pub(crate) fn panic_text(what: &str, panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("{what} panicked: {text}")
}

/// Repeats a system call that a signal interrupted.
pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

/// Opens `path` as [`corelog_io::Disk::open`] says; `direct` adds O_DIRECT. Answers its length, too.
///
/// The flock is taken on THIS open file description, and it is the one that all I/O goes through
/// (`glommio/fd.rs`): a write that a killed process left in flight keeps the description, and with it
/// the lock, until it has landed.
pub(crate) fn open(path: &Path, how: Open, direct: bool) -> Result<(OwnedFd, u64), IoError> {
    let mode = Mode::from_raw_mode(0o644);
    let fd = retry(|| rustix::fs::open(path, open_flags(how, direct), mode))
        .map_err(|source| IoError::new(IoOp::Open, path, source))?;
    opened(fd, path, how, direct)
}

/// What `path` is opened with. NONBLOCK is for the open only: a FIFO under a segment's name must not
/// stop this thread. [`opened`] takes it off again, as io_uring answers EAGAIN on such descriptors.
pub(super) fn open_flags(how: Open, direct: bool) -> OFlags {
    let mut flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    flags |= if how.write || how.create_new { OFlags::RDWR } else { OFlags::RDONLY };
    flags.set(OFlags::CREATE | OFlags::EXCL, how.create_new);
    flags.set(OFlags::DSYNC, how.dsync);
    flags.set(OFlags::DIRECT, direct);
    flags
}

/// The rest of [`open`]: what was opened is a file, and locked where that was asked for.
pub(super) fn opened(
    fd: OwnedFd,
    path: &Path,
    how: Open,
    direct: bool,
) -> Result<(OwnedFd, u64), IoError> {
    let failed = |source: io::Error| IoError::new(IoOp::Open, path, source);
    let stat = rustix::fs::fstat(&fd).map_err(|e| failed(e.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    let kept = if direct { OFlags::DIRECT } else { OFlags::empty() };
    rustix::fs::fcntl_setfl(&fd, kept).map_err(|e| failed(e.into()))?;
    if how.lock {
        retry(|| rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive))
            .map_err(|source| IoError::new(IoOp::Lock, path, source))?;
    }
    Ok((fd, stat.st_size.cast_unsigned()))
}

/// Reserves the first `len` bytes and raises the length to `len` where it is less.
///
/// A file system without fallocate (some FUSE ones, NFS before 4.2) gets zeros written from its end
/// on: that reserves just as well, holes further down excepted, which an engine that only appends
/// does not leave.
pub(crate) fn allocate(fd: BorrowedFd<'_>, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    match retry(|| rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, len)) {
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => write_zeros(fd, len),
        other => other,
    }
}

fn write_zeros(fd: BorrowedFd<'_>, len: u64) -> io::Result<()> {
    const CHUNK: usize = 1 << 20;
    let memory = vec![0_u8; CHUNK + BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    let zeros = &memory[start..start + CHUNK];
    let size = rustix::fs::fstat(fd)?.st_size.cast_unsigned();
    // From the first whole block after the end: what is between reads as zeros once it is inside.
    let mut at = align_up(size);
    while at < align_down(len) {
        let part = usize::try_from(align_down(len) - at).unwrap_or(CHUNK).min(CHUNK);
        let count = retry(|| rustix::io::pwrite(fd, &zeros[..part], at))?;
        // Less than a block would leave O_DIRECT's alignment, and no further call gets back to it.
        match align_down(count as u64) {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => at += written,
        }
    }
    // The last, partial block is not reserved: it is shorter than what any write there brings.
    if len > size { retry(|| rustix::fs::ftruncate(fd, len)) } else { Ok(()) }
}

/// Names in `dir`, true for a directory.
pub(crate) fn list(dir: &Path) -> Result<Vec<(OsString, bool)>, IoError> {
    let failed = |source: io::Error| IoError::new(IoOp::List, dir, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_file = entry.file_type().map_err(failed)?.is_file();
        names.push((entry.file_name(), !is_file));
    }
    Ok(names)
}

/// Creates one directory; fine if it exists.
pub(crate) fn create_dir(dir: &Path) -> Result<(), IoError> {
    match fs::create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        other => other.map_err(|source| IoError::new(IoOp::CreateDir, dir, source)),
    }
}

/// Makes the entries of `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), IoError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = retry(|| rustix::fs::open(dir, flags, Mode::empty()));
    let fd = opened.map_err(|source| IoError::new(IoOp::Open, dir, source))?;
    // Not retried: an fsync that failed once may report success the next time.
    rustix::fs::fsync(&fd).map_err(|e| IoError::new(IoOp::SyncDir, dir, e.into()))
}

/// Renames, replacing a file at `to`.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), IoError> {
    fs::rename(from, to).map_err(|source| IoError::new(IoOp::Rename, from, source))
}

/// Removes an empty directory.
pub(crate) fn remove_dir(dir: &Path) -> Result<(), IoError> {
    fs::remove_dir(dir).map_err(|source| IoError::new(IoOp::Remove, dir, source))
}

/// Removes a file.
pub(crate) fn remove(path: &Path) -> Result<(), IoError> {
    fs::remove_file(path).map_err(|source| IoError::new(IoOp::Remove, path, source))
}
