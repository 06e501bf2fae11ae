//! Opens a harmed data directory and holds what is served to what was stored.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use corelog::error::{ControlError, FailureReason, PollError, Unavailable, storage};
use corelog::stats::OpenReport;
use corelog::{Ack, Client, Engine, EngineBuilder, PartitionId, Poll};
use corelog_format::BATCH_HEADER_LEN;

use crate::random::Random;

use super::dumped::Dumped;
use super::expect::Expect;
use super::specimen::{Partition, Stored, header, sent};

/// Bytes of one poll.
const STEP: usize = 1 << 20;
/// Times that are looked up in a partition, beside those next to the harm.
const TIMES: usize = 4;

/// An engine as the rig opens it: small, and one shard, as partitions are judged one by one.
pub(super) fn builder(dir: &Path) -> EngineBuilder {
    let builder = Engine::builder(dir).runtime(crate::runtime::chosen());
    builder.shards(1).pin(false).limits(crate::judge::small_limits())
}

/// A partition through the lives of one case.
pub(super) struct Trial<'a> {
    partition: &'a Partition,
    expect: &'a Expect,
    /// What the dump said of its files before the first life.
    dumped: Dumped,
    /// What is owed: what was stored, without what an opening cut, with what was appended since.
    owed: Vec<(Option<usize>, Stored)>,
    /// Offsets that the log must not give again are below.
    end: u64,
    /// Every stamp up to now is at most this.
    time: u64,
    appended: u64,
    is_first_life: bool,
}

