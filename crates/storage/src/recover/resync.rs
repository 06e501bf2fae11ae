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

/// Search of one file.
pub(super) struct Search<F: File> {
    pub(super) file: Rc<F>,
    pub(super) partition_id: u32,
    /// Offsets below are taken.
    pub(super) next_offset: u64,
}

impl<F: File> Search<F> {
    /// End offset of the highest batch in `range` of the file that verifies; `None` without one.
    /// The first byte of the range is not a candidate: damage begins there. Where the bytes were
    /// made to cost too much, the highest end that they could hold.
    pub(super) async fn highest(
        &self,
        range: Range<u64>,
        bytes_read: &mut u64,
    ) -> Result<Option<u64>, OpenError> {
        let mut budget = SearchBudget::of_file(range.end - range.start);
        let mut highest = None;
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
                highest = highest.max(run.map(|(_, offset)| offset));
                from = run.map_or(from + 1, |(end, _)| end);
                if budget.is_used_up() {
                    return Ok(Some(self.next_offset.saturating_add(offsets_in(&range))));
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

    /// Batches one behind the other from `from` on: where they end, and the end offset.
    async fn run(
        &self,
        from: u64,
        end: u64,
        budget: &mut SearchBudget,
        bytes_read: &mut u64,
    ) -> Result<Option<(u64, u64)>, OpenError> {
        let expect = Expect {
            partition_id: Some(u64::from(self.partition_id)),
            time_may_go_back: true,
            ..Expect::default()
        };
        let file = Rc::clone(&self.file);
        let mut walker = Walker::new(file, from, end, 0, expect, BLOCK);
        let mut run = None;
        loop {
            match walker.next().await {
                Ok(Some(found)) => {
                    run = found.header.end_offset().map(|offset| (walker.position(), offset));
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

/// The larger of the mark's next offset, the end of the walk, and the end of the highest batch that
/// verifies behind it, in the same file or the files `behind`.
pub(super) async fn highest<D: Disk>(
    disk: &D,
    place: &Place,
    survey: &Survey,
    from: Option<(Mark, Rc<D::File>)>,
    behind: &[u64],
    report: &mut OpenReport,
) -> Result<u64, OpenError> {
    let mut highest = survey.mark().map_or(0, |mark| mark.next_offset);
    let partition_id = place.partition_id;
    if let Some((end, file)) = from {
        highest = highest.max(end.next_offset);
        let range = end.position..file.len().await?;
        let search = Search { file, partition_id, next_offset: end.next_offset };
        highest = highest.max(search.highest(range, &mut report.bytes_read).await?.unwrap_or(0));
    }
    for segment in behind {
        highest = highest.max(*segment);
        let file = Rc::new(disk.open(&log_path(&place.dir, *segment), Open::default()).await?);
        let len = file.len().await?;
        let search = Search { file, partition_id, next_offset: *segment };
        // The file's first byte is a candidate too.
        let mut budget = SearchBudget::of_file(len);
        let found = match search.run(0, len, &mut budget, &mut report.bytes_read).await? {
            Some((end, offset)) => {
                let rest = search.highest(end..len, &mut report.bytes_read).await?;
                rest.max(Some(offset))
            }
            None => search.highest(0..len, &mut report.bytes_read).await?,
        };
        highest = highest.max(found.unwrap_or(0));
    }
    Ok(highest)
}
