//! Where the disk lied or rotted: what may be missing there, and no more than that.
//!
//! Damage is known as bytes of segment files. Which batches they are follows from the lengths of
//! the batches before them in the file, as batches lie back to back.

use std::collections::BTreeSet;
use std::ops::Range;

use corelog_format::Mark;
use corelog_storage::From;

use super::{Broken, Fate, Oracle};

/// A poll's answer that names damage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    #[expect(dead_code, reason = "for the message")]
    pub(crate) segment: u64,
    #[expect(dead_code, reason = "for the message")]
    pub(crate) position: u64,
    pub(crate) resume: Option<u64>,
}

#[derive(Default)]
pub(super) struct Damage {
    /// First offset of the segment, and the bytes of its file.
    harm: Vec<(u64, Range<u64>)>,
    /// First offsets of all segments.
    segments: BTreeSet<u64>,
    /// Everything from here on may be cut at the next opening: damage above the mark is a torn
    /// tail.
    cut_from: Option<u64>,
}

impl Damage {
    pub(super) fn has_any(&self) -> bool {
        !self.harm.is_empty()
    }

    /// What is still owed of `promised`.
    pub(super) fn owed(&self, promised: u64) -> u64 {
        self.cut_from.map_or(promised, |from| promised.min(from))
    }

    /// The segments that begin at or before `offset`, and the offset itself.
    pub(super) fn segments_to(&self, offset: u64) -> Vec<u64> {
        self.segments.range(..=offset).copied().chain([offset]).collect()
    }

    fn segment_of(&self, offset: u64) -> u64 {
        self.segments.range(..=offset).next_back().copied().unwrap_or(0)
    }

    /// Damaged bytes of a segment.
    fn of(&self, segment: u64) -> impl Iterator<Item = &Range<u64>> {
        self.harm.iter().filter(move |(of, _)| *of == segment).map(|(_, range)| range)
    }
}

impl Oracle {
    /// These bytes of a segment's file are not what they should be. Up to `u64::MAX`: they could
    /// not be read, which is no reason to cut them.
    pub(crate) fn harmed(&mut self, segment: u64, bytes: Range<u64>) {
        self.damage.harm.push((segment, bytes));
    }

    /// The log ends at `end` now. Where that is more than was ever appended, an opening that nobody
    /// heard of has gone on in a new segment, behind bytes that it could not read.
    pub(crate) fn may_have_jumped(&mut self, end: u64) {
        let open = self.sent.iter().filter(|sent| sent.fate == Fate::Unknown);
        let most: usize = open.map(|sent| sent.batch.ends.len()).sum();
        let known = self.known_end();
        if end > known + most as u64 {
            let segment = self.damage.segment_of(known.saturating_sub(1));
            let position = self.known_in(segment).last().map_or(0, |(_, _, bytes)| bytes.end);
            self.harmed(segment, position..u64::MAX);
        }
    }

    /// The segments that are there now.
    pub(crate) fn segments_are(&mut self, segments: BTreeSet<u64>) {
        self.damage.segments = segments;
    }

    /// Whether an opening may find damage.
    pub(crate) fn expects_damage(&self) -> bool {
        self.damage.has_any()
    }

    /// The partition is about to be opened, with the durable mark there.
    pub(crate) fn opens_at(&mut self, mark: Mark) {
        let mut cut_from = None;
        for (segment, bytes) in &self.damage.harm {
            let above = match segment.cmp(&mark.segment) {
                std::cmp::Ordering::Less => continue,
                std::cmp::Ordering::Equal => mark.position,
                std::cmp::Ordering::Greater => 0,
            };
            if bytes.end > above && bytes.end != u64::MAX {
                let touched = self.first_touched(*segment, bytes.start.max(above));
                cut_from = Some(cut_from.map_or(touched, |from: u64| from.min(touched)));
            }
        }
        self.damage.cut_from = cut_from;
    }