/// How the opening of the partition went.
pub(super) enum Opening<'a> {
    Clean,
    Report(&'a OpenReport),
    Refused(&'a ControlError),
}

/// What reading a partition from its start to its end brought.
#[derive(Default)]
struct Reading {
    /// Base offsets.
    served: BTreeSet<u64>,
    /// Offsets that an answer named as damaged.
    named: Vec<Range<u64>>,
    end: u64,
}

type Broken = String;

impl<'a> Trial<'a> {
    pub(super) fn new(partition: &'a Partition, expect: &'a Expect, dumped: Dumped) -> Trial<'a> {
        let owed = partition.batches.iter().cloned().enumerate();
        Trial {
            partition,
            expect,
            dumped,
            owed: owed.map(|(number, stored)| (Some(number), stored)).collect(),
            end: partition.end_offset(),
            time: partition.batches.last().map_or(0, |last| last.time),
            appended: 0,
            is_first_life: true,
        }
    }

    pub(super) fn id(&self) -> PartitionId {
        self.partition.id
    }

    /// One life: everything is read, something is appended and read again. `dir` is the data
    /// directory, `rng` draws the times that are looked up.
    pub(super) fn live(
        &mut self,
        client: &Client,
        dir: &Path,
        opening: &Opening<'_>,
        rng: &mut Random,
    ) -> Result<(), Broken> {
        match opening {
            Opening::Refused(error) => return self.refused(client, error),
            Opening::Report(report) if report.created && !self.expect.may_begin_again => {
                return Err(format!("it began again, although its files were there: {report:?}"));
            }
            Opening::Report(report) if self.expect.is_harmless() && !report.damage.is_empty() => {
                return Err(format!("its log is whole, and was found damaged: {report:?}"));
            }
            Opening::Clean | Opening::Report(_) => {}
        }
        let read = self.read(client, 0)?;
        if self.is_first_life {
            self.agrees(opening, &read)?;
        }
        self.settle(dir, opening, &read)?;
        for number in self.times(rng) {
            self.look_up(client, number, &read)?;
        }
        self.append(client, &read)?;
        self.is_first_life = false;
        Ok(())
    }

    /// What the dump calls clean is served whole, and what it calls harmed is named by the engine.
    fn agrees(&self, opening: &Opening<'_>, read: &Reading) -> Result<(), Broken> {
        let missing =
            self.owed.iter().filter(|(_, stored)| !read.served.contains(&stored.base_offset));
        let (missing, named) = (missing.count(), !read.named.is_empty());
        let reported = match opening {
            Opening::Clean => false,
            Opening::Refused(_) => true,
            Opening::Report(report) => {
                let put_aside = !(report.ignored.is_empty() && report.quarantined.is_empty());
                report.cut_bytes > 0 || !report.damage.is_empty() || put_aside
            }
        };
        match &self.dumped {
            // No file is left that could say so.
            Dumped::Clean if missing > 0 && !self.expect.may_vanish => {
                Err(format!("the dump calls it clean, and {missing} batches are not served"))
            }
            Dumped::Clean if named => {
                Err(format!("the dump calls it clean, and {:?} are named as damaged", read.named))
            }
            Dumped::Harmed(what) if missing == 0 && !named && !reported => Err(format!(
                "the dump says that {what}, and the engine serves all without a word: {:?}",
                report_of(opening)
            )),
            _ => Ok(()),
        }
    }

    fn refused(&self, client: &Client, error: &ControlError) -> Result<(), Broken> {
        if let ControlError::Unavailable(Unavailable::PartitionFailed(failure)) = error
            && let FailureReason::Panicked(why) = &failure.reason
        {
            return Err(format!("it panicked: {why}"));
        }
        if !self.expect.may_refuse {
            return Err(format!("it was not opened: {error}"));
        }
        match client.poll_blocking(self.partition.id, Poll::first()) {
            Err(PollError::PartitionFailed(_)) => Ok(()),
            other => Err(format!("not opened, and a poll is answered {other:?}")),
        }
    }

    fn by_offset(&self) -> BTreeMap<u64, &Stored> {
        self.owed.iter().map(|(_, stored)| (stored.base_offset, stored)).collect()
    }

    /// Everything owed was served, or is missing for a reason and named.
    fn settle(&mut self, dir: &Path, opening: &Opening<'_>, read: &Reading) -> Result<(), Broken> {
        let (named, served) = (&read.named, &read.served);
        if self.expect.is_harmless() && !named.is_empty() {
            return Err(format!("its log is whole, and {named:?} were named as damaged"));
        }
        let report = match opening {
            Opening::Report(report) => Some(*report),
            _ => None,
        };
        let mut cut = BTreeSet::new();
        for (number, stored) in &self.owed {
            let base = stored.base_offset;
            if served.contains(&base) {
                continue;
            }
            let is_hurt = number.is_some_and(|number| self.expect.hurt.contains(&number));
            if named.iter().any(|gap| gap.start <= base && stored.end_offset <= gap.end) {
                match is_hurt {
                    true => continue,
                    false => return Err(format!("offset {base} is intact, and stepped over")),
                }
            }
            if report.is_some_and(|report| report.created) && self.expect.may_begin_again {
                cut.insert(base);
                continue;
            }
            let may_cut = number.zip(self.expect.cut_from).is_some_and(|(it, from)| it >= from);
            if !may_cut || !self.is_first_life {
                return Err(format!("offset {base} is missing, and nothing says so"));
            }
            if is_hurt && self.expect.may_vanish {
                cut.insert(base);
                continue;
            }
            let Some(report) = report.filter(|r| r.cut_bytes > 0 || !r.damage.is_empty()) else {
                return Err(format!("offset {base} was cut, and the opening does not say so"));
            };
            if !is_hurt && !kept_aside(dir, self.partition, stored) {
                return Err(format!("offset {base} was cut and not kept aside: {report:?}"));
            }
            cut.insert(base);
        }
        self.owed.retain(|(_, stored)| !cut.contains(&stored.base_offset));
        if !cut.is_empty() {
            self.end = read.end;
        }
        Ok(())
    }

    /// Numbers, in what is owed, of batches to look up by time: next to the harm, and some others.
    fn times(&self, rng: &mut Random) -> BTreeSet<usize> {
        let last = match self.owed.len().checked_sub(1) {
            Some(last) => last,
            None => return BTreeSet::new(),
        };
        let hurt = self.expect.hurt.iter().next().copied();
        let near = hurt.map_or(0..0, |hurt| hurt.saturating_sub(1)..hurt + 3);
        let drawn = (0..TIMES).map(|_| rng.below(last as u64 + 1) as usize);
        near.chain(drawn).chain([0, last]).map(|number| number.min(last)).collect()
    }

    /// The batch of exactly this time is found, or the damage that may hide it is named.
    fn look_up(&self, client: &Client, number: usize, read: &Reading) -> Result<(), Broken> {
        let stored = &self.owed[number].1;
        let poll = Poll::timestamp(stored.time).max_bytes(1);
        match client.poll_blocking(self.partition.id, poll) {
            Ok(records) if records.first_offset() == Some(stored.base_offset) => Ok(()),
            Err(PollError::Storage(storage::PollError::Corrupt { resume_offset, .. }))
                if !read.named.is_empty() =>
            {
                match resume_offset.is_none_or(|resume| resume > 0) {
                    true => Ok(()),
                    false => Err("a lookup by time resumes at 0".to_owned()),
                }
            }
            Err(PollError::Storage(storage::PollError::Io(_))) if self.expect.may_warn => Ok(()),
            other => {
                let (time, base) = (stored.time, stored.base_offset);
                Err(format!("looked up by time {time}, offset {base}: {other:?}"))
            }
        }
    }

    fn append(&mut self, client: &Client, read: &Reading) -> Result<(), Broken> {
        let id = self.partition.id;
        let number = self.partition.batches.len() as u64 + self.appended;
        let bytes = sent(id, number);
        let appended = client.append_blocking(id, bytes.clone(), Ack::Durable);
        let appended = appended.map_err(|error| format!("an append: {error}"))?;
        if appended.base_offset < self.end {
            let (given, end) = (appended.base_offset, self.end);
            return Err(format!("offset {given} was given a second time, {end} is the end"));
        }
        if appended.base_timestamp <= self.time {
            return Err(format!("time went back to {}", appended.base_timestamp));
        }
        self.appended += 1;
        self.time = appended.base_timestamp;
        self.end = appended.base_offset + u64::from(appended.message_count);
        self.owed.push((
            None,
            Stored {
                segment: 0,
                position: 0,
                base_offset: appended.base_offset,
                end_offset: self.end,
                time: appended.base_timestamp,
                bytes,
            },
        ));
        let again = self.read(client, read.end)?;
        match again.served.contains(&appended.base_offset) {
            true => Ok(()),
            false => Err(format!("offset {} was appended, and not served", appended.base_offset)),
        }
    }

    /// Polls from `offset` to the end; every batch is held to what is owed at its offset.
    fn read(&self, client: &Client, offset: u64) -> Result<Reading, Broken> {
        let (id, owed) = (self.partition.id, self.by_offset());
        let mut reading = Reading { end: offset, ..Reading::default() };
        loop {
            let at = reading.end;
            let to = match client.poll_blocking(id, Poll::offset(at).max_bytes(STEP)) {
                Ok(records) if records.is_empty() => return Ok(reading),
                Ok(records) => {
                    let mut next = at;
                    for batch in records.batches() {
                        let batch = batch.map_err(|why| format!("served from {at} on: {why}"))?;
                        let base = batch.header().base_offset;
                        if base != next {
                            return Err(format!("{base} follows {next}, and nothing says so"));
                        }
                        same(owed.get(&base).copied(), batch.bytes(), base)?;
                        next = base + u64::from(batch.header().message_count);
                        reading.served.insert(base);
                    }
                    reading.end = records.next_offset();
                    continue;
                }
                Err(PollError::Storage(storage::PollError::Corrupt { resume_offset, .. })) => {
                    resume_offset
                }
                // No file can be read there: whoever knows the segments goes on with the next one.
                Err(PollError::Storage(storage::PollError::Io(_))) if self.expect.may_warn => {
                    let next = owed.values().find(|b| b.base_offset > at && b.segment > at);
                    next.map(|batch| batch.segment)
                }
                Err(error) => return Err(format!("a poll at {at}: {error}")),
            };
            if to.is_some_and(|to| to <= at) {
                return Err(format!("damage at {at} is to be stepped over to {to:?}"));
            }
            reading.named.push(at..to.unwrap_or(u64::MAX));
            let Some(to) = to else { return Ok(reading) };
            reading.end = to;
        }
    }
}

