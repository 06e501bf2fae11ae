//! Finds whole batches behind damage: for the next free offset, and to know what a cut would lose.
//!
//! A candidate counts only if it verifies, is this partition's, and its offset can be reached from
//! the damage: a message takes at least 48 bytes, so `n` bytes hold at most `n / 48` offsets. That
//! keeps a payload that looks like a batch from pushing the log's end far away, and bounds what a
//! search that gave up (see `SearchBudget`) has to assume. What stands where the log breaks off, or
//! nearer to it than a payload can, is in none: it counts whatever its offsets, and what is searched
//! behind it goes on from there. Others out of reach are strays: they say nothing about the next
//! offset, but a cut keeps a copy.

use std::ops::Range;
use std::rc::Rc;

use corelog_format::{
    BATCH_BYTES_MAX, BATCH_HEADER_LEN, BatchHeader, Expect, FRAME_HEADER_LEN, Mark, SearchBudget,
    first_nonzero, next_header,
};
use corelog_io::{BLOCK, Disk, File, Open, align_down, align_up};

use crate::config::SEGMENT_BYTES_MAX;
use crate::read::{ReadFault, Walker};
use crate::segments::log_path;
use crate::{OpenError, Place};

/// Blocks searched at once: 1 MiB.
const AHEAD_BLOCKS: u64 = (1 << 20) / BLOCK as u64;

/// How far batches reach. Those that nobody could look at count by the offsets that they may have; of
/// their times `act` says what is assumed.
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
    pub(super) fn and(self, other: Reached) -> Self {
        Reached {
            next_offset: self.next_offset.max(other.next_offset),
            last_timestamp: self.last_timestamp.max(other.last_timestamp),
        }
    }
}

/// What a search found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Searched {
    /// How far the batches that verify reach; `None` without one. Where bytes could not be read, or
    /// were made to cost too much, the furthest offset that they could reach.
    pub(super) reached: Option<Reached>,
    /// A batch that verifies has an offset that cannot be reached from the damage; assumed as well
    /// where looking for one was made to cost too much.
    pub(super) strays: bool,
    /// End of the bytes that are not zero or could not be read; 0 where there are none.
    pub(super) used: u64,
    /// The first block that the device did not give back.
    pub(super) unreadable: Option<u64>,
}

/// A file behind the place where the walk stopped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Later {
    pub(super) segment: u64,
    pub(super) searched: Searched,
}

impl Later {
    /// No byte in it is anything but zero.
    pub(super) fn is_blank(&self) -> bool {
        self.searched.used == 0
    }

    /// How far it says that the log reaches, by its name alone or by what stands in it.
    pub(super) fn reached(&self) -> Reached {
        let named = Reached { next_offset: self.segment, last_timestamp: 0 };
        named.and(self.searched.reached.unwrap_or_default())
    }
}

/// No log is longer: a full segment may take one more batch. What lies behind in a file that is (a
/// hole of terabytes, perhaps) is not looked at, as looking would take for ever.
const LOG_BYTES_MAX: u64 = SEGMENT_BYTES_MAX + BATCH_BYTES_MAX;

/// Searches a whole file.
pub(super) async fn later<D: Disk>(
    disk: &D,
    place: &Place,
    segment: u64,
    bytes_read: &mut u64,
) -> Result<Later, OpenError> {
    let file = Rc::new(disk.open(&log_path(&place.dir, segment), Open::default()).await?);
    let len = file.len().await?;
    let partition_id = place.partition_id;
    let known = (0, segment);
    let range = 0..len.min(LOG_BYTES_MAX);
    let search = Search { file, partition_id, next_offset: segment, range, known };
    let mut searched = search.run(bytes_read).await?;
    if len > LOG_BYTES_MAX {
        let next_offset = segment.saturating_add(offsets_in(&(0..len)));
        let furthest = Reached { next_offset, last_timestamp: 0 };
        searched.reached = Some(searched.reached.unwrap_or_default().and(furthest));
        searched.used = len;
    }
    Ok(Later { segment, searched })
}

/// Search of one file.
pub(super) struct Search<F: File> {
    pub(super) file: Rc<F>,
    pub(super) partition_id: u32,
    /// Offsets below are taken.
    pub(super) next_offset: u64,
    /// What is searched.
    pub(super) range: Range<u64>,
    /// The last place where the log's offset is known, position and offset: bytes that nobody can
    /// look at hold the offsets from there on.
    pub(super) known: (u64, u64),
}

