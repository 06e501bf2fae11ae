//! The stream whose topics come and go: what must, may and must not be found of it after a crash.
//!
//! Its operator does one thing after the other, so the answers are to the first of what was asked,
//! and a change of the catalog was asked for only when everything before it was answered. What was
//! not answered may have happened: of the catalog's changes the first so many, and none behind one
//! that did not; of appends, stored offsets and deleted segments before that, any.

use std::collections::{BTreeMap, VecDeque};

use corelog::{Ack, Appended, PartitionId};

use super::log::Fault;
use super::{Crash, raised};
use crate::changes::{Change, Found, FoundPartition, FoundTopic, Lies, STREAM};
use crate::content::BatchKey;
use crate::ledger::Event;

/// A fault and where, if it is somewhere.
pub(super) type Wrong = (Option<PartitionId>, Fault);

/// What is known of the stream.
#[derive(Debug, Clone, Default)]
pub(super) struct World {
    /// By what was answered and read.
    topics: Topics,
    /// What was asked for and not answered, in order.
    doubtful: VecDeque<Ask>,
    /// What a crash has left alone since the last reading: what had reached this.
    kept_from: Option<Ack>,
}

type Topics = BTreeMap<u32, Topic>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Ask {
    Change(Change),
    Append { partition: PartitionId, key: BatchKey, level: Ack },
}

#[derive(Debug, Clone)]
struct Topic {
    name: u64,
    enforce_fsync: bool,
    partitions: Vec<Part>,
}

/// A partition in one life: a purge begins another one.
#[derive(Debug, Clone, Default)]
struct Part {
    start: u64,
    /// The log, with the ack that each batch has reached at least.
    batches: Vec<(Lies, Ack)>,
    /// The time of its last batch ever.
    time: u64,
    /// What may be behind that, in order.
    asked: Vec<BatchKey>,
    /// More may be gone from the front.
    may_trim: bool,
    offsets: BTreeMap<u32, Offset>,
}

/// What a consumer has stored.
#[derive(Debug, Clone, Default)]
struct Offset {
    /// Durably.
    sure: Option<u64>,
    /// And since then.
    since: Vec<Option<u64>>,
}

impl World {
    /// Takes over an event of this stream.
    pub(super) fn note(&mut self, event: &Event) -> Result<(), Wrong> {
        match event {
            Event::Changing(change) => {
                self.doubtful.push_back(Ask::Change(change.clone()));
                Ok(())
            }
            Event::Changed { change, start } => {
                self.answers(&Ask::Change(change.clone()))?;
                apply(&mut self.topics, change, Some(*start))
            }
            Event::Offered { partition, key, level } => {
                let (partition, key, level) = (*partition, *key, *level);
                self.doubtful.push_back(Ask::Append { partition, key, level });
                Ok(())
            }
            Event::Acked { partition, key, level, appended } => {
                let (partition, key, level) = (*partition, *key, *level);
                self.answers(&Ask::Append { partition, key, level })?;
                let (topic, part) = part_of(&mut self.topics, partition)?;
                let level = raised(topic, level);
                part.acked(key, *appended, level).map_err(|fault| (Some(partition), fault))
            }
            // It stays in doubt.
            Event::Failed { .. } => Ok(()),
            other => Err((None, Fault::new("what an operator says", format!("{other:?}")))),
        }
    }

    fn answers(&mut self, ask: &Ask) -> Result<(), Wrong> {
        match self.doubtful.pop_front() {
            Some(first) if first == *ask => Ok(()),
            first => {
                let found = format!("one to {ask:?}");
                Err((None, Fault::new(format!("an answer to {first:?}, asked first"), found)))
            }
        }
    }

    /// The engine was closed in order: everything that was answered is durable.
    pub(super) fn closed(&mut self) {
        let topics = self.topics.values_mut();
        for part in topics.flat_map(|topic| &mut topic.partitions) {
            part.batches.iter_mut().for_each(|(_, level)| *level = Ack::Durable);
            for offset in part.offsets.values_mut() {
                *offset = Offset { sure: offset.now(), since: Vec::new() };
            }
        }
    }

    pub(super) fn crashed(&mut self, crash: Crash) {
        let kept = match crash {
            Crash::Kill => Ack::Written,
            Crash::PowerCut => Ack::Durable,
        };
        self.kept_from = self.kept_from.max(Some(kept));
    }

