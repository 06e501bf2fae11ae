//! The shuffle: which shard owns a partition.
//!
//! Owner = `(hash(stream, topic) + partition) mod shards`: the partitions of one topic spread evenly
//! over neighbouring shards, and topics begin at different ones. Ids are numeric, so a rename moves
//! nothing. The owner is not stored anywhere: an engine that is opened with another number of
//! shards computes other owners.

use std::fmt;

use corelog_format::checksum::xxh3;

/// A partition of a topic of a stream. The ids are the catalog's: dense, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionId {
    /// The stream.
    pub stream: u32,
    /// The topic within the stream.
    pub topic: u32,
    /// The partition within the topic.
    pub partition: u32,
}

impl PartitionId {
    /// The partition `partition` of topic `topic` of stream `stream`.
    pub const fn new(stream: u32, topic: u32, partition: u32) -> Self {
        PartitionId { stream, topic, partition }
    }

    /// The number of the shard that owns the partition, of `shards` (not zero) in all.
    pub fn owner(self, shards: usize) -> usize {
        let mut ids = [0; 8];
        ids[..4].copy_from_slice(&self.stream.to_le_bytes());
        ids[4..].copy_from_slice(&self.topic.to_le_bytes());
        let shards = shards as u64;
        // Reduced before the sum, which then cannot overflow.
        ((xxh3(&ids) % shards + u64::from(self.partition) % shards) % shards) as usize
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}, topic {}, partition {}", self.stream, self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owners as the first version computed them. An engine that moves partitions between versions
    /// still works (nothing is stored), but whoever pinned connections to cores by these numbers
    /// would be surprised.
    #[test]
    fn owners_are_the_same_in_every_version() {
        let golden = [
            ((0, 0, 0), 7, 3),
            ((0, 0, 1), 7, 4),
            ((0, 1, 0), 7, 5),
            ((1, 0, 0), 7, 0),
            ((1, 2, 3), 16, 3),
            ((1_048_575, 4_095, 999_999), 64, 19),
            ((u32::MAX, u32::MAX, u32::MAX), 1_000_000_007, 251_026_349),
        ];
        for ((stream, topic, partition), shards, owner) in golden {
            let id = PartitionId::new(stream, topic, partition);
            assert_eq!(id.owner(shards), owner, "{id} of {shards}");
        }
    }

    #[test]
    fn partitions_of_a_topic_go_round_the_shards() {
        for shards in [1, 2, 3, 8, 64] {
            let first = PartitionId::new(3, 9, 0).owner(shards);
            for partition in 0..200 {
                let owner = PartitionId::new(3, 9, partition).owner(shards);
                assert_eq!(owner, (first + partition as usize) % shards);
            }
            let last = PartitionId::new(3, 9, u32::MAX).owner(shards);
            assert_eq!(last, (first + u32::MAX as usize) % shards);
        }
    }

    /// Topics with one partition each, as many users have them, load all shards alike: none has
    /// more than a fifth above its share (a fair coin gives 6 % at 3 sigma here).
    #[test]
    fn topics_of_one_partition_spread() {
        for shards in [2, 3, 8, 16] {
            let mut load = vec![0_usize; shards];
            let topics = 40_u32;
            for stream in 0..1000 {
                for topic in 0..topics {
                    load[PartitionId::new(stream, topic, 0).owner(shards)] += 1;
                }
            }
            let share = 1000 * topics as usize / shards;
            for (shard, &load) in load.iter().enumerate() {
                assert!(load.abs_diff(share) * 5 < share, "shard {shard} of {shards}: {load}");
            }
        }
    }
}
