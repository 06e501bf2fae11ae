//! A partition id that may be left out: `[flag u8][partition_id u32]`, always five bytes
//! (encodings.md, "Optional partition id").

use crate::reader::Reader;
use crate::{FormatError, FormatErrorKind};

/// The partition id, if one was set. Flags other than 0 and 1 are refused, and so is a value
/// behind flag 0: two encodings of one meaning would be a hiding place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptionalPartition(pub Option<u32>);

impl OptionalPartition {
    /// Bytes of the encoding.
    pub const LEN: usize = 5;

    /// Decodes an optional partition id that is the whole of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        Reader::whole(bytes, "optional partition", Self::read)
    }

    /// Decodes the one at the front of `bytes`, with the number of bytes it takes (five).
    pub fn decode_prefix(bytes: &[u8]) -> Result<(Self, usize), FormatError> {
        Reader::prefix(bytes, Self::read)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let flag = reader.u8("optional partition flag")?;
        if flag > 1 {
            let kind = FormatErrorKind::UnknownCode { found: u64::from(flag) };
            return Err(reader.error_back(1, "optional partition flag", kind));
        }
        let id = reader.u32("partition_id")?;
        if flag == 0 && id != 0 {
            let kind = FormatErrorKind::Mismatch { expected: 0, found: u64::from(id) };
            return Err(reader.error_back(4, "partition_id", kind));
        }
        Ok(OptionalPartition((flag == 1).then_some(id)))
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.0.is_some()));
        out.extend_from_slice(&self.0.unwrap_or(0).to_le_bytes());
    }
}
