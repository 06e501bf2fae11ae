//! What can go wrong, one small enum an operation.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use corelog_format::{FormatError, ManifestError};
use corelog_io::IoError;

use crate::ConfigError;

/// The first fault of a partition; later operations point back to it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fault {
    /// Microseconds since the Unix epoch, by the partition's clock.
    pub since_us: u64,
    /// What failed.
    pub error: IoError,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at {} us since the epoch)", self.error, self.since_us)
    }
}

/// Why a batch was not appended, or its durability cannot be confirmed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AppendError {
    /// No space for the batch. Nothing of it was stored and no offset was used; append again once
    /// space is free.
    StorageFull(Arc<IoError>),
    /// The next segment's file could not be created, for want of descriptors or rights perhaps.
    /// Nothing of the batch was stored and no offset was used; append again to retry.
    NoSegment(Arc<IoError>),
    /// The active segment's file, closed while others needed descriptors, could not be opened again.
    /// Nothing of the batch was stored and no offset was used; append again to retry. A flush that is
    /// answered so has made nothing durable.
    NoFile(Arc<IoError>),
    /// What consumers have stored could not be read when the partition was opened, and one of these
    /// offsets may lie above the log's end: what was appended now would count as consumed. Nothing of
    /// the batch was stored and no offset was used. It is read again each second; append again to
    /// retry.
    Offsets(Arc<IoError>),
    /// A write or sync of this partition failed. The batch may or may not be stored. The partition
    /// takes no more appends until it is reopened; what was written before is still served.
    Poisoned(Arc<Fault>),
    /// The partition is closed or closing. Nothing of the batch was stored.
    Closed,
    /// The partition has no offsets left for so many messages.
    OffsetsExhausted {
        /// The offset the batch would have started at.
        next_offset: u64,
    },
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::StorageFull(error) => {
                write!(f, "no space for the batch, nothing stored; free space and retry: {error}")
            }
            AppendError::NoSegment(error) => {
                let remedy = error.remedy();
                write!(
                    f,
                    "no file for the next segment, nothing stored; {remedy} and retry: {error}"
                )
            }
            AppendError::NoFile(error) => {
                let remedy = error.remedy();
                write!(
                    f,
                    "the log's file cannot be opened, nothing stored; {remedy} and retry: {error}"
                )
            }
            AppendError::Offsets(error) => {
                write!(
                    f,
                    "the stored consumer offsets cannot be read, nothing stored; {} and retry: \
                     {error}",
                    error.remedy()
                )
            }
            AppendError::Poisoned(fault) => {
                write!(f, "the partition takes no appends since a fault; reopen it: {fault}")
            }
            AppendError::Closed => {
                f.write_str("the partition is closed, nothing stored; open it again and retry")
            }
            AppendError::OffsetsExhausted { next_offset } => {
                write!(
                    f,
                    "no offsets are left from {next_offset} on for so many messages, nothing stored; \
                     append to another partition"
                )
            }
        }
    }
}

impl std::error::Error for AppendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AppendError::StorageFull(error)
            | AppendError::NoSegment(error)
            | AppendError::NoFile(error)
            | AppendError::Offsets(error) => Some(error.as_ref()),
            AppendError::Poisoned(fault) => Some(&fault.error),
            _ => None,
        }
    }
}

/// Why a poll was not served. A read error is never "no such offset".
#[derive(Debug)]
#[non_exhaustive]
pub enum PollError {
    /// Stored bytes are damaged. What stands before them is still served by polls that end there.
    Corrupt {
        /// First offset of the segment, which is its file name.
        segment: u64,
        /// Byte position of the damage in the segment file.
        position: u64,
        /// The next offset that may be readable, for stepping over; `None` where nothing follows.
        resume_offset: Option<u64>,
        /// What is wrong there.
        why: FormatError,
    },
    /// The device does not give back some bytes. Another attempt may read them.
    Unreadable {
        /// First offset of the segment, which is its file name.
        segment: u64,
        /// Byte position of the batch that cannot be read, in the segment file.
        position: u64,
        /// The next offset that may be readable, for stepping over; `None` where nothing follows.
        resume_offset: Option<u64>,
        /// What the device said.
        error: IoError,
    },
    /// The disk could not be read, which says nothing about the bytes.
    Io(IoError),
    /// What the consumer has stored could not be read when the partition was opened.
    Offsets(Arc<IoError>),
    /// The partition is closed.
    Closed,
}

impl fmt::Display for PollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PollError::Corrupt { segment, position, resume_offset, why } => {
                write!(f, "{segment:020}.log is damaged at byte {position}: {why}; ")?;
                match resume_offset {
                    Some(offset) => write!(f, "poll from offset {offset} on to step over it"),
                    None => f.write_str(
                        "nothing readable follows; restore the file, or poll what is appended next",
                    ),
                }
            }
            PollError::Unreadable { segment, position, resume_offset, error } => {
                write!(
                    f,
                    "{segment:020}.log cannot be read at byte {position}: {error}; poll again"
                )?;
                match resume_offset {
                    Some(offset) => write!(f, ", or from offset {offset} on to step over it"),
                    None => f.write_str("; nothing readable follows"),
                }
            }
            PollError::Io(error) => {
                let remedy = error.remedy();
                write!(f, "what is there could not be read; {remedy} and poll again: {error}")
            }
            PollError::Offsets(error) => write!(
                f,
                "what the consumer has stored could not be read; {} and poll again: {error}",
                error.remedy()
            ),
            PollError::Closed => f.write_str("the partition is closed; open it again to poll"),
        }
    }
}

