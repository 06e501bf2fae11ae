//! Where in a segment to begin: what the index says, if the log bears it out.
//!
//! An index is a hint and may say anything; a payload may hold whole batches of its own (a
//! mirror's), so that even a batch that verifies where an entry points may be none of this log.
//! An entry is used when headers, hopped over from a place far enough before it, lead to exactly
//! that position and offset, and the batch there verifies. Far enough is the length of the longest
//! batch: a place inside of a payload does not stay in it for longer. On any doubt the answer is
//! `None`, and the caller walks from the front.

use corelog_format::{
    BATCH_BYTES_MAX, BATCH_HEADER_LEN, BatchHeader, INDEX_ENTRY_LEN, IndexEntry, UnverifiedBatch,
};

use crate::failure::Failure;
use crate::index_check::beside;
use crate::map::Pattern;
use crate::select::Selection;
use crate::source::{Access, Links, Source};
use crate::walk::{Known, Start};

const ENTRY: u64 = INDEX_ENTRY_LEN as u64;

/// From this length of a batch on, reading only headers beats reading everything.
const HOP_BYTES: u64 = 128 * 1024;

/// The index beside a log.
pub(crate) struct Index {
    source: Source,
    entries: u64,
}

impl Index {
    /// Opens it. One that is not there or cannot be read says nothing; `verify` tells about it.
    pub(crate) fn open(log: &std::path::Path, links: Links, access: Access) -> Option<Index> {
        let access = Access { progress: false, ..access };
        let mut source = Source::open(&beside(log), links, access).ok()?;
        source.expect(Pattern::Sparse);
        let entries = source.len() / ENTRY;
        (entries > 0).then_some(Index { source, entries })
    }

    /// The latest place in `log` that the index knows with nothing selected before it.
    /// `times_rise`: batches come in order of time as well.
    pub(crate) fn before(
        &mut self,
        log: &mut Source,
        known: Known,
        selection: &Selection,
        times_rise: bool,
    ) -> Result<Option<Start>, Failure> {
        let Selection { offsets, times, .. } = selection;
        let by_offset = self.last(|entry| entry.base_offset <= offsets.start);
        let by_time = match times_rise {
            true => self.last(|entry| entry.base_timestamp <= times.start),
            false => None,
        };
        match by_offset.max(by_time) {
            Some(number) => self.proved(log, known, number),
            None => Ok(None),
        }
    }

    /// The last place that the index knows at or below log position `at` and `offset`.
    pub(crate) fn at_most(
        &mut self,
        log: &mut Source,
        known: Known,
        at: u64,
        offset: u64,
    ) -> Result<Option<Start>, Failure> {
        match self.last(|entry| entry.position <= at && entry.base_offset <= offset) {
            Some(number) => self.proved(log, known, number),
            None => Ok(None),
        }
    }

    /// The number of the last entry that is `low`, as far as they ascend.
    fn last(&mut self, low: impl Fn(&IndexEntry) -> bool) -> Option<u64> {
        let (mut from, mut to) = (0, self.entries);
        while from < to {
            let middle = from + (to - from) / 2;
            if low(&self.entry(middle)?) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from.checked_sub(1)
    }

    fn entry(&mut self, number: u64) -> Option<IndexEntry> {
        let window = self.source.window(number * ENTRY, ENTRY).ok()?;
        window.first_chunk().map(IndexEntry::decode)
    }

    /// The place that an entry names, if it is one.
    fn proved(
        &mut self,
        log: &mut Source,
        known: Known,
        number: u64,
    ) -> Result<Option<Start>, Failure> {
        let Some(entry) = self.entry(number) else { return Ok(None) };
        let far = entry.position.checked_sub(BATCH_BYTES_MAX);
        let from = match far.and_then(|far| self.last(|entry| entry.position <= far)) {
            Some(before) => self.entry(before).filter(|before| before.position < entry.position),
            None => None,
        };
        let from = match from {
            Some(before) => Start {
                at: before.position,
                partition_id: known.partition_id,
                next_offset: Some(before.base_offset),
                last_timestamp: None,
            },
            None => Start::first(known),
        };
        let landed = hop(log, from, entry.position)?;
        log.expect(Pattern::Sequential);
        match landed {
            Some(start) if verifies(log, known, &entry)? => Ok(Some(start)),
            _ => Ok(None),
        }
    }
}

/// Hops over headers from `from` to exactly `to`; `None` where they do not lead there.
fn hop(log: &mut Source, from: Start, to: u64) -> Result<Option<Start>, Failure> {
    let mut here = from;
    log.expect(Pattern::Sparse);
    while here.at < to {
        let Ok(header) = BatchHeader::parse(log.window(here.at, BATCH_HEADER_LEN as u64)?) else {
            return Ok(None);
        };
        let goes_on = here.next_offset.is_none_or(|next| next == header.base_offset)
            && here.partition_id.is_none_or(|id| id == header.partition_id);
        if !goes_on || header.batch_length > log.len() - here.at {
            return Ok(None);
        }
        log.expect(match header.batch_length >= HOP_BYTES {
            true => Pattern::Sparse,
            false => Pattern::Sequential,
        });
        here = Start::behind(here.at, &header);
    }
    Ok((here.at == to).then_some(here))
}

/// Whether the batch that an entry names verifies and is the one it names.
fn verifies(log: &mut Source, known: Known, entry: &IndexEntry) -> Result<bool, Failure> {
    let at = entry.position;
    let Ok(header) = BatchHeader::parse(log.window(at, BATCH_HEADER_LEN as u64)?) else {
        return Ok(false);
    };
    let named = header.base_offset == entry.base_offset
        && header.base_timestamp == entry.base_timestamp
        && known.partition_id.is_none_or(|id| id == header.partition_id);
    if !named || header.batch_length > log.len() - at {
        return Ok(false);
    }
    let window = log.window(at, header.batch_length)?;
    let batch = UnverifiedBatch::split_first(window).and_then(|(batch, _)| batch.verify_stored());
    Ok(batch.is_ok())
}
