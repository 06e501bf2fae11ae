//! Kills: a process that appends is killed at any moment, again and again, on one data directory.
//!
//! ```text
//! campaign   draws rounds from the seed, counts, keeps the evidence of a failure
//!   plan     one round: which lives, and at which moment each is killed
//!   watch    starts a life as a process, reads its ledger, kills it at that moment
//!   life     in that process: opens the engine; producers, a reader, a close in order
//!   judge    what the engine shows afterwards, against everything that was ever answered
//! ```
//!
//! A directory is used for some rounds, then the next begins empty with the next seed, so a failure
//! is replayed from its own directory's seed in a few rounds.

mod campaign;
mod life;
mod plan;
mod producer;
mod reader;
mod watch;

pub use campaign::{Campaign, Failure, Summary};
pub use life::Life;

use std::time::Duration;

use corelog::{PartitionId, TopicConfig};

/// The stream of all topics.
const STREAM: u32 = 0;

/// The topics: every way in which a log is written. All have the smallest segments, so that rolls
/// happen all the time.
fn topics(partitions: u32) -> [(u32, TopicConfig); 3] {
    let plain = TopicConfig { partitions, segment_bytes: 1 << 20, ..TopicConfig::default() };
    let synced = TopicConfig { enforce_fsync: true, ..plain.clone() };
    let thresholds = TopicConfig {
        messages_required_to_save: 7,
        size_of_messages_required_to_save: 16 << 10,
        flush_after: Duration::from_millis(50),
        preallocate_segments: true,
        index_step: 4 << 10,
        ..plain.clone()
    };
    [(0, plain), (1, synced), (2, thresholds)]
}

/// All partitions, and whether each is one of `enforce_fsync`.
fn partitions(count: u32) -> Vec<(PartitionId, bool)> {
    let of = |(topic, config): (u32, TopicConfig)| {
        (0..count).map(move |partition| {
            (PartitionId::new(STREAM, topic, partition), config.enforce_fsync)
        })
    };
    topics(count).into_iter().flat_map(of).collect()
}
