//! The bytes of Corelog: both specifications, our own records, and the one scan of a segment.
#![forbid(unsafe_code)]

mod error;
mod le;
mod tlv;

pub use error::{FormatError, FormatErrorKind};
