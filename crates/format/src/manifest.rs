//! The partition's manifest: incarnation, first retained offset and the durable mark.

use crate::layout::{Field, manifest as at};
use crate::slots::{self, Record, SLOT_LEN, Slot, SlotError};

/// Why no manifest could be read.
pub type ManifestError = SlotError;

/// The durable mark: everything below it was synced. It may lag, it never leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// First offset of the segment that the mark stands in.
    pub segment: u64,
    /// Byte position in that segment's `.log`.
    pub position: u64,
    /// Offset of the first message above the mark.
    pub next_offset: u64,
    /// `base_timestamp` of the last batch below the mark, in microseconds.
    pub last_timestamp: u64,
}

/// What a partition knows about itself beside its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Raised with every write; the slot with the higher one counts.
    pub sequence: u64,
    /// Raised by create and by purge, never reused: tells this partition's files from those of an
    /// earlier one of the same id.
    pub incarnation: u64,
    /// First retained offset.
    pub first_offset: u64,
    /// Batches below this offset may be another server's: their times may go back. 0 where all are
    /// ours.
    pub adopted_end: u64,
    /// The durable mark.
    pub mark: Mark,
}

impl Manifest {
    /// The bytes of a slot, format version 1.
    pub fn encode(&self) -> [u8; SLOT_LEN] {
        slots::encode(self)
    }

    /// The valid manifest with the higher sequence, and the slot it stands in (the next write
    /// goes to the other). `None`: neither slot was ever written, each is empty or zeros. With one
    /// slot torn the other counts; on equal sequences slot A does.
    ///
    /// # Errors
    /// `BothDamaged` when no slot is valid and one holds anything; `UnknownVersion` when an intact
    /// slot has a version other than 1, whatever the other one says: a newer release was here.
    pub fn pick(slot_a: &[u8], slot_b: &[u8]) -> Result<Option<(Manifest, Slot)>, ManifestError> {
        slots::pick(slot_a, slot_b)
    }
}

impl Record for Manifest {
    const NAME: &'static str = "manifest";
    const MAGIC: [u8; 8] = *b"CLOGMANI";
    const RESERVED: Field = at::RESERVED;

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn put(&self, slot: &mut [u8; SLOT_LEN]) {
        at::INCARNATION.put_u64(slot, self.incarnation);
        at::FIRST_OFFSET.put_u64(slot, self.first_offset);
        at::MARK_SEGMENT.put_u64(slot, self.mark.segment);
        at::MARK_POSITION.put_u64(slot, self.mark.position);
        at::MARK_NEXT_OFFSET.put_u64(slot, self.mark.next_offset);
        at::MARK_LAST_TIMESTAMP.put_u64(slot, self.mark.last_timestamp);
        at::ADOPTED_END.put_u64(slot, self.adopted_end);
    }

    fn get(slot: &[u8; SLOT_LEN], sequence: u64) -> Self {
        Manifest {
            sequence,
            incarnation: at::INCARNATION.u64(slot),
            first_offset: at::FIRST_OFFSET.u64(slot),
            adopted_end: at::ADOPTED_END.u64(slot),
            mark: Mark {
                segment: at::MARK_SEGMENT.u64(slot),
                position: at::MARK_POSITION.u64(slot),
                next_offset: at::MARK_NEXT_OFFSET.u64(slot),
                last_timestamp: at::MARK_LAST_TIMESTAMP.u64(slot),
            },
        }
    }
}
