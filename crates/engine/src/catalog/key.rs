//! The numbers that the catalog's rows stand under: ids packed so that a topic's partitions follow
//! each other.

use std::ops::RangeInclusive;

use corelog_shard::PartitionId;

/// Bits of a topic id: below 4,096.
const TOPIC_BITS: u32 = 12;
/// Bits of a partition id: below 1,048,576, of which 1,000,000 are used.
const PARTITION_BITS: u32 = 20;

/// `stream << 12 | topic`.
pub(super) fn topic(stream: u32, topic: u32) -> u32 {
    stream << TOPIC_BITS | topic
}

/// Stream and topic of a topic's key.
pub(super) fn topic_ids(key: u32) -> (u32, u32) {
    (key >> TOPIC_BITS, key & ((1 << TOPIC_BITS) - 1))
}

/// `stream << 32 | topic << 20 | partition`.
pub(super) fn partition(id: PartitionId) -> u64 {
    u64::from(topic(id.stream, id.topic)) << PARTITION_BITS | u64::from(id.partition)
}

/// The partition of a partition's key.
pub(super) fn partition_id(key: u64) -> PartitionId {
    // A key of ours has 52 bits; what is above them is cut off, and the catalog's counts catch it.
    let (stream, topic) = topic_ids((key >> PARTITION_BITS) as u32);
    PartitionId { stream, topic, partition: (key & ((1 << PARTITION_BITS) - 1)) as u32 }
}

/// All keys that the partitions of a topic can have.
pub(super) fn partitions_of(topic: u32) -> RangeInclusive<u64> {
    let first = u64::from(topic) << PARTITION_BITS;
    first..=first | ((1 << PARTITION_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_ids_fit_and_come_back() {
        for id in [
            PartitionId::new(0, 0, 0),
            PartitionId::new(1, 2, 3),
            PartitionId::new(1_048_575, 4_095, 999_999),
        ] {
            assert_eq!(partition_id(partition(id)), id);
            assert_eq!(topic_ids(topic(id.stream, id.topic)), (id.stream, id.topic));
            assert!(partitions_of(topic(id.stream, id.topic)).contains(&partition(id)));
        }
        let last = PartitionId::new(1, 2, 999_999);
        assert!(!partitions_of(topic(1, 3)).contains(&partition(last)));
        assert_eq!(partition(PartitionId::new(1, 2, 3)), 0x1_0020_0003);
    }
}
