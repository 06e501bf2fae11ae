//! The catalog in memory: made from its rows, and changed by the rows of each change once they are
//! durable. Everybody looks things up here; only the catalog's thread changes it.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use corelog_format::Identifier;
use corelog_shard::{Follow, PartitionId};

use super::Entry;
use super::named::{HasName, Named};
use super::record::{GroupRecord, PartitionRecord, StreamRecord, TopicRecord};
use super::row::Row;
use crate::groups::{GroupId, Roster, Seats};

/// Streams with all that is below them.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(super) streams: Named<Stream>,
    /// The first incarnation that this catalog gave.
    pub(super) first_incarnation: u64,
    pub(super) next_incarnation: u64,
    /// Memberships in consumer groups, all of them.
    seats: Arc<Seats>,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) record: StreamRecord,
    pub(super) topics: Named<Topic>,
}

#[derive(Debug)]
pub(super) struct Topic {
    pub(super) record: TopicRecord,
    pub(super) partitions: Vec<PartitionRecord>,
    pub(super) groups: Named<Group>,
    /// Batches that went round its partitions.
    pub(super) routed: AtomicU32,
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) record: GroupRecord,
    /// Who is in it. Not a part of the catalog's rows.
    pub(super) roster: Arc<Roster>,
}

impl HasName for Stream {
    fn name(&self) -> &Arc<str> {
        &self.record.name
    }
}

impl HasName for Topic {
    fn name(&self) -> &Arc<str> {
        &self.record.name
    }
}

impl HasName for Group {
    fn name(&self) -> &Arc<str> {
        &self.record.name
    }
}

impl Model {
    /// The catalog of all its rows, in the order streams, topics, partitions, groups, each by id.
    /// The error says what no sound catalog has.
    pub(super) fn load(
        rows: impl IntoIterator<Item = Row>,
        seats: Arc<Seats>,
    ) -> Result<Model, String> {
        let mut model = Model { seats, ..Model::default() };
        for row in rows {
            model.apply(row)?;
        }
        for (stream_id, stream) in model.streams.iter() {
            for (topic_id, topic) in stream.topics.iter() {
                let (found, wanted) = (topic.partitions.len(), topic.record.partitions());
                if found as u64 != u64::from(wanted) {
                    return Err(format!(
                        "stream {stream_id}, topic {topic_id} has {found} of {wanted} partitions"
                    ));
                }
            }
        }
        Ok(model)
    }

    /// Takes one row in. The error says why it fits nowhere; rows of a plan always fit.
    pub(super) fn apply(&mut self, row: Row) -> Result<(), String> {
        match row {
            Row::FirstIncarnation(first) => self.first_incarnation = first,
            Row::NextIncarnation(next) => self.next_incarnation = next,
            Row::Stream { id, record: None } => {
                self.streams.remove(id).ok_or_else(|| format!("there is no stream {id}"))?;
            }
            Row::Stream { id, record: Some(record) } => self.put_stream(id, record)?,
            Row::Topic { stream, id, record } => {
                self.stream_mut(stream)?.put_topic(id, record).ok_or_else(|| {
                    format!("stream {stream}, topic {id} has a name twice, or is not there")
                })?;
            }
            Row::Partition { id, record } => self.put_partition(id, record)?,
            Row::Group { stream, topic, id, record } => {
                let seats = Arc::clone(&self.seats);
                let topic_item = self.topic_mut(stream, topic)?;
                let placed = match record {
                    Some(record) => {
                        let count = topic_item.record.partitions();
                        let roster = Roster::new(GroupId::new(stream, topic, id), count, &seats);
                        topic_item.groups.insert(id, Group { record, roster })
                    }
                    None => {
                        let removed = topic_item.groups.remove(id);
                        removed.map(|group| group.roster.close()).is_some()
                    }
                };
                if !placed {
                    return Err(format!(
                        "stream {stream}, topic {topic}, group {id} has a name twice, or is not \
                         there"
                    ));
                }
            }
        }
        Ok(())
    }

