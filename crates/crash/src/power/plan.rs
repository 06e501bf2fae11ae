//! What a round does to the engine, drawn from its seed: the recorded process and those that judge
//! it draw the same.

use std::time::Duration;

use corelog::{Ack, PartitionId, TopicConfig};

use crate::content::Content;
use crate::random::Random;

/// The engine and its load in one round.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is appended.
    pub content: Content,
    /// Shards of the engine.
    pub shards: usize,
    /// The topics of stream 0, by number.
    pub topics: Vec<TopicConfig>,
    /// Threads that append to each partition.
    pub producers: u32,
    /// Appends that each has in flight.
    pub window: usize,
    /// How long each life lasts. All but the last end with a close in order, and so does the last
    /// if `closes`; else it is killed.
    pub lives: Vec<Duration>,
    /// The last life ends in order.
    pub closes: bool,
    /// Of how many appends each asks for a level above `appended`, and for `durable`, of a hundred.
    pub written_percent: u64,
    /// See `written_percent`.
    pub durable_percent: u64,
    /// Beside all that, topics of a stream of their own are changed.
    pub changes: bool,
}

impl Plan {
    /// The plan of `seed`.
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::of(&[seed, 1]);
        let content = Content::new(seed).bytes_max(random.pick(&[4 << 10, 30 << 10, 300 << 10]));
        // A flush makes everything durable that was answered before it, whoever asked for it. So a
        // sync that is missing in one partition shows best where no other syncs.
        let topics: &[bool] = random.pick(&[&[false], &[false], &[true], &[false, true]]);
        let partitions = random.pick(&[1, 1, 2]);
        let lives = random.pick(&[1, 1, 2, 3]);
        Plan {
            content,
            shards: random.pick(&[1, 2]),
            topics: topics.iter().map(|sync| topic(&mut random, partitions, *sync)).collect(),
            producers: random.pick(&[1, 1, 3]),
            window: random.pick(&[1, 4, 16]),
            lives: (0..lives).map(|_| Duration::from_millis(random.between(100, 500))).collect(),
            closes: random.once_in(3),
            written_percent: random.pick(&[0, 30, 60]),
            durable_percent: random.pick(&[2, 10, 30, 90]),
            // What they sync hides what others do not.
            changes: random.once_in(3),
        }
    }

    /// All partitions, and whether their topic enforces syncs.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionId, bool)> + '_ {
        self.topics.iter().zip(0..).flat_map(|(config, topic)| {
            let of = move |partition| PartitionId::new(0, topic, partition);
            (0..config.partitions).map(move |partition| (of(partition), config.enforce_fsync))
        })
    }

    /// The level that an append asks for.
    pub fn level(&self, random: &mut Random) -> Ack {
        match random.below(100) {
            one if one < self.durable_percent => Ack::Durable,
            one if one < self.durable_percent + self.written_percent => Ack::Written,
            _ => Ack::Appended,
        }
    }
}

/// Options with which everything that syncs happens soon: rolls, index entries, growing files.
fn topic(random: &mut Random, partitions: u32, enforce_fsync: bool) -> TopicConfig {
    TopicConfig {
        partitions,
        segment_bytes: 1 << 20,
        enforce_fsync,
        messages_required_to_save: random.pick(&[8, 1_024]),
        size_of_messages_required_to_save: random.pick(&[16 << 10, 1 << 20]),
        preallocate_segments: random.once_in(3),
        flush_after: Duration::from_millis(random.pick(&[1, 5, 50])),
        index_step: random.pick(&[4 << 10, 64 << 10]),
        ..TopicConfig::default()
    }
}
