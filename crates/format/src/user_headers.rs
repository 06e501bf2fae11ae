//! The block of user headers behind a payload: keys that are strings, values of any kind
//! (encodings.md, "User headers block").
//!
//! Two strictnesses, as design.md section 9 decides: admission checks the structure, because real
//! clients may send keys of other kinds; the typed view refuses such a key.

use std::iter::FusedIterator;

use crate::tlv::{self, Field, Pairs};
use crate::{FormatError, FormatErrorKind, HeaderKind, HeaderValue};

/// The most bytes of user headers that [`UserHeadersBuilder`] makes, the limit of the reference
/// clients. The specification sets none, so decoding does not either.
pub const USER_HEADERS_BYTES_MAX: usize = 100_000;

/// A block of user headers, borrowed. Iterating gives `Result<(key, value)>`, and only errors of
/// keys are left when the structure was checked; after [`UserHeaders::decode`] there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserHeaders<'a> {
    bytes: &'a [u8],
}

impl<'a> UserHeaders<'a> {
    /// Decodes the whole of `bytes`, which may be empty: structure, and every key a string.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FormatError> {
        for pair in Pairs::new(bytes) {
            key_text(&pair?.0)?;
        }
        Ok(UserHeaders { bytes })
    }

    /// Checks what admission checks: the structure, whatever kinds the keys have.
    pub fn decode_structure(bytes: &'a [u8]) -> Result<Self, FormatError> {
        tlv::check_structure(bytes)?;
        Ok(UserHeaders { bytes })
    }

    /// A block out of a frame whose structure was checked when its batch was verified.
    pub(crate) const fn checked(bytes: &'a [u8]) -> Self {
        UserHeaders { bytes }
    }

    /// The encoded block.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether there are no headers.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Keys and values in order. Positions in errors are those of the block.
    pub fn iter(&self) -> UserHeadersIter<'a> {
        UserHeadersIter { pairs: Pairs::new(self.bytes) }
    }

    /// The same walk for tools that show keys of every kind: the key, too, as a typed value.
    pub fn untyped(
        &self,
    ) -> impl Iterator<Item = Result<(HeaderValue<'a>, HeaderValue<'a>), FormatError>> + use<'a>
    {
        let value = |field: Field<'a>| HeaderValue::from_parts(field.kind, field.data);
        Pairs::new(self.bytes).map(move |pair| pair.map(|(k, v)| (value(k), value(v))))
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.bytes);
    }
}

impl<'a> IntoIterator for UserHeaders<'a> {
    type Item = Result<(&'a str, HeaderValue<'a>), FormatError>;
    type IntoIter = UserHeadersIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Keys and values of a block, in order. A key that is not a string is one error, and the walk
/// goes on behind it; a broken structure is an error and the end.
#[derive(Debug, Clone)]
pub struct UserHeadersIter<'a> {
    pairs: Pairs<'a>,
}

impl<'a> Iterator for UserHeadersIter<'a> {
    type Item = Result<(&'a str, HeaderValue<'a>), FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.pairs.next()?;
        Some(pair.and_then(|(key, value)| {
            Ok((key_text(&key)?, HeaderValue::from_parts(value.kind, value.data)))
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.pairs.size_hint()
    }
}

impl FusedIterator for UserHeadersIter<'_> {}

/// The text of a key; options keys follow the same rule.
pub(crate) fn key_text<'a>(key: &Field<'a>) -> Result<&'a str, FormatError> {
    if key.kind != HeaderKind::String.code() {
        let kind = FormatErrorKind::KeyNotString { found: key.kind };
        return Err(FormatError::new(key.at as u64, "key kind", kind));
    }
    std::str::from_utf8(key.data)
        .map_err(|_| FormatError::new(key.data_at() as u64, "key", FormatErrorKind::NotUtf8))
}

/// Appends one key and value to a block that must stay within `bytes_max`, or leaves it as it was.
pub(crate) fn put_pair(
    block: &mut Vec<u8>,
    bytes_max: usize,
    key: &str,
    value: &HeaderValue<'_>,
) -> Result<(), FormatError> {
    let start = block.len();
    let put = tlv::put_field(block, HeaderKind::String.code(), key.as_bytes(), "key length")
        .and_then(|()| value.encode(block))
        .and_then(|()| match block.len() {
            found if found > bytes_max => {
                let (found, max) = (found as u64, bytes_max as u64);
                let kind = FormatErrorKind::OutOfRange { found, min: 0, max };
                Err(FormatError::new(start as u64, "block length", kind))
            }
            _ => Ok(()),
        });
    if put.is_err() {
        block.truncate(start);
    }
    put
}

/// Makes a block, header by header; `clear` keeps its memory for the next message.
#[derive(Debug, Default, Clone)]
pub struct UserHeadersBuilder {
    block: Vec<u8>,
}

impl UserHeadersBuilder {
    /// An empty block.
    pub const fn new() -> Self {
        UserHeadersBuilder { block: Vec::new() }
    }

    /// Adds a header. Refused, with the block as it was: a key or data that is not 1..=255 bytes
    /// long, an unknown value under a code that has a meaning, and a block that would grow past
    /// [`USER_HEADERS_BYTES_MAX`]. A key may stand twice: the specification allows it.
    pub fn push(&mut self, key: &str, value: HeaderValue<'_>) -> Result<(), FormatError> {
        put_pair(&mut self.block, USER_HEADERS_BYTES_MAX, key, &value)
    }

    /// The block so far.
    pub fn headers(&self) -> UserHeaders<'_> {
        UserHeaders { bytes: &self.block }
    }

    /// Empties the block.
    pub fn clear(&mut self) {
        self.block.clear();
    }
}
