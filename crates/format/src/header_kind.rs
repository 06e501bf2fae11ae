//! The fifteen kinds of typed values that user headers and options hold (encodings.md, "Header
//! kinds").

/// A kind with a meaning. Other codes travel too: see [`HeaderValue::Unknown`](crate::HeaderValue).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HeaderKind {
    /// Any bytes.
    Raw = 1,
    /// UTF-8.
    String = 2,
    /// One byte, 0 or 1.
    Bool = 3,
    /// One byte.
    Int8 = 4,
    /// Two bytes, as all numbers little-endian.
    Int16 = 5,
    /// Four bytes.
    Int32 = 6,
    /// Eight bytes.
    Int64 = 7,
    /// Sixteen bytes.
    Int128 = 8,
    /// One byte.
    Uint8 = 9,
    /// Two bytes.
    Uint16 = 10,
    /// Four bytes.
    Uint32 = 11,
    /// Eight bytes.
    Uint64 = 12,
    /// Sixteen bytes.
    Uint128 = 13,
    /// Four bytes, IEEE 754.
    Float32 = 14,
    /// Eight bytes, IEEE 754.
    Float64 = 15,
}

impl HeaderKind {
    /// All kinds in the order of their codes, which begin at 1.
    pub const ALL: [HeaderKind; 15] = [
        HeaderKind::Raw,
        HeaderKind::String,
        HeaderKind::Bool,
        HeaderKind::Int8,
        HeaderKind::Int16,
        HeaderKind::Int32,
        HeaderKind::Int64,
        HeaderKind::Int128,
        HeaderKind::Uint8,
        HeaderKind::Uint16,
        HeaderKind::Uint32,
        HeaderKind::Uint64,
        HeaderKind::Uint128,
        HeaderKind::Float32,
        HeaderKind::Float64,
    ];

    /// The code byte.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The kind of a code byte, if it has one.
    pub fn from_code(code: u8) -> Option<Self> {
        usize::from(code).checked_sub(1).and_then(|index| Self::ALL.get(index)).copied()
    }

    /// The kind's name in lower case, as tools print it.
    pub const fn name(self) -> &'static str {
        match self {
            HeaderKind::Raw => "raw",
            HeaderKind::String => "string",
            HeaderKind::Bool => "bool",
            HeaderKind::Int8 => "int8",
            HeaderKind::Int16 => "int16",
            HeaderKind::Int32 => "int32",
            HeaderKind::Int64 => "int64",
            HeaderKind::Int128 => "int128",
            HeaderKind::Uint8 => "uint8",
            HeaderKind::Uint16 => "uint16",
            HeaderKind::Uint32 => "uint32",
            HeaderKind::Uint64 => "uint64",
            HeaderKind::Uint128 => "uint128",
            HeaderKind::Float32 => "float32",
            HeaderKind::Float64 => "float64",
        }
    }
}