    /// All rows, in the order that [`Model::load`] wants.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = vec![
            Row::FirstIncarnation(self.first_incarnation),
            Row::NextIncarnation(self.next_incarnation),
        ];
        for (id, stream) in self.streams.iter() {
            rows.push(Row::Stream { id, record: Some(stream.record.clone()) });
        }
        for (stream, item) in self.streams.iter() {
            for (id, topic) in item.topics.iter() {
                rows.push(Row::Topic { stream, id, record: Some(topic.record.clone()) });
                for (number, record) in (0..).zip(&topic.partitions) {
                    let id = PartitionId::new(stream, id, number);
                    rows.push(Row::Partition { id, record: Some(*record) });
                }
                for (group, item) in topic.groups.iter() {
                    let record = Some(item.record.clone());
                    rows.push(Row::Group { stream, topic: id, id: group, record });
                }
            }
        }
        rows
    }

    fn put_stream(&mut self, id: u32, record: StreamRecord) -> Result<(), String> {
        let placed = if self.streams.get(id).is_some() {
            let name = Arc::clone(&record.name);
            self.streams.change(id, &name, |stream| stream.record = record)
        } else {
            self.streams.insert(id, Stream { record, topics: Named::default() })
        };
        if placed { Ok(()) } else { Err(format!("stream {id} has the name of another one")) }
    }

    fn put_partition(
        &mut self,
        id: PartitionId,
        record: Option<PartitionRecord>,
    ) -> Result<(), String> {
        let topic = self.topic_mut(id.stream, id.topic)?;
        let partitions = &mut topic.partitions;
        let (place, count) = (id.partition as usize, partitions.len());
        match record {
            Some(record) if place == count => partitions.push(record),
            // Another life under the same id: it was emptied.
            Some(record) if place < count => {
                partitions[place] = record;
                topic.groups.iter().for_each(|(_, group)| group.roster.purged(id.partition));
            }
            None if place + 1 == count => drop(partitions.pop()),
            _ => return Err(format!("{id} is out of the order of its topic's partitions")),
        }
        Ok(())
    }

    fn stream_mut(&mut self, stream: u32) -> Result<&mut Stream, String> {
        self.streams.get_mut(stream).ok_or_else(|| format!("there is no stream {stream}"))
    }

    fn topic_mut(&mut self, stream: u32, topic: u32) -> Result<&mut Topic, String> {
        let found = self.stream_mut(stream)?.topics.get_mut(topic);
        found.ok_or_else(|| format!("there is no topic {topic} in stream {stream}"))
    }

    pub(super) fn find_stream(&self, stream: Identifier<'_>) -> Option<(u32, &Stream)> {
        let id = self.streams.find(stream)?;
        self.streams.get(id).map(|stream| (id, stream))
    }

    pub(crate) fn seats(&self) -> &Seats {
        &self.seats
    }

    /// The members of a consumer group, where there is such a group.
    pub(crate) fn roster(&self, id: GroupId) -> Option<&Arc<Roster>> {
        let topic = self.streams.get(id.stream)?.topics.get(id.topic)?;
        topic.groups.get(id.group).map(|group| &group.roster)
    }

    /// All partitions with their topics' configurations, in the order of their ids.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (stream, item) in self.streams.iter() {
            for (topic, item) in item.topics.iter() {
                entries.extend(item.entries(stream, topic, 0));
            }
        }
        entries
    }

    /// The first incarnation that this catalog gave: what has an older one is not its own.
    pub(crate) fn first_incarnation(&self) -> u64 {
        self.first_incarnation
    }

    /// True where this catalog gave `incarnation` to a partition, whether it still has it or not.
    pub(crate) fn gave(&self, incarnation: u64) -> bool {
        (self.first_incarnation..self.next_incarnation).contains(&incarnation)
    }

    /// True where there is such a partition.
    pub(crate) fn has(&self, id: PartitionId) -> bool {
        let topic = self.streams.get(id.stream).and_then(|stream| stream.topics.get(id.topic));
        topic.is_some_and(|topic| (id.partition as usize) < topic.partitions.len())
    }

    /// One partition with its topic's configuration.
    pub(crate) fn entry(&self, id: PartitionId) -> Option<Entry> {
        let topic = self.streams.get(id.stream)?.topics.get(id.topic)?;
        topic.entries(id.stream, id.topic, id.partition).next()
    }
}

impl Stream {
    fn put_topic(&mut self, id: u32, record: Option<TopicRecord>) -> Option<()> {
        let placed = match record {
            None => self.topics.remove(id).is_some(),
            Some(record) if self.topics.get(id).is_some() => {
                let name = Arc::clone(&record.name);
                self.topics.change(id, &name, |topic| topic.put(record))
            }
            Some(record) => {
                let topic = Topic {
                    record,
                    partitions: Vec::new(),
                    groups: Named::default(),
                    routed: AtomicU32::new(0),
                };
                self.topics.insert(id, topic)
            }
        };
        placed.then_some(())
    }

    pub(super) fn find_topic(&self, topic: Identifier<'_>) -> Option<(u32, &Topic)> {
        let id = self.topics.find(topic)?;
        self.topics.get(id).map(|topic| (id, topic))
    }
}

impl Topic {
    fn put(&mut self, record: TopicRecord) {
        let (before, after) = (self.record.partitions(), record.partitions());
        self.record = record;
        if before != after {
            self.groups.iter().for_each(|(_, group)| group.roster.set_partitions(after));
        }
    }

    /// The partitions from number `from` on.
    pub(super) fn entries(
        &self,
        stream: u32,
        topic: u32,
        from: u32,
    ) -> impl Iterator<Item = Entry> + '_ {
        let numbered = (from..).zip(self.partitions.iter().skip(from as usize));
        let follow = self.follow();
        numbered.map(move |(partition, record)| Entry {
            id: PartitionId::new(stream, topic, partition),
            incarnation: record.incarnation,
            config: self.record.options.config().log(),
            follow: follow.clone(),
        })
    }

    /// What its partitions are told of it.
    fn follow(&self) -> Follow {
        let groups = self.groups.iter().map(|(id, _)| id).collect();
        let retention = self.record.options.config().retention();
        Follow { retention, groups, next_group: self.record.next_group }
    }
}