fn report_of<'a>(opening: &Opening<'a>) -> Option<&'a OpenReport> {
    match opening {
        Opening::Report(report) => Some(report),
        _ => None,
    }
}

/// What is served is what was stored; of an appended batch the stamps are the engine's.
fn same(owed: Option<&Stored>, bytes: &[u8], base: u64) -> Result<(), Broken> {
    let Some(owed) = owed else {
        return Err(format!("a batch at offset {base} is served that is not owed"));
    };
    let is_same = match header(&owed.bytes).map(|header| header.base_timestamp) {
        Some(time) if time == owed.time => owed.bytes == bytes,
        _ => owed.bytes[BATCH_HEADER_LEN..] == bytes[BATCH_HEADER_LEN..],
    };
    match is_same {
        true => Ok(()),
        false => Err(format!("the batch at offset {base} is served with other bytes")),
    }
}

/// True where a file in quarantine holds the batch at its place.
fn kept_aside(dir: &Path, partition: &Partition, stored: &Stored) -> bool {
    let dir = dir.join(&partition.dir).join("quarantine");
    let log = corelog_format::segment_file_name(stored.segment);
    std::fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| {
        let name = entry.file_name().into_string().unwrap_or_default();
        let Some(rest) = name.strip_prefix(&log) else { return false };
        let from =
            rest.strip_prefix(".from-").and_then(|rest| rest.split('.').next()?.parse().ok());
        let at = stored.position.checked_sub(from.unwrap_or(0));
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let held = at.and_then(|at| bytes.get(at as usize..)?.get(..stored.bytes.len()));
        held == Some(&stored.bytes[..])
    })
}
