//! The first batch at or after a time, exact to the batch.
//!
//! Batches that another server has stamped come first: see `foreign`. Ours ascend in time: their
//! segments are searched by the time of their first batch, then the index narrows one of them, and
//! the rest is walked, verified. Damage that lies elsewhere is passed by; damage on the walk may
//! hide the batch that is asked for, so it is the poll's error, with the offset behind it.

use std::rc::Rc;

use corelog_io::Platform;

use super::cursor::Cursor;
use super::damage::{ONE_BATCH, failed, hole};
use super::foreign::{self, Times};
use super::plan::Want;
use super::source::{Source, Start};
use crate::partition::Inner;
use crate::{Answer, PollError};

/// What is known of the foreign batches.
pub(super) enum Foreign {
    /// The first one at or after the time has this offset.
    Found(u64),
    /// None is, as far as they can be read: to the end, but for the last of this segment.
    None(Option<(u64, Rc<Times>)>),
}

/// The first batch at or after `time` among those that another server has stamped.
pub(super) async fn first_foreign<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    time: u64,
    start: u64,
) -> Result<Foreign, PollError> {
    let end = inner.foreign.end();
    if start >= end {
        return Ok(Foreign::None(None));
    }
    let segments: Vec<u64> =
        inner.segments.borrow().all().take_while(|segment| *segment < end).collect();
    let mut torn: Option<(u64, Rc<Times>)> = None;
    for segment in segments {
        let times = foreign::times(inner, segment).await?;
        if times.reach(time) {
            let mut found = first_in(inner, segment, &times, time).await?;
            if let (Some((before, times)), true) = (&torn, found == Some(segment)) {
                found = first_in(inner, *before, times, time).await?.or(found);
            }
            if let Some(offset) = found {
                return retained(inner, offset, start).map(Foreign::Found);
            }
        }
        torn = times.is_torn().then_some((segment, times));
    }
    Ok(Foreign::None(torn))
}

/// Offset of the first batch of `segment` at or after `time`, of which these are the `times`.
pub(super) async fn first_in<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
    times: &Times,
    time: u64,
) -> Result<Option<u64>, PollError> {
    let source = Source::open(inner, segment).await?;
    let from = times.start(time).unwrap_or(source.origin());
    first_from(source, from, time).await
}

/// Offset of the first batch at or after `time` among ours in the segment files, as far as they are
/// written. No foreign one is: that was asked before.
pub(super) async fn first_of_ours<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    time: u64,
    start: u64,
) -> Result<Option<u64>, PollError> {
    let mut segments: Vec<u64> = inner.segments.borrow().all().collect();
    // The last foreign batches may share a segment with the first of ours; it begins before `time`.
    let foreign = segments.partition_point(|segment| *segment < inner.foreign.end());
    segments.drain(..foreign.saturating_sub(1));
    // The last segment that is known to begin before `time` holds the batch, or one behind it
    // begins with it.
    let (mut low, mut high) = (foreign.min(1), segments.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match first_time(inner, &segments[middle..high]).await? {
            Some((at, first)) if first < time => low = middle + at + 1,
            _ => high = middle,
        }
    }
    for segment in segments.split_off(low.saturating_sub(1)) {
        let source = Source::open(inner, segment).await?;
        let from = ours(&source, time);
        if let Some(offset) = first_from(source, from, time).await? {
            return retained(inner, offset, start).map(Some);
        }
    }
    Ok(None)
}

/// The offset from which a poll serves the batch with `offset`.
fn retained<P: Platform, A: Answer>(
    inner: &Inner<P, A>,
    offset: u64,
    start: u64,
) -> Result<u64, PollError> {
    let first = inner.segments.borrow().first();
    // The files that are missing in front may hold an earlier one.
    if offset == first && start < first { Err(hole(start, first)) } else { Ok(offset.max(start)) }
}

/// A place in the segment that none of our batches at or after `time` stands before.
fn ours<P: Platform, A: Answer>(source: &Source<P, A>, time: u64) -> Start {
    let foreign = &source.inner.foreign;
    let older = source.look(|index| index.before_time(foreign.end(), time)).map(Start::of);
    let behind_foreign = || foreign.times(source.segment)?.start(u64::MAX);
    older.or_else(behind_foreign).unwrap_or(source.origin())
}

/// The first of `segments` whose first batch can be read, and that batch's time; `None` where none
/// can, or there is none.
async fn first_time<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segments: &[u64],
) -> Result<Option<(usize, u64)>, PollError> {
    for (at, segment) in segments.iter().enumerate() {
        let source = Source::open(inner, *segment).await?;
        let origin = source.origin();
        let mut cursor = Cursor::new(source, origin);
        match cursor.next(&ONE_BATCH).await {
            Ok(found) => return Ok(found.map(|batch| (at, batch.header.base_timestamp))),
            Err(fault) if fault.is_of_place() => {}
            Err(fault) => return Err(failed(&cursor, fault).await),
        }
    }
    Ok(None)
}

/// Offset of the first batch at or after `time` from `start` on.
async fn first_from<P: Platform, A: Answer>(
    source: Source<P, A>,
    mut start: Start,
    time: u64,
) -> Result<Option<u64>, PollError> {
    let inner = Rc::clone(&source.inner);
    let after = inner.segments.borrow().after(source.segment);
    let want = Want { bytes: inner.config.index_step, until: u64::MAX, way: 0, run: 0 };
    let mut cursor = Cursor::new(source, start);
    let (mut is_first, mut lies) = (true, 0);
    loop {
        let found = match cursor.next(&want).await {
            Ok(found) => found,
            // The entry lies, or what it points to is damaged: either way from one before it.
            Err(fault) if fault.is_of_place() && start.hint && is_first => {
                lies += 1;
                start = cursor.source().before(start, lies);
                cursor = cursor.restart(start);
                continue;
            }
            Err(fault) => return Err(failed(&cursor, fault).await),
        };
        let Some(batch) = found else { return Ok(None) };
        if batch.header.base_timestamp >= time {
            // The entry was said to be older than `time`: a batch before it may match.
            if start.hint && is_first {
                lies += 1;
                start = cursor.source().before(start, lies);
                cursor = cursor.restart(start);
                continue;
            }
            return Ok(Some(batch.header.base_offset));
        }
        // A sealed file has no length of its own to stop at: its last batch ends it.
        if after.is_some() && batch.header.end_offset() == after {
            return Ok(None);
        }
        is_first = false;
    }
}
