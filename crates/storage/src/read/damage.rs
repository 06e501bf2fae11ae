//! What a poll says about damage, and where reading may go on.

use corelog_format::{
    BATCH_BYTES_MAX, BATCH_HEADER_LEN, BatchHeader, FRAME_HEADER_LEN, FormatError, FormatErrorKind,
    SearchBudget, next_header,
};
use corelog_io::{BLOCK, Platform, align_down};

use super::cursor::Cursor;
use super::plan::Want;
use super::source::{Source, Start};
use super::walker::{Damage, ReadFault};
use crate::partition::Counters;
use crate::{Answer, PollError};

/// One batch is looked at, and nothing behind it.
pub(super) const ONE_BATCH: Want = Want { bytes: 0, until: 0, way: 0, run: 0 };

/// Index entries behind damage that are tried in search of the next readable batch, and blocks that
/// cannot be read on the way there.
const TRIED_MAX: usize = 64;
/// Bytes searched for a batch at once, and in all: the longest batch may be what is damaged.
const LOOK_BYTES: u64 = 256 << 10;
const LOOK_BYTES_MAX: u64 = BATCH_BYTES_MAX + LOOK_BYTES;

/// Goes on behind what stopped `cursor`, where what is `wanted` stands there; otherwise the poll's
/// error.
pub(super) async fn past<P: Platform, A: Answer>(
    cursor: Cursor<P, A>,
    fault: ReadFault,
    wanted: u64,
) -> Result<Cursor<P, A>, PollError> {
    if !fault.is_of_place() {
        return Err(error(&cursor, fault, None));
    }
    match behind(&cursor).await {
        Some(start) if start.offset <= wanted => Ok(cursor.restart(start)),
        behind => Err(error(&cursor, fault, behind)),
    }
}

/// The poll's error for the fault that stopped `cursor`, with the place where reading may go on.
pub(super) async fn failed<P: Platform, A: Answer>(
    cursor: &Cursor<P, A>,
    fault: ReadFault,
) -> PollError {
    let behind = if fault.is_of_place() { behind(cursor).await } else { None };
    error(cursor, fault, behind)
}

fn error<P: Platform, A: Answer>(
    cursor: &Cursor<P, A>,
    fault: ReadFault,
    behind: Option<Start>,
) -> PollError {
    let (inner, segment) = (&cursor.source().inner, cursor.source().segment);
    let next_segment = || inner.segments.borrow().after(segment);
    let resume_offset = behind.map(|start| start.offset).or_else(next_segment);
    match fault {
        ReadFault::Damage(Damage { at: position, why, .. }) => {
            Counters::add(&inner.counters.corrupt_reads, 1);
            PollError::Corrupt { segment, position, resume_offset, why }
        }
        ReadFault::Io(error) if error.is_unreadable() => {
            let position = cursor.position();
            PollError::Unreadable { segment, position, resume_offset, error }
        }
        ReadFault::Io(error) => PollError::Io(error),
    }
}

/// The first batch of the segment behind the place where `cursor` stopped, at damage or at what
/// cannot be read. Where the damaged batch's header is whole, that is where it says that it ends.
/// Otherwise, between there and the next place that the index names, a batch counts only if
/// batches lead from it to just that place, whole or with whole headers: one that stands in a
/// message's payload does not pass for a batch of the log.
pub(super) async fn behind<P: Platform, A: Answer>(cursor: &Cursor<P, A>) -> Option<Start> {
    let position = cursor.position();
    let (inner, segment) = (&cursor.source().inner, cursor.source().segment);
    if let Some(start) = stated(cursor).await {
        return Some(start);
    }
    let named = named(cursor.source(), cursor.offset(), position).await;
    let source = Source::open(inner, segment).await.ok()?;
    let after = inner.segments.borrow().after(segment);
    let last = match (named, after) {
        (Some(start), _) => Last { position: Some(start.position), offset: Some(start.offset) },
        // A sealed file has no length of its own to stop at.
        (None, Some(after)) => Last { position: None, offset: Some(after) },
        (None, None) => Last { position: Some(source.end), offset: None },
    };
    let found = search(source, cursor.offset(), position, last).await;
    found.or(named)
}

