//! The bytes of Corelog: both specifications, our own records, and the one scan of a segment.
//!
//! Everything here is pure: bytes in, values or a [`FormatError`] out. Decoding borrows, and no
//! length is believed before it was checked against the bytes that are there. `docs/format.md`
//! has the tables; a test renders them from [`layout`] and compares.
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

// Batches (message-batches.md) and the files made of them.
mod batch;
pub mod checksum;
mod index;
pub mod layout;
mod names;
mod resync;
mod scan;

// Our own records.
mod clock_record;
mod manifest;
mod offset_record;
mod offset_table;
mod slots;

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

pub use batch::{
    Admitted, BATCH_BYTES_MAX, BATCH_HEADER_LEN, Batch, BatchBuilder, BatchHeader, BuildError,
    FRAME_HEADER_LEN, Frame, Frames, Message, Slice, UnverifiedBatch, admit, admit_with,
};
pub use index::{INDEX_ENTRY_LEN, IndexEntry};
pub use names::{FileKind, index_file_name, parse_file_name, segment_file_name};
pub use resync::{SearchBudget, may_follow, next_header};
pub use scan::{Expect, Findings, Scan, Step, first_nonzero, scan};

pub use clock_record::ClockRecord;
pub use manifest::{Manifest, ManifestError, Mark};
pub use offset_record::{OFFSET_RECORD_LEN, OffsetRecord};
pub use offset_table::{OFFSET_ENTRIES_MAX, OffsetEntry, OffsetTable};
pub use slots::{SLOT_LEN, Slot, SlotError};
