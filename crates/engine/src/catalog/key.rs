//! The numbers that the catalog's rows stand under: ids packed so that a topic's partitions follow
//! each other.

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
    // A key of ours has 52 bits; what is above them is cut off, and the partitions of a topic are counted.
    let (stream, topic) = topic_ids((key >> PARTITION_BITS) as u32);
    PartitionId { stream, topic, partition: (key & ((1 << PARTITION_BITS) - 1)) as u32 }
}

/// `stream << 44 | topic << 32 | group`.
pub(super) fn group(stream: u32, topic_id: u32, group: u32) -> u64 {
    u64::from(topic(stream, topic_id)) << 32 | u64::from(group)
}

/// Stream, topic and group of a group's key.
pub(super) fn group_ids(key: u64) -> (u32, u32, u32) {
    let (stream, topic) = topic_ids((key >> 32) as u32);
    (stream, topic, key as u32)
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
            let ids = (id.stream, id.topic, u32::MAX);
            assert_eq!(group_ids(group(ids.0, ids.1, ids.2)), ids);
        }
        assert_eq!(partition(PartitionId::new(1, 2, 3)), 0x1_0020_0003);
    }
}
