//! A row of the catalog as a value: what a change writes, and what the catalog in memory is made
//! from.

use corelog_shard::PartitionId;

use super::record::{GroupRecord, PartitionRecord, StreamRecord, TopicRecord};

/// One row; without a record, the row goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Row {
    Stream {
        id: u32,
        record: Option<StreamRecord>,
    },
    Topic {
        stream: u32,
        id: u32,
        record: Option<TopicRecord>,
    },
    Partition {
        id: PartitionId,
        record: Option<PartitionRecord>,
    },
    Group {
        stream: u32,
        topic: u32,
        id: u32,
        record: Option<GroupRecord>,
    },
    /// The first incarnation that this catalog gave; written when it was made.
    FirstIncarnation(u64),
    /// The incarnation that the next partition gets.
    NextIncarnation(u64),
}
