//! Changes of the catalog as pure functions: from what there is and what is asked for to the rows
//! that have to be written and to the partitions that end and begin with them. Nothing happens here.

use std::sync::Arc;

use corelog_format::{Identifier, Name, OptionsBlock};
use corelog_shard::{Follow, PartitionId};

use super::Entry;
use super::error::{CatalogItem, ChangeError};
use super::model::{Model, Stream, Topic};
use super::record::{GroupRecord, PartitionRecord, StreamRecord, TopicRecord};
use super::row::Row;
use crate::topic::{
    PARTITIONS_MAX, PARTITIONS_PER_REQUEST_MAX, STREAMS_MAX, TOPICS_MAX, TopicOptions,
};

/// What a change comes to. The rows are one transaction; when they are durable, what ended is taken
/// out of service and its directory goes, and what began is opened. An id may end and begin: its
/// log is emptied, in a life of its own.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(super) rows: Vec<Row>,
    /// Lives that end, in the order of their rows.
    pub(crate) ended: Vec<Ended>,
    /// Lives that begin.
    pub(crate) begun: Vec<Entry>,
    /// What partitions that go on are told of their topic.
    pub(crate) follows: Vec<(PartitionId, Follow)>,
}

/// A partition's life that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) id: PartitionId,
    pub(crate) incarnation: u64,
}

type Planned<T> = Result<(T, Plan), ChangeError>;

impl Model {
    /// A new stream; answers its id.
    pub(crate) fn create_stream(&self, name: &str, now_us: u64) -> Planned<u32> {
        let name = checked(name)?;
        if let Some(id) = self.streams.id_of(&name) {
            return Err(ChangeError::NameTaken {
                what: CatalogItem::Stream,
                name: name.to_string(),
                id,
            });
        }
        let id = free(CatalogItem::Stream, self.streams.lowest_free(), STREAMS_MAX)?;
        let record = Some(StreamRecord { created_us: now_us, name });
        Ok((id, Plan { rows: vec![Row::Stream { id, record }], ..Plan::default() }))
    }

    pub(crate) fn rename_stream(&self, stream: Identifier<'_>, name: &str) -> Planned<()> {
        let (id, stream) = self.stream(stream)?;
        let name = checked(name)?;
        if let Some(other) = self.streams.id_of(&name)
            && other != id
        {
            let (what, name, id) = (CatalogItem::Stream, name.to_string(), other);
            return Err(ChangeError::NameTaken { what, name, id });
        }
        let record = Some(StreamRecord { name, ..stream.record.clone() });
        Ok(((), Plan { rows: vec![Row::Stream { id, record }], ..Plan::default() }))
    }

    /// A stream with all that is in it goes.
    pub(crate) fn delete_stream(&self, stream: Identifier<'_>) -> Planned<()> {
        let (id, stream) = self.stream(stream)?;
        let mut plan = Plan::default();
        for (topic_id, topic) in stream.topics.iter() {
            plan.end_topic(id, topic_id, topic);
        }
        plan.rows.push(Row::Stream { id, record: None });
        Ok(((), plan))
    }

    /// All partitions of a stream are emptied.
    pub(crate) fn purge_stream(&self, stream: Identifier<'_>) -> Planned<()> {
        let (id, stream) = self.stream(stream)?;
        let mut plan = Plan::default();
        let mut lives = Lives::new(self);
        for (topic_id, topic) in stream.topics.iter() {
            plan.purge_topic(id, topic_id, topic, &mut lives);
        }
        lives.close(&mut plan);
        Ok(((), plan))
    }

    /// A new topic; answers the stream's id and its own.
    pub(crate) fn create_topic(
        &self,
        stream: Identifier<'_>,
        name: &str,
        options: &TopicOptions,
        now_us: u64,
    ) -> Planned<(u32, u32)> {
        let (stream_id, stream) = self.stream(stream)?;
        let name = checked(name)?;
        if let Some(id) = stream.topics.id_of(&name) {
            return Err(ChangeError::NameTaken {
                what: CatalogItem::Topic,
                name: name.to_string(),
                id,
            });
        }
        options.config().validate()?;
        let count = options.config().partitions;
        // A topic may begin without partitions.
        per_request(count, 0)?;
        let id = free(CatalogItem::Topic, stream.topics.lowest_free(), TOPICS_MAX)?;
        let options = Arc::new(options.clone());
        let record = TopicRecord { created_us: now_us, name, options, next_group: 0 };
        let mut plan = Plan::default();
        let row = Row::Topic { stream: stream_id, id, record: Some(record.clone()) };
        plan.rows.push(row);
        let mut lives = Lives::new(self);
        plan.begin(stream_id, id, &record, 0..count, &mut lives, now_us);
        lives.close(&mut plan);
        Ok(((stream_id, id), plan))
    }

