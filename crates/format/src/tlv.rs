//! The flat run of fields that user headers and options share: `[kind u8][length u32][data]`, in
//! pairs of key and value (encodings.md, "User headers block").
//!
//! This is structure only: no kind is zero, every length is 1..=255, fields pair up and the last
//! one ends where the bytes end. Whether a key is a string is the typed view's question.

use std::iter::FusedIterator;

use crate::{FormatError, FormatErrorKind};

/// Bytes in front of a field's data: kind and length.
pub(crate) const FIELD_HEADER_LEN: usize = 5;

/// The longest data of a field, in bytes. The shortest is one byte.
pub(crate) const FIELD_DATA_LEN_MAX: usize = 255;

/// One field whose structure was checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field<'a> {
    /// Byte position of the field's kind in the block.
    pub(crate) at: usize,
    /// The kind code, never zero.
    pub(crate) kind: u8,
    /// 1..=255 bytes.
    pub(crate) data: &'a [u8],
}

impl Field<'_> {
    /// Byte position just after the field.
    fn end(&self) -> usize {
        self.at + FIELD_HEADER_LEN + self.data.len()
    }

    /// Byte position of the field's data.
    pub(crate) fn data_at(&self) -> usize {
        self.at + FIELD_HEADER_LEN
    }
}

/// Checks the structure of a whole block and returns the number of its pairs.
///
/// Admission runs this once a frame, so a field costs one load and one branch that is never
/// taken; which rule was broken is found out only when one was. Work is bounded by the bytes
/// given: a field takes at least six of them.
#[inline]
pub(crate) fn check_structure(bytes: &[u8]) -> Result<u32, FormatError> {
    let mut at = 0;
    let mut fields = 0_usize;
    while let Some(field) = field_at(bytes, at) {
        at = field.end();
        fields += 1;
    }
    if at == bytes.len()
        && fields.is_multiple_of(2)
        && let Ok(pairs) = u32::try_from(fields / 2)
    {
        return Ok(pairs);
    }
    Err(explain(bytes, at, fields))
}

/// The pairs of a block in order, each checked when the walk reaches it. After an error it ends.
#[derive(Debug, Clone)]
pub(crate) struct Pairs<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Pairs<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Pairs { bytes, at: 0 }
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = Result<(Field<'a>, Field<'a>), FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        if start == self.bytes.len() {
            return None;
        }
        // Where this stands if either field is refused.
        self.at = self.bytes.len();
        let Some(key) = field_at(self.bytes, start) else {
            return Some(Err(explain(self.bytes, start, 0)));
        };
        let Some(value) = field_at(self.bytes, key.end()) else {
            return Some(Err(explain(self.bytes, key.end(), 1)));
        };
        self.at = value.end();
        Some(Ok((key, value)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let shortest_pair = 2 * (FIELD_HEADER_LEN + 1);
        (0, Some((self.bytes.len() - self.at).div_ceil(shortest_pair)))
    }
}

impl FusedIterator for Pairs<'_> {}

/// Appends a field to `out`, or refuses data that is not 1..=255 bytes and leaves `out` as it was.
/// The kind is the caller's promise: not zero.
pub(crate) fn put_field(
    out: &mut Vec<u8>,
    kind: u8,
    data: &[u8],
    length_name: &'static str,
) -> Result<(), FormatError> {
    debug_assert!(kind != 0, "kind 0 is no kind");
    if data.is_empty() || data.len() > FIELD_DATA_LEN_MAX {
        let (found, max) = (data.len() as u64, FIELD_DATA_LEN_MAX as u64);
        let kind = FormatErrorKind::OutOfRange { found, min: 1, max };
        return Err(FormatError::new(out.len() as u64, length_name, kind));
    }
    let length = data.len() as u32;
    out.push(kind);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(data);
    Ok(())
}

/// The field at `at`, or `None` at the end of the bytes and where a rule is broken.
#[inline]
fn field_at(bytes: &[u8], at: usize) -> Option<Field<'_>> {
    let rest = bytes.get(at..)?;
    let [kind, l0, l1, l2, l3] = *rest.first_chunk::<FIELD_HEADER_LEN>()?;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    // Not short-circuited on purpose: three cheap comparisons, one branch.
    if (kind == 0) | (length.wrapping_sub(1) >= FIELD_DATA_LEN_MAX) {
        return None;
    }
    let data = rest[FIELD_HEADER_LEN..].get(..length)?;
    Some(Field { at, kind, data })
}

