//! Which batches and messages somebody wants to see.

use std::ops::Range;

use corelog_format::{Batch, BatchHeader, Frame, HeaderValue};
use regex::bytes::Regex;

use crate::render;

/// A selection: all of it must hold.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// Offsets of messages; `u64::MAX` as the end leaves nothing out.
    pub(crate) offsets: Range<u64>,
    /// `base_timestamp` of their batch, in microseconds; likewise.
    pub(crate) times: Range<u64>,
    /// Any of these ids, if there is one.
    pub(crate) ids: Vec<u128>,
    /// All of these user headers.
    pub(crate) keys: Vec<KeyMatch>,
    /// Payloads that match.
    pub(crate) grep: Option<Regex>,
    /// Payloads that do not match.
    pub(crate) not_grep: Option<Regex>,
}

/// A user header that a message must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyMatch {
    key: String,
    value: Option<String>,
}

impl Selection {
    /// Everything.
    pub(crate) fn everything() -> Selection {
        let (offsets, times) = (0..u64::MAX, 0..u64::MAX);
        let (ids, keys) = (Vec::new(), Vec::new());
        Selection { offsets, times, ids, keys, grep: None, not_grep: None }
    }

    /// Whether a batch with this header may hold what is selected.
    pub(crate) fn may_be_in(&self, header: &BatchHeader) -> bool {
        let end = header.end_offset().unwrap_or(u64::MAX);
        self.offsets.start < end
            && header.base_offset < self.offsets.end
            && self.times.start <= header.base_timestamp
            && (header.base_timestamp < self.times.end || self.times.end == u64::MAX)
    }

    /// Whether nothing selected can stand behind a batch with this header. `times_rise`: batches
    /// come in order of time as well.
    pub(crate) fn ends_with(&self, header: &BatchHeader, times_rise: bool) -> bool {
        header.end_offset().is_none_or(|end| end >= self.offsets.end)
            || times_rise && header.base_timestamp >= self.times.end
    }

    /// Whether a message of a batch that [`Selection::may_be_in`] is selected.
    pub(crate) fn takes(&self, header: &BatchHeader, frame: &Frame<'_>) -> bool {
        let offset = render::offset(header, frame);
        self.offsets.start <= offset
            && (offset < self.offsets.end || self.offsets.end == u64::MAX)
            && (self.ids.is_empty() || self.ids.contains(&frame.id()))
            && self.keys.iter().all(|key| key.is_in(frame))
            && self.grep.as_ref().is_none_or(|grep| grep.is_match(frame.payload()))
            && !self.not_grep.as_ref().is_some_and(|grep| grep.is_match(frame.payload()))
    }

    /// Whether any of a batch's messages is selected.
    pub(crate) fn takes_some_of(&self, batch: &Batch<'_>) -> bool {
        batch.frames().any(|frame| self.takes(batch.header(), &frame))
    }
}

impl KeyMatch {
    /// `K` or `K=V`: the key ends at the first `=`.
    pub(crate) fn parse(text: &str) -> Result<KeyMatch, String> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(value.to_string())),
            None => (text, None),
        };
        if key.is_empty() {
            return Err("the key is missing: K or K=V".to_string());
        }
        Ok(KeyMatch { key: key.to_string(), value })
    }

    fn is_in(&self, frame: &Frame<'_>) -> bool {
        frame.user_headers().untyped().map_while(Result::ok).any(|(key, value)| {
            is_written(&key, &self.key)
                && self.value.as_ref().is_none_or(|wanted| is_written(&value, wanted))
        })
    }
}

/// Whether `text` is a way to write this value: text as it is, numbers in decimal, `true` and
/// `false`, bytes in hex with or without `0x`.
fn is_written(value: &HeaderValue<'_>, text: &str) -> bool {
    match *value {
        HeaderValue::String(string) => string == text,
        HeaderValue::Raw(bytes)
        | HeaderValue::Unknown { bytes, .. }
        | HeaderValue::Invalid { bytes, .. } => is_hex(bytes, text),
        HeaderValue::Bool(value) => text == if value { "true" } else { "false" },
        HeaderValue::Float32(value) => text.parse() == Ok(value),
        HeaderValue::Float64(value) => text.parse() == Ok(value),
        HeaderValue::Int8(value) => text.parse() == Ok(value),
        HeaderValue::Int16(value) => text.parse() == Ok(value),
        HeaderValue::Int32(value) => text.parse() == Ok(value),
        HeaderValue::Int64(value) => text.parse() == Ok(value),
        HeaderValue::Int128(value) => text.parse() == Ok(value),
        HeaderValue::Uint8(value) => text.parse() == Ok(value),
        HeaderValue::Uint16(value) => text.parse() == Ok(value),
        HeaderValue::Uint32(value) => text.parse() == Ok(value),
        HeaderValue::Uint64(value) => text.parse() == Ok(value),
        HeaderValue::Uint128(value) => text.parse() == Ok(value),
    }
}

fn is_hex(bytes: &[u8], text: &str) -> bool {
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    digits.len() == 2 * bytes.len()
        && bytes.iter().zip(digits.chunks_exact(2)).all(|(byte, pair)| {
            let digit = |c: u8| char::from(c).to_digit(16);
            digit(pair[0])
                .zip(digit(pair[1]))
                .is_some_and(|(high, low)| u32::from(*byte) == high * 16 + low)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_match_as_they_are_written() {
        let matches = [
            (HeaderValue::String("a=b"), "a=b"),
            (HeaderValue::Raw(&[0x00, 0xab]), "0x00Ab"),
            (HeaderValue::Raw(&[0x00, 0xab]), "00ab"),
            (HeaderValue::Bool(true), "true"),
            (HeaderValue::Int8(-7), "-7"),
            (HeaderValue::Uint128(u128::MAX), "340282366920938463463374607431768211455"),
            (HeaderValue::Float32(0.1), "0.1"),
            (HeaderValue::Float64(1e3), "1000"),
        ];
        for (value, text) in matches {
            assert!(is_written(&value, text), "{value:?} {text}");
            assert!(!is_written(&value, &format!("{text}1")), "{value:?}");
            assert!(!is_written(&value, ""), "{value:?}");
        }
    }

    #[test]
    fn a_key_ends_at_the_first_equals_sign() {
        let parsed = |text| KeyMatch::parse(text).map(|m| (m.key, m.value));
        assert_eq!(parsed("k"), Ok(("k".into(), None)));
        assert_eq!(parsed("k="), Ok(("k".into(), Some(String::new()))));
        assert_eq!(parsed("k=a=b"), Ok(("k".into(), Some("a=b".into()))));
        assert!(parsed("=v").is_err());
    }
}