impl std::error::Error for PollError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PollError::Corrupt { why, .. } => Some(why),
            PollError::Unreadable { error, .. } | PollError::Io(error) => Some(error),
            PollError::Offsets(error) => Some(error.as_ref()),
            PollError::Closed => None,
        }
    }
}

impl From<IoError> for PollError {
    fn from(error: IoError) -> Self {
        PollError::Io(error)
    }
}

/// Why a partition could not be opened. Damage of its data is never a reason: that is reported by
/// `OpenReport` and by the polls that meet it.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The disk failed.
    Io(IoError),
    /// An option is outside of its limits. Nothing was touched.
    Config(ConfigError),
    /// Another handle, perhaps of a dying process, still writes this partition. Try again.
    Locked {
        /// The file that is locked.
        path: PathBuf,
    },
    /// The manifest was written by a newer version. Nothing was changed; use that version.
    Manifest {
        /// The manifest's path.
        path: PathBuf,
        /// What is wrong with it.
        why: ManifestError,
    },
    /// The directory belongs to an earlier or later partition of the same id.
    OtherIncarnation {
        /// The partition's directory.
        dir: PathBuf,
        /// The incarnation its manifest names.
        found: u64,
        /// The incarnation that was to be opened.
        expected: u64,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io(error) => {
                write!(f, "{} and open again: {error}", error.remedy())
            }
            OpenError::Config(error) => error.fmt(f),
            OpenError::Locked { path } => {
                write!(f, "{} is locked by another writer; close it and retry", path.display())
            }
            OpenError::Manifest { path, why } => write!(f, "{}: {why}", path.display()),
            OpenError::OtherIncarnation { dir, found, expected } => write!(
                f,
                "{} holds incarnation {found}, expected {expected}: put back the files that belong \
                 there (they may have changed places with another partition's, or the catalog is \
                 an old copy), or move the directory away to begin with an empty one",
                dir.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io(error) => Some(error),
            OpenError::Config(error) => Some(error),
            OpenError::Manifest { why, .. } => Some(why),
            _ => None,
        }
    }
}

impl From<IoError> for OpenError {
    fn from(error: IoError) -> Self {
        if error.op == corelog_io::IoOp::Lock {
            return OpenError::Locked { path: error.path };
        }
        OpenError::Io(error)
    }
}

/// Why a partition was not reopened after a fault.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReopenError {
    /// The partition has had no fault. Nothing was done; go on using it.
    NotPoisoned,
    /// The partition is closed or closing. Open it instead.
    Closed,
    /// The old life has ended, and recovery failed. Nothing is served until opening succeeds.
    Open(OpenError),
}

impl fmt::Display for ReopenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReopenError::NotPoisoned => {
                f.write_str("the partition has had no fault, nothing was done; go on using it")
            }
            ReopenError::Closed => f.write_str("the partition is closed; open it instead"),
            ReopenError::Open(error) => {
                write!(f, "the partition is closed and not recovered: {error}")
            }
        }
    }
}

impl std::error::Error for ReopenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReopenError::Open(error) => Some(error),
            ReopenError::NotPoisoned | ReopenError::Closed => None,
        }
    }
}

/// Why the front of a log was not trimmed, or not all of it is gone.
#[derive(Debug)]
#[non_exhaustive]
pub enum TrimError {
    /// The manifest could not be stored. Nothing was removed and the log begins where it began; the
    /// partition goes on. Trim again. (If the process ends before the manifest is stored again, the
    /// next opening may find the log trimmed.)
    Manifest(IoError),
    /// The log begins at `start` now, durably, but a file below is still there, or may come back.
    /// It is never served; the next opening removes it. A failed sync of the directory poisons the
    /// partition as well.
    Remove {
        /// First retained offset.
        start: u64,
        /// What failed.
        error: IoError,
    },
    /// The partition has had a fault. Nothing was removed; reopen it and trim again.
    Poisoned(Arc<Fault>),
    /// The partition is closed. Nothing was removed, unless the close came while this was running.
    Closed,
}

impl fmt::Display for TrimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrimError::Manifest(error) => {
                write!(f, "the new start is not stored, nothing was removed; retry: {error}")
            }
            TrimError::Remove { start, error } => write!(
                f,
                "the log begins at {start} now, the next opening removes what is left: {error}"
            ),
            TrimError::Poisoned(fault) => {
                write!(f, "nothing is trimmed since a fault; reopen the partition: {fault}")
            }
            TrimError::Closed => f.write_str("the partition is closed; open it again to trim"),
        }
    }
}

impl std::error::Error for TrimError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TrimError::Manifest(error) | TrimError::Remove { error, .. } => Some(error),
            TrimError::Poisoned(fault) => Some(&fault.error),
            TrimError::Closed => None,
        }
    }
}

/// Why a close did not leave everything durable and in order. The handles are given back all the
/// same; the next open recovers.
#[derive(Debug)]
#[non_exhaustive]
pub enum CloseError {
    /// The partition had a fault; what was answered before it stands.
    Poisoned(Arc<Fault>),
    /// The last sync, cut or mark failed.
    Io(IoError),
    /// Someone else closed the partition first.
    Closed,
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseError::Poisoned(fault) => {
                write!(f, "closed after a fault; open it again to recover: {fault}")
            }
            CloseError::Io(error) => {
                write!(f, "closed, but not in order; open it again to recover: {error}")
            }
            CloseError::Closed => f.write_str("the partition was closed before; do nothing more"),
        }
    }
}

impl std::error::Error for CloseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CloseError::Poisoned(fault) => Some(&fault.error),
            CloseError::Io(error) => Some(error),
            CloseError::Closed => None,
        }
    }
}

impl From<IoError> for CloseError {
    fn from(error: IoError) -> Self {
        CloseError::Io(error)
    }
}

#[cfg(test)]
mod tests;