    /// This is how it is, whatever was known before.
    pub(super) fn told(&mut self, found: &Found) {
        *self = World::default();
        for (id, FoundTopic { name, enforce_fsync, partitions }) in &found.topics {
            let partitions = partitions.iter().map(|_| Part::default()).collect();
            let topic = Topic { name: *name, enforce_fsync: *enforce_fsync, partitions };
            self.topics.insert(*id, topic);
        }
        self.accept(found);
    }

    /// All that is known to be there, for [`World::told`].
    pub(super) fn shown(&self) -> Found {
        let part = |part: &Part| FoundPartition {
            start: part.start,
            end: part.end(),
            batches: part.batches.iter().map(|(lies, _)| *lies).collect(),
            offsets: part.offsets.iter().filter_map(|(who, o)| Some((*who, o.now()?))).collect(),
        };
        let topic = |(id, topic): (&u32, &Topic)| {
            let Topic { name, enforce_fsync, ref partitions } = *topic;
            (
                *id,
                FoundTopic {
                    name,
                    enforce_fsync,
                    partitions: partitions.iter().map(part).collect(),
                },
            )
        };
        Found { topics: self.topics.iter().map(topic).collect() }
    }

    /// An engine was opened and shows this. From now on all of it is promised, and what is not in
    /// it is gone for good.
    pub(super) fn found(&mut self, found: &Found) -> Result<(), Wrong> {
        let changes = self.doubtful.iter().filter(|ask| ask.is_of_catalog()).count();
        let mut wrong = None;
        for happened in (0..=changes).rev() {
            let topics = self.if_happened(happened)?;
            match self.fits(&topics, found) {
                Ok(()) => {
                    self.topics = topics;
                    self.accept(found);
                    return Ok(());
                }
                // The reason is told of the world that is most alike.
                Err((place, fault)) => {
                    if wrong.as_ref().is_none_or(|(at, _): &Wrong| at.is_none()) {
                        wrong = Some((place, fault));
                    }
                }
            }
        }
        Err(wrong.expect("there is one world at least"))
    }

    /// The world where so many of the catalog's changes that were not answered have happened.
    fn if_happened(&self, mut changes: usize) -> Result<Topics, Wrong> {
        let mut topics = self.topics.clone();
        for ask in &self.doubtful {
            if ask.is_of_catalog() {
                if changes == 0 {
                    break;
                }
                changes -= 1;
            }
            match ask {
                Ask::Change(change) => apply(&mut topics, change, None)?,
                Ask::Append { partition, key, .. } => {
                    part_of(&mut topics, *partition)?.1.asked.push(*key);
                }
            }
        }
        Ok(topics)
    }

    fn fits(&self, topics: &Topics, found: &Found) -> Result<(), Wrong> {
        let names = |one: Vec<(u32, u64, bool, usize)>| format!("topics {one:?}");
        let expected: Vec<_> = topics
            .iter()
            .map(|(id, topic)| (*id, topic.name, topic.enforce_fsync, topic.partitions.len()))
            .collect();
        let is: Vec<_> = found
            .topics
            .iter()
            .map(|(id, topic)| (*id, topic.name, topic.enforce_fsync, topic.partitions.len()))
            .collect();
        if expected != is {
            let doubt = format!("{}, or with some of {:?}", names(expected), self.doubtful);
            return Err((None, Fault::new(doubt, names(is))));
        }
        for (id, topic) in topics {
            let shown = &found.topics[id].partitions;
            for ((part, shown), partition) in topic.partitions.iter().zip(shown).zip(0..) {
                let place = PartitionId::new(STREAM, *id, partition);
                part.fits(shown, self.kept_from).map_err(|fault| (Some(place), fault))?;
            }
        }
        Ok(())
    }

    /// What was found is what is known.
    fn accept(&mut self, found: &Found) {
        for (id, shown) in &found.topics {
            let topic = self.topics.get_mut(id).expect("it fits");
            for (part, shown) in topic.partitions.iter_mut().zip(&shown.partitions) {
                part.accept(shown);
            }
        }
        self.doubtful.clear();
        self.kept_from = None;
    }
}

