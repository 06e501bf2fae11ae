//! One partition: what may, must and must not be in its log.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use corelog::{Ack, Appended, PartitionId};

use super::{Broken, Crash, raised};
use crate::content::{BatchKey, Content, Stored, Unlike};
use crate::ledger::Event;

/// Where an offered batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Not answered.
    Open,
    /// Answered by an error that says nothing about it.
    Failed,
    /// In the log, at this base offset.
    Stored(u64),
    /// Refused, or lost in a crash: it must never be seen.
    Nowhere,
}

#[derive(Debug, Clone)]
struct Offer {
    /// Its place in the order of offers.
    order: u64,
    level: Ack,
    fate: Fate,
    /// It can be in the log below this offset only: there the log ended after a later crash.
    below: u64,
}

/// A batch in the log.
#[derive(Debug, Clone, Copy)]
struct Known {
    key: BatchKey,
    /// One past its last offset.
    end: u64,
    time: u64,
}

/// All that is known of a partition.
#[derive(Debug, Clone)]
pub(super) struct Log {
    id: PartitionId,
    content: Content,
    enforce_fsync: bool,
    offers: HashMap<BatchKey, Offer>,
    /// Offers so far.
    orders: u64,
    /// The keys of this life's offers, and of those before whose crash no reading has followed.
    this_life: Vec<BatchKey>,
    unread_lives: Vec<BatchKey>,
    /// By base offset: what was answered or read.
    log: BTreeMap<u64, Known>,
    /// A kill, a power cut takes nothing below.
    kept_by_kill: u64,
    kept_by_cut: u64,
    /// Where the log ended when it was opened last, and the highest time given away before.
    opened_at: u64,
    opened_time: u64,
    time_max: u64,
}

/// A broken promise of one partition.
#[derive(Debug)]
pub(super) struct Fault {
    offset: Option<u64>,
    expected: String,
    found: String,
}

impl Fault {
    pub(super) fn new(expected: impl fmt::Display, found: impl fmt::Display) -> Fault {
        Fault { offset: None, expected: expected.to_string(), found: found.to_string() }
    }

    pub(super) fn at(offset: u64, expected: impl fmt::Display, found: impl fmt::Display) -> Fault {
        Fault { offset: Some(offset), ..Fault::new(expected, found) }
    }

    pub(super) fn broken(self, id: PartitionId, context: Broken) -> Broken {
        let Fault { offset, expected, found } = self;
        Broken { partition: Some(id), offset, expected, found, ..context }
    }
}

impl Log {
    pub(super) fn new(id: PartitionId, content: Content, enforce_fsync: bool) -> Log {
        Log {
            id,
            content,
            enforce_fsync,
            offers: HashMap::new(),
            orders: 0,
            this_life: Vec::new(),
            unread_lives: Vec::new(),
            log: BTreeMap::new(),
            kept_by_kill: 0,
            kept_by_cut: 0,
            opened_at: 0,
            opened_time: 0,
            time_max: 0,
        }
    }

    pub(super) fn known_end(&self) -> u64 {
        self.log.last_key_value().map_or(0, |(_, known)| known.end)
    }

    pub(super) fn highest_of(&self, producer: u32) -> Option<u64> {
        let own = self.offers.keys().filter(|key| key.producer == producer);
        own.map(|key| key.number).max()
    }

    /// See [`super::History::retold`].
    pub(super) fn retold(&self) -> Vec<Event> {
        let (partition, level) = (self.id, Ack::Durable);
        let mut told: Vec<_> =
            self.offers.iter().filter(|(_, offer)| offer.fate != Fate::Nowhere).collect();
        told.sort_by_key(|(_, offer)| offer.order);
        let offered = told.iter().map(|(key, _)| Event::Offered { partition, key: **key, level });
        let acked = self.log.iter().map(|(base, known)| {
            let Known { key, end, time } = *known;
            let message_count = (end - base) as u32;
            let appended = Appended { base_offset: *base, base_timestamp: time, message_count };
            Event::Acked { partition, key, level, appended }
        });
        offered.chain(acked).collect()
    }

    pub(super) fn offered(&mut self, key: BatchKey, level: Ack) -> Result<(), Fault> {
        let level = raised(self.enforce_fsync, level);
        let offer = Offer { order: self.orders, level, fate: Fate::Open, below: u64::MAX };
        match self.offers.insert(key, offer) {
            None => self.this_life.push(key),
            Some(Offer { fate: Fate::Nowhere, .. }) => {}
            Some(earlier) => {
                return Err(Fault::new("a rig that offers no batch twice", format!("{earlier:?}")));
            }
        }
        self.orders += 1;
        Ok(())
    }

