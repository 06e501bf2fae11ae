//! The bytes of Corelog: both specifications, our own records, and the one scan of a segment.
#![forbid(unsafe_code)]

mod error;
mod le;

// Shared encodings (encodings.md), the smallest first.
mod compression;
mod consumer;
mod header_kind;
mod header_value;
mod identifier;
mod name;
mod optional_partition;
mod options;
mod partitioning;
mod polling_strategy;
mod reader;
mod tlv;
mod user_headers;

pub use error::{FormatError, FormatErrorKind};

pub use compression::Compression;
pub use consumer::{Consumer, ConsumerKind};
pub use header_kind::HeaderKind;
pub use header_value::HeaderValue;
pub use identifier::Identifier;
pub use name::Name;
pub use optional_partition::OptionalPartition;
pub use options::{OPTIONS_BYTES_MAX, OPTIONS_ENTRIES_MAX, OptionsBlock, OptionsBuilder};
pub use partitioning::{MessagesKey, Partitioning};
pub use polling_strategy::{PollingKind, PollingStrategy};
pub use user_headers::{USER_HEADERS_BYTES_MAX, UserHeaders, UserHeadersBuilder, UserHeadersIter};