/// The batch that the damaged one where `cursor` stopped leads to, by its header and by those of
/// damaged ones behind it: each states its place's offset and where the next one begins.
async fn stated<P: Platform, A: Answer>(cursor: &Cursor<P, A>) -> Option<Start> {
    let (source, segment) = (cursor.source(), cursor.source().segment);
    let mut next = stated_end(source, cursor.position(), cursor.offset()).await?;
    let again = Source::open(&source.inner, segment).await.ok()?;
    let mut cursor = Cursor::new(again, next);
    for _ in 0..TRIED_MAX {
        match cursor.next(&ONE_BATCH).await {
            Ok(Some(_)) => return Some(Start { hint: false, ..next }),
            Ok(None) => return None,
            Err(fault) if !fault.is_of_place() => return None,
            Err(_) => {}
        }
        next = stated_end(cursor.source(), next.position, next.offset).await?;
        cursor = cursor.restart(next);
    }
    None
}

/// Where the batch at `position` ends and which offset comes there, if a header stands there that
/// states this place's partition and `offset`. The rest of it may be damaged.
async fn stated_end<P: Platform, A: Answer>(
    source: &Source<P, A>,
    position: u64,
    offset: u64,
) -> Option<Start> {
    let bytes = source.bytes(position, BATCH_HEADER_LEN as u64).await.ok()?;
    let header = BatchHeader::parse(&bytes).ok()?;
    let partition_id = u64::from(source.inner.place.partition_id);
    let fits = header.partition_id == partition_id && header.base_offset == offset;
    let (end, next) = (position.checked_add(header.batch_length)?, header.end_offset()?);
    (fits && end <= source.end).then_some(Start { position: end, offset: next, hint: true })
}

/// The first index entry behind `position`, where `offset` should be, whose batch verifies.
async fn named<P: Platform, A: Answer>(
    source: &Source<P, A>,
    offset: u64,
    mut position: u64,
) -> Option<Start> {
    let again = Source::open(&source.inner, source.segment).await.ok()?;
    let mut cursor = Cursor::new(again, source.origin());
    for _ in 0..TRIED_MAX {
        let entry = cursor.source().look(|index| index.after_position(position))?;
        cursor = cursor.restart(Start::of(entry));
        if entry.base_offset > offset && matches!(cursor.next(&ONE_BATCH).await, Ok(Some(_))) {
            return Some(Start { hint: false, ..Start::of(entry) });
        }
        position = entry.position;
    }
    None
}

/// Where the batches behind damage must end: what is known of it.
#[derive(Clone, Copy)]
struct Last {
    position: Option<u64>,
    offset: Option<u64>,
}

/// The first batch at or behind `position`, where one with `offset` should stand, from which
/// batches lead to `last`. One that stands just there is in nobody's payload: some are missing
/// before it.
async fn search<P: Platform, A: Answer>(
    source: Source<P, A>,
    offset: u64,
    position: u64,
    last: Last,
) -> Option<Start> {
    let partition_id = u64::from(source.inner.place.partition_id);
    let end = last.position.unwrap_or(u64::MAX).min(position.saturating_add(LOOK_BYTES_MAX));
    let mut budget = SearchBudget::of_file(end - position);
    let mut cursor = Cursor::new(source, Start { position, offset, hint: true });
    let mut at = position;
    let mut look = Look { bytes: LOOK_BYTES, unreadable: 0 };
    while at < end && !budget.is_used_up() {
        let window;
        (at, window) = look.next(cursor.source(), at, end).await?;
        let mut from = 0;
        while let Some(place) = next_header(&window[from..]) {
            let (here, header) = (at + (from + place) as u64, &window[from + place..]);
            let header = BatchHeader::parse(header).ok()?;
            let ahead = header.base_offset.checked_sub(offset);
            // A message takes a frame's header at least.
            let reach = (here - position) / FRAME_HEADER_LEN as u64;
            let fits = |n| n > 0 && (n <= reach || here == position);
            if header.partition_id == partition_id && ahead.is_some_and(fits) {
                let start = Start { position: here, offset: header.base_offset, hint: false };
                let leads;
                (cursor, leads) =
                    lead_to(cursor.restart(Start { hint: true, ..start }), last).await;
                if leads {
                    return Some(start);
                }
                budget.charge(cursor.position() - here);
            }
            from += place + 1;
        }
        // The next window begins with the header that this one cuts short. A shorter one ends with
        // the file, or before what cannot be read.
        at += match window.len().saturating_sub(BATCH_HEADER_LEN - 1) {
            0 if window.is_empty() => return None,
            0 => window.len() as u64,
            searched => searched as u64,
        };
    }
    None
}

