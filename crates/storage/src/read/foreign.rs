//! Times of batches that another server has stamped. They may go back, so no search by halves finds
//! the first batch at or after a time among them: which one it is depends on every batch before it.
//!
//! The first lookup that comes to a segment with such batches walks it once, and keeps how the
//! highest time so far rises along it. From then on a lookup reads a step of the log.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use corelog_format::Expect;
use corelog_io::Platform;

use super::cursor::Cursor;
use super::damage;
use super::source::{Source, Start};
use super::walker::{ReadFault, Walker};
use crate::partition::Inner;
use crate::signal::Signal;
use crate::{Answer, PollError};

/// Read at once.
const READ_BYTES: usize = 256 << 10;
/// Places kept of one segment, 24 bytes each; where there would be more, they stand further apart.
const RISES_MAX: usize = 1 << 10;

/// What is known of a partition's batches that another server has stamped.
pub(crate) struct Foreign {
    /// They stand below this offset, ours at and above it.
    end: u64,
    /// When the log was opened: they are older.
    opened_us: u64,
    /// By first offset of the segment.
    known: RefCell<BTreeMap<u64, Rc<Times>>>,
    /// The latest time of each segment that was walked, by its first offset.
    latest: RefCell<BTreeMap<u64, u64>>,
    /// Someone walks a segment. One at a time: whoever needs the same one waits for it.
    walking: Cell<bool>,
    walked: Rc<Signal>,
}

impl Foreign {
    pub(crate) fn new(end: u64, opened_us: u64) -> Self {
        let (known, latest) = (RefCell::default(), RefCell::default());
        let (walking, walked) = (Cell::new(false), Rc::default());
        Foreign { end, opened_us, known, latest, walking, walked }
    }

    /// The first offset that is ours.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// What is known of a segment's batches below the end.
    pub(super) fn times(&self, segment: u64) -> Option<Rc<Times>> {
        self.known.borrow().get(&segment).cloned()
    }

    /// No foreign batch of `segment` is younger than this; `None` before [`latest_foreign`] was asked.
    pub(crate) fn latest(&self, segment: u64) -> Option<u64> {
        self.latest.borrow().get(&segment).copied()
    }

    /// Forgets the segments below `first`: they are trimmed away.
    pub(crate) fn trim(&self, first: u64) {
        self.known.borrow_mut().retain(|segment, _| *segment >= first);
        self.latest.borrow_mut().retain(|segment, _| *segment >= first);
    }
}

/// The one who walks. A dropped poll leaves the walk to the next.
struct Walking<'a>(&'a Foreign);

impl Drop for Walking<'_> {
    fn drop(&mut self) {
        self.0.walking.set(false);
        self.0.walked.raise();
    }
}

/// How the highest time so far rises along a segment's foreign batches, as far as they can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Times {
    /// Of all of them; `None` without one.
    highest: Option<u64>,
    rises: Vec<Rise>,
    /// Bytes between two of them, about.
    step: u64,
    /// Some of the batches cannot be read.
    holes: bool,
    /// Nothing behind the last of them can be read.
    torn: bool,
    /// The device did not give back some bytes: another walk may read them.
    unread: bool,
}

/// Where a batch begins, and the highest time of all before it: `None` where it is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rise {
    before: Option<u64>,
    position: u64,
    offset: u64,
}

impl Times {
    fn new(step: u64) -> Self {
        let (highest, rises) = (None, Vec::new());
        Times { highest, rises, step, holes: false, torn: false, unread: false }
    }

    /// A batch begins here, or what is left of one.
    fn place(&mut self, position: u64, offset: u64) {
        let rise = Rise { before: self.highest, position, offset };
        let step = self.step;
        match self.rises.last_mut() {
            // Of the places with the same time before them the last one is of most use.
            Some(last) if last.before == rise.before => *last = rise,
            Some(last) if last.position / step == position / step => {}
            _ => self.rises.push(rise),
        }
        if self.rises.len() > RISES_MAX {
            self.step = step.saturating_mul(2);
            self.rises.dedup_by_key(|rise| rise.position / self.step);
        }
    }

    /// The next batch has this time.
    fn add(&mut self, time: u64) {
        self.highest = self.highest.max(Some(time));
    }

    /// True where one of the batches is at or after `time`.
    pub(super) fn reach(&self, time: u64) -> bool {
        self.highest >= Some(time)
    }

    /// True where batches at the end of the segment cannot be read.
    pub(super) fn is_torn(&self) -> bool {
        self.torn
    }

    /// A place that no batch at or after `time` stands before; the first one stands less than a step
    /// behind it, if there is one.
    pub(super) fn start(&self, time: u64) -> Option<Start> {
        let older = self.rises.partition_point(|rise| rise.before < Some(time));
        let Rise { position, offset, .. } = *self.rises.get(older.checked_sub(1)?)?;
        Some(Start { position, offset, hint: false })
    }
}

