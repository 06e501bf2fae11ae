//! The one walk over a segment: batch after batch as corelog-format's scan finds them, past damage
//! to what is still readable. Decides what the damage means; knows no bytes itself.

use corelog_format::{
    BATCH_HEADER_LEN, Batch, BatchHeader, Expect, Findings, FormatError, FormatErrorKind, Scan,
    Step,
};

use crate::failure::Failure;
use crate::resync::{self, Anchor, Effort, Next};
use crate::source::Source;

/// What is known about a segment before its first byte is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// The partition whose batches it must hold.
    pub(crate) partition_id: Option<u64>,
    /// The offset it must begin with.
    pub(crate) first_offset: Option<u64>,
    /// Everything below this file position was synced; `u64::MAX`: all of the file, however long.
    pub(crate) durable_to: u64,
    /// From this file position on base timestamps must rise: an engine stamped those batches.
    /// Before it one that does not is a finding, as the reference server's clock may go back.
    pub(crate) time_rises_from: u64,
}

/// What the walk meets, in order of position.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// A batch that verified.
    Batch {
        /// Its file position.
        at: u64,
        /// The batch.
        batch: Batch<'a>,
        /// What is odd about it without being damage.
        findings: Findings,
    },
    /// Bytes that are not the batch that should stand here.
    Damage {
        /// File position where the readable part before it ends.
        at: u64,
        /// The offset that should come here, if anything says so.
        offset: Option<u64>,
        /// Which rule is broken; its position is the file's.
        why: FormatError,
    },
}

/// How closely batches are looked at. Layout and place in the log are always checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Level {
    /// No checksum is compared.
    Layout,
    /// Each batch's checksum, over its header and the checksums that its frames state.
    Batch,
    /// Also each frame's, over every byte of its message.
    Full,
}

impl Level {
    /// The word in every output.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Level::Layout => "layout",
            Level::Batch => "batch",
            Level::Full => "full",
        }
    }
}

/// Go on or stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Go on.
    Continue,
    /// Stop here: enough was shown.
    Stop,
}

/// What a file is, after its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Batches up to the end, or up to zeros that reach the end.
    Clean,
    /// Damage with nothing readable behind it, above everything known to be durable.
    TornTail,
    /// Damage with readable batches behind it, or in what was durable.
    Corrupt,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walked {
    /// The verdict, of as much as was walked.
    pub(crate) verdict: Verdict,
    /// File position behind the last readable batch.
    pub(crate) end: u64,
    /// Zeros from there to the end of the file, when nothing else is there.
    pub(crate) zero_tail: u64,
    /// Where a search behind damage gave up; nothing behind it was looked at.
    pub(crate) unchecked_from: Option<u64>,
}

/// A place between two batches, and what the batch that ends there says about the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    /// File position.
    pub(crate) at: u64,
    /// The partition whose batches these are.
    pub(crate) partition_id: Option<u64>,
    /// Offset of the batch that begins here.
    pub(crate) next_offset: Option<u64>,
    /// `base_timestamp` of the batch before.
    pub(crate) last_timestamp: Option<u64>,
}

impl Start {
    /// The first byte of a segment.
    pub(crate) fn first(known: Known) -> Start {
        let Known { partition_id, first_offset: next_offset, .. } = known;
        Start { at: 0, partition_id, next_offset, last_timestamp: None }
    }

    /// Behind the batch with this header, which begins at `at`.
    pub(crate) fn behind(at: u64, header: &BatchHeader) -> Start {
        Start {
            at: at + header.batch_length,
            partition_id: Some(header.partition_id),
            // A batch at the very end of the offsets has no next one; nothing can follow it.
            next_offset: Some(header.end_offset().unwrap_or(u64::MAX)),
            last_timestamp: Some(header.base_timestamp),
        }
    }
}