/// The rule that is broken at `at`, after `fields` good ones (their parity says whose turn it is).
#[cold]
fn explain(bytes: &[u8], at: usize, fields: usize) -> FormatError {
    let is_key = fields.is_multiple_of(2);
    let field_names = if is_key {
        ["key kind", "key length", "key"]
    } else {
        ["value kind", "value length", "value"]
    };
    let [kind_name, length_name, data_name] = field_names;
    let error = |at: usize, name, kind| FormatError::new(at as u64, name, kind);
    let truncated = |at: usize, name, needed: usize| {
        let have = (bytes.len() - at) as u64;
        error(at, name, FormatErrorKind::Truncated { needed: needed as u64, have })
    };

    let rest = &bytes[at..];
    let Some(&kind) = rest.first() else {
        if is_key {
            let (found, max) = (fields as u64 / 2, u64::from(u32::MAX));
            return error(at, "pairs", FormatErrorKind::OutOfRange { found, min: 0, max });
        }
        return error(at, "value", FormatErrorKind::KeyWithoutValue);
    };
    if kind == 0 {
        return error(at, kind_name, FormatErrorKind::UnknownCode { found: 0 });
    }
    let Some(&[_, l0, l1, l2, l3]) = rest.first_chunk::<FIELD_HEADER_LEN>() else {
        return truncated(at + 1, length_name, FIELD_HEADER_LEN - 1);
    };
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length == 0 || length > FIELD_DATA_LEN_MAX {
        let (found, max) = (length as u64, FIELD_DATA_LEN_MAX as u64);
        return error(at + 1, length_name, FormatErrorKind::OutOfRange { found, min: 1, max });
    }
    truncated(at + FIELD_HEADER_LEN, data_name, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(kind: u8, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&(data.len() as u32).to_le_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    /// What both ways of reading a block say about it; they must be of one mind.
    fn verdict(bytes: &[u8]) -> Result<u32, FormatError> {
        let checked = check_structure(bytes);
        let walked = Pairs::new(bytes).try_fold(0_u32, |pairs, pair| pair.map(|_| pairs + 1));
        assert_eq!(checked, walked);
        checked
    }

    #[test]
    fn good_blocks_are_counted() {
        assert_eq!(verdict(&[]), Ok(0));
        let pair = [field(2, b"k"), field(200, &[7; 255])].concat();
        assert_eq!(verdict(&pair), Ok(1));
        assert_eq!(verdict(&pair.repeat(40)), Ok(40));
    }

    #[test]
    fn every_broken_rule_is_named_where_it_is() {
        use FormatErrorKind::{KeyWithoutValue, OutOfRange, Truncated, UnknownCode};
        let out = |found| OutOfRange { found, min: 1, max: 255 };
        let key = field(2, b"key");
        let cases: &[(&[u8], u64, &str, FormatErrorKind)] = &[
            (&field(0, b"key"), 0, "key kind", UnknownCode { found: 0 }),
            (&[2], 1, "key length", Truncated { needed: 4, have: 0 }),
            (&[2, 1, 0, 0], 1, "key length", Truncated { needed: 4, have: 3 }),
            (&field(2, b""), 1, "key length", out(0)),
            (&field(2, &[0; 256]), 1, "key length", out(256)),
            (&[2, 255, 255, 255, 255], 1, "key length", out(u64::from(u32::MAX))),
            (&[2, 9, 0, 0, 0, 1], 5, "key", Truncated { needed: 9, have: 1 }),
            (&key, 8, "value", KeyWithoutValue),
            (&[&key[..], &field(0, b"v")].concat(), 8, "value kind", UnknownCode { found: 0 }),
            (&[&key[..], &[3]].concat(), 9, "value length", Truncated { needed: 4, have: 0 }),
            (&[&key[..], &field(3, b"")].concat(), 9, "value length", out(0)),
            (&[&key[..], &[3, 2, 0, 0, 0]].concat(), 13, "value", Truncated { needed: 2, have: 0 }),
        ];
        for (bytes, at, name, kind) in cases {
            assert_eq!(verdict(bytes), Err(FormatError::new(*at, name, *kind)), "{bytes:?}");
        }
    }

    #[test]
    fn after_an_error_the_walk_ends() {
        let bytes = [field(2, b"k"), field(3, b"v"), field(0, b"k"), field(3, b"v")].concat();
        let mut pairs = Pairs::new(&bytes);
        assert!(pairs.next().is_some_and(|pair| pair.is_ok()));
        assert!(pairs.next().is_some_and(|pair| pair.is_err()));
        assert!(pairs.next().is_none());
        assert!(pairs.next().is_none());
    }
}