/// How time goes in the foreign part of `segment`. Cancel-safe.
pub(super) async fn times<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
) -> Result<Rc<Times>, PollError> {
    let foreign = &inner.foreign;
    loop {
        if let Some(times) = foreign.times(segment) {
            return Ok(times);
        }
        let walked = foreign.walked.wait();
        if foreign.walking.replace(true) {
            walked.await;
            continue;
        }
        let _walking = Walking(foreign);
        let times = Rc::new(walk(inner, segment).await?);
        if !times.unread && segment >= inner.segments.borrow().first() {
            foreign.known.borrow_mut().insert(segment, Rc::clone(&times));
        }
        return Ok(times);
    }
}

/// No foreign batch of `segment` is younger than this: one that cannot be read is taken for as young
/// as the opening of the log. Walks the segment once. Cancel-safe.
pub(crate) async fn latest_foreign<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
) -> Result<u64, PollError> {
    let foreign = &inner.foreign;
    if let Some(latest) = foreign.latest(segment) {
        return Ok(latest);
    }
    let times = times(inner, segment).await?;
    let unread = if times.holes { foreign.opened_us } else { 0 };
    let latest = times.highest.unwrap_or(0).max(unread);
    if segment >= inner.segments.borrow().first() {
        foreign.latest.borrow_mut().insert(segment, latest);
    }
    Ok(latest)
}

/// Walks the batches of `segment` below the end. Damage is stepped over.
async fn walk<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
) -> Result<Times, PollError> {
    let after = inner.segments.borrow().after(segment);
    let mut times = Times::new(inner.config.index_step);
    let mut from = Some(Start { position: 0, offset: segment, hint: false });
    let mut behind_damage = false;
    while let Some(start) = from.take() {
        let file = inner.life.reader(segment, &inner.log_path(segment)).await?;
        let source = Source::open(inner, segment).await?;
        let expect = Expect {
            partition_id: Some(u64::from(inner.place.partition_id)),
            next_offset: Some(start.offset),
            after_timestamp: None,
            time_may_go_back: true,
        };
        let end = source.end;
        let mut walker = Walker::new(file, start.position, end, end, expect, READ_BYTES);
        let mut next = start.offset;
        loop {
            match walker.next().await {
                Ok(Some(found)) if found.header.base_offset < inner.foreign.end => {
                    let header = found.header;
                    // Damage just before a batch may hide the one that is asked for: whoever looks
                    // for this one begins there.
                    if !std::mem::take(&mut behind_damage) {
                        times.place(found.at, header.base_offset);
                    }
                    times.add(header.base_timestamp);
                    next = header.end_offset().unwrap_or(u64::MAX);
                    // A sealed file has no length of its own to stop at: its last batch ends it.
                    if Some(next) == after {
                        break;
                    }
                }
                Ok(_) => break,
                Err(ReadFault::Io(error)) if !error.is_unreadable() => {
                    return Err(PollError::Io(error));
                }
                Err(fault) => {
                    times.unread |= matches!(fault, ReadFault::Io(_));
                    times.holes = true;
                    let at = walker.position();
                    times.place(at, next);
                    let stopped = Start { position: at, offset: next, hint: false };
                    from = damage::behind(&Cursor::new(source, stopped)).await;
                    (behind_damage, times.torn) = (true, from.is_none());
                    break;
                }
            }
        }
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use corelog_io::sim::Rng;

    use super::*;

    /// Where a walk from the start finds the first one.
    fn oracle(batches: &[(u64, u64)], time: u64) -> Option<u64> {
        batches.iter().find(|(_, have)| *have >= time).map(|(position, _)| *position)
    }

    #[test]
    fn the_first_batch_stands_at_most_a_step_behind_its_start() {
        let mut rng = Rng::new(4);
        for round in 0..400 {
            let range = [3, 40, u64::MAX][round % 3];
            let (step, len) = (rng.between(1, 2_000), rng.between(1, 900));
            let mut times = Times::new(step);
            let (mut batches, mut position) = (Vec::new(), 0);
            for i in 0..rng.between(1, 3_000) {
                let climb = if round % 2 == 0 { i } else { 0 };
                let time = rng.below(range).saturating_add(climb);
                times.place(position, i);
                times.add(time);
                batches.push((position, time));
                position += len;
            }
            assert!(times.rises.len() <= RISES_MAX);
            for _ in 0..50 {
                let time = match rng.chance(1, 2) {
                    true => batches[rng.index(batches.len())].1.saturating_add(rng.below(2)),
                    false => rng.below(range),
                };
                let start = times.start(time).map_or(0, |start| start.position);
                let first = oracle(&batches, time);
                assert_eq!(times.reach(time), first.is_some());
                let end = first.unwrap_or(batches.last().unwrap().0);
                assert!(start <= end, "{start} {first:?}");
                assert!(end - start <= 2 * (times.step + len), "{start} {first:?} {}", times.step);
            }
        }
    }
}
