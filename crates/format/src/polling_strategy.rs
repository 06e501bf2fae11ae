//! Where a poll starts: `[kind u8][value u64]`, always nine bytes (encodings.md, "Polling
//! strategy").

use crate::reader::Reader;
use crate::{FormatError, FormatErrorKind};

/// What a poll starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PollingKind {
    /// Kind 1: the value is an offset.
    Offset,
    /// Kind 2: the value is a timestamp in microseconds.
    Timestamp,
    /// Kind 3: the beginning.
    First,
    /// Kind 4: the end.
    Last,
    /// Kind 5: after the stored consumer offset.
    Next,
}

impl PollingKind {
    /// The kind byte.
    pub const fn code(self) -> u8 {
        match self {
            PollingKind::Offset => 1,
            PollingKind::Timestamp => 2,
            PollingKind::First => 3,
            PollingKind::Last => 4,
            PollingKind::Next => 5,
        }
    }

    /// The kind of a code byte.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => PollingKind::Offset,
            2 => PollingKind::Timestamp,
            3 => PollingKind::First,
            4 => PollingKind::Last,
            5 => PollingKind::Next,
            _ => return None,
        })
    }
}

/// Kind and value. The value of `First`, `Last` and `Next` means nothing; it is kept so that what
/// was decoded encodes to the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PollingStrategy {
    /// What the poll starts from.
    pub kind: PollingKind,
    /// An offset or microseconds, by kind.
    pub value: u64,
}

impl PollingStrategy {
    /// Bytes of the encoding.
    pub const LEN: usize = 9;

    /// Decodes a strategy that is the whole of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        Reader::whole(bytes, "polling strategy", Self::read)
    }

    /// Decodes the strategy at the front of `bytes`, with the number of bytes it takes (nine).
    pub fn decode_prefix(bytes: &[u8]) -> Result<(Self, usize), FormatError> {
        Reader::prefix(bytes, Self::read)
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let code = reader.u8("polling strategy kind")?;
        let Some(kind) = PollingKind::from_code(code) else {
            let kind = FormatErrorKind::UnknownCode { found: u64::from(code) };
            return Err(reader.error_back(1, "polling strategy kind", kind));
        };
        Ok(PollingStrategy { kind, value: reader.u64("polling strategy value")? })
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind.code());
        out.extend_from_slice(&self.value.to_le_bytes());
    }
}
