//! Lookups in the catalog, as embedders get them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use corelog_format::checksum::xxh32;
use corelog_format::{Identifier, Partitioning};
use corelog_shard::PartitionId;

use super::model::{Model, Stream, Topic};
use crate::streams::{GroupInfo, StreamInfo, TopicInfo};

impl Model {
    pub(crate) fn stream_info(&self, stream: Identifier<'_>) -> Option<StreamInfo> {
        let (id, stream) = self.find_stream(stream)?;
        Some(stream.info(id))
    }

    pub(crate) fn stream_infos(&self) -> Vec<StreamInfo> {
        self.streams.iter().map(|(id, stream)| stream.info(id)).collect()
    }

    pub(crate) fn topic_info(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
    ) -> Option<TopicInfo> {
        let (stream_id, stream) = self.find_stream(stream)?;
        let (id, topic) = stream.find_topic(topic)?;
        Some(topic.info(stream_id, id))
    }

    pub(crate) fn topic_infos(&self, stream: Identifier<'_>) -> Option<Vec<TopicInfo>> {
        let (stream_id, stream) = self.find_stream(stream)?;
        Some(stream.topics.iter().map(|(id, topic)| topic.info(stream_id, id)).collect())
    }

    pub(crate) fn group_infos(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
    ) -> Option<Vec<GroupInfo>> {
        let (stream_id, stream) = self.find_stream(stream)?;
        let (topic_id, topic) = stream.find_topic(topic)?;
        let info = |(id, group): (u32, &super::model::Group)| GroupInfo {
            stream: stream_id,
            topic: topic_id,
            id,
            name: Arc::clone(&group.record.name),
            created_us: group.record.created_us,
        };
        Some(topic.groups.iter().map(info).collect())
    }

    pub(crate) fn route(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        partitioning: &Partitioning<'_>,
    ) -> Option<PartitionId> {
        let (stream_id, stream) = self.find_stream(stream)?;
        let (topic_id, topic) = stream.find_topic(topic)?;
        let count = u32::try_from(topic.partitions.len()).expect("at most a million");
        let partition = match partitioning {
            Partitioning::PartitionId(id) => Some(*id).filter(|id| *id < count)?,
            Partitioning::MessagesKey(key) => xxh32(key.as_bytes()).checked_rem(count)?,
            Partitioning::Balanced => {
                topic.routed.fetch_add(1, Ordering::Relaxed).checked_rem(count)?
            }
        };
        Some(PartitionId::new(stream_id, topic_id, partition))
    }

    pub(crate) fn partition(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        partition: u32,
    ) -> Option<PartitionId> {
        let (stream_id, stream) = self.find_stream(stream)?;
        let (topic_id, topic) = stream.find_topic(topic)?;
        let there = (partition as usize) < topic.partitions.len();
        there.then(|| PartitionId::new(stream_id, topic_id, partition))
    }
}

impl Stream {
    fn info(&self, id: u32) -> StreamInfo {
        let (name, created_us) = (Arc::clone(&self.record.name), self.record.created_us);
        let topics = u32::try_from(self.topics.len()).expect("at most 4,096");
        StreamInfo { id, name, created_us, topics }
    }
}

impl Topic {
    fn info(&self, stream: u32, id: u32) -> TopicInfo {
        TopicInfo {
            stream,
            id,
            name: Arc::clone(&self.record.name),
            created_us: self.record.created_us,
            partitions: self.partitions.iter().map(|record| record.created_us).collect(),
            options: Arc::clone(&self.record.options),
        }
    }
}
