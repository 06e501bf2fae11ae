//! Serving a poll from segment files: where to start, verified batches, and what damage means.

use std::rc::Rc;

use corelog_format::{Expect, FormatError, FormatErrorKind, IndexEntry};
use corelog_io::{BLOCK, Platform, align_up};

use super::select::{Selection, Take};
use super::walker::{Damage, Found, ReadFault, Walker};
use crate::index::{self, SparseIndex};
use crate::partition::{BytesOf, Counters, FileOf, Inner};
use crate::segments::index_path;
use crate::{Answer, PollError};

/// No index of a segment is longer than this: one entry for each smallest batch of 1 GiB.
const INDEX_BYTES_MAX: u64 = 96 << 20;

/// A place to start reading a segment: a batch begins at `position`, with `offset` if known.
#[derive(Debug, Clone, Copy)]
struct Start {
    position: u64,
    offset: u64,
    /// From the index: believed only after its batch has verified.
    hint: bool,
}

/// Serves batches from the segment that holds the selection's next offset: at least one, or the
/// reason why not.
pub(super) async fn serve<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    selection: &mut Selection<BytesOf<P>>,
) -> Result<(), PollError> {
    let wanted = selection.next();
    let segment = inner.segments.borrow().holding(wanted);
    let Some(segment) = segment else { return Err(hole(wanted, inner.segments.borrow().first())) };
    let (file, end) = open(inner, segment).await?;
    let mut start = find(inner, segment, wanted).await;
    let (mut looked_up, mut lied) = (start.hint || start.position == 0, false);
    let (mut walker, mut found) = loop {
        let read_bytes = read_bytes(inner, selection.bytes_left(), start.hint);
        let mut walker = walk(inner, Rc::clone(&file), start, end, read_bytes);
        match walker.next().await {
            Ok(found) => break (walker, found),
            Err(ReadFault::Damage(_)) if start.hint => {
                // The index may lie: go back to an entry before, in the end to the segment's start.
                start = before(inner, segment, start);
                lied = true;
            }
            Err(fault) => return Err(failed(inner, segment, fault).await),
        }
    };
    let after = inner.segments.borrow().after(segment);
    let mut reached = None;
    while let Some(batch) = found {
        let taken = take(selection, &batch);
        if taken == Take::Stop {
            break;
        }
        if taken != Take::Skip && std::mem::take(&mut looked_up) {
            crate::reindex::looked_up(inner, segment, batch.at - start.position, lied);
        }
        let end_offset = batch.header.end_offset();
        reached = end_offset.map(|offset| (offset, walker.position()));
        // A sealed file has no length of its own to stop at: its last batch ends it.
        let last = after.is_some() && end_offset == after;
        if last || selection.is_done() || selection.stop_before(walker.peek_len()) {
            break;
        }
        found = match walker.next().await {
            Ok(found) => found,
            Err(fault) => {
                count_read(inner, &walker);
                return Err(failed(inner, segment, fault).await);
            }
        };
    }
    count_read(inner, &walker);
    let next = selection.next();
    if let Some((offset, position)) = reached
        && offset == next
    {
        inner.hints.borrow_mut().put(next, segment, position);
    }
    if next > wanted || selection.is_done() {
        return Ok(());
    }
    Err(ended_early(segment, walker.position(), after))
}

fn count_read<P: Platform, A: Answer>(inner: &Inner<P, A>, walker: &Walker<FileOf<P>>) {
    Counters::add(&inner.counters.disk_read_bytes, walker.bytes_read);
}

/// How much to read at once: what the poll may take, and the way there from an index entry.
fn read_bytes<P: Platform, A: Answer>(inner: &Inner<P, A>, left: usize, hint: bool) -> usize {
    let way = if hint { inner.config.index_step as usize } else { 0 };
    // Batches begin and end within blocks: one more on either side.
    let wanted = left.min(inner.shared.limits().read_bytes) + way + 2 * BLOCK;
    align_up(wanted as u64) as usize
}

fn take<S: corelog_io::SharedBytes>(selection: &mut Selection<S>, batch: &Found<S>) -> Take {
    let header = &batch.header;
    let take = selection.take(header.base_offset, header.message_count, header.batch_length);
    match &take {
        Take::Whole => selection.view(&batch.bytes, batch.range.clone()),
        Take::Part(messages) => {
            selection.part(&batch.bytes, batch.range.clone(), messages.clone());
        }
        Take::Skip | Take::Stop => {}
    }
    take
}

