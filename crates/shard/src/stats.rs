//! What a shard tells about itself.

use corelog_storage::{CloseError, PartitionStats};

use crate::{PartitionFailure, PartitionId};

/// Counters of one shard since it began, and its queues now.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ShardStats {
    /// The shard's number.
    pub shard: usize,
    /// Open partitions, by id.
    pub partitions: Vec<(PartitionId, PartitionStats)>,
    /// Partitions that could not be opened or failed since, by id.
    pub failed: Vec<PartitionFailure>,
    /// Requests served, from the mailbox and from code on the shard.
    pub requests: u64,
    /// Runs in which the mailbox was drained; `requests / runs` is how well they gather.
    pub runs: u64,
    /// Requests in the mailbox now.
    pub mailbox: usize,
    /// Appends not answered yet.
    pub appends_in_flight: usize,
    /// Their bytes.
    pub append_bytes_in_flight: usize,
    /// Polls not answered yet.
    pub polls_in_flight: usize,
    /// Appends and polls that the shard's limits of requests and bytes in flight refused. A full
    /// mailbox, and a client's own limits, are not in it.
    pub refused: u64,
    /// Tasks of the shard that run now.
    pub tasks: usize,
    /// Bytes of written buffers kept for readers.
    pub cached_bytes: usize,
    /// Open handles for reading segments.
    pub open_handles: usize,
    /// Open handles of active segments, for writing.
    pub active_handles: usize,
}

/// What closing a shard found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Partitions that closed in order.
    pub closed: usize,
    /// Partitions whose end is not in order; the next opening recovers them.
    pub failed: Vec<(PartitionId, CloseError)>,
    /// Partitions that were out of service before.
    pub out_of_service: Vec<PartitionFailure>,
}
