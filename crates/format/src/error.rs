//! One error for all decoding: which field, at which byte of the input, and what is wrong with it.

use std::fmt;

/// Input that the specification refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormatError {
    /// Byte position of the field in the input that was given.
    pub at: u64,
    /// The field's name as the specification writes it, e.g. `batch_length`.
    pub field: &'static str,
    /// What is wrong.
    pub kind: FormatErrorKind,
}

impl FormatError {
    /// An error about `field` at byte `at`.
    pub const fn new(at: u64, field: &'static str, kind: FormatErrorKind) -> Self {
        FormatError { at, field, kind }
    }

    /// The same error seen from an outer input in which this one began at byte `base`.
    #[must_use]
    pub const fn inside(mut self, base: u64) -> Self {
        self.at = self.at.saturating_add(base);
        self
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatErrorKind {
    /// The input ends before the field does.
    Truncated {
        /// Bytes the field needs.
        needed: u64,
        /// Bytes that are left.
        have: u64,
    },
    /// Bytes are left after the last field.
    Trailing {
        /// How many.
        extra: u64,
    },
    /// A number outside of its limits.
    OutOfRange {
        /// The number found.
        found: u64,
        /// Smallest allowed.
        min: u64,
        /// Largest allowed.
        max: u64,
    },
    /// A kind or code byte that has no meaning here.
    UnknownCode {
        /// The code found.
        found: u64,
    },
    /// Two statements of the input contradict each other, or the place it stands in.
    Mismatch {
        /// What it should be.
        expected: u64,
        /// What it is.
        found: u64,
    },
    /// Text that is not UTF-8.
    NotUtf8,
    /// A byte that must be zero is not.
    NotZero {
        /// The byte found.
        found: u8,
    },
    /// A stored checksum does not fit the bytes.
    Checksum {
        /// Computed from the bytes.
        expected: u64,
        /// Stored in the input.
        found: u64,
    },
    /// A key without a value.
    KeyWithoutValue,
    /// A key that stands twice in a block.
    DuplicateKey,
    /// A key of a kind other than string.
    KeyNotString {
        /// The kind code found.
        found: u8,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: ", self.field, self.at)?;
        match self.kind {
            FormatErrorKind::Truncated { needed, have } => {
                write!(f, "truncated, {needed} bytes needed, {have} left")
            }
            FormatErrorKind::Trailing { extra } => write!(f, "{extra} bytes too many"),
            FormatErrorKind::OutOfRange { found, min, max } => {
                write!(f, "{found} is not in {min}..={max}")
            }
            FormatErrorKind::UnknownCode { found } => write!(f, "unknown code {found}"),
            FormatErrorKind::Mismatch { expected, found } => {
                write!(f, "expected {expected}, found {found}")
            }
            FormatErrorKind::NotUtf8 => write!(f, "not UTF-8"),
            FormatErrorKind::NotZero { found } => {
                write!(f, "reserved byte must be zero, found {found:#04x}")
            }
            FormatErrorKind::Checksum { expected, found } => {
                write!(f, "checksum over the bytes is {expected:#018x}, stored is {found:#018x}")
            }
            FormatErrorKind::KeyWithoutValue => write!(f, "key without a value"),
            FormatErrorKind::DuplicateKey => write!(f, "the key stands twice"),
            FormatErrorKind::KeyNotString { found } => {
                write!(f, "key of kind {found}, keys are strings (kind 2)")
            }
        }
    }
}

impl std::error::Error for FormatError {}
