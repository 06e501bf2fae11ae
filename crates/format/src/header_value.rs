//! Typed values of user headers and options, read from and written as a field's kind and data
//! (encodings.md, "Header kinds").

use crate::{FormatError, FormatErrorKind, HeaderKind, tlv};

/// A value, borrowed where it is bytes or text.
///
/// Every field that the structure allows has a value here, so nothing that a newer or a careless
/// client sent is lost on the way through: see the last two variants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HeaderValue<'a> {
    /// Kind 1.
    Raw(&'a [u8]),
    /// Kind 2.
    String(&'a str),
    /// Kind 3.
    Bool(bool),
    /// Kind 4.
    Int8(i8),
    /// Kind 5.
    Int16(i16),
    /// Kind 6.
    Int32(i32),
    /// Kind 7.
    Int64(i64),
    /// Kind 8.
    Int128(i128),
    /// Kind 9.
    Uint8(u8),
    /// Kind 10.
    Uint16(u16),
    /// Kind 11.
    Uint32(u32),
    /// Kind 12.
    Uint64(u64),
    /// Kind 13.
    Uint128(u128),
    /// Kind 14.
    Float32(f32),
    /// Kind 15.
    Float64(f64),
    /// A kind that is not in our table: kept as it came, so that headers survive clusters of mixed
    /// versions.
    Unknown {
        /// The code, 16..=255.
        code: u8,
        /// The data, 1..=255 bytes.
        bytes: &'a [u8],
    },
    /// Data that its kind cannot have: a number of the wrong width, a bool other than 0 and 1,
    /// text that is not UTF-8. The structure allows it and admission stores it, so readers meet it.
    Invalid {
        /// The kind that the field names.
        kind: HeaderKind,
        /// The data, 1..=255 bytes.
        bytes: &'a [u8],
    },
}

impl<'a> HeaderValue<'a> {
    /// The value of a field with this kind code and data. Every input has one.
    pub fn from_parts(code: u8, bytes: &'a [u8]) -> Self {
        match HeaderKind::from_code(code) {
            None => HeaderValue::Unknown { code, bytes },
            Some(kind) => Self::typed(kind, bytes).unwrap_or(HeaderValue::Invalid { kind, bytes }),
        }
    }

    /// The value of a field, or nothing when the data does not fit the kind.
    fn typed(kind: HeaderKind, bytes: &'a [u8]) -> Option<Self> {
        Some(match kind {
            HeaderKind::Raw => HeaderValue::Raw(bytes),
            HeaderKind::String => HeaderValue::String(std::str::from_utf8(bytes).ok()?),
            HeaderKind::Bool => match bytes {
                [0] => HeaderValue::Bool(false),
                [1] => HeaderValue::Bool(true),
                _ => return None,
            },
            HeaderKind::Int8 => HeaderValue::Int8(i8::from_le_bytes(exactly(bytes)?)),
            HeaderKind::Int16 => HeaderValue::Int16(i16::from_le_bytes(exactly(bytes)?)),
            HeaderKind::Int32 => HeaderValue::Int32(i32::from_le_bytes(exactly(bytes)?)),
            HeaderKind::Int64 => HeaderValue::Int64(i64::from_le_bytes(exactly(bytes)?)),
            HeaderKind::Int128 => HeaderValue::Int128(i128::from_le_bytes(exactly(bytes)?)),
            HeaderKind::Uint8 => HeaderValue::Uint8(u8::from_le_bytes(exactly(bytes)?)),
            HeaderKind::Uint16 => HeaderValue::Uint16(u16::from_le_bytes(exactly(bytes)?)),
            HeaderKind::Uint32 => HeaderValue::Uint32(u32::from_le_bytes(exactly(bytes)?)),
            HeaderKind::Uint64 => HeaderValue::Uint64(u64::from_le_bytes(exactly(bytes)?)),
            HeaderKind::Uint128 => HeaderValue::Uint128(u128::from_le_bytes(exactly(bytes)?)),
            HeaderKind::Float32 => HeaderValue::Float32(f32::from_le_bytes(exactly(bytes)?)),
            HeaderKind::Float64 => HeaderValue::Float64(f64::from_le_bytes(exactly(bytes)?)),
        })
    }

    /// The kind, unless it is not in our table.
    pub fn kind(&self) -> Option<HeaderKind> {
        HeaderKind::from_code(self.code())
    }

    /// The kind code that the field carries.
    pub const fn code(&self) -> u8 {
        let kind = match self {
            HeaderValue::Raw(_) => HeaderKind::Raw,
            HeaderValue::String(_) => HeaderKind::String,
            HeaderValue::Bool(_) => HeaderKind::Bool,
            HeaderValue::Int8(_) => HeaderKind::Int8,
            HeaderValue::Int16(_) => HeaderKind::Int16,
            HeaderValue::Int32(_) => HeaderKind::Int32,
            HeaderValue::Int64(_) => HeaderKind::Int64,
            HeaderValue::Int128(_) => HeaderKind::Int128,
            HeaderValue::Uint8(_) => HeaderKind::Uint8,
            HeaderValue::Uint16(_) => HeaderKind::Uint16,
            HeaderValue::Uint32(_) => HeaderKind::Uint32,
            HeaderValue::Uint64(_) => HeaderKind::Uint64,
            HeaderValue::Uint128(_) => HeaderKind::Uint128,
            HeaderValue::Float32(_) => HeaderKind::Float32,
            HeaderValue::Float64(_) => HeaderKind::Float64,
            HeaderValue::Invalid { kind, .. } => *kind,
            HeaderValue::Unknown { code, .. } => return *code,
        };
        kind.code()
    }

    /// Appends the field `[kind][length][data]` to `out`.
    ///
    /// Refused, with `out` as it was: data that is not 1..=255 bytes, and an `Unknown` whose code
    /// has a meaning. What was decoded always encodes, to the same bytes; `Invalid` too, so that a
    /// block can be forwarded. The error's position is where in `out` the field would begin.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let code = self.code();
        let mut put = |data: &[u8]| tlv::put_field(out, code, data, "value length");
        match self {
            HeaderValue::Raw(bytes) | HeaderValue::Invalid { bytes, .. } => put(bytes),
            HeaderValue::String(text) => put(text.as_bytes()),
            HeaderValue::Bool(value) => put(&[u8::from(*value)]),
            HeaderValue::Int8(value) => put(&value.to_le_bytes()),
            HeaderValue::Int16(value) => put(&value.to_le_bytes()),
            HeaderValue::Int32(value) => put(&value.to_le_bytes()),
            HeaderValue::Int64(value) => put(&value.to_le_bytes()),
            HeaderValue::Int128(value) => put(&value.to_le_bytes()),
            HeaderValue::Uint8(value) => put(&value.to_le_bytes()),
            HeaderValue::Uint16(value) => put(&value.to_le_bytes()),
            HeaderValue::Uint32(value) => put(&value.to_le_bytes()),
            HeaderValue::Uint64(value) => put(&value.to_le_bytes()),
            HeaderValue::Uint128(value) => put(&value.to_le_bytes()),
            HeaderValue::Float32(value) => put(&value.to_le_bytes()),
            HeaderValue::Float64(value) => put(&value.to_le_bytes()),
            HeaderValue::Unknown { bytes, .. } if code > 15 => put(bytes),
            HeaderValue::Unknown { .. } => {
                let kind = FormatErrorKind::OutOfRange { found: code.into(), min: 16, max: 255 };
                Err(FormatError::new(out.len() as u64, "value kind", kind))
            }
        }
    }
}

/// `bytes` when there are exactly `N` of them.
fn exactly<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}
