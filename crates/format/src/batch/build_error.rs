//! Why a producer's batch could not be built.

use std::fmt;

use crate::FormatError;

/// Why a message or a batch was refused. The builder is as it was before the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// No message was pushed.
    Empty,
    /// With this message the producer's times would lie further apart than a u32 of microseconds
    /// says, about 71.6 minutes. Finish the batch and push the message into the next one.
    SpanTooLong {
        /// Microseconds between the earliest and the latest message.
        span_us: u64,
        /// Largest span.
        max_us: u64,
    },
    /// The message does not fit into this batch any more. Finish it and push into the next one.
    BatchFull {
        /// Bytes the batch would have.
        bytes: u64,
        /// Largest batch.
        max: u64,
    },
    /// The message fits into no batch.
    MessageTooLong {
        /// Bytes of a batch of this message alone.
        bytes: u64,
        /// Largest batch.
        max: u64,
    },
    /// The user headers are not a well-formed block, have a key or value that cannot be encoded, or
    /// are longer than [`crate::USER_HEADERS_BYTES_MAX`]. Positions count from the block's start.
    UserHeaders(FormatError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Empty => write!(f, "a batch needs at least one message"),
            BuildError::SpanTooLong { span_us, max_us } => write!(
                f,
                "the batch's messages would span {span_us} us of origin time, {max_us} us is the \
                 most; finish this batch and push the message into the next one"
            ),
            BuildError::BatchFull { bytes, max } => write!(
                f,
                "the batch would have {bytes} bytes, {max} is the most; finish it and push the \
                 message into the next one"
            ),
            BuildError::MessageTooLong { bytes, max } => {
                write!(f, "the message alone makes a batch of {bytes} bytes, {max} is the most")
            }
            BuildError::UserHeaders(error) => write!(f, "user headers: {error}"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::UserHeaders(error) => Some(error),
            _ => None,
        }
    }
}