impl Ask {
    fn is_of_catalog(&self) -> bool {
        matches!(self, Ask::Change(change) if change.is_of_catalog())
    }
}

/// Whether the partition's topic enforces syncs, and the partition.
fn part_of(topics: &mut Topics, id: PartitionId) -> Result<(bool, &mut Part), Wrong> {
    let topic = topics.get_mut(&id.topic);
    let sync = topic.as_ref().is_some_and(|topic| topic.enforce_fsync);
    let part = topic.and_then(|topic| topic.partitions.get_mut(id.partition as usize));
    let part = part.ok_or_else(|| (Some(id), Fault::new("a partition that there is", "none")))?;
    Ok((sync, part))
}

/// Does `change`. `answered`: it has happened, and this was the new start of a log; otherwise what
/// is no change of the catalog may have happened.
fn apply(topics: &mut Topics, change: &Change, answered: Option<u64>) -> Result<(), Wrong> {
    fn of<'t>(topics: &'t mut Topics, topic: &u32) -> Result<&'t mut Topic, Wrong> {
        let known = topics.get_mut(topic);
        known.ok_or_else(|| (None, Fault::new(format!("topic {topic}"), "none")))
    }
    let fresh = |count: u32| (0..count).map(|_| Part::default());
    match change {
        Change::Create { topic, name, partitions, enforce_fsync } => {
            let partitions = fresh(*partitions).collect();
            let new = Topic { name: *name, enforce_fsync: *enforce_fsync, partitions };
            if topics.insert(*topic, new).is_some() {
                let found = format!("topic {topic}, which there was");
                return Err((None, Fault::new("an id that is free", found)));
            }
        }
        Change::Rename { topic, name } => of(topics, topic)?.name = *name,
        Change::Purge { topic } => {
            let partitions = &mut of(topics, topic)?.partitions;
            partitions.iter_mut().for_each(|part| *part = Part::default());
        }
        Change::Delete { topic } => {
            of(topics, topic)?;
            topics.remove(topic);
        }
        Change::Add { topic, count } => of(topics, topic)?.partitions.extend(fresh(*count)),
        Change::Remove { topic, count } => {
            let partitions = &mut of(topics, topic)?.partitions;
            partitions.truncate(partitions.len().saturating_sub(*count as usize));
        }
        Change::Store { partition, who, offset, level } => {
            let (sync, part) = part_of(topics, *partition)?;
            let stored = part.offsets.entry(*who).or_default();
            match answered {
                Some(_) if raised(sync, *level) >= Ack::Written => {
                    *stored = Offset { sure: *offset, since: Vec::new() };
                }
                _ => stored.since.push(*offset),
            }
        }
        Change::Trim { partition, .. } => {
            let (_, part) = part_of(topics, *partition)?;
            match answered {
                Some(start) => part.trimmed(start).map_err(|fault| (Some(*partition), fault))?,
                None => part.may_trim = true,
            }
        }
    }
    Ok(())
}

impl Offset {
    fn now(&self) -> Option<u64> {
        self.since.last().copied().unwrap_or(self.sure)
    }
}

impl Part {
    fn end(&self) -> u64 {
        self.batches.last().map_or(self.start, |(last, _)| last.end)
    }

    fn acked(&mut self, key: BatchKey, appended: Appended, level: Ack) -> Result<(), Fault> {
        let Appended { base_offset: base, base_timestamp: time, message_count } = appended;
        if base != self.end() {
            return Err(Fault::at(base, format!("the next offset, {}", self.end()), "another"));
        }
        if time <= self.time {
            return Err(Fault::at(base, format!("a time after {}", self.time), time));
        }
        self.time = time;
        let lies = Lies { key, base, end: base + u64::from(message_count), time };
        self.batches.push((lies, level));
        Ok(())
    }

    /// Everything below `start` was deleted.
    fn trimmed(&mut self, start: u64) -> Result<(), Fault> {
        self.may_start(start, start)?;
        let lowest = self.offsets.values().filter_map(Offset::now).min();
        if lowest.is_some_and(|lowest| start > self.start && start > lowest + 1) {
            let expected = format!("everything above {lowest:?}, which a consumer has stored");
            return Err(Fault::at(start, expected, "deleted up to here"));
        }
        self.start = start;
        self.batches.retain(|(lies, _)| lies.base >= start);
        Ok(())
    }

