//! What one partition owes, as plain code that knows the contract and nothing of its makers.
//!
//! | the contract (docs/design.md, docs/durability.md) | here |
//! | --- | --- |
//! | an answered batch has the offset and time it was answered with; calls keep their order | [`Oracle::answered`] |
//! | offsets and times grow, without overlap, and are never used again | [`Oracle::answered`] |
//! | `written` survives a kill, `durable` a power cut, and all that precedes them; the rest goes as a suffix | `lives` |
//! | nothing comes back that was refused or lost; nothing is stored twice | `lives` |
//! | a poll serves what was sent, byte for byte, from where it was asked, nothing beyond what it may | `served` |
//! | what lies where the disk was damaged may be missing, but is never served wrong | `damage` |
//! | the front of the log goes where it may, and never comes back | `retained` |
//! | stored offsets are kept, and never above the log's end | `consumers` |
//!
//! The oracle knows every batch that was sent, and the log as far as answers and polls have told.
//! What was sent and not answered may or may not be in the log; it is learnt when it is seen.

mod consumers;
mod damage;
mod lives;
mod retained;
mod served;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use corelog_storage::{Ack, Appended, Watermarks};

use crate::batches::ProducerBatch;

pub(crate) use consumers::Value;
pub(crate) use damage::Reported;
pub(crate) use lives::Crash;
pub(crate) use served::{Asked, Bounds, Got, Seen};

/// A broken promise, in words.
pub(crate) type Broken = String;

/// Where a sent batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Not answered, or answered in a way that leaves it open.
    Unknown,
    /// In the log, at this base offset.
    Stored(u64),
    /// Refused, or lost in a crash: it must never be seen.
    Nowhere,
}

struct Sent {
    batch: ProducerBatch,
    ack: Ack,
    fate: Fate,
    /// Its place in the order of calls. A refused batch that is offered again gets a new one.
    order: usize,
}

/// A batch in the log.
#[derive(Debug, Clone, Copy)]
struct Entry {
    call: usize,
    time: u64,
    end: u64,
}

/// Everything that is owed for one partition.
pub(crate) struct Oracle {
    partition_id: u32,
    enforce_fsync: bool,
    /// By number of the batch, which is that of its first call.
    sent: Vec<Sent>,
    /// Calls so far.
    calls: usize,
    /// By base offset.
    log: BTreeMap<u64, Entry>,
    retained: retained::Retained,
    consumers: consumers::Consumers,
    /// Which life of the partition's id this is, and the first call that can belong to it.
    incarnation: u64,
    life_call: usize,
    /// A kill takes nothing below this offset.
    safe_from_kill: u64,
    /// A power cut takes nothing below this offset.
    safe_from_cut: u64,
    /// Calls below these numbers have reached `Written`, `Durable`: a flush said so.
    flushed: [usize; 2],
    /// The log's end when it was opened; what is appended since lies above.
    opened_at: u64,
    /// Calls before then.
    first_call: usize,
    /// Highest time ever stamped and seen; and as it stood at the opening.
    time_max: u64,
    time_at_opening: u64,
    damage: damage::Damage,
}

impl Oracle {
    pub(crate) fn new(partition_id: u32, enforce_fsync: bool) -> Self {
        Oracle {
            partition_id,
            enforce_fsync,
            sent: Vec::new(),
            calls: 0,
            log: BTreeMap::new(),
            retained: retained::Retained::default(),
            consumers: consumers::Consumers::default(),
            incarnation: 1,
            life_call: 0,
            safe_from_kill: 0,
            safe_from_cut: 0,
            flushed: [0; 2],
            opened_at: 0,
            first_call: 0,
            time_max: 0,
            time_at_opening: 0,
            damage: damage::Damage::default(),
        }
    }

    /// Calls so far: what a flush that is made now covers.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// The number of the next batch.
    pub(crate) fn next_number(&self) -> usize {
        self.sent.len()
    }

    /// `append` is called with this batch, now.
    pub(crate) fn called(&mut self, batch: ProducerBatch, ack: Ack) -> usize {
        let ack = if self.enforce_fsync { Ack::Durable } else { ack };
        self.sent.push(Sent { batch, ack, fate: Fate::Unknown, order: self.calls });
        self.calls += 1;
        self.sent.len() - 1
    }

    /// The batch of a refused call is offered again, now.
    pub(crate) fn called_again(&mut self, call: usize) {
        self.sent[call].fate = Fate::Unknown;
        self.sent[call].order = self.calls;
        self.calls += 1;
    }

    /// Call `call` was answered: the batch is stored.
    pub(crate) fn answered(&mut self, call: usize, appended: Appended) -> Result<(), Broken> {
        if self.is_over(call) {
            return Ok(());
        }
        let Appended { base_offset, base_timestamp, message_count } = appended;
        let count = self.sent[call].batch.messages();
        if message_count as usize != count {
            return Err(format!(
                "call {call} sent {count} messages, the answer says {message_count}"
            ));
        }
        self.place(call, base_offset, base_timestamp)?;
        let ack = self.sent[call].ack;
        let level = [(Ack::Written, 0), (Ack::Durable, 1)];
        let order = self.sent[call].order;
        let flushed = level.iter().filter(|(_, at)| order < self.flushed[*at]).map(|(ack, _)| *ack);
        let ack = flushed.fold(ack, Ack::max);
        self.promise(base_offset + u64::from(message_count), ack);
        Ok(())
    }