    pub(super) fn acked(&mut self, key: BatchKey, appended: Appended) -> Result<(), Fault> {
        let Appended { base_offset: base, base_timestamp: time, message_count } = appended;
        let Some(offer) = self.offers.get_mut(&key) else {
            return Err(Fault::at(base, "an answer to something offered", format!("{key:?}")));
        };
        if offer.fate != Fate::Open {
            let found = format!("another one to {key:?}, which is {:?}", offer.fate);
            return Err(Fault::at(base, "one answer to each offer", found));
        }
        offer.fate = Fate::Stored(base);
        let level = offer.level;
        let end = base + u64::from(message_count);
        if base < self.opened_at {
            let expected = format!("new offsets, from {} on", self.opened_at);
            return Err(Fault::at(base, expected, format!("the answer to {key:?}")));
        }
        if time <= self.opened_time {
            let expected = format!("a time after {}, given away before", self.opened_time);
            return Err(Fault::at(base, expected, format!("{time} in the answer to {key:?}")));
        }
        self.insert(base, Known { key, end, time })?;
        self.promise(end, level);
        Ok(())
    }

    /// A batch that was answered. What lies beside it is known from answers only, in any order.
    fn insert(&mut self, base: u64, known: Known) -> Result<(), Fault> {
        let before = self.log.range(..=base).next_back();
        let behind = self.log.range(base + 1..).next();
        for (at, other) in before.into_iter().chain(behind) {
            let apart = if *at < base { other.end <= base } else { *at >= known.end };
            let in_order = (*at < base) == (other.time < known.time);
            if !(apart && in_order) || *at == base {
                let found = format!("{known:?} there, beside {other:?} at {at}");
                return Err(Fault::at(base, "offsets given away once, times in order", found));
            }
        }
        self.time_max = self.time_max.max(known.time);
        self.log.insert(base, known);
        Ok(())
    }

    pub(super) fn refused(&mut self, key: BatchKey) -> Result<(), Fault> {
        self.ended(key, Fate::Nowhere)
    }

    pub(super) fn failed(&mut self, key: BatchKey) -> Result<(), Fault> {
        self.ended(key, Fate::Failed)
    }

    fn ended(&mut self, key: BatchKey, fate: Fate) -> Result<(), Fault> {
        match self.offers.get_mut(&key) {
            Some(offer) if offer.fate == Fate::Open => {
                offer.fate = fate;
                Ok(())
            }
            other => Err(Fault::new(format!("{key:?} to be open"), format!("{other:?}"))),
        }
    }

    pub(super) fn promise(&mut self, end: u64, level: Ack) {
        let level = raised(self.enforce_fsync, level);
        if level >= Ack::Written {
            self.kept_by_kill = self.kept_by_kill.max(end);
        }
        if level == Ack::Durable {
            self.kept_by_cut = self.kept_by_cut.max(end);
        }
    }

    /// Where polls end at `durable`, what was served is.
    pub(super) fn served(&mut self, end: u64) {
        if self.enforce_fsync {
            self.promise(end, Ack::Durable);
        }
    }

    /// The engine was closed in order: everything is durable.
    pub(super) fn closed(&mut self) {
        self.promise(self.known_end(), Ack::Durable);
    }

    pub(super) fn crashed(&mut self, crash: Crash) {
        if crash == Crash::PowerCut {
            self.kept_by_kill = self.kept_by_cut;
        }
    }

    /// A batch was read at `next`, where the one before it ended.
    fn read(&mut self, next: u64, stored: &Stored) -> Result<Known, Fault> {
        let Stored { key, header } = *stored;
        let base = header.base_offset;
        if base != next {
            return Err(Fault::at(next, "dense offsets", format!("{key:?} at offset {base}")));
        }
        let known =
            Known { key, end: base + u64::from(header.message_count), time: header.base_timestamp };
        for (at, answered) in self.log.range(base..known.end) {
            if (*at, answered.key, answered.end) != (base, key, known.end) {
                let expected = format!("{answered:?}, as it was answered");
                return Err(Fault::at(*at, expected, format!("{known:?} at offset {base}")));
            }
            if answered.time != known.time {
                let expected = format!("{key:?} of time {}, as it was answered", answered.time);
                return Err(Fault::at(base, expected, format!("time {}", known.time)));
            }
        }
        let Some(offer) = self.offers.get_mut(&key) else {
            return Err(Fault::at(base, "what was offered", format!("{key:?}, which never was")));
        };
        if base >= offer.below {
            let expected = format!("{key:?} below {} or nowhere", offer.below);
            return Err(Fault::at(base, expected, "it, although a crash had taken it"));
        }
        match offer.fate {
            Fate::Open | Fate::Failed => offer.fate = Fate::Stored(base),
            Fate::Stored(at) if at == base => {}
            Fate::Stored(at) => {
                let found = format!("it at {base} as well");
                return Err(Fault::at(base, format!("{key:?} at offset {at} only"), found));
            }
            Fate::Nowhere => {
                let found = format!("{key:?}, which was refused, or not there after a crash");
                return Err(Fault::at(base, "nothing that is gone for good", found));
            }
        }
        self.time_max = self.time_max.max(known.time);
        self.log.insert(base, known);
        Ok(known)
    }

