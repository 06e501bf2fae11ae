//! Who reads: one consumer or a group, `[kind u8][identifier]` (encodings.md, "Consumer").

use crate::reader::Reader;
use crate::{FormatError, FormatErrorKind, Identifier};

/// Whether a [`Consumer`] stands for itself or for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConsumerKind {
    /// Kind 1.
    Consumer,
    /// Kind 2.
    ConsumerGroup,
}

impl ConsumerKind {
    /// The kind byte.
    pub const fn code(self) -> u8 {
        match self {
            ConsumerKind::Consumer => 1,
            ConsumerKind::ConsumerGroup => 2,
        }
    }
}

/// A consumer or a consumer group in message and offset commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Consumer<'a> {
    /// Which of the two.
    pub kind: ConsumerKind,
    /// Its number or name.
    pub id: Identifier<'a>,
}

impl<'a> Consumer<'a> {
    /// Decodes a consumer that is the whole of `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FormatError> {
        Reader::whole(bytes, "consumer", Self::read)
    }

    /// Decodes the consumer at the front of `bytes`, with the number of bytes it takes.
    pub fn decode_prefix(bytes: &'a [u8]) -> Result<(Self, usize), FormatError> {
        Reader::prefix(bytes, Self::read)
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, FormatError> {
        let kind = match reader.u8("consumer kind")? {
            1 => ConsumerKind::Consumer,
            2 => ConsumerKind::ConsumerGroup,
            other => {
                let kind = FormatErrorKind::UnknownCode { found: u64::from(other) };
                return Err(reader.error_back(1, "consumer kind", kind));
            }
        };
        Ok(Consumer { kind, id: Identifier::read(reader)? })
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind.code());
        self.id.encode(out);
    }
}
