//! What a call can be answered with, one small enum for appends, polls and control.
//!
//! Every message says what to do. What one shard answers for all operations is [`Unavailable`];
//! each enum takes its variants over, so that callers match on one level.

use std::fmt;
use std::sync::Arc;

use corelog_format::FormatError;

use crate::PartitionId;

/// Why a request was not served at all, whatever it asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Unavailable {
    /// A mailbox, or a limit of requests or bytes in flight, is full. Nothing was done.
    Busy,
    /// The shard is closing or gone.
    Closed,
    /// A blocking call on a shard's own thread.
    OnShard,
    /// The shard has no such partition.
    UnknownPartition(PartitionId),
    /// The partition could not be opened, or failed since.
    PartitionFailed(PartitionFailure),
}

/// A partition that its shard does not serve, and why. Other partitions are not affected.
#[derive(Debug, Clone)]
pub struct PartitionFailure {
    /// The partition.
    pub partition: PartitionId,
    /// Why.
    pub reason: FailureReason,
}

/// Why a partition is not served.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FailureReason {
    /// It could not be opened.
    Open(Arc<corelog_storage::OpenError>),
    /// Code of this partition panicked. That is a bug; the message is kept for the report.
    Panicked(Arc<str>),
}

impl fmt::Display for PartitionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partition = self.partition;
        match &self.reason {
            FailureReason::Open(error) => {
                write!(f, "{partition} could not be opened: {error}")
            }
            FailureReason::Panicked(message) => {
                write!(f, "{partition} is out of service since a bug (open it again): {message}")
            }
        }
    }
}

impl std::error::Error for PartitionFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.reason {
            FailureReason::Open(error) => Some(error.as_ref()),
            FailureReason::Panicked(_) => None,
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unavailable::Busy => f.write_str(
                "too much is in flight, nothing was done; wait for answers, then call again",
            ),
            Unavailable::Closed => f.write_str(
                "the shard is closed; what was on its way may or may not have been done",
            ),
            Unavailable::OnShard => f.write_str(
                "a blocking call on a shard's own thread would wait for itself; await it instead",
            ),
            Unavailable::UnknownPartition(partition) => {
                write!(f, "{partition} is not open; create or open it first")
            }
            Unavailable::PartitionFailed(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Unavailable::PartitionFailed(failure) => Some(failure),
            _ => None,
        }
    }
}

/// Why a batch was not appended, or a flush did not reach its ack.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AppendError {
    /// The bytes are not one whole, sound batch. Nothing was stored; no shard was asked.
    Refused(FormatError),
    /// A mailbox, or a limit of requests or bytes in flight, is full. Nothing was stored.
    Busy,
    /// An earlier append of this producer was refused for `Busy` and not retried yet. Nothing was
    /// stored.
    OutOfTurn,
    /// The shard has no such partition. Nothing was stored.
    UnknownPartition(PartitionId),
    /// The partition could not be opened, or failed since. A batch that was on its way when it
    /// failed may or may not be stored.
    PartitionFailed(PartitionFailure),
    /// The shard is closing or gone. A batch that was on its way may or may not be stored.
    Closed,
    /// A blocking call on a shard's own thread. Where the call was the append itself, nothing was
    /// stored; where it waited for one that was made before, that goes its way.
    OnShard,
    /// The partition refused or failed.
    Storage(corelog_storage::AppendError),
}

impl From<Unavailable> for AppendError {
    fn from(why: Unavailable) -> Self {
        match why {
            Unavailable::Busy => AppendError::Busy,
            Unavailable::Closed => AppendError::Closed,
            Unavailable::OnShard => AppendError::OnShard,
            Unavailable::UnknownPartition(partition) => AppendError::UnknownPartition(partition),
            Unavailable::PartitionFailed(failure) => AppendError::PartitionFailed(failure),
        }
    }
}

