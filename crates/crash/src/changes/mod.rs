//! Changes of what there is: topics that are created, renamed, purged and deleted, partitions that
//! come and go, offsets that consumers store, segments that are deleted. They have a stream of their
//! own and one operator, who does one thing after the other.
//!
//! | file | holds |
//! | --- | --- |
//! | `operator` | does them to a running engine, and says so before and behind each |
//! | `look` | what an engine shows of the stream: everything, batch by batch |
//! | `words` | both as lines of a ledger |
//!
//! What may be found after a crash is said in `history/world.rs`.
//!
//! An acknowledged change is there after a crash; one that was not answered is there as a whole or
//! not at all; nothing of what was deleted or purged ever comes back.

mod look;
mod operator;
mod words;

use std::collections::BTreeMap;

use corelog::consumers::{ConsumerKey, ConsumerKind};
use corelog::{Ack, PartitionId};

use crate::content::BatchKey;

pub use look::look;
pub use operator::Operator;
pub(crate) use words::{found, found_words};

/// The stream that is changed.
pub const STREAM: u32 = 1;
/// Topics of it at a time, at most.
const TOPICS: u32 = 4;
/// Partitions of a topic at a time, at most.
const PARTITIONS: u32 = 3;
/// Consumers that store offsets, by number.
const CONSUMERS: u32 = 2;

/// One thing that the operator does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A topic is created, with the lowest id that is free.
    Create {
        /// That id.
        topic: u32,
        /// The number in its name.
        name: u64,
        /// Its partitions.
        partitions: u32,
        /// Its option of that name.
        enforce_fsync: bool,
    },
    /// A topic gets another name.
    Rename {
        /// Which.
        topic: u32,
        /// The number in its new name.
        name: u64,
    },
    /// A topic's messages and stored offsets are deleted.
    Purge {
        /// Which.
        topic: u32,
    },
    /// A topic is deleted.
    Delete {
        /// Which.
        topic: u32,
    },
    /// Partitions are added behind those that there are.
    Add {
        /// Where.
        topic: u32,
        /// How many.
        count: u32,
    },
    /// The last partitions are removed.
    Remove {
        /// Where.
        topic: u32,
        /// How many.
        count: u32,
    },
    /// A consumer stores an offset, or takes back what it has stored.
    Store {
        /// Where.
        partition: PartitionId,
        /// The consumer's number.
        who: u32,
        /// The offset; `None`: nothing is stored any more.
        offset: Option<u64>,
        /// The ack that is asked for.
        level: Ack,
    },
    /// The oldest sealed segments are deleted.
    Trim {
        /// Where.
        partition: PartitionId,
        /// How many at most.
        count: u32,
    },
}

/// What an engine shows of the stream: its topics by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The topics.
    pub topics: BTreeMap<u32, FoundTopic>,
}

/// A topic as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTopic {
    /// The number in its name.
    pub name: u64,
    /// Its option of that name.
    pub enforce_fsync: bool,
    /// Its partitions.
    pub partitions: Vec<FoundPartition>,
}

/// A partition as it is shown: all that polls serve, all that consumers have stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundPartition {
    /// First retained offset.
    pub start: u64,
    /// One past the last offset.
    pub end: u64,
    /// All batches, in order.
    pub batches: Vec<Lies>,
    /// Stored offsets by consumer.
    pub offsets: BTreeMap<u32, u64>,
}

/// A batch in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lies {
    /// Which.
    pub key: BatchKey,
    /// Its first offset.
    pub base: u64,
    /// One past its last offset.
    pub end: u64,
    /// Its time, microseconds since the Unix epoch.
    pub time: u64,
}

impl Change {
    /// Whether it changes the catalog, and is durable when it is answered.
    pub fn is_of_catalog(&self) -> bool {
        !matches!(self, Change::Store { .. } | Change::Trim { .. })
    }
}

/// The consumer of a number.
pub(crate) fn consumer(who: u32) -> ConsumerKey {
    ConsumerKey { kind: ConsumerKind::Consumer, id: who }
}

/// The name with a number.
fn topic_name(name: u64) -> String {
    format!("name {name}")
}
