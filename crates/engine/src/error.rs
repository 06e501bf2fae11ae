//! Every error of the public interface, one small enum an operation.
//!
//! | call | error |
//! | --- | --- |
//! | `EngineBuilder::open` | [`OpenError`] |
//! | changes of the catalog | [`ChangeError`] |
//! | `append`, `flush` | [`AppendError`] |
//! | `poll`, `watermarks` | [`PollError`] |
//! | `store_offset`, `delete_offset`, `offset` | [`OffsetError`] |
//! | `join`, `leave`, `sync`, `details` of a group | [`GroupError`] |
//! | `poll_as` | [`GroupPollError`] |
//! | `store_offset_as`, `delete_offset_as` | [`GroupOffsetError`] |
//! | `reopen_partition` | [`ReopenError`] |
//! | `stats`, `figures` | [`ControlError`] |
//! | `run_on_shard` | [`RunError`] |
//! | `close` | [`CloseError`] |

use std::fmt;
use std::io;

pub use crate::catalog::{CatalogError, CatalogItem, ChangeError};
pub use crate::clock_keeper::ClockError;
pub use crate::groups::{GroupError, GroupOffsetError, GroupPollError};
pub use crate::limits::InvalidLimit;
pub use crate::lock::LockError;
pub use crate::runtime::{DirectIoError, StartError, UringError, UringFacts};
pub use crate::topic::OptionError;
pub use corelog_format::{BuildError, FormatError, FormatErrorKind};
pub use corelog_io::{IoError, IoOp};
use corelog_shard::PartitionId;
pub use corelog_shard::{
    AppendError, ControlError, FailureReason, OffsetError, PartitionFailure, PollError, Unavailable,
};
pub use corelog_storage::ConfigError;

/// The errors of one partition's log: what [`AppendError::Storage`] and its like hold.
pub mod storage {
    pub use corelog_storage::{
        AppendError, CloseError, Fault, OffsetError, OpenError, PollError, TrimError,
    };
}

/// The engine did not open. Nothing of it runs any more; the data is as it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// A limit cannot be worked with. Nothing was touched.
    Limit(InvalidLimit),
    /// Called on a shard's own thread, which would wait for itself.
    OnShard,
    /// The listener of [`EngineBuilder::on_progress`](crate::EngineBuilder::on_progress) asked for
    /// it. What was opened until then was closed in order.
    Cancelled,
    /// The data directory cannot be created.
    Directory(IoError),
    /// The data directory is in use, or cannot be locked.
    Lock(LockError),
    /// The shards could not be started: io_uring, O_DIRECT, threads.
    Start(StartError),
    /// The clock record.
    Clock(ClockError),
    /// The catalog.
    Catalog(CatalogError),
}

/// A partition was not brought back.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReopenError {
    /// The shard's answer: there was no fault, it is being reopened already, or recovery failed.
    Partition(ControlError),
    /// The catalog could not say where the partition is.
    Catalog(CatalogError),
}

/// Code was not run on a shard, or not to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// There is no such shard.
    NoSuchShard {
        /// The number that was asked for.
        index: usize,
        /// Shards that there are, numbered from 0.
        shards: usize,
    },
    /// Too much waits to be run there. Nothing was done; call again later.
    Busy,
    /// The engine is closed, or was closed before the code had ended.
    Closed,
    /// The code panicked.
    Panicked,
}

/// The engine is closed, but not everything is in order. What was answered as durable is durable.
#[derive(Debug)]
#[non_exhaustive]
pub enum CloseError {
    /// Called on a shard's own thread, which would wait for itself. The engine closes in the
    /// background.
    OnShard,
    /// Partitions or shards did not end in order; opening recovers them.
    Incomplete {
        /// Partitions whose end is not in order, with the reason.
        partitions: Vec<(PartitionId, corelog_storage::CloseError)>,
        /// Shards that ended by a bug, with what is known.
        shards: Vec<(usize, String)>,
        /// The clock record could not be put back; the next opening starts a few seconds ahead.
        clock: Option<IoError>,
    },
    /// The thread that closes could not be started or ended by a bug. The engine may be open still,
    /// until the process ends.
    Thread(io::Error),
}

macro_rules! from {
    ($($source:ty => $target:ident::$variant:ident,)*) => {
        $(impl From<$source> for $target {
            fn from(error: $source) -> Self {
                $target::$variant(error)
            }
        })*
    };
}

from! {
    InvalidLimit => OpenError::Limit,
    LockError => OpenError::Lock,
    StartError => OpenError::Start,
    ClockError => OpenError::Clock,
    CatalogError => OpenError::Catalog,
}

impl From<Unavailable> for ReopenError {
    fn from(why: Unavailable) -> Self {
        ReopenError::Partition(why.into())
    }
}

impl fmt::Display for ReopenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReopenError::Partition(error) => error.fmt(f),
            ReopenError::Catalog(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReopenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReopenError::Partition(error) => Some(error),
            ReopenError::Catalog(error) => Some(error),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Limit(error) => error.fmt(f),
            OpenError::OnShard => on_shard(f),
            OpenError::Cancelled => f.write_str("the opening was cancelled by who listens to it"),
            OpenError::Directory(error) => write!(f, "no data directory: {error}"),
            OpenError::Lock(error) => error.fmt(f),
            OpenError::Start(error) => error.fmt(f),
            OpenError::Clock(error) => error.fmt(f),
            OpenError::Catalog(error) => error.fmt(f),
        }
    }
}

fn on_shard(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("this was called on a shard's own thread, which would wait for itself")
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::NoSuchShard { index, shards } => {
                write!(f, "there is no shard {index}, there are {shards} (from 0)")
            }
            RunError::Busy => f.write_str("too much waits to be run on the shard; try later"),
            RunError::Closed => f.write_str("the engine was closed before the code had ended"),
            RunError::Panicked => f.write_str("the code panicked; the shard lives"),
        }
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseError::OnShard => {
                on_shard(f)?;
                f.write_str("; the engine closes in the background")
            }
            CloseError::Incomplete { partitions, shards, clock } => {
                f.write_str("closed, but not in order (the next opening recovers)")?;
                let mut reasons = partitions
                    .iter()
                    .map(|(id, why)| format!("{id}: {why}"))
                    .chain(shards.iter().map(|(shard, why)| format!("shard {shard}: {why}")))
                    .chain(clock.iter().map(ToString::to_string));
                let shown: Vec<_> = reasons.by_ref().take(3).collect();
                write!(f, ": {}", shown.join("; "))?;
                match reasons.count() {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more"),
                }
            }
            CloseError::Thread(error) => write!(f, "the engine could not be closed: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Limit(error) => Some(error),
            OpenError::OnShard | OpenError::Cancelled => None,
            OpenError::Directory(error) => Some(error),
            OpenError::Lock(error) => Some(error),
            OpenError::Start(error) => Some(error),
            OpenError::Clock(error) => Some(error),
            OpenError::Catalog(error) => Some(error),
        }
    }
}

impl std::error::Error for RunError {}

impl std::error::Error for CloseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CloseError::OnShard => None,
            CloseError::Incomplete { partitions, clock, .. } => match (partitions.first(), clock) {
                (Some((_, why)), _) => Some(why),
                (None, Some(error)) => Some(error),
                (None, None) => None,
            },
            CloseError::Thread(error) => Some(error),
        }
    }
}
