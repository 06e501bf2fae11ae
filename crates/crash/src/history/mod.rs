//! What the judge knows and demands: one data directory through many lives, held to
//! docs/durability.md. Pure: it is told what was offered, answered and read, and knows no engine.
//!
//! | docs/durability.md | here |
//! | --- | --- |
//! | `written` survives a kill, `durable` a power cut, with all that precedes it | [`Reading::finish`]: the end |
//! | what is lost is a suffix, never a batch from the middle | [`Reading::batch`]: offsets are dense, an answered batch is where it was answered; [`Reading::finish`]: no batch of a producer is missing before a later one |
//! | byte for byte | [`Reading::batch`], by [`Content::identify`] |
//! | the order of each producer | [`Reading::batch`] |
//! | times strictly increase, also over lives | [`Reading::batch`], [`History::record`] |
//! | offsets that were promised are not given away again | [`History::record`] |
//! | a batch that was refused or lost does not come back | [`Reading::batch`] |
//! | what an opening serves is durable | [`Reading::finish`] promises it for the next crash |
//! | polls of `enforce_fsync` topics end at `durable` | [`Event::Served`] promises it |
//! | a change of the catalog is there as a whole or not at all, and when it was answered it is; stored offsets and the start of a log never go back | [`History::found`] |
//!
//! A crash is followed by one reading of every partition before anything more is recorded. Or by
//! [`Event::Recovered`] of each: then the next life goes on, and the reading after it tells what
//! of both is there.
//! A history is cheap to clone: several images of one crash are each judged by a clone.

mod log;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeMap;
use std::fmt;

use corelog::{Ack, PartitionId};

use crate::changes::{self, Found};
use crate::content::{BatchKey, Content};
use crate::ledger::{Event, Ledger};
use log::{Fault, Log};
use world::{World, Wrong};

pub use log::Reading;

/// How a life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process died, or ended in order.
    Kill,
    /// The power failed.
    PowerCut,
}

/// Everything that is known about the partitions of a data directory.
#[derive(Debug, Clone)]
pub struct History {
    content: Content,
    replay: String,
    round: u64,
    logs: BTreeMap<PartitionId, Log>,
    world: World,
}

/// A broken promise: what is needed to understand it, and to see it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Seed of the content.
    pub seed: u64,
    /// Crashes before it.
    pub round: u64,
    /// The partition.
    pub partition: Option<PartitionId>,
    /// The offset.
    pub offset: Option<u64>,
    /// What was promised.
    pub expected: String,
    /// What is.
    pub found: String,
    /// The command that runs the same again.
    pub replay: String,
}

impl History {
    /// Of an empty data directory. `replay` is the command that runs the same again.
    pub fn new(content: Content, replay: impl Into<String>) -> History {
        let (replay, logs, world) = (replay.into(), BTreeMap::new(), World::default());
        History { content, replay, round: 0, logs, world }
    }

    /// From now on this command runs the same again.
    pub fn set_replay(&mut self, replay: impl Into<String>) {
        self.replay = replay.into();
    }

    /// A partition that may hold something from now on.
    pub fn add_partition(&mut self, id: PartitionId, enforce_fsync: bool) {
        self.logs.entry(id).or_insert_with(|| Log::new(id, self.content, enforce_fsync));
    }

    /// The partitions.
    pub fn partitions(&self) -> Vec<PartitionId> {
        self.logs.keys().copied().collect()
    }

    /// What batches hold.
    pub fn content(&self) -> Content {
        self.content
    }

    /// Crashes so far.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Where the log of `id` ends at least, as far as is known, and what a crash may not take.
    pub fn known_end(&self, id: PartitionId) -> u64 {
        self.logs.get(&id).map_or(0, Log::known_end)
    }

    /// Takes over what a life has offered and was answered.
    ///
    /// # Errors
    /// An answer that cannot be true beside all others.
    pub fn record(&mut self, ledger: &Ledger) -> Result<(), Broken> {
        ledger.entries.iter().try_for_each(|entry| self.note(&entry.event))
    }

