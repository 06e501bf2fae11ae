//! Small records that are replaced in place: two slots, written in turn, the newer valid one
//! counts.
//!
//! A slot is 4 KiB so that O_DIRECT can write it, and everything that is not zero stands in its
//! first 512 bytes: where a logical sector is old or new after a power loss (`docs/durability.md`),
//! a slot is old or new too. The checksum covers all 4 KiB all the same, against what is not.

use std::fmt;

use crate::layout::{Field, slot_header as at};
use crate::{FormatError, FormatErrorKind, checksum};

/// Bytes of one slot.
pub const SLOT_LEN: usize = 4096;

/// The format version that this build reads and writes.
pub(crate) const VERSION: u32 = 1;

/// One of a record's two places in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Bytes 0..4096.
    A,
    /// Bytes 4096..8192.
    B,
}

impl Slot {
    /// The slot that the next write goes to, so that a torn write leaves this one whole.
    #[must_use]
    pub fn other(self) -> Slot {
        match self {
            Slot::A => Slot::B,
            Slot::B => Slot::A,
        }
    }

    /// First byte of the slot in its file.
    pub fn position(self) -> u64 {
        match self {
            Slot::A => 0,
            Slot::B => SLOT_LEN as u64,
        }
    }
}

/// Why neither slot gives the record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotError {
    /// Neither slot can be read, and at least one of them was written to.
    BothDamaged {
        /// Which record.
        record: &'static str,
        /// What is wrong with slot A and with slot B.
        faults: Box<[FormatError; 2]>,
    },
    /// An intact slot of a format version that this build does not know.
    UnknownVersion {
        /// Which record.
        record: &'static str,
        /// Its version.
        found: u32,
    },
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotError::BothDamaged { record, faults } => {
                let [a, b] = &**faults;
                write!(f, "neither slot of the {record} can be read: slot A: {a}; slot B: {b}")
            }
            SlotError::UnknownVersion { record, found } => write!(
                f,
                "the {record} has format version {found}, this build knows version {VERSION}; \
                 open it with the release that wrote it or a newer one"
            ),
        }
    }
}

impl std::error::Error for SlotError {}

/// A record kept in two slots.
pub(crate) trait Record: Sized {
    /// What errors call it.
    const NAME: &'static str;
    /// The first eight bytes of its slots.
    const MAGIC: [u8; 8];
    /// Zero bytes between its last field and the slot's end.
    const RESERVED: Field;

    fn sequence(&self) -> u64;
    /// Writes the record's own fields.
    fn put(&self, slot: &mut [u8; SLOT_LEN]);
    /// Reads the record's own fields; the slot header was checked.
    fn get(slot: &[u8; SLOT_LEN], sequence: u64) -> Self;
}

/// The bytes of a slot that holds `record`.
pub(crate) fn encode<R: Record>(record: &R) -> [u8; SLOT_LEN] {
    const { assert!(R::RESERVED.at <= 512, "a slot's content stands in its first sector") };
    let mut slot = [0; SLOT_LEN];
    slot[at::MAGIC.at..at::MAGIC.end()].copy_from_slice(&R::MAGIC);
    at::VERSION.put_u32(&mut slot, VERSION);
    at::SEQUENCE.put_u64(&mut slot, record.sequence());
    record.put(&mut slot);
    let sum = checksum::xxh3(&slot[at::CHECKSUM.end()..]);
    at::CHECKSUM.put_u64(&mut slot, sum);
    slot
}

/// The newer valid record of two slots; `None` when neither was ever written.
pub(crate) fn pick<R: Record>(a: &[u8], b: &[u8]) -> Result<Option<(R, Slot)>, SlotError> {
    newer(R::NAME, R::sequence, read::<R>(a)?, read::<R>(b)?)
}

/// Which of two slots counts.
pub(crate) fn newer<R>(
    record: &'static str,
    sequence: impl Fn(&R) -> u64,
    a: Read<R>,
    b: Read<R>,
) -> Result<Option<(R, Slot)>, SlotError> {
    match (a, b) {
        (Read::Absent, Read::Absent) => Ok(None),
        (Read::Valid(a), Read::Valid(b)) if sequence(&b) > sequence(&a) => Ok(Some((b, Slot::B))),
        (Read::Valid(a), _) => Ok(Some((a, Slot::A))),
        (_, Read::Valid(b)) => Ok(Some((b, Slot::B))),
        (a, b) => {
            let faults = Box::new([a.fault(), b.fault()]);
            Err(SlotError::BothDamaged { record, faults })
        }
    }
}

/// What one slot says.
pub(crate) enum Read<R> {
    /// Never written.
    Absent,
    Valid(R),
    Damaged(FormatError),
}

impl<R> Read<R> {
    fn fault(self) -> FormatError {
        match self {
            Read::Damaged(why) => why,
            Read::Absent | Read::Valid(_) => {
                let kind = FormatErrorKind::Truncated { needed: SLOT_LEN as u64, have: 0 };
                FormatError::new(0, "slot", kind)
            }
        }
    }
}

/// One slot. Only an intact slot can have an unknown version; the bytes of a torn one say nothing.
fn read<R: Record>(bytes: &[u8]) -> Result<Read<R>, SlotError> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(Read::Absent);
    }
    let Ok(slot) = <&[u8; SLOT_LEN]>::try_from(bytes) else {
        let kind = if bytes.len() < SLOT_LEN {
            FormatErrorKind::Truncated { needed: SLOT_LEN as u64, have: bytes.len() as u64 }
        } else {
            FormatErrorKind::Trailing { extra: (bytes.len() - SLOT_LEN) as u64 }
        };
        return Ok(Read::Damaged(FormatError::new(0, "slot", kind)));
    };
    if let Err(why) = check_sum::<R>(slot) {
        return Ok(Read::Damaged(why));
    }
    let found = at::VERSION.u32(slot);
    if found != VERSION {
        return Err(SlotError::UnknownVersion { record: R::NAME, found });
    }
    if let Err(why) =
        check_zeros(slot, &at::RESERVED).and_then(|()| check_zeros(slot, &R::RESERVED))
    {
        return Ok(Read::Damaged(why));
    }
    Ok(Read::Valid(R::get(slot, at::SEQUENCE.u64(slot))))
}

fn check_sum<R: Record>(slot: &[u8; SLOT_LEN]) -> Result<(), FormatError> {
    let magic = &slot[at::MAGIC.at..at::MAGIC.end()];
    if magic != R::MAGIC {
        let kind = FormatErrorKind::Mismatch {
            expected: u64::from_le_bytes(R::MAGIC),
            found: crate::le::get_u64(slot, at::MAGIC.at),
        };
        return Err(FormatError::new(at::MAGIC.at as u64, at::MAGIC.name, kind));
    }
    let expected = checksum::xxh3(&slot[at::CHECKSUM.end()..]);
    let found = at::CHECKSUM.u64(slot);
    if expected != found {
        let kind = FormatErrorKind::Checksum { expected, found };
        return Err(FormatError::new(at::CHECKSUM.at as u64, at::CHECKSUM.name, kind));
    }
    Ok(())
}

fn check_zeros(slot: &[u8; SLOT_LEN], field: &Field) -> Result<(), FormatError> {
    let bytes = &slot[field.at..field.end()];
    match bytes.iter().position(|&byte| byte != 0) {
        None => Ok(()),
        Some(place) => {
            let kind = FormatErrorKind::NotZero { found: bytes[place] };
            Err(FormatError::new((field.at + place) as u64, field.name, kind))
        }
    }
}