/// A handle for reading `segment` (never the one that writes and holds the lock: a poll may outlive
/// the close), and where its readable bytes end: in the active one, where the device
/// has them; a sealed one ends with its file.
async fn open<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
) -> Result<(Rc<FileOf<P>>, u64), PollError> {
    let end = match segment == inner.segments.borrow().active() {
        true => inner.appender.borrow().written().position,
        false => u64::MAX,
    };
    let file = inner.life.reader(segment, &inner.log_path(segment)).await?;
    Ok((file, end))
}

fn walk<P: Platform, A: Answer>(
    inner: &Inner<P, A>,
    file: Rc<FileOf<P>>,
    start: Start,
    end: u64,
    read_bytes: usize,
) -> Walker<FileOf<P>> {
    let expect = Expect {
        partition_id: Some(u64::from(inner.place.partition_id)),
        next_offset: Some(start.offset),
        after_timestamp: None,
        // Adopted files of the reference server may hold time that went back.
        time_may_go_back: true,
    };
    let walker = Walker::new(file, start.position, end, u64::MAX, expect, read_bytes);
    if inner.config.verify_reads { walker } else { walker.layout_only() }
}

/// The nearest known batch start at or below `offset`.
async fn find<P: Platform, A: Answer>(inner: &Rc<Inner<P, A>>, segment: u64, offset: u64) -> Start {
    if let Some(position) = inner.hints.borrow_mut().take(offset, segment) {
        return Start { position, offset, hint: false };
    }
    match entry_of(inner, segment, |index| index.at_offset(offset)).await {
        Some(entry) if entry.position > 0 => from_entry(entry),
        _ => Start { position: 0, offset: segment, hint: false },
    }
}

fn from_entry(entry: IndexEntry) -> Start {
    Start { position: entry.position, offset: entry.base_offset, hint: true }
}

/// A start before one that did not hold what the index said.
fn before<P: Platform, A: Answer>(inner: &Inner<P, A>, segment: u64, start: Start) -> Start {
    let at = |index: &SparseIndex| index.at_position(start.position.checked_sub(1)?);
    let entry = match segment == inner.segments.borrow().active() {
        true => at(&inner.index.borrow()),
        false => inner.segments.borrow().index(segment).and_then(|index| at(&index)),
    };
    match entry {
        Some(entry) if entry.position > 0 => from_entry(entry),
        _ => Start { position: 0, offset: segment, hint: false },
    }
}

/// What `look` finds in the index of `segment`. The active one's is looked into where it is: it may
/// hold ten thousands of entries, and a poll needs one.
async fn entry_of<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
    look: impl FnOnce(&SparseIndex) -> Option<IndexEntry>,
) -> Option<IndexEntry> {
    if segment == inner.segments.borrow().active() {
        return look(&inner.index.borrow());
    }
    look(&*index_of(inner, segment).await)
}

fn loaded<P: Platform, A: Answer>(inner: &Inner<P, A>, segment: u64) -> Option<Rc<SparseIndex>> {
    if segment == inner.segments.borrow().active() {
        return Some(Rc::new(inner.index.borrow().clone()));
    }
    inner.segments.borrow().index(segment)
}

/// The index of a segment; a sealed one's is loaded at its first use. What cannot be loaded is
/// empty, which is always correct.
async fn index_of<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
) -> Rc<SparseIndex> {
    if let Some(index) = loaded(inner, segment) {
        return index;
    }
    let disk = inner.shared.platform().disk();
    let path = index_path(&inner.place.dir, segment);
    let Some(index) = index::load(disk, &path, INDEX_BYTES_MAX).await else { return Rc::default() };
    let index = Rc::new(index);
    let limit = inner.shared.limits().loaded_indexes;
    inner.segments.borrow_mut().keep_index(segment, Rc::clone(&index), limit);
    index
}

/// The poll's error for `fault`, with the place where reading may go on.
async fn failed<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
    fault: ReadFault,
) -> PollError {
    let Damage { at, why, .. } = match fault {
        ReadFault::Io(error) => return PollError::Io(error),
        ReadFault::Damage(damage) => damage,
    };
    Counters::add(&inner.counters.corrupt_reads, 1);
    let resume_offset = resume(inner, segment, at).await;
    PollError::Corrupt { segment, position: at, resume_offset, why }
}

