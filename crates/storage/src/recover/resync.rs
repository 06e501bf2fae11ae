//! Finds whole batches behind damage: for the next free offset, and to know what a cut would lose.
//!
//! Batches stand at any byte, so every byte behind the damage is a candidate; almost all fail on
//! the first look at a header (length, count, 204 zeros). A batch counts only if it verifies, is
//! this partition's, and its offset can be reached from the damage: a message takes at least 48
//! bytes, so `n` bytes hold at most `n / 48` offsets. That keeps a payload that looks like a batch
//! from pushing the log's end far away.

use std::ops::Range;
use std::rc::Rc;

use corelog_format::{BATCH_HEADER_LEN, BatchHeader, Expect, FRAME_HEADER_LEN, Mark};
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
    /// The first byte of the range is not a candidate: damage begins there.
    pub(super) async fn highest(
        &self,
        range: Range<u64>,
        bytes_read: &mut u64,
    ) -> Result<Option<Reached>, OpenError> {
        let mut highest: Option<Reached> = None;
        let mut at = range.start + 1;
        while at < range.end {
            let start = align_down(at);
            // The last header that begins in the window is whole in it, or the file ends.
            let want = align_up(range.end.min(at + WINDOW_BYTES)) - start;
            let bytes = self.file.read_at(start, want as usize).await?;
            *bytes_read += bytes.as_ref().len() as u64;
            let skip = (at - start) as usize;
            let Some(window) = bytes.as_ref().get(skip..) else { break };
            match self.candidate(window, at, &range) {
                Some(place) => {
                    let from = at + place as u64;
                    let run = self.run(from, range.end, bytes_read).await?;
                    at = run.map_or(from + 1, |(end, _)| end);
                    if let Some((_, reached)) = run {
                        highest = Some(highest.unwrap_or_default().and(reached));
                    }
                }
                // Step so that the next window begins with the headers this one cut short.
                None if window.len() <= BATCH_HEADER_LEN => break,
                None => at += (window.len() - BATCH_HEADER_LEN + 1) as u64,
            }
        }
        Ok(highest)
    }

    /// The first place in `window` (which begins at file position `at`) that looks like a batch.
    fn candidate(&self, window: &[u8], at: u64, range: &Range<u64>) -> Option<usize> {
        let id = u64::from(self.partition_id).to_le_bytes();
        window.windows(BATCH_HEADER_LEN).enumerate().find_map(|(place, bytes)| {
            if bytes[..8] != id {
                return None;
            }
            let header = BatchHeader::parse(bytes).ok()?;
            let position = at + place as u64;
            let reach = (position - range.start) / FRAME_HEADER_LEN as u64;
            let ahead = header.base_offset.checked_sub(self.next_offset)?;
            let fits = position.checked_add(header.batch_length)? <= range.end;
            (ahead <= reach && fits).then_some(place)
        })
    }

    /// Batches one behind the other from `from` on: where they end, and how far they reach.
    async fn run(
        &self,
        from: u64,
        end: u64,
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
        *bytes_read += walker.bytes_read;
        Ok(run)
    }
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
        let first = search.run(0, len, &mut report.bytes_read).await?;
        let (rest, first) = first.map_or((0, Reached::default()), |(end, reached)| (end, reached));
        let found = search.highest(rest..len, &mut report.bytes_read).await?;
        highest = highest.and(first).and(found.unwrap_or_default());
    }
    Ok(highest)
}
