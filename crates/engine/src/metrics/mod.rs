//! Statistics for the facade of the crate `metrics`, and so for whatever exporter the process has
//! installed. Feature `metrics`.
//!
//! The engine measures anyway; a [`Publisher`] hands on what [`Client::totals`](crate::Client::totals)
//! or [`Client::stats`](crate::Client::stats) answer, whenever its owner likes, on its owner's thread:
//!
//! ```no_run
//! # fn example(client: &corelog::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let mut publisher = corelog::metrics::Publisher::new();
//! loop {
//!     publisher.publish(&client.totals_blocking()?);
//!     std::thread::sleep(std::time::Duration::from_secs(10));
//! }
//! # }
//! ```
//!
//! Names and units follow the conventions of Prometheus; all of them stand in `docs/operations.md`.
//! The label `shard` is on everything that a shard has. With ten thousand partitions each metric of
//! partitions is ten thousand series, so these have to be [asked for](Publisher::partitions).

mod table;

use std::collections::HashMap;

use ::metrics::{Key, Label, Level, Metadata, Recorder, with_recorder};
use corelog_shard::PartitionId;

use crate::stats::{EngineStats, Latencies};
use table::{COUNTS, ENGINE, FILES, Kind, LATENCIES, MEMORY, Metric, OF_PARTITION, SHARD};

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, None);

/// Gives an engine's statistics to the process's recorder.
///
/// It remembers what it gave: counters and histograms get what is new since. So counters never go
/// back, several engines in a process (told apart by [`Publisher::label`]) and engines that follow
/// each other add up, and every publisher belongs to one engine.
#[derive(Debug, Default)]
pub struct Publisher {
    labels: Vec<Label>,
    with_partitions: bool,
    described: bool,
    engine: Vec<u64>,
    shards: Vec<Given>,
    partitions: HashMap<PartitionId, Vec<u64>>,
}

/// What was given of one shard.
#[derive(Debug, Default)]
struct Given {
    counts: Vec<u64>,
    shard: Vec<u64>,
    memory: Vec<u64>,
    files: Vec<u64>,
    latencies: Option<Latencies>,
}

impl Publisher {
    /// One for an engine that was not published yet.
    pub fn new() -> Publisher {
        Publisher::default()
    }

    /// Puts the label `key` = `value` on everything.
    #[must_use]
    pub fn label(mut self, key: &'static str, value: impl Into<String>) -> Publisher {
        self.labels.push(Label::new(key, value.into()));
        self
    }

    /// Publishes what is of single partitions, too, where the statistics hold it
    /// ([`Client::stats`](crate::Client::stats)). Of a partition that is gone the recorder keeps the
    /// last values until it forgets what was not set for long.
    #[must_use]
    pub fn partitions(mut self) -> Publisher {
        self.with_partitions = true;
        self
    }

    /// Gives what is new in `stats` to the recorder of this thread or process. Without one it does
    /// nothing, and the next call gives it all.
    pub fn publish(&mut self, stats: &EngineStats) {
        with_recorder(|recorder| {
            if !std::mem::replace(&mut self.described, true) {
                table::describe(recorder);
            }
            give(recorder, ENGINE, stats, &self.labels, &mut self.engine);
            self.shards.resize_with(stats.shards.len(), Given::default);
            for (number, given) in self.shards.iter_mut().enumerate() {
                let labels = and(&self.labels, [("shard", number.to_string())]);
                let shard = &stats.shards[number];
                give(recorder, COUNTS, &shard.counts, &labels, &mut given.counts);
                give(recorder, SHARD, shard, &labels, &mut given.shard);
                give(recorder, MEMORY, &stats.memory[number], &labels, &mut given.memory);
                give(recorder, FILES, &stats.io[number], &labels, &mut given.files);
                give_latencies(recorder, &stats.latencies[number], &labels, &mut given.latencies);
            }
            if self.with_partitions {
                self.publish_partitions(recorder, stats);
            }
        });
    }

    fn publish_partitions(&mut self, recorder: &dyn Recorder, stats: &EngineStats) {
        let mut before = std::mem::take(&mut self.partitions);
        for (id, partition) in stats.shards.iter().flat_map(|shard| &shard.partitions) {
            let PartitionId { stream, topic, partition: number } = id;
            let ids = [("stream", stream), ("topic", topic), ("partition", number)];
            let labels = and(&self.labels, ids.map(|(key, id)| (key, id.to_string())));
            let mut given = before.remove(id).unwrap_or_default();
            give(recorder, OF_PARTITION, partition, &labels, &mut given);
            self.partitions.insert(*id, given);
        }
    }
}

fn and<const N: usize>(labels: &[Label], more: [(&'static str, String); N]) -> Vec<Label> {
    let more = more.into_iter().map(|(key, value)| Label::new(key, value));
    labels.iter().cloned().chain(more).collect()
}

/// Gives all of `metrics`. What was `given` of each counter is remembered there, by place.
fn give<S>(
    recorder: &dyn Recorder,
    metrics: &[Metric<S>],
    of: &S,
    labels: &[Label],
    given: &mut Vec<u64>,
) {
    given.resize(metrics.len(), 0);
    for (metric, given) in metrics.iter().zip(given) {
        let (key, value) = (Key::from_parts(metric.name, labels.to_vec()), (metric.value)(of));
        match metric.kind {
            Kind::Counter => {
                // A partition that was opened again counts from 0.
                let new = value.checked_sub(*given).unwrap_or(value);
                recorder.register_counter(&key, &METADATA).increment(new);
                *given = value;
            }
            Kind::Gauge => recorder.register_gauge(&key, &METADATA).set(value as f64),
        }
    }
}

/// Gives the times that are new since `given`.
fn give_latencies(
    recorder: &dyn Recorder,
    latencies: &Latencies,
    labels: &[Label],
    given: &mut Option<Latencies>,
) {
    for row in LATENCIES {
        let mut labels = labels.to_vec();
        labels.extend(row.label.map(|(key, value)| Label::from_static_parts(key, value)));
        let key = Key::from_parts(row.name, labels);
        let histogram = recorder.register_histogram(&key, &METADATA);
        let before = given.as_ref().map(|given| &given[row.of]);
        for (time, count) in latencies[row.of].since(before) {
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            histogram.record_many(time.as_secs_f64(), count);
        }
    }
    *given = Some(latencies.clone());
}