impl From<corelog_storage::AppendError> for AppendError {
    fn from(error: corelog_storage::AppendError) -> Self {
        AppendError::Storage(error)
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::Refused(error) => {
                write!(f, "the batch is refused, nothing was stored; mend its {error}")
            }
            AppendError::Busy => Unavailable::Busy.fmt(f),
            AppendError::OutOfTurn => f.write_str(
                "an earlier append of this producer was refused as busy; retry or skip it first",
            ),
            AppendError::UnknownPartition(id) => Unavailable::UnknownPartition(*id).fmt(f),
            AppendError::PartitionFailed(failure) => failure.fmt(f),
            AppendError::Closed => Unavailable::Closed.fmt(f),
            AppendError::OnShard => Unavailable::OnShard.fmt(f),
            AppendError::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AppendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AppendError::Refused(error) => Some(error),
            AppendError::PartitionFailed(failure) => Some(failure),
            AppendError::Storage(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a poll, or a question for the watermarks, was not served.
#[derive(Debug)]
#[non_exhaustive]
pub enum PollError {
    /// A mailbox or the limit of polls in flight is full.
    Busy,
    /// The shard has no such partition.
    UnknownPartition(PartitionId),
    /// The partition could not be opened, or failed since.
    PartitionFailed(PartitionFailure),
    /// The shard is closing or gone.
    Closed,
    /// A blocking call on a shard's own thread.
    OnShard,
    /// The partition could not serve it.
    Storage(corelog_storage::PollError),
}

impl From<Unavailable> for PollError {
    fn from(why: Unavailable) -> Self {
        match why {
            Unavailable::Busy => PollError::Busy,
            Unavailable::Closed => PollError::Closed,
            Unavailable::OnShard => PollError::OnShard,
            Unavailable::UnknownPartition(partition) => PollError::UnknownPartition(partition),
            Unavailable::PartitionFailed(failure) => PollError::PartitionFailed(failure),
        }
    }
}

impl From<corelog_storage::PollError> for PollError {
    fn from(error: corelog_storage::PollError) -> Self {
        PollError::Storage(error)
    }
}

impl fmt::Display for PollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PollError::Busy => Unavailable::Busy.fmt(f),
            PollError::UnknownPartition(id) => Unavailable::UnknownPartition(*id).fmt(f),
            PollError::PartitionFailed(failure) => failure.fmt(f),
            PollError::Closed => f.write_str("the shard is closed; open the engine again to poll"),
            PollError::OnShard => Unavailable::OnShard.fmt(f),
            PollError::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PollError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PollError::PartitionFailed(failure) => Some(failure),
            PollError::Storage(error) => Some(error),
            _ => None,
        }
    }
}

/// Why a partition was not opened, reopened or closed, or a shard did not answer about itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// The shard could not be asked, or has no such partition, or it failed. A failed opening is
    /// `PartitionFailed`.
    Unavailable(Unavailable),
    /// The partition is open, or being opened or closed.
    InUse(PartitionId),
    /// The partition was to be reopened and has had no fault. Nothing was done.
    NotPoisoned(PartitionId),
    /// The partition is closed, but its end is not in order; the next opening recovers it.
    Close(corelog_storage::CloseError),
    /// Segments were not deleted.
    Trim(corelog_storage::TrimError),
}

impl From<Unavailable> for ControlError {
    fn from(why: Unavailable) -> Self {
        ControlError::Unavailable(why)
    }
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::Unavailable(why) => why.fmt(f),
            ControlError::InUse(partition) => {
                write!(f, "{partition} is open, or being opened or closed; wait, or close it first")
            }
            ControlError::NotPoisoned(partition) => {
                write!(f, "{partition} has had no fault, nothing was done; go on using it")
            }
            ControlError::Close(error) => error.fmt(f),
            ControlError::Trim(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ControlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ControlError::Unavailable(why) => Some(why),
            ControlError::InUse(_) | ControlError::NotPoisoned(_) => None,
            ControlError::Close(error) => Some(error),
            ControlError::Trim(error) => Some(error),
        }
    }
}

/// Why a consumer's offset was not stored, deleted or told.
#[derive(Debug)]
#[non_exhaustive]
pub enum OffsetError {
    /// The shard could not be asked, or has no such partition, or it failed. Where it was asked to
    /// store, it may have done so if it failed meanwhile, and has not otherwise.
    Unavailable(Unavailable),
    /// The partition's answer.
    Storage(corelog_storage::OffsetError),
}

impl From<Unavailable> for OffsetError {
    fn from(why: Unavailable) -> Self {
        OffsetError::Unavailable(why)
    }
}

impl fmt::Display for OffsetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OffsetError::Unavailable(why) => why.fmt(f),
            OffsetError::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OffsetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OffsetError::Unavailable(why) => Some(why),
            OffsetError::Storage(error) => Some(error),
        }
    }
}