/// The first offset behind damage at `position` from which reading works: an index entry whose
/// batch verifies, or the next segment.
async fn resume<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
    position: u64,
) -> Option<u64> {
    let index = index_of(inner, segment).await;
    let (file, end) = open(inner, segment).await.ok()?;
    for entry in index.entries().iter().filter(|entry| entry.position > position) {
        let mut walker = walk(inner, Rc::clone(&file), from_entry(*entry), end, BLOCK);
        if matches!(walker.next().await, Ok(Some(_))) {
            return Some(entry.base_offset);
        }
    }
    inner.segments.borrow().after(segment)
}

/// No segment holds `offset`: files are missing in front of `first`.
fn hole(offset: u64, first: u64) -> PollError {
    let kind = FormatErrorKind::Mismatch { expected: offset, found: first };
    let why = FormatError::new(0, "first_offset", kind);
    PollError::Corrupt { segment: first, position: 0, resume_offset: Some(first), why }
}

/// A segment whose batches end before the next segment begins.
fn ended_early(segment: u64, position: u64, after: Option<u64>) -> PollError {
    let kind = FormatErrorKind::Truncated { needed: 1, have: 0 };
    let why = FormatError::new(position, "batch_header", kind);
    PollError::Corrupt { segment, position, resume_offset: after, why }
}

/// Offset of the first batch at or after `time` in the segment files, as far as they are written.
pub(super) async fn first_at<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    time: u64,
    start: u64,
) -> Result<Option<u64>, PollError> {
    let mut segments: Vec<u64> = inner.segments.borrow().all().collect();
    // The last segment that begins before `time` holds the batch, or the one behind it begins
    // with it.
    let mut low = 0;
    let mut high = segments.len();
    while low < high {
        let middle = low + (high - low) / 2;
        match first_time(inner, segments[middle]).await? {
            Some(first) if first < time => low = middle + 1,
            _ => high = middle,
        }
    }
    let mut from = segments.split_off(low.saturating_sub(1));
    from.truncate(2);
    for segment in from {
        if let Some(offset) = first_in(inner, segment, time).await? {
            return Ok(Some(offset.max(start)));
        }
    }
    Ok(None)
}

/// Time of a segment's first batch; `None` where it is empty.
async fn first_time<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
) -> Result<Option<u64>, PollError> {
    let (file, end) = open(inner, segment).await?;
    let start = Start { position: 0, offset: segment, hint: false };
    match walk(inner, file, start, end, BLOCK).next().await {
        Ok(found) => Ok(found.map(|batch| batch.header.base_timestamp)),
        Err(fault) => Err(failed(inner, segment, fault).await),
    }
}

/// Offset of the first batch of `segment` at or after `time`.
async fn first_in<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
    time: u64,
) -> Result<Option<u64>, PollError> {
    let (file, end) = open(inner, segment).await?;
    let origin = Start { position: 0, offset: segment, hint: false };
    let older = entry_of(inner, segment, |index| index.before_time(time)).await;
    let mut start = older.map_or(origin, from_entry);
    let after = inner.segments.borrow().after(segment).unwrap_or(u64::MAX);
    loop {
        let mut walker =
            walk(inner, Rc::clone(&file), start, end, inner.config.index_step as usize);
        let mut first = true;
        loop {
            match walker.next().await {
                // The entry was said to be older than `time`: it lies, a batch before may match.
                Ok(Some(batch)) if batch.header.base_timestamp >= time && start.hint && first => {
                    start = before(inner, segment, start);
                    break;
                }
                Ok(Some(batch)) if batch.header.base_timestamp >= time => {
                    return Ok(Some(batch.header.base_offset));
                }
                // A sealed file has no length of its own to stop at: its last batch ends it.
                Ok(Some(batch)) if batch.header.end_offset() == Some(after) => return Ok(None),
                Ok(Some(_)) => first = false,
                Ok(None) => return Ok(None),
                Err(ReadFault::Damage(_)) if start.hint && first => {
                    start = before(inner, segment, start);
                    break;
                }
                Err(fault) => return Err(failed(inner, segment, fault).await),
            }
        }
    }
}