    /// A topic's name and those of its options that the block names.
    pub(crate) fn update_topic(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        name: &str,
        patch: &OptionsBlock<'_>,
    ) -> Planned<(u32, u32)> {
        let (stream_id, stream) = self.stream(stream)?;
        let (id, topic) = found_topic(stream, topic)?;
        let name = checked(name)?;
        if let Some(other) = stream.topics.id_of(&name)
            && other != id
        {
            let (what, name, id) = (CatalogItem::Topic, name.to_string(), other);
            return Err(ChangeError::NameTaken { what, name, id });
        }
        let options = Arc::new(topic.record.options.patched(patch)?);
        let record = TopicRecord { name, options, ..topic.record.clone() };
        let rows = vec![Row::Topic { stream: stream_id, id, record: Some(record.clone()) }];
        let mut plan = Plan { rows, ..Plan::default() };
        plan.tell(stream_id, id, topic, &record, topic.partitions.len() as u32);
        Ok(((stream_id, id), plan))
    }

    pub(crate) fn delete_topic(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
    ) -> Planned<()> {
        let (stream_id, stream) = self.stream(stream)?;
        let (id, topic) = found_topic(stream, topic)?;
        let mut plan = Plan::default();
        plan.end_topic(stream_id, id, topic);
        Ok(((), plan))
    }

    /// All partitions of a topic are emptied; offsets begin at 0 again, stored ones are gone,
    /// groups stay.
    pub(crate) fn purge_topic(&self, stream: Identifier<'_>, topic: Identifier<'_>) -> Planned<()> {
        let (stream_id, stream) = self.stream(stream)?;
        let (id, topic) = found_topic(stream, topic)?;
        let mut plan = Plan::default();
        let mut lives = Lives::new(self);
        plan.purge_topic(stream_id, id, topic, &mut lives);
        lives.close(&mut plan);
        Ok(((), plan))
    }

    /// `count` partitions behind those that there are.
    pub(crate) fn add_partitions(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        count: u32,
        now_us: u64,
    ) -> Planned<(u32, u32)> {
        let (stream_id, stream) = self.stream(stream)?;
        let (id, topic) = found_topic(stream, topic)?;
        per_request(count, 1)?;
        let before = topic.record.partitions();
        let after = before + count;
        if after > PARTITIONS_MAX {
            return Err(ChangeError::Full { what: CatalogItem::Partition, max: PARTITIONS_MAX });
        }
        let record = topic.record.with_partitions(after);
        record.options.config().check_together()?;
        let mut plan = Plan::default();
        plan.rows.push(Row::Topic { stream: stream_id, id, record: Some(record.clone()) });
        let mut lives = Lives::new(self);
        plan.begin(stream_id, id, &record, before..after, &mut lives, now_us);
        lives.close(&mut plan);
        // Each has a smaller part of the topic's size now. The new ones learn of the groups as well.
        plan.tell(stream_id, id, topic, &record, after);
        Ok(((stream_id, id), plan))
    }

    /// The last `count` partitions go.
    pub(crate) fn remove_partitions(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        count: u32,
    ) -> Planned<(u32, u32)> {
        let (stream_id, stream) = self.stream(stream)?;
        let (id, topic) = found_topic(stream, topic)?;
        per_request(count, 1)?;
        let there = topic.record.partitions();
        let Some(after) = there.checked_sub(count) else {
            return Err(ChangeError::TooFewPartitions { asked: count, there });
        };
        let mut plan = Plan::default();
        plan.end_partitions(stream_id, id, topic, after);
        let record = topic.record.with_partitions(after);
        plan.tell(stream_id, id, topic, &record, after);
        plan.rows.push(Row::Topic { stream: stream_id, id, record: Some(record) });
        Ok(((stream_id, id), plan))
    }

    /// A new consumer group; answers the stream's id, the topic's and its own, which no other group
    /// of the topic ever had.
    pub(crate) fn create_group(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        name: &str,
        now_us: u64,
    ) -> Planned<(u32, u32, u32)> {
        let (stream_id, stream) = self.stream(stream)?;
        let (topic_id, topic) = found_topic(stream, topic)?;
        let name = checked(name)?;
        if let Some(id) = topic.groups.id_of(&name) {
            let (what, name) = (CatalogItem::ConsumerGroup, name.to_string());
            return Err(ChangeError::NameTaken { what, name, id });
        }
        let id = topic.record.next_group;
        let Some(next_group) = id.checked_add(1) else {
            return Err(ChangeError::Full { what: CatalogItem::ConsumerGroup, max: u32::MAX });
        };
        let record = Some(GroupRecord { created_us: now_us, name });
        let topic_record = Some(TopicRecord { next_group, ..topic.record.clone() });
        let rows = vec![
            Row::Topic { stream: stream_id, id: topic_id, record: topic_record },
            Row::Group { stream: stream_id, topic: topic_id, id, record },
        ];
        Ok(((stream_id, topic_id, id), Plan { rows, ..Plan::default() }))
    }