    /// Takes over one event.
    ///
    /// # Errors
    /// As [`History::record`].
    pub fn note(&mut self, event: &Event) -> Result<(), Broken> {
        match *event {
            // What the life before had not made safe may be gone.
            Event::Opening => {
                self.world.crashed(Crash::Kill);
                Ok(())
            }
            Event::Opened | Event::Closing => Ok(()),
            Event::Closed => {
                self.logs.values_mut().for_each(Log::closed);
                self.world.closed();
                Ok(())
            }
            Event::Found(ref found) => self.found(found),
            Event::Told(ref found) => {
                self.world.told(found);
                Ok(())
            }
            Event::Changing(_) | Event::Changed { .. } => self.in_world(|world| world.note(event)),
            Event::Offered { partition, .. }
            | Event::Acked { partition, .. }
            | Event::Failed { partition, .. }
                if partition.stream == changes::STREAM =>
            {
                self.in_world(|world| world.note(event))
            }
            Event::Broken(ref what) => Err(self.broken("no word about broken promises", what)),
            Event::Recovered { partition, end } => self.with(partition, |log| log.recovered(end)),
            Event::Offered { partition, key, level } => {
                self.with(partition, |log| log.offered(key, level))
            }
            Event::Acked { partition, key, appended, .. } => {
                self.with(partition, |log| log.acked(key, appended))
            }
            Event::Refused { partition, key } => self.with(partition, |log| log.refused(key)),
            Event::Failed { partition, key } => self.with(partition, |log| log.failed(key)),
            Event::Reached { partition, end, level } => self.with(partition, |log| {
                log.promise(end, level);
                Ok(())
            }),
            Event::Served { partition, end } => self.with(partition, |log| {
                log.served(end);
                Ok(())
            }),
        }
    }

    /// An engine was opened and shows this of the stream that is changed. From now on all of it is
    /// promised.
    ///
    /// # Errors
    /// It is not what must, or may, be there.
    pub fn found(&mut self, found: &Found) -> Result<(), Broken> {
        self.in_world(|world| world.found(found))
    }

    /// The life is over.
    pub fn crashed(&mut self, crash: Crash) {
        self.round += 1;
        self.logs.values_mut().for_each(|log| log.crashed(crash));
        self.world.crashed(crash);
    }

    /// Begins to read partition `id` after an opening, from its first retained offset `start`.
    ///
    /// # Errors
    /// Nothing of it may be gone from the front, and it is.
    pub fn reading(&mut self, id: PartitionId, start: u64) -> Result<Reading<'_>, Broken> {
        if start != 0 {
            let fault = Fault::at(0, "the first retained offset, as nothing was trimmed", start);
            return Err(self.broken_by(id, fault));
        }
        let context = self.broken("a partition that was added", "none");
        match self.logs.get_mut(&id) {
            Some(log) => Ok(Reading::new(log, context)),
            None => Err(Broken { partition: Some(id), ..context }),
        }
    }

    /// A broken promise that is about no partition.
    pub fn broken(&self, expected: impl fmt::Display, found: impl fmt::Display) -> Broken {
        Broken {
            seed: self.content.seed(),
            round: self.round,
            partition: None,
            offset: None,
            expected: expected.to_string(),
            found: found.to_string(),
            replay: self.replay.clone(),
        }
    }

    /// A key of `producer` that was never offered in any partition of this history: the judge's
    /// own appends. A life of the process under test has numbers of its own, by `life`.
    pub fn next_key(&self, producer: u32) -> BatchKey {
        let highest = self.logs.values().filter_map(|log| log.highest_of(producer)).max();
        BatchKey { producer, number: highest.map_or(0, |number| number + 1) }
    }

    /// What is known, as the events that tell it to a new history, in another process: what is in
    /// the logs, durably, and what may be. What is gone is not told, so that the other history takes
    /// it for something that was never offered.
    pub fn retold(&self) -> Vec<Event> {
        let told = Event::Told(self.world.shown());
        self.logs.values().flat_map(Log::retold).chain([told]).collect()
    }

    fn with(
        &mut self,
        id: PartitionId,
        act: impl FnOnce(&mut Log) -> Result<(), Fault>,
    ) -> Result<(), Broken> {
        let done = match self.logs.get_mut(&id) {
            Some(log) => act(log),
            None => Err(Fault::new("a partition that is known", "none")),
        };
        done.map_err(|fault| self.broken_by(id, fault))
    }

    fn in_world(
        &mut self,
        act: impl FnOnce(&mut World) -> Result<(), Wrong>,
    ) -> Result<(), Broken> {
        act(&mut self.world).map_err(|(partition, fault)| match partition {
            Some(id) => self.broken_by(id, fault),
            None => Broken { partition: None, ..self.broken_by(PartitionId::new(0, 0, 0), fault) },
        })
    }

    fn broken_by(&self, id: PartitionId, fault: Fault) -> Broken {
        fault.broken(id, self.broken("", ""))
    }
}

/// The level that an answer has in a topic: `enforce_fsync` raises it.
fn raised(enforce_fsync: bool, level: Ack) -> Ack {
    if enforce_fsync { Ack::Durable } else { level }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { seed, round, partition, offset, expected, found, replay } = self;
        write!(f, "a promise is broken: seed {seed:#x}, round {round}")?;
        if let Some(partition) = partition {
            write!(f, ", {partition}")?;
        }
        if let Some(offset) = offset {
            write!(f, ", offset {offset}")?;
        }
        write!(f, "\n  expected: {expected}\n  found:    {found}\n  replay:   {replay}")
    }
}

impl std::error::Error for Broken {}
