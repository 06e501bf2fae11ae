//! Who changes the stream: one thing after the other, each said before it is asked for and again
//! when it was answered.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use corelog::error::{AppendError, ChangeError, ControlError, OffsetError, Unavailable};
use corelog::streams::TopicInfo;
use corelog::{Ack, Client, PartitionId, TopicConfig};
use corelog_format::OptionsBuilder;

use super::look::is_unknown;
use super::{CONSUMERS, Change, PARTITIONS, STREAM, TOPICS, consumer, topic_name};
use crate::content::{BatchKey, Content};
use crate::ledger::Event;
use crate::random::Random;

const BUSY_WAIT: Duration = Duration::from_micros(200);
/// Appends in a row, at most.
const RUN: u64 = 8;
/// The operator's number as a producer: no other has it.
const PRODUCER: u32 = 1_000_000;

/// An operator in one life of an engine.
pub struct Operator<'a> {
    client: &'a Client,
    content: Content,
    life: u32,
    random: Random,
    /// Batches that were offered, and names that were given.
    offered: u32,
    named: u32,
    /// It appends so many bytes more.
    bytes: u64,
}

/// Why it ends.
enum End {
    /// The engine is closed.
    Closed,
    /// Something is answered that must not be.
    Wrong(String),
}

impl<'a> Operator<'a> {
    /// For life number `life` of this data directory, in which about `bytes` are appended at most.
    #[must_use]
    pub fn new(client: &'a Client, content: Content, life: u32, bytes: u64) -> Operator<'a> {
        let random = Random::of(&[content.seed(), u64::from(life), 0x0be7]);
        Operator { client, content, life, random, offered: 0, named: 0, bytes }
    }

    /// Changes things until `is_over` or the engine is closed.
    ///
    /// # Errors
    /// An answer that must not be, in words.
    pub fn run(mut self, is_over: impl Fn() -> bool) -> Result<(), String> {
        match self.ensure_stream() {
            Ok(()) => {}
            Err(End::Closed) => return Ok(()),
            Err(End::Wrong(what)) => return Err(what),
        }
        while !is_over() {
            match self.act() {
                Ok(()) => {}
                Err(End::Closed) => return Ok(()),
                Err(End::Wrong(what)) => return Err(what),
            }
        }
        Ok(())
    }

    /// The streams are made once; one may be there from a life that was cut off.
    fn ensure_stream(&mut self) -> Result<(), End> {
        let catalog = self.client.catalog();
        while catalog.stream(STREAM).is_none() {
            let id = catalog.streams().len();
            match catalog.create_stream(&format!("stream {id}")).wait() {
                Ok(_) | Err(ChangeError::Busy) => {}
                Err(error) => return Err(ended(error)),
            }
        }
        Ok(())
    }

    fn act(&mut self) -> Result<(), End> {
        let topics = self.client.catalog().topics(STREAM).unwrap_or_default();
        let with_logs: Vec<&TopicInfo> =
            topics.iter().filter(|t| !t.partitions.is_empty()).collect();
        let draw = self.random.below(32);
        if topics.is_empty() || draw == 0 && topics.len() < TOPICS as usize {
            return self.create(&topics);
        }
        let any = &topics[self.random.below(topics.len() as u64) as usize];
        let (topic, count) = (any.id, any.partitions.len() as u32);
        match draw {
            0 => self.catalog(Change::Delete { topic }),
            1 => {
                let name = self.name();
                self.catalog(Change::Rename { topic, name })
            }
            2 => self.catalog(Change::Purge { topic }),
            3 if count < PARTITIONS => {
                let count = self.random.between(1, u64::from(PARTITIONS - count)) as u32;
                self.catalog(Change::Add { topic, count })
            }
            4 if count > 0 => {
                let count = self.random.between(1, u64::from(count)) as u32;
                self.catalog(Change::Remove { topic, count })
            }
            _ if with_logs.is_empty() => self.create(&topics),
            _ => {
                // Mostly the same one: a log must grow over segments, so that some can go.
                let far = self.random.once_in(4);
                let pick = |random: &mut Random, from: usize| match far {
                    true => random.below(from as u64) as usize,
                    false => 0,
                };
                let one = with_logs[pick(&mut self.random, with_logs.len())];
                let partition = pick(&mut self.random, one.partitions.len()) as u32;
                let partition = PartitionId::new(STREAM, one.id, partition);
                match draw {
                    5..=9 => self.trim(partition),
                    10..=19 => self.store(partition),
                    _ => self.append(partition),
                }
            }
        }
    }

    fn name(&mut self) -> u64 {
        self.named += 1;
        u64::from(self.life) << 32 | u64::from(self.named)
    }

    fn create(&mut self, topics: &[TopicInfo]) -> Result<(), End> {
        let taken: BTreeSet<u32> = topics.iter().map(|topic| topic.id).collect();
        let topic = (0..).find(|id| !taken.contains(id)).expect("few are taken");
        if topic >= TOPICS {
            return Ok(());
        }
        let name = self.name();
        let partitions = self.random.below(u64::from(PARTITIONS)) as u32;
        let enforce_fsync = self.random.once_in(2);
        self.catalog(Change::Create { topic, name, partitions, enforce_fsync })
    }

    /// Changes the catalog, and sees that it was done.
    fn catalog(&mut self, change: Change) -> Result<(), End> {
        Event::Changing(change.clone()).print();
        while let Err(error) = self.ask(&change) {
            match error {
                ChangeError::Busy => thread::sleep(BUSY_WAIT),
                error => return Err(ended(error)),
            }
        }
        Event::Changed { change: change.clone(), start: 0 }.print();
        self.check(&change).map_err(|what| End::Wrong(format!("after {change}: {what}")))
    }

    fn ask(&self, change: &Change) -> Result<(), ChangeError> {
        let catalog = self.client.catalog();
        match *change {
            Change::Create { topic, name, partitions, enforce_fsync } => {
                let config = TopicConfig {
                    partitions,
                    enforce_fsync,
                    segment_bytes: 1 << 20,
                    ..TopicConfig::default()
                };
                let ids = catalog.create_topic(STREAM, &topic_name(name), config).wait()?;
                assert_eq!(ids, (STREAM, topic), "the lowest id that is free");
            }
            Change::Rename { topic, name } => {
                let nothing = OptionsBuilder::new();
                let (name, patch) = (topic_name(name), nothing.block());
                catalog.update_topic(STREAM, topic, &name, &patch).wait()?;
            }
            Change::Purge { topic } => catalog.purge_topic(STREAM, topic).wait()?,
            Change::Delete { topic } => catalog.delete_topic(STREAM, topic).wait()?,
            Change::Add { topic, count } => {
                catalog.add_partitions(STREAM, topic, count).wait()?;
            }
            Change::Remove { topic, count } => {
                catalog.remove_partitions(STREAM, topic, count).wait()?;
            }
            Change::Store { .. } | Change::Trim { .. } => unreachable!("not of the catalog"),
        }
        Ok(())
    }

    /// What was answered holds for every later call.
    fn check(&self, change: &Change) -> Result<(), String> {
        match *change {
            Change::Create { topic, .. } | Change::Purge { topic } => {
                let info = self.client.catalog().topic(STREAM, topic).ok_or("it is not there")?;
                for partition in 0..info.partitions.len() as u32 {
                    let id = PartitionId::new(STREAM, topic, partition);
                    match self.client.watermarks_blocking(id) {
                        Ok(marks) if (marks.start(), marks.appended()) == (0, 0) => {}
                        Err(corelog::error::PollError::Closed) => {}
                        other => return Err(format!("{id} answers {other:?}")),
                    }
                }
                Ok(())
            }
            Change::Delete { topic } => {
                let all = (0..PARTITIONS).map(|number| PartitionId::new(STREAM, topic, number));
                all.into_iter().try_for_each(|id| is_unknown(self.client, id))
            }
            Change::Remove { topic, .. } => {
                let info = self.client.catalog().topic(STREAM, topic).ok_or("it is not there")?;
                let gone = PartitionId::new(STREAM, topic, info.partitions.len() as u32);
                is_unknown(self.client, gone)
            }
            _ => Ok(()),
        }
    }

    fn append(&mut self, partition: PartitionId) -> Result<(), End> {
        for _ in 0..self.random.between(1, RUN) {
            let key = BatchKey::new(PRODUCER, self.life, self.offered);
            let batch = self.content.batch(partition, key);
            let Some(rest) = self.bytes.checked_sub(batch.len() as u64) else {
                thread::sleep(BUSY_WAIT);
                return Ok(());
            };
            (self.bytes, self.offered) = (rest, self.offered + 1);
            let level = self.random.pick(&[Ack::Appended, Ack::Written, Ack::Durable]);
            Event::Offered { partition, key, level }.print();
            let appended = loop {
                match self.client.append_blocking(partition, batch.clone(), level) {
                    Ok(appended) => break appended,
                    Err(AppendError::Busy) => thread::sleep(BUSY_WAIT),
                    Err(AppendError::Closed) => return Err(End::Closed),
                    Err(error) => return Err(End::Wrong(format!("{partition}: {error}"))),
                }
            };
            Event::Acked { partition, key, level, appended }.print();
        }
        Ok(())
    }

    fn store(&mut self, partition: PartitionId) -> Result<(), End> {
        let marks = match self.client.watermarks_blocking(partition) {
            Ok(marks) => marks,
            Err(corelog::error::PollError::Closed) => return Err(End::Closed),
            Err(error) => return Err(End::Wrong(format!("{partition}: {error}"))),
        };
        // What polls can have served.
        let info = self.client.catalog().topic(STREAM, partition.topic);
        let sync = info.is_some_and(|topic| topic.options.config().enforce_fsync);
        let end = if sync { marks.durable() } else { marks.appended() };
        let who = self.random.below(u64::from(CONSUMERS)) as u32;
        let level = self.random.pick(&[Ack::Appended, Ack::Written, Ack::Durable]);
        // Mostly near the end, so that it lets segments be deleted.
        let back = if self.random.once_in(12) { end } else { end.min(8) };
        let offset = (end > 0 && !self.random.once_in(5))
            .then(|| end - 1 - self.random.below(back.max(1)).min(end - 1));
        let stored = || self.client.offset(partition, consumer(who)).wait();
        if offset.is_none() && !matches!(stored(), Ok(Some(_))) {
            return Ok(());
        }
        let change = Change::Store { partition, who, offset, level };
        Event::Changing(change.clone()).print();
        loop {
            let call = match offset {
                Some(offset) => self.client.store_offset(partition, consumer(who), offset, level),
                None => self.client.delete_offset(partition, consumer(who), level),
            };
            match call.wait() {
                Ok(()) => break,
                Err(OffsetError::Unavailable(Unavailable::Busy)) => thread::sleep(BUSY_WAIT),
                Err(
                    OffsetError::Unavailable(Unavailable::Closed)
                    | OffsetError::Storage(corelog::error::storage::OffsetError::Closed),
                ) => return Err(End::Closed),
                Err(error) => return Err(End::Wrong(format!("{change}: {error}"))),
            }
        }
        Event::Changed { change, start: 0 }.print();
        Ok(())
    }

    fn trim(&mut self, partition: PartitionId) -> Result<(), End> {
        let count = self.random.between(1, 3) as u32;
        let change = Change::Trim { partition, count };
        Event::Changing(change.clone()).print();
        let start = loop {
            match self.client.delete_segments(partition, count).wait() {
                Ok(trimmed) => break trimmed.start,
                Err(ControlError::Unavailable(Unavailable::Busy)) => thread::sleep(BUSY_WAIT),
                Err(
                    ControlError::Unavailable(Unavailable::Closed)
                    | ControlError::Trim(corelog::error::storage::TrimError::Closed),
                ) => return Err(End::Closed),
                Err(error) => return Err(End::Wrong(format!("{change}: {error}"))),
            }
        };
        Event::Changed { change, start }.print();
        Ok(())
    }
}

/// An engine that closes answers so; whatever else a change is answered is wrong, as the disk is
/// sound.
fn ended(error: ChangeError) -> End {
    match error {
        ChangeError::Closed
        | ChangeError::Partition { why: ControlError::Unavailable(Unavailable::Closed), .. } => {
            End::Closed
        }
        error => End::Wrong(format!("a change is answered: {error}")),
    }
}
