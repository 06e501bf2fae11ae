//! The engine's clock record: the time that no shard has stamped beyond.

use crate::layout::{Field, clock_record as at};
use crate::slots::{self, Record, SLOT_LEN, Slot, SlotError};

/// A durable ceiling for every clock of the engine, raised ahead of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRecord {
    /// Raised with every write; the slot with the higher one counts.
    pub sequence: u64,
    /// Microseconds. No batch has a later `base_timestamp`; at open every clock starts here.
    pub ceiling_us: u64,
}

impl ClockRecord {
    /// The bytes of a slot, format version 1.
    pub fn encode(&self) -> [u8; SLOT_LEN] {
        slots::encode(self)
    }

    /// The valid record with the higher sequence and its slot, by the rules of
    /// [`crate::Manifest::pick`].
    ///
    /// # Errors
    /// As there.
    pub fn pick(slot_a: &[u8], slot_b: &[u8]) -> Result<Option<(ClockRecord, Slot)>, SlotError> {
        slots::pick(slot_a, slot_b)
    }
}

impl Record for ClockRecord {
    const NAME: &'static str = "clock record";
    const MAGIC: [u8; 8] = *b"CLOGCLCK";
    const RESERVED: Field = at::RESERVED;

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn put(&self, slot: &mut [u8; SLOT_LEN]) {
        at::CEILING_US.put_u64(slot, self.ceiling_us);
    }

    fn get(slot: &[u8; SLOT_LEN], sequence: u64) -> Self {
        ClockRecord { sequence, ceiling_us: at::CEILING_US.u64(slot) }
    }
}
