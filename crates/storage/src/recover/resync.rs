//! Finds whole batches behind damage: for the next free offset, and to know what a cut would lose.
//!
//! A candidate counts only if it verifies, is this partition's, and its offset can be reached from
//! the damage: a message takes at least 48 bytes, so `n` bytes hold at most `n / 48` offsets. That
//! keeps a payload that looks like a batch from pushing the log's end far away, and bounds what a
//! search that gave up (see `SearchBudget`) has to assume.

use std::ops::Range;
use std::rc::Rc;

use corelog_format::{
    BATCH_HEADER_LEN, BatchHeader, Expect, FRAME_HEADER_LEN, Mark, SearchBudget, next_header,
};
use corelog_io::{BLOCK, Disk, File, Open, align_down, align_up};

use super::{OpenReport, Survey};
use crate::read::{ReadFault, Walker};
use crate::segments::log_path;
use crate::{OpenError, Place};

/// Bytes searched at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// How far batches were seen to reach.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reached {
    pub(super) next_offset: u64,
    pub(super) last_timestamp: u64,
}

impl Reached {
    pub(super) fn at(mark: Mark) -> Self {
        Reached { next_offset: mark.next_offset, last_timestamp: mark.last_timestamp }
    }

    /// The higher of each.
    fn and(self, other: Reached) -> Self {
        Reached {
            next_offset: self.next_offset.max(other.next_offset),
            last_timestamp: self.last_timestamp.max(other.last_timestamp),
        }
    }
}

/// Search of one file.
pub(super) struct Search<F: File> {
    pub(super) file: Rc<F>,
    pub(super) partition_id: u32,
    /// Offsets below are taken.
    pub(super) next_offset: u64,
}

impl<F: File> Search<F> {
    /// How far the batches in `range` of the file that verify reach; `None` without one.
    /// The first byte of the range is not a candidate: damage begins there. Where the bytes were
    /// made to cost too much, the furthest offset that they could reach.
    pub(super) async fn highest(
        &self,
        range: Range<u64>,
        bytes_read: &mut u64,
    ) -> Result<Option<Reached>, OpenError> {
        let mut budget = SearchBudget::of_file(range.end - range.start);
        let mut highest: Option<Reached> = None;
        let mut at = range.start + 1;
        while at + BATCH_HEADER_LEN as u64 <= range.end {
            let start = align_down(at);
            let want = align_up(range.end.min(at + WINDOW_BYTES)) - start;
            let bytes = self.file.read_at(start, want as usize).await?;
            *bytes_read += bytes.as_ref().len() as u64;
            let Some(window) = bytes.as_ref().get((at - start) as usize..) else { break };
            if window.len() < BATCH_HEADER_LEN {
                break;
            }
            // The next window begins with the headers that this one cuts short.
            let next_window = at + (window.len() - BATCH_HEADER_LEN + 1) as u64;
            let mut from = at;
            while from < next_window {
                let rest = &window[(from - at) as usize..];
                let Some(place) = self.candidate(rest, from, &range) else { break };
                from += place as u64;
                let run = self.run(from, range.end, &mut budget, bytes_read).await?;
                from = run.map_or(from + 1, |(end, _)| end);
                if let Some((_, reached)) = run {
                    highest = Some(highest.unwrap_or_default().and(reached));
                }
                if budget.is_used_up() {
                    let next_offset = self.next_offset.saturating_add(offsets_in(&range));
                    let furthest = Reached { next_offset, last_timestamp: 0 };
                    return Ok(Some(highest.unwrap_or_default().and(furthest)));
                }
            }
            at = from.max(next_window);
        }
        Ok(highest)
    }

    /// The first place in `window` (which begins at file position `at`) that looks like a batch.
    fn candidate(&self, window: &[u8], at: u64, range: &Range<u64>) -> Option<usize> {
        let mut from = 0;
        loop {
            let place = from + next_header(window.get(from..)?)?;
            let header = BatchHeader::parse(&window[place..]).ok()?;
            let position = at + place as u64;
            let ahead = header.base_offset.checked_sub(self.next_offset);
            let fits = position.checked_add(header.batch_length).is_some_and(|e| e <= range.end);
            if header.partition_id == u64::from(self.partition_id)
                && ahead.is_some_and(|ahead| ahead <= offsets_in(&(range.start..position)))
                && fits
            {
                return Some(place);
            }
            from = place + 1;
        }
    }

    /// Batches one behind the other from `from` on: where they end, and how far they reach.
    async fn run(
        &self,
        from: u64,
        end: u64,
        budget: &mut SearchBudget,
        bytes_read: &mut u64,
    ) -> Result<Option<(u64, Reached)>, OpenError> {
        let expect = Expect {
            partition_id: Some(u64::from(self.partition_id)),
            time_may_go_back: true,
            ..Expect::default()
        };
        let file = Rc::clone(&self.file);
        let mut walker = Walker::new(file, from, end, 0, expect, BLOCK);
        let (mut run, mut reached) = (None, Reached::default());
        loop {
            match walker.next().await {
                Ok(Some(found)) => {
                    let (next, last_timestamp) =
                        (found.header.end_offset(), found.header.base_timestamp);
                    let next_offset = next.unwrap_or(u64::MAX);
                    reached = reached.and(Reached { next_offset, last_timestamp });
                    run = Some((walker.position(), reached));
                }
                Err(ReadFault::Io(error)) => return Err(error.into()),
                Ok(None) | Err(ReadFault::Damage(_)) => break,
            }
        }
        if run.is_none() {
            budget.charge(walker.bytes_read);
        }
        *bytes_read += walker.bytes_read;
        Ok(run)
    }
}

/// Most offsets that these bytes can hold.
fn offsets_in(range: &Range<u64>) -> u64 {
    (range.end - range.start) / FRAME_HEADER_LEN as u64
}

/// The larger of the mark, the end of the walk, and the batches that verify behind it, in the same
/// file or the files `behind`.
pub(super) async fn highest<D: Disk>(
    disk: &D,
    place: &Place,
    survey: &Survey,
    from: Option<(Mark, Rc<D::File>)>,
    behind: &[u64],
    report: &mut OpenReport,
) -> Result<Reached, OpenError> {
    let mut highest = survey.mark().map_or_else(Reached::default, Reached::at);
    let partition_id = place.partition_id;
    if let Some((end, file)) = from {
        highest = highest.and(Reached::at(end));
        let range = end.position..file.len().await?;
        let search = Search { file, partition_id, next_offset: end.next_offset };
        let found = search.highest(range, &mut report.bytes_read).await?;
        highest = highest.and(found.unwrap_or_default());
    }
    for segment in behind {
        highest.next_offset = highest.next_offset.max(*segment);
        let file = Rc::new(disk.open(&log_path(&place.dir, *segment), Open::default()).await?);
        let len = file.len().await?;
        let search = Search { file, partition_id, next_offset: *segment };
        // The file's first byte is a candidate too.
        let mut budget = SearchBudget::of_file(len);
        let first = search.run(0, len, &mut budget, &mut report.bytes_read).await?;
        let (rest, first) = first.map_or((0, Reached::default()), |(end, reached)| (end, reached));
        let found = search.highest(rest..len, &mut report.bytes_read).await?;
        highest = highest.and(first).and(found.unwrap_or_default());
    }
    Ok(highest)
}
