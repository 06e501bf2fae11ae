//! What runs on a hostile disk: two shards, two topics of three partitions, small segments.

use std::path::Path;

use corelog::error::ChangeError;
use corelog::{Client, Engine, EngineBuilder, Limits, PartitionId, TopicConfig};

use crate::content::Content;
use crate::history::History;

/// Partitions of each topic: of two shards, one has the first and the third.
pub const PARTITIONS: u32 = 3;
/// The topic without `enforce_fsync`.
pub const PLAIN: u32 = 0;
/// The topic with it.
pub const FSYNC: u32 = 1;

/// Limits of which many fit on a machine.
#[must_use]
pub fn limits() -> Limits {
    // One thread for file operations: what hangs in it must not hold up the others.
    Limits { file_threads: 1, ..crate::judge::small_limits() }
}

/// Two shards.
pub fn builder(dir: &Path) -> EngineBuilder {
    let builder = Engine::builder(dir).runtime(crate::runtime::chosen());
    builder.shards(2).pin(false).huge_pages(false).limits(limits())
}

/// Histories of empty partitions.
#[must_use]
pub fn histories(seed: u64, replay: &str) -> Vec<(PartitionId, History)> {
    let mut histories = Vec::new();
    for topic in [PLAIN, FSYNC] {
        for partition in 0..PARTITIONS {
            let id = PartitionId::new(0, topic, partition);
            let content = Content::new(seed).bytes_max(100 << 10);
            let mut history = History::new(content, replay);
            history.add_partition(id, topic == FSYNC);
            histories.push((id, history));
        }
    }
    histories
}

/// Both topics, with the smallest segments, where they are not there yet.
///
/// # Errors
/// The engine's.
pub fn create_topics(client: &Client) -> Result<(), ChangeError> {
    for topic in [PLAIN, FSYNC] {
        let config = TopicConfig {
            partitions: PARTITIONS,
            segment_bytes: 1 << 20,
            enforce_fsync: topic == FSYNC,
            ..TopicConfig::default()
        };
        crate::topics::create_topic(client, 0, topic, config)?;
    }
    Ok(())
}
