//! Serving a poll from memory: dispatched buffers by view, the tail's unsent bytes by copy.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use corelog_io::Platform;

use super::select::{Selection, Take};
use crate::Answer;
use crate::memory::BatchPlace;
use crate::partition::{BytesOf, Inner};

/// Serves as much as the selection takes, where its next offset is in memory. Memory reaches up to
/// the end of the log, so the poll is complete then.
pub(super) fn serve<P: Platform, A: Answer>(
    inner: &Inner<P, A>,
    selection: &mut Selection<BytesOf<P>>,
) {
    let memory = inner.memory.borrow();
    let Some(first) = memory.find_offset(selection.next()) else { return };
    let mut run: Option<Range<u64>> = None;
    for place in memory.batches().range(first..) {
        match selection.take(place.base_offset, place.message_count, place.len) {
            Take::Skip => {}
            Take::Stop => break,
            Take::Whole => match &mut run {
                Some(run) => run.end = place.end(),
                None => run = Some(place.position..place.end()),
            },
            Take::Part(messages) => {
                if let Some(run) = run.take() {
                    add(inner, selection, run);
                }
                add_part(inner, selection, *place, messages);
            }
        }
        if selection.is_done() {
            break;
        }
    }
    if let Some(run) = run {
        add(inner, selection, run);
    }
}

/// Adds a run of whole batches.
fn add<P: Platform, A: Answer>(
    inner: &Inner<P, A>,
    selection: &mut Selection<BytesOf<P>>,
    run: Range<u64>,
) {
    let memory = inner.memory.borrow();
    let rest = memory.cover(run.start, run.end, |bytes, range| selection.view(bytes, range));
    selection.copied(Bytes::from(unsent(inner, rest..run.end)));
}

/// Adds some messages of one batch: by view where one buffer holds all of it.
fn add_part<P: Platform, A: Answer>(
    inner: &Inner<P, A>,
    selection: &mut Selection<BytesOf<P>>,
    place: BatchPlace,
    messages: Range<u32>,
) {
    let memory = inner.memory.borrow();
    let (mut pieces, mut only) = (0, None);
    let rest = memory.cover(place.position, place.end(), |bytes, range| {
        pieces += 1;
        only = Some((bytes.clone(), range));
    });
    if let Some((bytes, range)) = only
        && pieces == 1
        && rest == place.end()
    {
        return selection.part(&bytes, range, messages);
    }
    let mut joined = BytesMut::with_capacity(place.len as usize);
    memory.cover(place.position, place.end(), |bytes, range| {
        joined.extend_from_slice(&bytes.as_ref()[range]);
    });
    joined.extend_from_slice(unsent(inner, rest..place.end()).as_ref());
    selection.copied_part(joined.freeze(), messages);
}

/// Bytes that no write covers yet. The borrow is short: nothing awaits while it is held.
fn unsent<P: Platform, A: Answer>(inner: &Inner<P, A>, positions: Range<u64>) -> Vec<u8> {
    if positions.is_empty() {
        return Vec::new();
    }
    let appender = inner.appender.borrow();
    let sent = appender.tail().sent();
    let range = (positions.start - sent) as usize..(positions.end - sent) as usize;
    appender.tail().unsent()[range].to_vec()
}

/// Offset of the first batch in memory at or after `time`, where no batch outside of memory can
/// be the first.
pub(super) fn first_at<P: Platform, A: Answer>(
    inner: &Inner<P, A>,
    time: u64,
    start: u64,
) -> Option<u64> {
    let memory = inner.memory.borrow();
    let first = memory.batches().front()?;
    if first.base_offset <= start && first.base_timestamp >= time {
        return Some(first.base_offset);
    }
    memory.find_time(time).map(|index| memory.batches()[index].base_offset)
}

/// Offset of the first batch in memory at or after `time`, where memory reaches back to offset
/// `from` and nothing before that qualifies.
pub(super) fn first_behind<P: Platform, A: Answer>(
    inner: &Inner<P, A>,
    time: u64,
    from: u64,
) -> Option<u64> {
    let memory = inner.memory.borrow();
    let batches = memory.batches();
    batches.front().filter(|first| first.base_offset <= from)?;
    batches.get(batches.partition_point(|batch| batch.base_timestamp < time)).map(|b| b.base_offset)
}
