//! The 256-byte batch header: reading with every rule that the header alone can break, writing,
//! and the part of it that the batch checksum covers.

use crate::layout::batch_header as at;
use crate::{FormatError, FormatErrorKind};

use super::FRAME_HEADER_LEN;

/// Bytes of a batch header.
pub const BATCH_HEADER_LEN: usize = at::LEN;

/// Largest batch, header included: the reference server's largest request.
pub const BATCH_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Header bytes that the batch checksum starts with: bytes 0..40 and the message count.
pub(crate) const COVERED_LEN: usize = at::BATCH_LENGTH.end() + at::MESSAGE_COUNT.size;

/// First byte of the section that newer producers fill; it announces the rest of it.
const IDEMPOTENT_FLAG: usize = 52;

/// The fields of a batch header; see `docs/format.md` for their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// The partition; the owner stamps it.
    pub partition_id: u64,
    /// Offset of message 0; the owner stamps it.
    pub base_offset: u64,
    /// Server time in microseconds; the owner stamps it.
    pub base_timestamp: u64,
    /// Earliest producer time among the messages, in microseconds.
    pub origin_timestamp: u64,
    /// Header and frames, in bytes.
    pub batch_length: u64,
    /// XXH3-64 over the other fields and the frames' checksums.
    pub batch_checksum: u64,
    /// Number of frames.
    pub message_count: u32,
}

impl BatchHeader {
    /// Reads a header from the first 256 bytes of `bytes` and checks what a header alone can get
    /// wrong: reserved bytes are zero, at least one message, and
    /// `256 + 48 * message_count <= batch_length <= BATCH_BYTES_MAX`.
    ///
    /// The result is structure, not truth: no checksum was compared.
    ///
    /// # Errors
    /// `Truncated` on fewer than 256 bytes, `NotZero` on reserved bytes (the field is
    /// `idempotent_producer` where a newer producer's section was announced at byte 52),
    /// `OutOfRange` on `batch_length` and `message_count`.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let Some(record) = bytes.first_chunk::<BATCH_HEADER_LEN>() else {
            let (needed, have) = (BATCH_HEADER_LEN as u64, bytes.len() as u64);
            let kind = FormatErrorKind::Truncated { needed, have };
            return Err(FormatError::new(0, "batch_header", kind));
        };
        check_reserved(record)?;
        let header = Self::read(record);
        header.check_sizes()?;
        Ok(header)
    }

    /// The fields as they stand, without a check.
    fn read(record: &[u8; BATCH_HEADER_LEN]) -> Self {
        BatchHeader {
            partition_id: at::PARTITION_ID.u64(record),
            base_offset: at::BASE_OFFSET.u64(record),
            base_timestamp: at::BASE_TIMESTAMP.u64(record),
            origin_timestamp: at::ORIGIN_TIMESTAMP.u64(record),
            batch_length: at::BATCH_LENGTH.u64(record),
            batch_checksum: at::BATCH_CHECKSUM.u64(record),
            message_count: at::MESSAGE_COUNT.u32(record),
        }
    }

    fn check_sizes(&self) -> Result<(), FormatError> {
        let min = (BATCH_HEADER_LEN + FRAME_HEADER_LEN) as u64;
        if !(min..=BATCH_BYTES_MAX).contains(&self.batch_length) {
            let found = self.batch_length;
            let kind = FormatErrorKind::OutOfRange { found, min, max: BATCH_BYTES_MAX };
            return Err(out_of(&at::BATCH_LENGTH, kind));
        }
        let max = (self.batch_length - BATCH_HEADER_LEN as u64) / FRAME_HEADER_LEN as u64;
        let found = u64::from(self.message_count);
        if !(1..=max).contains(&found) {
            return Err(out_of(
                &at::MESSAGE_COUNT,
                FormatErrorKind::OutOfRange { found, min: 1, max },
            ));
        }
        Ok(())
    }

    /// The header's bytes, reserved ones zero.
    pub fn encode(&self) -> [u8; BATCH_HEADER_LEN] {
        let mut record = [0; BATCH_HEADER_LEN];
        at::PARTITION_ID.put_u64(&mut record, self.partition_id);
        at::BASE_OFFSET.put_u64(&mut record, self.base_offset);
        at::BASE_TIMESTAMP.put_u64(&mut record, self.base_timestamp);
        at::ORIGIN_TIMESTAMP.put_u64(&mut record, self.origin_timestamp);
        at::BATCH_LENGTH.put_u64(&mut record, self.batch_length);
        at::BATCH_CHECKSUM.put_u64(&mut record, self.batch_checksum);
        at::MESSAGE_COUNT.put_u32(&mut record, self.message_count);
        record
    }

    /// One past the batch's last offset, `base_offset + message_count`; `None` when that is more
    /// than a u64 holds, which no batch of ours ever reaches.
    pub fn end_offset(&self) -> Option<u64> {
        self.base_offset.checked_add(u64::from(self.message_count))
    }

    /// What the batch checksum starts with, in the specification's order: the five u64 fields
    /// before the checksum stand in that order already, then the message count.
    pub(crate) fn covered(&self) -> [u8; COVERED_LEN] {
        let record = self.encode();
        let head = at::BATCH_LENGTH.end();
        let mut out = [0; COVERED_LEN];
        out[..head].copy_from_slice(&record[..head]);
        out[head..].copy_from_slice(&record[at::MESSAGE_COUNT.at..at::MESSAGE_COUNT.end()]);
        out
    }
}