/// What a search has met so far.
struct Progress {
    found: Searched,
    budget: SearchBudget,
    /// For strays alone: what they cost changes nothing for the others.
    budget_for_strays: SearchBudget,
    /// Some bytes were not looked at: they could not be read or cost too much.
    blind: bool,
    /// Blocks read at once beside the one that the search has come to.
    ahead: u64,
    /// Where the batches end that are the log's for certain, and the furthest offset known there.
    anchor: (u64, u64),
}

impl Progress {
    /// Batches from `from` to `end` verify.
    fn batches(&mut self, from: u64, end: u64, reached: Reached) {
        if self.is_no_payload(from) {
            self.anchor = (end, self.anchor.1.max(reached.next_offset));
        }
        self.found.reached = Some(self.found.reached.unwrap_or_default().and(reached));
        self.found.used = self.found.used.max(end);
    }

    /// Whether no batch that begins at the anchor or behind can carry one at `position`.
    fn is_no_payload(&self, position: u64) -> bool {
        position - self.anchor.0 < (BATCH_HEADER_LEN + FRAME_HEADER_LEN) as u64
    }

    /// Whether the bytes before `position` can hold what lies before this offset.
    fn reaches(&self, base_offset: u64, position: u64) -> bool {
        let (from, offset) = self.anchor;
        base_offset.saturating_sub(offset) <= offsets_in(&(from..position))
    }

    /// The device did not give back bytes from `at` to `end`: says where to go on. They are asked
    /// for block by block, so that only those that cannot be read are stepped over.
    fn step_over(&mut self, at: u64, end: u64) -> u64 {
        match self.ahead {
            0 => {
                self.blind = true;
                self.found.unreadable.get_or_insert(align_down(at));
                self.found.used = end;
                self.ahead = 1;
                end
            }
            1 => {
                self.ahead = 0;
                at
            }
            _ => {
                self.ahead = 1;
                at
            }
        }
    }
}

impl<F: File> Search<F> {
    /// Searches all of the range. A batch may stand at its first byte, where the walk stopped: one
    /// that verifies and does not continue the log.
    pub(super) async fn run(&self, bytes_read: &mut u64) -> Result<Searched, OpenError> {
        let budget = SearchBudget::of_file(self.range.end - self.range.start);
        let mut progress = Progress {
            found: Searched::default(),
            budget_for_strays: budget.clone(),
            budget,
            blind: false,
            ahead: AHEAD_BLOCKS,
            anchor: (self.range.start, self.next_offset),
        };
        let mut at = self.range.start;
        while at < self.range.end {
            let start = align_down(at);
            let far = align_up(at + progress.ahead * BLOCK as u64).max(start + BLOCK as u64);
            let want = far.min(align_up(self.range.end)) - start;
            let bytes = match self.file.read_at(start, want as usize).await {
                Ok(bytes) => bytes,
                Err(error) if !error.is_unreadable() => return Err(error.into()),
                Err(_) => {
                    at = progress.step_over(at, start + want).min(self.range.end);
                    continue;
                }
            };
            progress.ahead = (progress.ahead * 2).clamp(1, AHEAD_BLOCKS);
            *bytes_read += bytes.as_ref().len() as u64;
            let left = (self.range.end - at) as usize;
            let window = bytes.as_ref().get((at - start) as usize..).unwrap_or_default();
            let window = &window[..window.len().min(left)];
            if window.is_empty() {
                break;
            }
            at = self.window(window, at, &mut progress, bytes_read).await?;
        }
        Ok(self.judged(progress))
    }