/// How bytes are looked through.
struct Look {
    /// Bytes to be read at once; 0 where only one block is.
    bytes: u64,
    /// Blocks that could not be read.
    unreadable: usize,
}

impl Look {
    /// The next bytes from `at` up to `end` at most, and where they begin. What the device does not
    /// give back is stepped over block by block.
    async fn next<P: Platform, A: Answer>(
        &mut self,
        source: &Source<P, A>,
        mut at: u64,
        end: u64,
    ) -> Option<(u64, Vec<u8>)> {
        while at < end && self.unreadable < TRIED_MAX {
            let in_block = align_down(at) + BLOCK as u64 - at;
            match source.bytes(at, self.bytes.max(in_block).min(end - at)).await {
                Ok(window) => {
                    self.bytes = (2 * self.bytes).clamp(BLOCK as u64, LOOK_BYTES);
                    return Some((at, window));
                }
                Err(error) if !error.is_unreadable() => return None,
                Err(_) if self.bytes > in_block => self.bytes = 0,
                Err(_) => {
                    self.unreadable += 1;
                    at += in_block;
                }
            }
        }
        None
    }
}

/// True where a whole batch stands at `cursor`, and from there batches lead to just `last`: whole
/// ones, and damaged ones whose headers are whole. Gives the cursor back where that was decided.
async fn lead_to<P: Platform, A: Answer>(
    mut cursor: Cursor<P, A>,
    last: Last,
) -> (Cursor<P, A>, bool) {
    let mut is_first = true;
    loop {
        match cursor.next(&ONE_BATCH).await {
            Ok(Some(_)) => {}
            Err(ReadFault::Damage(_)) if !is_first => {
                let (source, position, offset) =
                    (cursor.source(), cursor.position(), cursor.offset());
                let Some(next) = stated_end(source, position, offset).await else {
                    return (cursor, false);
                };
                cursor = cursor.restart(next);
            }
            Ok(None) | Err(_) => return (cursor, false),
        }
        is_first = false;
        let (position, offset) = (cursor.position(), cursor.offset());
        if last.position == Some(position) || last.position.is_none() && last.offset == Some(offset)
        {
            return (cursor, last.offset.is_none_or(|last| last == offset));
        }
        if last.position.is_some_and(|last| position > last) {
            return (cursor, false);
        }
    }
}

/// No segment holds `offset`: files are missing in front of `first`.
pub(super) fn hole(offset: u64, first: u64) -> PollError {
    let kind = FormatErrorKind::Mismatch { expected: offset, found: first };
    let why = FormatError::new(0, "first_offset", kind);
    PollError::Corrupt { segment: first, position: 0, resume_offset: Some(first), why }
}

/// A segment whose batches end before the next segment begins.
pub(super) fn ended_early(segment: u64, position: u64, after: Option<u64>) -> PollError {
    let kind = FormatErrorKind::Truncated { needed: 1, have: 0 };
    let why = FormatError::new(position, "batch_header", kind);
    PollError::Corrupt { segment, position, resume_offset: after, why }
}
