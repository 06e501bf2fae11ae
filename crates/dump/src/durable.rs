//! What a partition's manifest knows to be durable: below that, damage is never a torn tail.

use std::cmp::Ordering;
use std::path::Path;

use corelog_format::{Manifest, Mark, SLOT_LEN, SlotError};

use crate::discover::Segment;
use crate::failure::Failure;
use crate::source::{Access, Links, Source};

/// The durable mark of one partition, if it has a readable one.
#[derive(Debug)]
pub(crate) struct Durable {
    manifest: Option<Manifest>,
}

/// What to say about a manifest that gives no mark although it is there.
#[derive(Debug)]
pub(crate) enum Doubt {
    /// Damaged in both slots: recovery treats the partition like one that has none.
    Damaged(String),
    /// Of a version that this program does not know; the segments may be newer as well.
    UnknownVersion(String),
}

impl Durable {
    /// Nothing is known to be durable.
    pub(crate) const fn nothing() -> Durable {
        Durable { manifest: None }
    }

    /// Reads `{dir}/manifest`. Read it before the segments: the mark only moves forward, so a live
    /// partition's files are never shorter than a mark that was read first.
    pub(crate) fn read(dir: &Path) -> Result<(Durable, Option<Doubt>), Failure> {
        let none = Durable::nothing();
        // Never mapped: an engine rewrites the slots in place.
        let access = Access::default();
        let mut source = match Source::open(&dir.join("manifest"), Links::Refuse, access) {
            Ok(source) => source,
            Err(failure) if failure.is_not_found() => return Ok((none, None)),
            Err(failure) => return Err(failure),
        };
        let bytes = source.window(0, 2 * SLOT_LEN as u64)?;
        let split = bytes.len().min(SLOT_LEN);
        let (slot_a, rest) = bytes.split_at(split);
        let slot_b = &rest[..rest.len().min(SLOT_LEN)];
        Ok(match Manifest::pick(slot_a, slot_b) {
            Ok(Some((manifest, _))) => (Durable { manifest: Some(manifest) }, None),
            Ok(None) => (none, None),
            Err(why @ SlotError::UnknownVersion { .. }) => {
                (none, Some(Doubt::UnknownVersion(why.to_string())))
            }
            Err(why) => (none, Some(Doubt::Damaged(why.to_string()))),
        })
    }

    /// Everything of `segment` below this file position was synced: all of it in the segments
    /// before the mark's (`u64::MAX`: however long they are), nothing in those behind it.
    pub(crate) fn below(&self, segment: &Segment) -> u64 {
        match self.beside_mark(segment) {
            Some((Ordering::Less, _)) => u64::MAX,
            Some((Ordering::Equal, mark)) => mark.position,
            Some((Ordering::Greater, _)) | None => 0,
        }
    }

    /// Everything of `segment` from this file position on was written by an engine, not adopted
    /// from the reference server; none of it where this is `u64::MAX`.
    pub(crate) fn ours_from(&self, segment: &Segment) -> u64 {
        match self.beside_mark(segment) {
            Some((Ordering::Greater, _)) => 0,
            Some((Ordering::Equal, mark)) => mark.position,
            Some((Ordering::Less, _)) | None => u64::MAX,
        }
    }

    /// Whether an engine stamped every batch of `segment`, so that their times rise from one to the
    /// next. The reference server's may go back, and without a manifest nobody knows.
    pub(crate) fn times_rise_in(&self, segment: &Segment) -> bool {
        let adopted_end = self.manifest.as_ref().map(|manifest| manifest.adopted_end);
        adopted_end.is_some_and(|end| segment.named_offset.is_some_and(|first| first >= end))
    }

    /// Where `segment` stands beside the mark's.
    fn beside_mark(&self, segment: &Segment) -> Option<(Ordering, Mark)> {
        let mark = self.manifest?.mark;
        Some((segment.named_offset?.cmp(&mark.segment), mark))
    }

    /// The manifest, if there is a readable one.
    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Its mark.
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.manifest.as_ref().map(|manifest| manifest.mark)
    }

    /// The first offset of the segment that the mark stands in, when it has durable bytes.
    pub(crate) fn marked_segment(&self) -> Option<u64> {
        self.manifest.as_ref().filter(|m| m.mark.position > 0).map(|m| m.mark.segment)
    }

    /// The first offset that retention has kept; segments that end below it are leftovers.
    pub(crate) fn first_retained(&self) -> Option<u64> {
        self.manifest.as_ref().map(|m| m.first_offset)
    }
}