    /// Looks through a window that begins at file position `at`; says where the next one begins.
    async fn window(
        &self,
        window: &[u8],
        at: u64,
        progress: &mut Progress,
        bytes_read: &mut u64,
    ) -> Result<u64, OpenError> {
        if let Some(last) = last_nonzero(window) {
            progress.found.used = progress.found.used.max(at + last as u64 + 1);
        }
        // The next window begins with the headers that this one cuts short, but for the last.
        let end = at + window.len() as u64;
        let whole = window.len().saturating_sub(BATCH_HEADER_LEN - 1) as u64;
        let next = if end == self.range.end || whole == 0 { end } else { at + whole };
        let mut from = at;
        while from < next && !progress.budget.is_used_up() {
            let rest = &window[(from - at) as usize..];
            let strays = !progress.found.strays && progress.found.reached.is_none();
            let Some((place, is_stray)) = self.candidate(rest, from, progress, strays) else {
                break;
            };
            from += place as u64;
            if is_stray {
                self.stray(from, progress, bytes_read).await?;
                from += 1;
                continue;
            }
            match self.batches(from, &mut progress.budget, bytes_read).await? {
                Some((run_end, reached)) => {
                    progress.batches(from, run_end, reached);
                    from = run_end;
                }
                None => from += 1,
            }
        }
        progress.blind |= progress.budget.is_used_up();
        Ok(from.max(next))
    }

    /// Bytes that nobody could look at may hold batches: as many as fit.
    fn judged(&self, progress: Progress) -> Searched {
        let Progress { mut found, blind, .. } = progress;
        found.used = found.used.min(self.range.end);
        if blind {
            let (position, offset) = self.known;
            let next_offset =
                offset.saturating_add(offsets_in(&(position..found.used.max(position))));
            let furthest = Reached { next_offset, last_timestamp: 0 };
            found.reached = Some(found.reached.unwrap_or_default().and(furthest));
        }
        found
    }

    /// Looks at a candidate out of reach.
    async fn stray(
        &self,
        from: u64,
        progress: &mut Progress,
        bytes_read: &mut u64,
    ) -> Result<(), OpenError> {
        let budget = &mut progress.budget_for_strays;
        let found = self.batches(from, budget, bytes_read).await?;
        progress.found.strays = found.is_some() || budget.is_used_up();
        Ok(())
    }

    /// The first place in `window` (which begins at file position `at`) that looks like a batch, and
    /// whether it is a stray; with `strays` false only others.
    fn candidate(
        &self,
        window: &[u8],
        at: u64,
        progress: &Progress,
        strays: bool,
    ) -> Option<(usize, bool)> {
        let mut from = 0;
        loop {
            let place = from + next_header(window.get(from..)?)?;
            let header = BatchHeader::parse(&window[place..]).ok()?;
            let position = at + place as u64;
            let is_no_payload = progress.is_no_payload(position);
            let is_stray = !is_no_payload && !progress.reaches(header.base_offset, position);
            let end = position.checked_add(header.batch_length);
            if header.partition_id == u64::from(self.partition_id)
                && (is_no_payload || header.base_offset >= self.next_offset)
                && (strays || !is_stray)
                && end.is_some_and(|end| end <= self.range.end)
            {
                return Some((place, is_stray));
            }
            from = place + 1;
        }
    }

    /// Batches one behind the other from `from` on: where they end, and how far they reach.
    async fn batches(
        &self,
        from: u64,
        budget: &mut SearchBudget,
        bytes_read: &mut u64,
    ) -> Result<Option<(u64, Reached)>, OpenError> {
        let expect = Expect {
            partition_id: Some(u64::from(self.partition_id)),
            time_may_go_back: true,
            ..Expect::default()
        };
        let file = Rc::clone(&self.file);
        let mut walker = Walker::new(file, from, self.range.end, 0, expect, BLOCK);
        let (mut run, mut reached) = (None, Reached::default());
        loop {
            match walker.next().await {
                Ok(Some(found)) => {
                    let next_offset = found.header.end_offset().unwrap_or(u64::MAX);
                    let last_timestamp = found.header.base_timestamp;
                    reached = reached.and(Reached { next_offset, last_timestamp });
                    run = Some((walker.position(), reached));
                }
                Err(ReadFault::Io(error)) if !error.is_unreadable() => return Err(error.into()),
                Ok(None) | Err(_) => break,
            }
        }
        if run.is_none() {
            budget.charge(walker.bytes_read);
        }
        *bytes_read += walker.bytes_read;
        Ok(run)
    }
}

/// Index of the last byte that is not zero. Asked forwards first, which is fast over zeros.
fn last_nonzero(bytes: &[u8]) -> Option<usize> {
    first_nonzero(bytes)?;
    bytes.iter().rposition(|byte| *byte != 0)
}

/// Most offsets that these bytes can hold.
fn offsets_in(range: &Range<u64>) -> u64 {
    (range.end - range.start) / FRAME_HEADER_LEN as u64
}
