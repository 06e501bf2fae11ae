//! Why a consumer's offset was not stored or read.

use std::fmt;
use std::sync::Arc;

use corelog_io::IoError;

/// A consumer's offset was not stored, or cannot be told.
#[derive(Debug)]
#[non_exhaustive]
pub enum OffsetError {
    /// There is no message with this offset that polls could have served. Nothing was changed.
    OutOfRange {
        /// What was to be stored.
        offset: u64,
        /// The offset of the last message; `None` where there never was one.
        last: Option<u64>,
    },
    /// This consumer has stored nothing.
    NothingStored,
    /// The consumer group was deleted. Nothing was changed.
    GroupIsGone {
        /// Its id.
        id: u32,
    },
    /// As many consumers have stored an offset as may. Nothing was changed.
    TooMany {
        /// `SharedLimits::consumers`.
        max: usize,
    },
    /// The stored offsets could not be read when the partition was opened. They are left as they
    /// are; nothing is stored over them. They are read again each second, unless a newer release
    /// wrote them.
    Unreadable(Arc<IoError>),
    /// The offset is in force, but it could not be made durable. It is tried again.
    Io(IoError),
    /// The partition is closed.
    Closed,
}

impl fmt::Display for OffsetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OffsetError::OutOfRange { offset, last: Some(last) } => {
                write!(
                    f,
                    "offset {offset} is not there to be stored, the last message has {last}: choose \
                     one up to that"
                )
            }
            OffsetError::OutOfRange { offset, last: None } => {
                write!(
                    f,
                    "offset {offset} is not there to be stored, there is no message yet: append \
                     to the log first"
                )
            }
            OffsetError::NothingStored => {
                f.write_str("this consumer has stored no offset; do nothing")
            }
            OffsetError::GroupIsGone { id } => {
                write!(f, "consumer group {id} was deleted; choose one that is there")
            }
            OffsetError::TooMany { max } => {
                write!(f, "{max} consumers have stored an offset here; delete some of them first")
            }
            OffsetError::Unreadable(error) => write!(
                f,
                "the stored offsets could not be read; {} and retry, or update where a newer \
                 release wrote them: {error}",
                error.remedy()
            ),
            OffsetError::Io(error) => {
                write!(
                    f,
                    "the offset counts but is not durable yet; retry, or wait a second: {error}"
                )
            }
            OffsetError::Closed => {
                f.write_str("the partition is closed; open it again to store offsets")
            }
        }
    }
}

impl std::error::Error for OffsetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OffsetError::Unreadable(error) => Some(error.as_ref()),
            OffsetError::Io(error) => Some(error),
            _ => None,
        }
    }
}