/// Walks a whole segment. Memory: one window, at most a batch; time: linear in the file (see
/// [`Effort`] for what hostile bytes can add).
pub(crate) fn walk(
    source: &mut Source,
    known: Known,
    on: &mut dyn FnMut(Event<'_>) -> Result<Flow, Failure>,
) -> Result<Walked, Failure> {
    walk_at(source, known, Level::Full, on)
}

/// [`walk`] with fewer checks. What is looked for behind damage always has to verify in full.
pub(crate) fn walk_at(
    source: &mut Source,
    known: Known,
    level: Level,
    on: &mut dyn FnMut(Event<'_>) -> Result<Flow, Failure>,
) -> Result<Walked, Failure> {
    walk_part(source, known, level, Start::first(known), on)
}

/// Walks the part of a segment from `start` on, which stands between two batches.
pub(crate) fn walk_from(
    source: &mut Source,
    known: Known,
    start: Start,
    on: &mut dyn FnMut(Event<'_>) -> Result<Flow, Failure>,
) -> Result<Walked, Failure> {
    walk_part(source, known, Level::Full, start, on)
}

fn walk_part(
    source: &mut Source,
    known: Known,
    level: Level,
    start: Start,
    on: &mut dyn FnMut(Event<'_>) -> Result<Flow, Failure>,
) -> Result<Walked, Failure> {
    let mut effort = Effort::of_file(source.len());
    let mut place = Place::at(start);
    let mut resumed_at = None;
    loop {
        let from = resumed_at.unwrap_or(start.at);
        let broken = match run(source, known, level, from, &mut place, on)? {
            Ran::Stopped => return Ok(place.walked(0, None)),
            Ran::ToEnd { end } => return Ok(place.walked(source.len() - end, None)),
            Ran::Broken { at } => at,
        };
        // Never twice from one place: a file that changes under us must not keep us for ever.
        let search_from = if resumed_at == Some(broken) { broken + 1 } else { broken };
        match resync::find(source, search_from, place.anchor, &mut effort)? {
            Next::At(next) => resumed_at = Some(next),
            Next::None => return Ok(place.walked(0, None)),
            Next::GaveUp(at) => return Ok(place.walked(0, Some(at))),
        }
        place.damage_has_successor();
    }
}

/// Where the walk stands and what it has seen.
#[derive(Debug)]
struct Place {
    verdict: Verdict,
    anchor: Option<Anchor>,
    last_timestamp: Option<u64>,
    expect_id: Option<u64>,
    expect_offset: Option<u64>,
    end: u64,
}

impl Place {
    fn at(start: Start) -> Place {
        let anchor = match (start.partition_id, start.next_offset) {
            // Only behind a batch: what a name says is expected, but anchors no search.
            (Some(partition_id), Some(next_offset)) if start.last_timestamp.is_some() => {
                Some(Anchor { partition_id, next_offset })
            }
            _ => None,
        };
        Place {
            verdict: Verdict::Clean,
            anchor,
            last_timestamp: start.last_timestamp,
            expect_id: start.partition_id,
            expect_offset: start.next_offset,
            end: start.at,
        }
    }

    fn expect(&self) -> Expect {
        Expect {
            partition_id: self.expect_id,
            next_offset: self.expect_offset,
            after_timestamp: self.last_timestamp,
            // Where it may not, `misfit` looks itself: the rule changes at the mark.
            time_may_go_back: true,
        }
    }

    /// A scan from file position `from` on.
    fn scan(&self, from: u64, len: u64, known: Known, level: Level) -> Scan {
        let scan = Scan::new(from, len, known.durable_to, self.expect());
        match level {
            Level::Layout => scan.layout_only(),
            Level::Batch => scan.batch_checksum_only(),
            Level::Full => scan,
        }
    }

    fn batch(&mut self, at: u64, batch: &Batch<'_>) {
        let header = batch.header();
        // A batch at the very end of the offsets has no next one; nothing can follow it.
        let next_offset = header.end_offset().unwrap_or(u64::MAX);
        self.anchor = Some(Anchor { partition_id: header.partition_id, next_offset });
        self.last_timestamp = Some(header.base_timestamp);
        self.end = at + header.batch_length;
    }

    /// A scan that begins behind the last batch expects its successor, not what the run began with.
    fn expect_what_the_last_batch_says(&mut self) {
        if let Some(Anchor { partition_id, next_offset }) = self.anchor {
            (self.expect_id, self.expect_offset) = (Some(partition_id), Some(next_offset));
        }
    }

    /// Why a batch that continues the log cannot be what stood here, by the manifest. It is read
    /// and counted all the same. Recovery refuses both as well.
    fn misfit(
        &self,
        known: Known,
        at: u64,
        header: &BatchHeader,
        findings: Findings,
    ) -> Option<FormatError> {
        let end = at + header.batch_length;
        if at < known.durable_to && known.durable_to < end && known.durable_to != u64::MAX {
            // The mark stands between two batches, always.
            let kind = FormatErrorKind::Mismatch { expected: known.durable_to, found: end };
            return Some(FormatError::new(at, "durable_mark", kind));
        }
        if at >= known.time_rises_from && findings.time_went_back {
            let expected = self.last_timestamp?.saturating_add(1);
            let kind = FormatErrorKind::Mismatch { expected, found: header.base_timestamp };
            return Some(FormatError::new(at, "base_timestamp", kind));
        }
        None
    }

    fn damage(&mut self, durable: bool) {
        let verdict = if durable { Verdict::Corrupt } else { Verdict::TornTail };
        if self.verdict != Verdict::Corrupt {
            self.verdict = verdict;
        }
    }

    /// Readable batches stand behind the damage, so it is no torn tail; and the next run takes its
    /// partition and offset from the first of them, as the search has compared both already.
    fn damage_has_successor(&mut self) {
        self.verdict = Verdict::Corrupt;
        self.expect_id = self.anchor.map(|a| a.partition_id);
        self.expect_offset = None;
    }

    fn walked(&self, zero_tail: u64, unchecked_from: Option<u64>) -> Walked {
        // What was not looked at may hold readable batches: never call that a torn tail.
        let verdict = if unchecked_from.is_some() { Verdict::Corrupt } else { self.verdict };
        Walked { verdict, end: self.end, zero_tail, unchecked_from }
    }
}

/// How a run of batches ended.
enum Ran {
    Stopped,
    /// At the end of the file, or at zeros that reach it: `end` is where the batches end.
    ToEnd {
        end: u64,
    },
    Broken {
        at: u64,
    },
}

/// Batches from file position `from` until something is none.
fn run(
    source: &mut Source,
    known: Known,
    level: Level,
    from: u64,
    place: &mut Place,
    on: &mut dyn FnMut(Event<'_>) -> Result<Flow, Failure>,
) -> Result<Ran, Failure> {
    let mut len = source.len();
    let mut scan = place.scan(from, len, known, level);
    let mut end = from;
    let mut need = BATCH_HEADER_LEN as u64;
    loop {
        // Zeros are being passed over. Where the file system knows of a hole they need not be read:
        // a sparse tebibyte costs nothing.
        if scan.position() > end {
            let data = source.next_data(scan.position());
            if data >= len && end >= known.durable_to {
                return Ok(Ran::ToEnd { end });
            }
            scan.pass_hole(data);
        }
        let (at, why, durable) = match scan.next(source.window(scan.position(), need)?) {
            Step::Batch { at, batch, findings } => {
                if let Some(why) = place.misfit(known, at, batch.header(), findings) {
                    place.verdict = Verdict::Corrupt;
                    on(Event::Damage { at, offset: Some(batch.header().base_offset), why })?;
                }
                place.batch(at, &batch);
                end = place.end;
                need = BATCH_HEADER_LEN as u64;
                if on(Event::Batch { at, batch, findings })? == Flow::Stop {
                    return Ok(Ran::Stopped);
                }
                continue;
            }
            Step::NeedBytes { len } => {
                need = len;
                continue;
            }
            Step::End { at } => {
                source.intact()?;
                return Ok(Ran::ToEnd { end: at });
            }
            Step::Torn { at, why } => (at, why, false),
            Step::Corrupt { at, why } => (at, why, true),
        };
        // The tail of a file that is being written may have been seen half way: look again.
        if source.was_in_motion()? {
            len = source.len();
            if end > from {
                place.expect_what_the_last_batch_says();
            }
            scan = place.scan(end, len, known, level);
            need = BATCH_HEADER_LEN as u64;
            continue;
        }
        place.damage(durable);
        let offset = place.anchor.map(|a| a.next_offset).or(known.first_offset);
        on(Event::Damage { at, offset, why })?;
        return Ok(Ran::Broken { at });
    }
}
