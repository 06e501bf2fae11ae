//! Names of streams, topics, groups, users and tokens: `[length u8][UTF-8]` (encodings.md, "Name").

use std::fmt;

use crate::reader::Reader;
use crate::{FormatError, FormatErrorKind};

/// Text of 1..=255 bytes of UTF-8, borrowed. No trimming and no rule about characters, so a name
/// is never a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a>(&'a str);

impl<'a> Name<'a> {
    /// `text` as a name; refused when it is not 1..=255 bytes long.
    pub fn new(text: &'a str) -> Result<Self, FormatError> {
        if text.is_empty() || text.len() > 255 {
            let found = text.len() as u64;
            let kind = FormatErrorKind::OutOfRange { found, min: 1, max: 255 };
            return Err(FormatError::new(0, "name length", kind));
        }
        Ok(Name(text))
    }

    /// Decodes a name that is the whole of `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FormatError> {
        Reader::whole(bytes, "name", Self::read)
    }

    /// Decodes the name at the front of `bytes`, with the number of bytes it takes.
    pub fn decode_prefix(bytes: &'a [u8]) -> Result<(Self, usize), FormatError> {
        Reader::prefix(bytes, Self::read)
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, FormatError> {
        reader.short_text("name length", "name").map(Name)
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.length_byte());
        out.extend_from_slice(self.0.as_bytes());
    }

    /// The text.
    pub const fn as_str(&self) -> &'a str {
        self.0
    }

    pub(crate) fn length_byte(&self) -> u8 {
        u8::try_from(self.0.len()).expect("a name is at most 255 bytes: new and read saw to it")
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}
