//! What the engine tells about itself.

pub use crate::builder::OpenSummary;
pub use crate::observe::{IoStats, Latencies, Latency, Timed};
pub use crate::progress::OpenProgress;
use crate::runtime::Runtime;
pub use crate::runtime::{MemoryUse, PoolPages, SmallBecause};
pub use corelog_shard::{Scope, ShardStats};
pub use corelog_storage::{
    Counts, Figures, OpenDamage, OpenReport, PartitionStats, Trimmed, Watermarks,
};

/// Counters of an engine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EngineStats {
    /// One entry for each shard, by number.
    pub shards: Vec<ShardStats>,
    /// Buffers of each shard, by number.
    pub memory: Vec<MemoryUse>,
    /// How long things took on each shard, by number.
    pub latencies: Vec<Latencies>,
    /// File operations of each shard, by number.
    pub io: Vec<IoStats>,
    /// Files are opened with O_DIRECT. False only where the file system refused it and
    /// `DirectIo::Preferred` was asked for.
    pub direct_io: bool,
    /// What drives the shards.
    pub runtime: Runtime,
    /// How often the clock record could not be written. While it cannot, appends go on for a few
    /// seconds, then wait.
    pub clock_failures: u64,
    /// The reason of the last one.
    pub clock_failure: Option<String>,
    /// Tasks on shards that panicked: partitions' (the partition is out of service then) and the
    /// embedder's.
    pub panics: u64,
    /// The message of the last one.
    pub panic: Option<String>,
}

impl EngineStats {
    /// How long things took, on all shards together.
    pub fn latencies_of_all(&self) -> Latencies {
        let mut all = Latencies::new();
        self.latencies.iter().for_each(|shard| all.merge(shard));
        all
    }
}