    pub(crate) fn delete_group(
        &self,
        stream: Identifier<'_>,
        topic: Identifier<'_>,
        group: Identifier<'_>,
    ) -> Planned<()> {
        let (stream_id, stream) = self.stream(stream)?;
        let (topic_id, topic) = found_topic(stream, topic)?;
        let id =
            topic.groups.find(group).ok_or_else(|| unknown(CatalogItem::ConsumerGroup, group))?;
        let row = Row::Group { stream: stream_id, topic: topic_id, id, record: None };
        let mut plan = Plan { rows: vec![row], ..Plan::default() };
        plan.tell(stream_id, topic_id, topic, &topic.record, topic.partitions.len() as u32);
        let groups = topic.groups.iter().map(|(other, _)| other).filter(|other| *other != id);
        let groups: Arc<[u32]> = groups.collect();
        plan.follows.iter_mut().for_each(|(_, follow)| follow.groups = Arc::clone(&groups));
        Ok(((), plan))
    }

    fn stream(&self, stream: Identifier<'_>) -> Result<(u32, &Stream), ChangeError> {
        self.find_stream(stream).ok_or_else(|| unknown(CatalogItem::Stream, stream))
    }
}

impl Plan {
    fn begin(
        &mut self,
        stream: u32,
        topic: u32,
        record: &TopicRecord,
        partitions: std::ops::Range<u32>,
        lives: &mut Lives,
        now_us: u64,
    ) {
        for partition in partitions {
            let id = PartitionId::new(stream, topic, partition);
            let incarnation = lives.next();
            let new = Some(PartitionRecord { incarnation, created_us: now_us });
            self.rows.push(Row::Partition { id, record: new });
            let (config, retention) =
                (record.options.config(), record.options.config().retention());
            let follow = Follow { retention, ..Follow::default() };
            self.begun.push(Entry { id, incarnation, config: config.log(), follow });
        }
    }

    /// Tells the first `count` partitions what `record` says now; the groups are those of `topic`.
    fn tell(&mut self, stream: u32, id: u32, topic: &Topic, record: &TopicRecord, count: u32) {
        let retention = record.options.config().retention();
        let groups: Arc<[u32]> = topic.groups.iter().map(|(group, _)| group).collect();
        self.follows.extend((0..count).map(|partition| {
            let groups = Arc::clone(&groups);
            let follow = Follow { retention, groups, next_group: record.next_group };
            (PartitionId::new(stream, id, partition), follow)
        }));
    }

    /// The partitions from number `from` on end, the last one first.
    fn end_partitions(&mut self, stream: u32, topic: u32, item: &Topic, from: u32) {
        let first = self.ended.len();
        for Entry { id, incarnation, .. } in item.entries(stream, topic, from) {
            self.ended.push(Ended { id, incarnation });
        }
        let gone = self.ended[first..].iter().rev();
        self.rows.extend(gone.map(|ended| Row::Partition { id: ended.id, record: None }));
    }

    fn end_topic(&mut self, stream: u32, id: u32, topic: &Topic) {
        for (group, _) in topic.groups.iter() {
            self.rows.push(Row::Group { stream, topic: id, id: group, record: None });
        }
        self.end_partitions(stream, id, topic, 0);
        self.rows.push(Row::Topic { stream, id, record: None });
    }

    fn purge_topic(&mut self, stream: u32, id: u32, topic: &Topic, lives: &mut Lives) {
        for (old, record) in topic.entries(stream, id, 0).zip(&topic.partitions) {
            self.ended.push(Ended { id: old.id, incarnation: old.incarnation });
            let incarnation = lives.next();
            let record = Some(PartitionRecord { incarnation, ..*record });
            self.rows.push(Row::Partition { id: old.id, record });
            self.begun.push(Entry { incarnation, ..old });
        }
    }
}

/// Gives incarnations out, each once.
struct Lives {
    first: u64,
    next: u64,
}

impl Lives {
    fn new(model: &Model) -> Lives {
        Lives { first: model.next_incarnation, next: model.next_incarnation }
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// What was given must never be given again.
    fn close(self, plan: &mut Plan) {
        if self.next != self.first {
            plan.rows.push(Row::NextIncarnation(self.next));
        }
    }
}

fn found_topic<'a>(
    stream: &'a Stream,
    topic: Identifier<'_>,
) -> Result<(u32, &'a Topic), ChangeError> {
    stream.find_topic(topic).ok_or_else(|| unknown(CatalogItem::Topic, topic))
}

pub(super) fn unknown(what: CatalogItem, identifier: Identifier<'_>) -> ChangeError {
    let identifier = match identifier {
        Identifier::Numeric(id) => id.to_string(),
        Identifier::String(name) => format!("{:?}", name.as_str()),
    };
    ChangeError::Unknown { what, identifier }
}

fn checked(name: &str) -> Result<Arc<str>, ChangeError> {
    Name::new(name).map(|name| name.as_str().into()).map_err(ChangeError::Name)
}

fn free(what: CatalogItem, id: u32, max: u32) -> Result<u32, ChangeError> {
    if id < max { Ok(id) } else { Err(ChangeError::Full { what, max }) }
}

fn per_request(asked: u32, min: u32) -> Result<(), ChangeError> {
    let max = PARTITIONS_PER_REQUEST_MAX;
    let fits = (min..=max).contains(&asked);
    if fits { Ok(()) } else { Err(ChangeError::PartitionsPerRequest { asked, min, max }) }
}

#[cfg(test)]
mod tests;
