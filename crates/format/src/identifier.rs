//! A stream, topic, user or group by number or by name: `[kind u8][length u8][value]`
//! (encodings.md, "Identifier").

use crate::reader::Reader;
use crate::{FormatError, FormatErrorKind, Name};

const NUMERIC: u8 = 1;
const STRING: u8 = 2;

/// Number or name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Identifier<'a> {
    /// By number: kind 1, four bytes.
    Numeric(u32),
    /// By name: kind 2, 1..=255 bytes of UTF-8. The bytes behind the kind are those of a [`Name`].
    String(Name<'a>),
}

impl<'a> Identifier<'a> {
    /// Decodes an identifier that is the whole of `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FormatError> {
        Reader::whole(bytes, "identifier", Self::read)
    }

    /// Decodes the identifier at the front of `bytes`, with the number of bytes it takes.
    pub fn decode_prefix(bytes: &'a [u8]) -> Result<(Self, usize), FormatError> {
        Reader::prefix(bytes, Self::read)
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, FormatError> {
        match reader.u8("identifier kind")? {
            NUMERIC => {
                reader.exact_length(4, "identifier length")?;
                reader.u32("identifier value").map(Identifier::Numeric)
            }
            STRING => Name::read(reader).map(Identifier::String),
            other => {
                let kind = FormatErrorKind::UnknownCode { found: u64::from(other) };
                Err(reader.error_back(1, "identifier kind", kind))
            }
        }
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Identifier::Numeric(id) => {
                out.extend_from_slice(&[NUMERIC, 4]);
                out.extend_from_slice(&id.to_le_bytes());
            }
            Identifier::String(name) => {
                out.push(STRING);
                name.encode(out);
            }
        }
    }
}