    /// A bit has flipped while the partition is being opened, with the durable mark there by then:
    /// whether the opening has read it before, nobody knows.
    pub(crate) fn rots_while_opening(&mut self, mark: Mark) {
        let before = self.damage.cut_from;
        self.opens_at(mark);
        let both = [before, self.damage.cut_from];
        self.damage.cut_from = both.into_iter().flatten().min();
    }

    /// The opening is over.
    pub(super) fn opening_is_over(&mut self) {
        self.damage.cut_from = None;
    }

    /// The first batch of `segment` that ends behind `position`, or where what is known of it ends.
    fn first_touched(&self, segment: u64, position: u64) -> u64 {
        let mut last = segment;
        for (base, end, bytes) in self.known_in(segment) {
            if bytes.end > position {
                return base;
            }
            last = end;
        }
        last
    }

    /// Whether a write may have been interrupted at `position` of a segment: not where a batch is known
    /// to stand that a crash must not take.
    pub(crate) fn may_be_torn(&self, segment: u64, position: u64) -> bool {
        let mut known = self.known_in(segment);
        let touched = known.find(|(_, _, bytes)| bytes.end > position);
        touched.is_none_or(|(_, end, _)| end > self.safe_from_kill)
    }

    /// What is known of a segment from its start on without a gap: base and end offset, and bytes.
    fn known_in(&self, segment: u64) -> impl Iterator<Item = (u64, u64, Range<u64>)> {
        let next_segment = self.damage.segments.range(segment + 1..).next().copied();
        let (mut next, mut position) = (segment, 0);
        self.log.range(segment..next_segment.unwrap_or(u64::MAX)).map_while(move |(base, entry)| {
            if *base != next {
                return None;
            }
            let len = self.sent[entry.call].batch.bytes.len() as u64;
            let bytes = position..position + len;
            (next, position) = (entry.end, bytes.end);
            Some((*base, entry.end, bytes))
        })
    }

    /// Whether damage may hide the message at `offset`: some lies in its segment, at its batch or
    /// before it.
    fn is_hidden(&self, offset: u64) -> bool {
        let segment = self.damage.segment_of(offset);
        let batch = self.known_in(segment).find(|(_, end, _)| *end > offset);
        // What cannot be placed lies behind a gap, which is damage itself.
        let end = batch.map_or(u64::MAX, |(_, _, bytes)| bytes.end);
        self.damage.of(segment).any(|harm| harm.start < end)
    }

    /// Whether a poll may answer with this.
    pub(crate) fn may_report(&self, from: From, reported: Reported) -> Result<(), Broken> {
        if !self.damage.has_any() {
            return Err("no disk lied".to_owned());
        }
        let From::Offset(offset) = from else { return Ok(()) };
        if !self.is_hidden(offset) {
            return Err(format!("nothing is wrong at {offset} or before it in its segment"));
        }
        match reported.resume {
            Some(resume) if resume <= offset => Err(format!("resumes at {resume}, not behind it")),
            _ => Ok(()),
        }
    }

    /// Whether damage explains that nothing of `offsets` was served.
    pub(crate) fn may_skip(&self, offsets: Range<u64>) -> Result<(), Broken> {
        let mut known = self.log.range(offsets.clone());
        match known.find(|(base, _)| !self.is_hidden(**base)) {
            Some((base, _)) => Err(format!("offset {base} of {offsets:?} is intact, and skipped")),
            None => Ok(()),
        }
    }

    pub(super) fn explains_hole(&self, from: u64, to: u64) -> bool {
        (from..to).contains(&self.damage.segment_of(to)) || self.is_hidden(from)
    }

    /// Where the batches of a segment begin, with their offset and time: what an index might say.
    pub(crate) fn index_of(&self, segment: u64) -> Vec<(u64, u64, u64)> {
        let known = self.known_in(segment);
        known.map(|(base, _, bytes)| (base, self.log[&base].time, bytes.start)).collect()
    }
}
