//! Streams, topics, partitions and consumer groups, as clients read them.

use super::{put_long, put_name, put_u32, put_u64};
use corelog::PartitionId;
use corelog::consumers::{Assignment, MemberInfo};
use corelog::stats::Figures;
use corelog::streams::{GroupInfo, StreamInfo, TopicInfo};

/// What is in something: bytes and messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
}

impl Holding {
    /// Counts a partition in.
    pub(crate) fn add(&mut self, figures: &Figures) {
        self.bytes += figures.bytes;
        self.messages += figures.messages;
    }
}

/// A stream with so many topics, which stand behind it where it is asked for by itself.
pub(crate) fn stream(out: &mut Vec<u8>, info: &StreamInfo, topics: u32, holding: Holding) {
    put_u32(out, info.id);
    put_u64(out, info.created_us);
    put_u32(out, topics);
    put_u64(out, holding.bytes);
    put_u64(out, holding.messages);
    put_name(out, &info.name);
    // Streams have no options.
    put_u32(out, 0);
}

/// A topic, without its partitions.
pub(crate) fn topic_header(out: &mut Vec<u8>, info: &TopicInfo, holding: Holding) {
    let config = info.options.config();
    let expiry = config.message_expiry.map_or(u64::MAX, |expiry| expiry.as_micros() as u64);
    put_u32(out, info.id);
    put_u64(out, info.created_us);
    put_u32(out, u32::try_from(info.partitions.len()).expect("a million at most"));
    put_u64(out, expiry);
    out.push(config.compression_algorithm.code());
    put_u64(out, config.max_topic_size.unwrap_or(u64::MAX));
    put_u64(out, holding.bytes);
    put_u64(out, holding.messages);
    put_name(out, &info.name);
    put_long(out, &info.options.explicit());
    put_long(out, &info.options.derived());
}

/// A partition; `figures` is `None` for one that was made just now, or is not served.
pub(crate) fn partition(out: &mut Vec<u8>, id: u32, created_us: u64, figures: Option<&Figures>) {
    put_u32(out, id);
    put_u64(out, created_us);
    put_u32(out, figures.map_or(0, |f| u32::try_from(f.segments).unwrap_or(u32::MAX)));
    put_u64(out, figures.and_then(|f| f.last_offset).unwrap_or(0));
    put_u64(out, figures.map_or(0, |f| f.bytes));
    put_u64(out, figures.map_or(0, |f| f.messages));
}

/// What a producer is told of a batch that was stored: where, and its first offset.
pub(crate) fn confirmation(partition: PartitionId, base_offset: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(24);
    for number in [1, partition.stream, partition.topic, partition.partition] {
        put_u32(&mut out, number);
    }
    put_u64(&mut out, base_offset);
    out
}

/// A consumer group, without its members.
pub(crate) fn group(out: &mut Vec<u8>, info: &GroupInfo, partitions: u32, members: usize) {
    put_u32(out, info.id);
    put_u32(out, partitions);
    put_u32(out, u32::try_from(members).unwrap_or(u32::MAX));
    put_name(out, &info.name);
}

/// The members of a group, behind [`group`].
pub(crate) fn group_members(out: &mut Vec<u8>, members: &[MemberInfo]) {
    for member in members {
        put_u32(out, member.id);
        put_partitions(out, &member.partitions);
    }
}

/// What a member may poll.
pub(crate) fn assignment(out: &mut Vec<u8>, assignment: &Assignment) {
    put_u64(out, assignment.generation);
    put_partitions(out, &assignment.partitions);
}

fn put_partitions(out: &mut Vec<u8>, partitions: &[u32]) {
    put_u32(out, u32::try_from(partitions.len()).expect("a million at most"));
    partitions.iter().for_each(|partition| put_u32(out, *partition));
}