fn check_reserved(record: &[u8; BATCH_HEADER_LEN]) -> Result<(), FormatError> {
    // OR-ing everything first costs a few vector instructions; the place is only looked up when
    // the header is refused.
    let reserved = &record[at::RESERVED.at..];
    if reserved.iter().fold(0, |all, byte| all | byte) == 0 {
        return Ok(());
    }
    let place = reserved.iter().position(|&byte| byte != 0).unwrap_or(0) + at::RESERVED.at;
    let name = if place == IDEMPOTENT_FLAG { "idempotent_producer" } else { at::RESERVED.name };
    Err(FormatError::new(place as u64, name, FormatErrorKind::NotZero { found: record[place] }))
}

fn out_of(field: &crate::layout::Field, kind: FormatErrorKind) -> FormatError {
    FormatError::new(field.at as u64, field.name, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BatchHeader {
        BatchHeader {
            partition_id: 3,
            base_offset: 42,
            base_timestamp: 1_700_000_000_000_500,
            origin_timestamp: 1_700_000_000_000_000,
            batch_length: 363,
            batch_checksum: 0x2a94_5cf3_96eb_e9c4,
            message_count: 2,
        }
    }

    #[test]
    fn parse_gives_back_what_encode_wrote() {
        assert_eq!(BatchHeader::parse(&header().encode()), Ok(header()));
    }

    #[test]
    fn every_short_input_is_truncated() {
        let bytes = header().encode();
        for len in 0..BATCH_HEADER_LEN {
            let error = BatchHeader::parse(&bytes[..len]).unwrap_err();
            let kind = FormatErrorKind::Truncated { needed: 256, have: len as u64 };
            assert_eq!(error, FormatError::new(0, "batch_header", kind));
        }
    }

    #[test]
    fn every_reserved_byte_must_be_zero() {
        for place in 52..BATCH_HEADER_LEN {
            let mut bytes = header().encode();
            bytes[place] = 1;
            let name = if place == 52 { "idempotent_producer" } else { "reserved" };
            let expected =
                FormatError::new(place as u64, name, FormatErrorKind::NotZero { found: 1 });
            assert_eq!(BatchHeader::parse(&bytes), Err(expected));
        }
    }

    #[test]
    fn lengths_and_counts_are_held_against_each_other() {
        let cases: &[(u64, u32, &str)] = &[
            (0, 1, "batch_length"),
            (1, 1, "batch_length"),
            (255, 1, "batch_length"),
            (256, 1, "batch_length"),
            (303, 1, "batch_length"),
            (BATCH_BYTES_MAX + 1, 1, "batch_length"),
            (0x7fff_ffff, 1, "batch_length"),
            (1 << 63, 1, "batch_length"),
            (u64::MAX, u32::MAX, "batch_length"),
            (304, 0, "message_count"),
            (304, 2, "message_count"),
            (351, 2, "message_count"),
            (BATCH_BYTES_MAX, u32::MAX, "message_count"),
        ];
        for &(batch_length, message_count, field) in cases {
            let header = BatchHeader { batch_length, message_count, ..header() };
            let error = BatchHeader::parse(&header.encode()).unwrap_err();
            assert_eq!(error.field, field, "{batch_length} {message_count}");
        }
        for (batch_length, message_count) in [(304, 1), (352, 2), (BATCH_BYTES_MAX, 1)] {
            let header = BatchHeader { batch_length, message_count, ..header() };
            assert_eq!(BatchHeader::parse(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn the_end_offset_is_checked() {
        let near = BatchHeader { base_offset: u64::MAX - 2, ..header() };
        assert_eq!(near.end_offset(), Some(u64::MAX));
        assert_eq!(BatchHeader { base_offset: u64::MAX - 1, ..near }.end_offset(), None);
    }
}