    /// A log begins with a batch, and never goes back.
    fn may_start(&self, start: u64, end: u64) -> Result<(), Fault> {
        let known = self.batches.iter().any(|(lies, _)| lies.base == start);
        match start >= self.start && (known || start == end) {
            true => Ok(()),
            false => {
                let expected = format!("a start of a batch from {} on", self.start);
                Err(Fault::at(start, expected, "the first retained offset"))
            }
        }
    }

    /// Holds what is shown against what must be there after a crash that kept what had reached
    /// `kept_from`; without one, everything.
    fn fits(&self, shown: &FoundPartition, kept_from: Option<Ack>) -> Result<(), Fault> {
        let known: Vec<_> =
            self.batches.iter().filter(|(lies, _)| lies.base >= shown.start).collect();
        let first = shown.batches.first();
        let begins = first.and_then(|first| self.asked.iter().position(|key| *key == first.key));
        // All that was answered may be gone from the front, and some of what was not.
        let gone = begins.filter(|_| self.may_trim && known.is_empty()).unwrap_or(0);
        if shown.start != self.start {
            if !self.may_trim {
                let expected = format!("{}, as the first retained offset", self.start);
                return Err(Fault::at(self.start, expected, shown.start));
            }
            if gone == 0 && begins.is_none() {
                self.may_start(shown.start, shown.end)?;
            }
        }
        let (mut next, mut time) = (shown.start, 0);
        for (number, lies) in shown.batches.iter().enumerate() {
            if lies.base != next || lies.time <= time {
                let expected = format!("offset {next}, and a time after {time}");
                return Err(Fault::at(next, expected, format!("{lies:?}")));
            }
            let (is_known, expected) = match known.get(number) {
                Some((known, _)) => (known == lies, format!("{known:?}")),
                None => {
                    let asked = self.asked.get(gone + number - known.len());
                    let fits = asked == Some(&lies.key) && lies.time > self.time;
                    (fits, format!("nothing, or {asked:?} at a time after {}", self.time))
                }
            };
            if !is_known {
                return Err(Fault::at(next, expected, format!("{lies:?}")));
            }
            (next, time) = (lies.end, lies.time);
        }
        let kept = |level: &Ack| kept_from.is_none_or(|kept| *level >= kept);
        let lost = known.iter().skip(shown.batches.len()).rfind(|(_, level)| kept(level));
        if let Some((lost, level)) = lost {
            let expected = format!("{lost:?}, which was {level:?}");
            return Err(Fault::at(next, expected, "the end of the log"));
        }
        if shown.end != next {
            return Err(Fault::at(next, format!("batches up to {}", shown.end), "none"));
        }
        self.offsets_fit(shown, kept_from.is_some())
    }

    /// Each consumer has what it stored durably, or something since; put down to the last message
    /// that there is.
    fn offsets_fit(&self, shown: &FoundPartition, crashed: bool) -> Result<(), Fault> {
        let put_down = |offset: u64| shown.end.checked_sub(1).map(|last| offset.min(last));
        let unknown = Offset::default();
        for who in self.offsets.keys().chain(shown.offsets.keys()) {
            let stored = self.offsets.get(who).unwrap_or(&unknown);
            let mut may: Vec<_> = vec![stored.now()];
            if crashed {
                may.push(stored.sure);
                may.extend(&stored.since);
            }
            let is = shown.offsets.get(who).copied();
            if !may.iter().any(|may| may.and_then(put_down) == is) {
                let expected = format!("of consumer {who} one of {may:?}, or the last offset");
                return Err(Fault::new(expected, format!("{is:?}")));
            }
        }
        Ok(())
    }

    fn accept(&mut self, shown: &FoundPartition) {
        self.start = shown.start;
        self.batches = shown.batches.iter().map(|lies| (*lies, Ack::Durable)).collect();
        self.time = shown.batches.last().map_or(self.time, |last| last.time.max(self.time));
        self.asked.clear();
        self.may_trim = false;
        let sure =
            |(who, offset): (&u32, &u64)| (*who, Offset { sure: Some(*offset), since: Vec::new() });
        self.offsets = shown.offsets.iter().map(sure).collect();
    }
}

#[cfg(test)]
mod tests;
