//! The lock that keeps a second engine out of a data directory.
//!
//! Two locks, taken in this order: flock on the directory itself, which nobody can replace while it
//! holds files (deleting `LOCK` must not let a second engine in), and flock on `LOCK`, which is
//! what other tools look at and which holds our process id for the error message. Both belong to
//! open file descriptions, so they work between threads of one process too, and a dead process
//! loses them with its last descriptor. `LOCK` itself is never removed.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use corelog_io::{IoError, IoOp};
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::data_dir::DataDir;

/// A process id has at most 10 digits; more than this is not read from a lock file.
const PID_BYTES_MAX: u64 = 32;

/// Held while an engine has the data directory open.
#[derive(Debug)]
pub(crate) struct DirLock {
    file: File,
    dir: File,
}

/// The data directory could not be locked.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError {
    /// Another engine, in this or another process, has the directory open.
    Held {
        /// The data directory.
        dir: PathBuf,
        /// The process that wrote itself into `LOCK`, where one can be read there.
        pid: Option<u32>,
    },
    /// The directory or its lock file cannot be opened, written or locked.
    Io(IoError),
}

impl DirLock {
    /// Locks `dir`; fails at once where it is locked.
    pub(crate) fn take(dir: &DataDir) -> Result<DirLock, LockError> {
        let flags = (OFlags::DIRECTORY | OFlags::CLOEXEC).bits() as i32;
        let root = dir.root();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(root);
        let directory = opened.map_err(|source| IoError::new(IoOp::Open, root, source))?;
        let path = dir.lock();
        if !lock(&directory, root)? {
            return Err(LockError::Held { dir: root.to_owned(), pid: holder(&path) });
        }
        let file = open_lock_file(&path)?;
        if !lock(&file, &path)? {
            return Err(LockError::Held { dir: root.to_owned(), pid: holder(&path) });
        }
        sign(&file).map_err(|source| IoError::new(IoOp::Write, &path, source))?;
        Ok(DirLock { file, dir: directory })
    }
}

impl Drop for DirLock {
    /// Unlocks by hand, `LOCK` first: a child of this process has copies of the descriptors until it
    /// runs another program, for ever where it never does, and closing ours would keep the lock.
    fn drop(&mut self) {
        for file in [&self.file, &self.dir] {
            // Nobody can use the error; the descriptor goes all the same.
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

fn open_lock_file(path: &Path) -> Result<File, IoError> {
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32;
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(false).mode(0o644).custom_flags(flags);
    how.open(path).map_err(|source| IoError::new(IoOp::Open, path, source))
}

/// True when the lock was taken, false when another has it.
fn lock(file: &File, path: &Path) -> Result<bool, IoError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(IoError::new(IoOp::Lock, path, errno.into())),
    }
}

fn sign(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

/// The process id in a lock file, if it holds one.
fn holder(path: &Path) -> Option<u32> {
    // A pipe of that name is not waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = String::new();
    file.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

impl From<IoError> for LockError {
    fn from(error: IoError) -> Self {
        LockError::Io(error)
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held { dir, pid: Some(pid) } => write!(
                f,
                "{} is open in another engine (process {pid}): close that one first",
                dir.display()
            ),
            LockError::Held { dir, pid: None } => {
                write!(f, "{} is open in another engine: close that one first", dir.display())
            }
            LockError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LockError::Held { .. } => None,
            LockError::Io(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked(dir: &Path) -> Result<DirLock, LockError> {
        DirLock::take(&DataDir::create(dir).unwrap())
    }

    #[test]
    fn the_second_is_refused_and_told_who_has_it_until_the_first_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        let first = locked(dir.path()).unwrap();
        let error = locked(dir.path()).unwrap_err();
        let here = std::process::id();
        assert!(matches!(error, LockError::Held { pid: Some(pid), .. } if pid == here), "{error}");
        assert!(error.to_string().contains(&dir.path().display().to_string()), "{error}");
        drop(first);
        locked(dir.path()).unwrap();
        assert!(dir.path().join("LOCK").exists(), "it is never removed");
    }

    #[test]
    fn descriptors_that_a_child_has_inherited_keep_nobody_out() {
        let dir = tempfile::tempdir().unwrap();
        let lock = locked(dir.path()).unwrap();
        // As after a fork: second descriptors of the same open file descriptions.
        let inherited = [lock.file.try_clone().unwrap(), lock.dir.try_clone().unwrap()];
        assert!(locked(dir.path()).is_err());
        drop(lock);
        locked(dir.path()).unwrap();
        drop(inherited);
    }

    #[test]
    fn deleting_the_lock_file_lets_nobody_in() {
        let dir = tempfile::tempdir().unwrap();
        let _first = locked(dir.path()).unwrap();
        std::fs::remove_file(dir.path().join("LOCK")).unwrap();
        let error = locked(dir.path()).unwrap_err();
        assert!(matches!(error, LockError::Held { pid: None, .. }), "{error}");
        assert!(!dir.path().join("LOCK").exists(), "the refused one leaves nothing behind");
    }

    #[test]
    fn a_tool_that_holds_only_the_file_keeps_us_out_too() {
        let dir = tempfile::tempdir().unwrap();
        let tool = File::create(dir.path().join("LOCK")).unwrap();
        flock(&tool, FlockOperation::LockExclusive).unwrap();
        assert!(matches!(locked(dir.path()), Err(LockError::Held { .. })));
    }

    #[test]
    fn what_is_no_lock_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/hostname", dir.path().join("LOCK")).unwrap();
        let error = locked(dir.path()).unwrap_err();
        assert!(error.to_string().contains("LOCK"), "{error}");
        std::fs::remove_file(dir.path().join("LOCK")).unwrap();
        std::fs::write(dir.path().join("LOCK"), [0xFF; 100]).unwrap();
        let _held = locked(dir.path()).unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"").unwrap();
        let error = locked(&file).unwrap_err();
        assert!(
            matches!(&error, LockError::Io(e) if e.source.kind() == io::ErrorKind::NotADirectory),
            "{error}"
        );
    }
}