    /// The log was opened after a crash and ends at `end`; what is in it will be read later.
    pub(super) fn recovered(&mut self, end: u64) -> Result<(), Fault> {
        self.end_is(end)?;
        for key in self.this_life.drain(..) {
            self.offers.get_mut(&key).expect("it was offered").below = end;
            self.unread_lives.push(key);
        }
        Ok(())
    }

    /// Everything was read, up to `end`.
    fn read_to(&mut self, end: u64) -> Result<(), Fault> {
        self.no_holes(end)?;
        self.end_is(end)?;
        for key in self.this_life.drain(..).chain(self.unread_lives.drain(..)) {
            let offer = self.offers.get_mut(&key).expect("it was offered");
            if let Fate::Open | Fate::Failed = offer.fate {
                offer.fate = Fate::Nowhere;
            }
        }
        Ok(())
    }

    /// The log ends there after a crash: nothing that was promised lies above, and what does is
    /// gone for good. All the rest is durable, before anyone sees it.
    fn end_is(&mut self, end: u64) -> Result<(), Fault> {
        if end < self.kept_by_kill {
            let kept = self.kept_by_kill;
            let lost = self.log.range(end..).find(|(_, known)| known.end <= kept);
            let lost = lost.map_or(String::new(), |(_, known)| format!(", {:?} first", known.key));
            let expected = format!("everything below {kept}, which was promised{lost}");
            return Err(Fault::at(end, expected, format!("the log ends at {end}")));
        }
        for (_, known) in self.log.split_off(&end) {
            self.offers.get_mut(&known.key).expect("it was offered").fate = Fate::Nowhere;
        }
        self.kept_by_kill = end;
        self.kept_by_cut = end;
        self.opened_at = end;
        self.opened_time = self.time_max;
        Ok(())
    }

    /// What is missing of a producer is the end of what it offered: an offer that was not answered
    /// took its place when it was made, so none of its later ones can be there without it.
    fn no_holes(&self, end: u64) -> Result<(), Fault> {
        let mut last: HashMap<u32, (u64, u64)> = HashMap::new();
        for key in &self.this_life {
            if let Offer { order, fate: Fate::Stored(base), .. } = self.offers[key]
                && base < end
            {
                let seen = last.entry(key.producer).or_insert((order, base));
                *seen = (*seen).max((order, base));
            }
        }
        for key in &self.this_life {
            let Offer { order, fate, .. } = self.offers[key];
            if let Some((later, base)) = last.get(&key.producer)
                && fate == Fate::Open
                && order < *later
            {
                let expected = format!("{key:?} before it, which was offered earlier");
                return Err(Fault::at(*base, expected, "a batch from the middle is missing"));
            }
        }
        Ok(())
    }
}

/// One reading of a partition from its first offset to its end, batch by batch.
#[must_use = "`finish` says whether all is there"]
pub struct Reading<'a> {
    log: &'a mut Log,
    context: Broken,
    next: u64,
    time: u64,
    /// Of each producer, the order of the offer that was read last.
    orders: HashMap<u32, u64>,
    batches: u64,
}

impl<'a> Reading<'a> {
    pub(super) fn new(log: &'a mut Log, context: Broken) -> Reading<'a> {
        Reading { log, context, next: 0, time: 0, orders: HashMap::new(), batches: 0 }
    }

    /// Where the next batch must begin.
    pub fn next_offset(&self) -> u64 {
        self.next
    }

    /// The next batch, as it is stored.
    ///
    /// # Errors
    /// It is not what must, or may, be there.
    pub fn batch(&mut self, bytes: &[u8]) -> Result<Stored, Broken> {
        let id = self.log.id;
        self.check(bytes).map_err(|fault| fault.broken(id, self.context.clone()))
    }

    fn check(&mut self, bytes: &[u8]) -> Result<Stored, Fault> {
        let next = self.next;
        let stored = self.log.content.identify(self.log.id, bytes);
        let stored =
            stored.map_err(|Unlike { expected, found }| Fault::at(next, expected, found))?;
        let known = self.log.read(next, &stored)?;
        if known.time <= self.time {
            let expected = format!("a time after {}, of the batch before", self.time);
            return Err(Fault::at(next, expected, known.time));
        }
        let order = self.log.offers[&known.key].order;
        if let Some(last) = self.orders.insert(known.key.producer, order)
            && last >= order
        {
            let found = format!("{:?} behind one that was offered later", known.key);
            return Err(Fault::at(next, "the order of each producer", found));
        }
        (self.next, self.time) = (known.end, known.time);
        self.batches += 1;
        Ok(stored)
    }

    /// Nothing more is served, and the log says that it ends at `end`. From here on, all that was
    /// read is promised, and what was not read is gone. Answers the number of batches.
    ///
    /// # Errors
    /// Something that was promised is missing.
    pub fn finish(self, end: u64) -> Result<u64, Broken> {
        let id = self.log.id;
        let fault = match self.next == end {
            true => self.log.read_to(end).err(),
            false => Some(Fault::at(self.next, format!("more batches, up to {end}"), "none")),
        };
        fault.map_or(Ok(self.batches), |fault| Err(fault.broken(id, self.context)))
    }
}
