//! One error for every disk operation: what was done, to which path, where, and why it failed.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The operation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IoOp {
    /// Opening or creating a file.
    Open,
    /// Taking the lock of a file.
    Lock,
    /// Reading bytes.
    Read,
    /// Writing bytes.
    Write,
    /// Making written bytes durable.
    Sync,
    /// Reserving space ahead of need.
    Allocate,
    /// Cutting a file, or asking for its length.
    SetLen,
    /// Closing a file.
    Close,
    /// Creating a directory.
    CreateDir,
    /// Listing a directory.
    List,
    /// Making directory entries durable.
    SyncDir,
    /// Renaming a file or directory.
    Rename,
    /// Removing a file.
    Remove,
}

impl IoOp {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            IoOp::Open => "open",
            IoOp::Lock => "lock",
            IoOp::Read => "read",
            IoOp::Write => "write",
            IoOp::Sync => "sync",
            IoOp::Allocate => "allocate",
            IoOp::SetLen => "set length",
            IoOp::Close => "close",
            IoOp::CreateDir => "create directory",
            IoOp::List => "list directory",
            IoOp::SyncDir => "sync directory",
            IoOp::Rename => "rename",
            IoOp::Remove => "remove",
        }
    }
}

/// A failed disk operation, with the operating system's error kept whole.
#[derive(Debug)]
pub struct IoError {
    /// What was attempted.
    pub op: IoOp,
    /// The file or directory it was attempted on.
    pub path: PathBuf,
    /// Byte position in the file, where the operation has one.
    pub at: Option<u64>,
    /// The operating system's answer.
    pub source: io::Error,
}

impl IoError {
    /// An error of `op` on `path`.
    pub fn new(op: IoOp, path: impl AsRef<Path>, source: io::Error) -> Self {
        IoError { op, path: path.as_ref().to_path_buf(), at: None, source }
    }

    /// The same error with the byte position where it happened.
    #[must_use]
    pub fn at(mut self, position: u64) -> Self {
        self.at = Some(position);
        self
    }

    /// True where the disk or a quota is full (ENOSPC, EDQUOT).
    pub fn is_full(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// True where the process or the system has no descriptor left (EMFILE, ENFILE): nothing was
    /// attempted, and it works again once a file was closed.
    pub fn is_out_of_files(&self) -> bool {
        const ENFILE: i32 = 23;
        const EMFILE: i32 = 24;
        matches!(self.source.raw_os_error(), Some(ENFILE | EMFILE))
    }

    /// What whoever runs the process can do about it, as an order. By the system's answer: a disk is
    /// not to blame for every error of a file.
    pub fn remedy(&self) -> &'static str {
        match self.source.kind() {
            _ if self.is_out_of_files() => "raise the limit of open files (RLIMIT_NOFILE)",
            _ if self.is_full() => "free space",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "let the process write there"
            }
            io::ErrorKind::OutOfMemory => "free memory",
            _ => "mend the disk",
        }
    }

    /// True where the path does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// True where the device did not give back bytes of a file that it holds (EIO, or what the
    /// block layer makes of a medium or integrity error). Says nothing about those bytes; reading
    /// again may work. Errors of the process (EMFILE) or of the way to the device are others.
    pub fn is_unreadable(&self) -> bool {
        const EIO: i32 = 5;
        const ENODATA: i32 = 61;
        const EBADMSG: i32 = 74;
        const EILSEQ: i32 = 84;
        const EREMOTEIO: i32 = 121;
        let medium = [EIO, ENODATA, EBADMSG, EILSEQ, EREMOTEIO];
        self.op == IoOp::Read && self.source.raw_os_error().is_some_and(|no| medium.contains(&no))
    }

    /// A copy for a second reader of the same failure (`io::Error` itself cannot be cloned): the
    /// error number survives, a custom payload survives as its text.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let source = match self.source.raw_os_error() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::new(self.source.kind(), self.source.to_string()),
        };
        IoError { op: self.op, path: self.path.clone(), at: self.at, source }
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}", self.op.name(), self.path.display())?;
        if let Some(at) = self.at {
            write!(f, " at byte {at}")?;
        }
        write!(f, ": {}", self.source)
    }
}

impl std::error::Error for IoError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_for_what_the_system_said() {
        for (errno, remedy) in [
            (5, "mend the disk"),
            (12, "free memory"),
            (13, "let the process write there"),
            (23, "raise the limit of open files (RLIMIT_NOFILE)"),
            (24, "raise the limit of open files (RLIMIT_NOFILE)"),
            (28, "free space"),
            (30, "let the process write there"),
            (122, "free space"),
        ] {
            let error = IoError::new(IoOp::Open, "a.log", io::Error::from_raw_os_error(errno));
            assert_eq!(error.remedy(), remedy, "{error}");
        }
    }
}
