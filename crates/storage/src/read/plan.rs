//! What a poll reads from where: pure decisions, no I/O. What it takes of a batch is `select`'s.
//!
//! A batch must stand in one buffer to be verified and lent out, and batches are not aligned. The
//! index knows where a batch begins about every 64 KiB, so windows are cut there and rounded out
//! to blocks: each holds whole batches, and neighbours share a block at most. With entries at
//! 0, 70,000 and 140,000 and windows of 128 KiB a reader at 0 gets `0..70,000`, as 140,000 lies
//! beyond 131,072; its buffer is the blocks `0..73,728`, and the next one begins at 69,632.
//!
//! Nothing here is believed of the index. Where an entry lies, the batch that it cuts in two is
//! read again as a whole, and the readers go on behind it.

use corelog_io::{BLOCK, align_down, align_up};

use super::From;
use crate::SharedLimits;
use crate::index::SparseIndex;

/// Windows are not cut smaller than this where there is more to read.
const WINDOW_MIN: u64 = 64 << 10;

/// Where a poll begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// At this offset.
    At(u64),
    /// At the first batch at or after this time: to be looked for.
    Time(u64),
}

/// Where a poll of `from` begins in a log that is retained from `start` and readable up to `end`.
pub(crate) fn begin(from: From, start: u64, end: u64) -> Begin {
    match from {
        From::Offset(offset) => Begin::At(offset.max(start)),
        From::First => Begin::At(start),
        From::Last(count) => Begin::At(end.saturating_sub(u64::from(count)).max(start)),
        From::Timestamp(time) => Begin::Time(time),
        From::Next(_) => unreachable!("what a consumer has stored was looked up before"),
    }
}

/// Who serves an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nobody: the poll is at its end.
    Nobody,
    /// The memory of the tail, and all behind it.
    Memory,
    /// The file of the segment that begins at this offset.
    Segment(u64),
    /// No file holds it, the first that is there begins at this offset: files are missing.
    Hole(u64),
}

/// Who serves `offset` in a log that is readable up to `end`. Memory holds whole batches from
/// `memory` on, where it holds any; `segment` is the last one that begins at or below the offset,
/// `first` the first of all.
pub(crate) fn source(
    offset: u64,
    end: u64,
    memory: Option<u64>,
    segment: Option<u64>,
    first: u64,
) -> Source {
    if offset >= end {
        return Source::Nobody;
    }
    if memory.is_some_and(|from| from <= offset) {
        return Source::Memory;
    }
    segment.map_or(Source::Hole(first), Source::Segment)
}

/// One window to read: exact positions in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// A batch begins here.
    pub(crate) from: u64,
    /// Where the next window begins.
    pub(crate) to: u64,
    /// A batch begins at `to`, as far as the index says. Otherwise only the reader will know where
    /// the next one begins, and nothing is read ahead behind.
    pub(crate) whole: bool,
}

/// What a reader at a batch's first byte wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Want {
    /// Bytes that the poll may still take.
    pub(crate) bytes: u64,
    /// First offset that it does not take.
    pub(crate) until: u64,
    /// Bytes on the way from an index entry to the first batch that it takes: these at most.
    pub(crate) way: u64,
    /// Bytes that the reader has read in sequence up to here, by polls before this one; 0 where it
    /// is not known to be sequential.
    pub(crate) run: u64,
}

/// How to read for a reader: see [`Want::reach`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Blocks of a window, bytes.
    size: u64,
    /// A window holds one step of the index, a long batch perhaps, up to this length, bytes.
    long: u64,
    /// How far to read, counted from the reader's place, bytes.
    ahead: u64,
    /// Offset from which on nothing is wanted.
    until: u64,
}

impl Want {
    /// How to read for this reader: what its poll may take, and what a sequential one will ask for
    /// next. As much is read ahead as was read in sequence, so one that stops early cost little.
    /// `step` is the log's index step.
    pub(crate) fn reach(&self, limits: &SharedLimits, step: u64) -> Reach {
        let (window_max, ahead_max) = (limits.read_bytes as u64, limits.read_ahead_bytes as u64);
        let size = self.bytes.saturating_add(self.way).max(self.run);
        let size = size.clamp(WINDOW_MIN, window_max.max(WINDOW_MIN)).next_power_of_two();
        let until = if self.run > 0 { u64::MAX } else { self.until };
        let ahead = self.bytes.saturating_add(self.way).max(self.run).min(ahead_max);
        let size = size.min(window_max.next_power_of_two()).max(BLOCK as u64);
        // A longer step is one long batch, which is read whole in any case; or steps are that long,
        // and then only who reads all of it wants it.
        let long = if step <= size.max(self.run) { ahead_max.max(size) } else { size };
        Reach { size, long, ahead, until }
    }
}

/// The window for a reader at `position`, where a batch begins that is `at_least` bytes long as far
/// as is known. `end` is the end of what may be read.
pub(crate) fn window(
    index: &SparseIndex,
    end: u64,
    position: u64,
    at_least: u64,
    reach: Reach,
) -> Cut {
    let base = align_down(position);
    let entries = index.entries();
    let entries = &entries[entries.partition_point(|entry| entry.position <= position)..];
    let unwanted = entries.get(entries.partition_point(|e| e.base_offset < reach.until));
    let stop = unwanted.map_or(end, |entry| entry.position.min(end));
    let fits = |to: u64, len: u64| align_up(to).saturating_sub(base) <= len;
    let first = entries.first().map(|entry| entry.position).filter(|first| *first < end);
    let fitting = entries.partition_point(|e| e.position <= stop && fits(e.position, reach.size));
    let cut = if fits(stop, reach.size) {
        Cut { from: position, to: stop, whole: true }
    } else if let Some(last) = fitting.checked_sub(1) {
        Cut { from: position, to: entries[last].position, whole: true }
    } else if let Some(first) = first.filter(|first| fits(*first, reach.long)) {
        Cut { from: position, to: first, whole: true }
    } else {
        // A batch as long as the window begins and ends inside of blocks: one more on either side.
        let to = (base + reach.size + 2 * BLOCK as u64).min(end);
        Cut { from: position, to, whole: false }
    };
    let need = position.saturating_add(at_least).min(end);
    if cut.to < need { Cut { from: position, to: need, whole: true } } else { cut }
}

/// The next window to read ahead for a reader at `position`, behind those that are there:
/// `there(position)` is the end of one that holds a batch at `position`, and whether it is whole.
pub(crate) fn missing(
    index: &SparseIndex,
    end: u64,
    position: u64,
    reach: Reach,
    mut there: impl FnMut(u64) -> Option<(u64, bool)>,
) -> Option<Cut> {
    let horizon = position.saturating_add(reach.ahead).min(end);
    let mut at = position;
    while at < horizon {
        match there(at) {
            Some((to, true)) if to > at => at = to,
            Some(_) => return None,
            None => {
                let wanted = index.at_position(at).is_none_or(|e| e.base_offset < reach.until);
                return wanted.then(|| window(index, end, at, 0, reach));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
