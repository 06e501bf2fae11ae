//! A consumer's stored offset: the whole content of its file, as the reference server writes it.

use crate::layout::offset_record as at;
use crate::{FormatError, FormatErrorKind, checksum};

/// Bytes of an offset record.
pub const OFFSET_RECORD_LEN: usize = at::LEN;

/// The offset that a consumer or a group has stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRecord {
    /// The stored offset.
    pub offset: u64,
}

impl OffsetRecord {
    /// The record's bytes.
    pub fn encode(&self) -> [u8; OFFSET_RECORD_LEN] {
        let mut record = [0; OFFSET_RECORD_LEN];
        at::OFFSET.put_u64(&mut record, self.offset);
        let sum = checksum::xxh3(&record[..at::OFFSET.end()]);
        at::CHECKSUM.put_u64(&mut record, sum);
        record
    }

    /// Reads a whole file: 16 bytes, or the 8 of older servers, which carry no checksum.
    ///
    /// # Errors
    /// `Truncated`, `Trailing`, or `Checksum`.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        if let Ok(offset) = <[u8; 8]>::try_from(bytes) {
            return Ok(OffsetRecord { offset: u64::from_le_bytes(offset) });
        }
        let Some(record) = bytes.first_chunk::<OFFSET_RECORD_LEN>() else {
            let (needed, have) = (OFFSET_RECORD_LEN as u64, bytes.len() as u64);
            return Err(FormatError::new(
                0,
                "offset_record",
                FormatErrorKind::Truncated { needed, have },
            ));
        };
        if bytes.len() > OFFSET_RECORD_LEN {
            let extra = (bytes.len() - OFFSET_RECORD_LEN) as u64;
            let kind = FormatErrorKind::Trailing { extra };
            return Err(FormatError::new(OFFSET_RECORD_LEN as u64, "offset_record", kind));
        }
        let expected = checksum::xxh3(&record[..at::OFFSET.end()]);
        let found = at::CHECKSUM.u64(record);
        if expected != found {
            let kind = FormatErrorKind::Checksum { expected, found };
            return Err(FormatError::new(at::CHECKSUM.at as u64, at::CHECKSUM.name, kind));
        }
        Ok(OffsetRecord { offset: at::OFFSET.u64(record) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference server's file for offset 41.
    const FORTY_ONE: [u8; 16] =
        [0x29, 0, 0, 0, 0, 0, 0, 0, 0x58, 0x4d, 0x9d, 0x3c, 0xb7, 0xde, 0x96, 0xe0];

    #[test]
    fn the_reference_servers_file_is_ours() {
        let record = OffsetRecord { offset: 41 };
        assert_eq!(record.encode(), FORTY_ONE);
        assert_eq!(OffsetRecord::decode(&FORTY_ONE), Ok(record));
    }

    #[test]
    fn eight_bytes_are_an_offset_without_a_checksum() {
        assert_eq!(OffsetRecord::decode(&FORTY_ONE[..8]), Ok(OffsetRecord { offset: 41 }));
    }

    #[test]
    fn every_other_length_and_every_flipped_bit_is_refused() {
        let mut longer = FORTY_ONE.to_vec();
        longer.push(0);
        assert!(OffsetRecord::decode(&longer).is_err());
        for len in (0..16).filter(|&len| len != 8) {
            assert!(OffsetRecord::decode(&FORTY_ONE[..len]).is_err(), "{len} bytes");
        }
        for bit in 0..128 {
            let mut bytes = FORTY_ONE;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(OffsetRecord::decode(&bytes).is_err(), "bit {bit}");
        }
    }
}