    /// Call `call` was refused, and nothing stored.
    pub(crate) fn refused(&mut self, call: usize) -> Result<(), Broken> {
        if self.is_over(call) {
            return Ok(());
        }
        if let Fate::Stored(at) = self.sent[call].fate {
            return Err(format!("call {call} was refused, but its batch is at offset {at}"));
        }
        self.sent[call].fate = Fate::Nowhere;
        Ok(())
    }

    /// A flush to `ack` has ended that was made when `calls` calls had been made.
    pub(crate) fn flushed(&mut self, ack: Ack, calls: usize) {
        let ack = if self.enforce_fsync { Ack::Durable } else { ack };
        if ack >= Ack::Written {
            self.flushed[0] = self.flushed[0].max(calls);
        }
        if ack == Ack::Durable {
            self.flushed[1] = self.flushed[1].max(calls);
        }
        let covered = self.log.values().filter(|entry| self.sent[entry.call].order < calls);
        if let Some(end) = covered.map(|entry| entry.end).max() {
            self.promise(end, ack);
        }
    }

    /// The partition says where it stands; it was asked when the log was known up to `known`.
    pub(crate) fn watermarks(
        &mut self,
        marks: Watermarks,
        known: u64,
        latest_us: u64,
    ) -> Result<(), Broken> {
        let (start, durable) = (marks.start(), marks.durable());
        let (written, appended) = (marks.written(), marks.appended());
        if start > durable || durable > written || written > appended {
            return Err(format!("watermarks out of order: {marks:?}"));
        }
        self.check_start(start, latest_us)?;
        // Behind damage the marks may stand above offsets that nothing was ever stored at.
        let most = if self.damage.has_any() { self.known_end() } else { u64::MAX };
        self.promise(written.min(most), Ack::Written);
        self.promise(durable.min(most), Ack::Durable);
        if appended < known {
            return Err(format!("offset {known} was given away, but the end is {appended}"));
        }
        Ok(())
    }

    /// Everything below `end` has reached `ack`.
    fn promise(&mut self, end: u64, ack: Ack) {
        if ack >= Ack::Written {
            self.safe_from_kill = self.safe_from_kill.max(end);
        }
        if ack == Ack::Durable {
            self.safe_from_cut = self.safe_from_cut.max(end);
        }
    }

    /// The batch of `call` stands at `base`: holds that against all that is known.
    fn place(&mut self, call: usize, base: u64, time: u64) -> Result<(), Broken> {
        let Some(sent) = self.sent.get(call) else {
            return Err(format!("batch {call} at offset {base} was never sent"));
        };
        match sent.fate {
            Fate::Nowhere => {
                return Err(format!(
                    "batch {call} at offset {base} was refused or lost before, and is there now"
                ));
            }
            Fate::Stored(at) if at != base => {
                return Err(format!("batch {call} is at offset {at} and at {base}"));
            }
            _ => {}
        }
        let order = sent.order;
        let end = base + sent.batch.messages() as u64;
        if let Some(known) = self.log.get(&base) {
            if (known.call, known.time) != (call, time) {
                let (was, at) = (known.call, known.time);
                return Err(format!(
                    "offset {base} held batch {was} of time {at}, now batch {call} of time {time}"
                ));
            }
            return Ok(());
        }
        self.check_neighbours(call, base, end, time)?;
        if order >= self.first_call && base < self.opened_at {
            return Err(format!(
                "batch {call} got offset {base}, but the log ended at {} when it was opened",
                self.opened_at
            ));
        }
        if order >= self.first_call && time <= self.time_at_opening {
            return Err(format!(
                "batch {call} got time {time}, but {} was given away before",
                self.time_at_opening
            ));
        }
        self.log.insert(base, Entry { call, time, end });
        self.sent[call].fate = Fate::Stored(base);
        self.time_max = self.time_max.max(time);
        Ok(())
    }

    /// Offsets do not overlap; calls and times grow along the log.
    fn check_neighbours(&self, call: usize, base: u64, end: u64, time: u64) -> Result<(), Broken> {
        let order = |call: usize| self.sent[call].order;
        let before = self.log.range(..base).next_back();
        let behind = self.log.range(base..).next();
        if let Some((at, entry)) = before
            && (entry.end > base || order(entry.call) >= order(call) || entry.time >= time)
        {
            return Err(format!(
                "batch {call} at {base}..{end}, time {time}, does not follow batch {} at {at}..{}, \
                 time {}",
                entry.call, entry.end, entry.time
            ));
        }
        if let Some((at, entry)) = behind
            && (end > *at || order(call) >= order(entry.call) || time >= entry.time)
        {
            return Err(format!(
                "batch {call} at {base}..{end}, time {time}, does not precede batch {} at {at}..{}, \
                 time {}",
                entry.call, entry.end, entry.time
            ));
        }
        Ok(())
    }

    /// Where the log ends, as far as is known.
    pub(crate) fn known_end(&self) -> u64 {
        self.log.last_key_value().map_or(0, |(_, entry)| entry.end)
    }

    /// Times of what is known to be in the log.
    pub(crate) fn times(&self) -> Vec<u64> {
        self.log.values().map(|entry| entry.time).collect()
    }
}
