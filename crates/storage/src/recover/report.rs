//! What opening a partition found and did: everything an operator has to know.

use std::ffi::OsString;
use std::path::PathBuf;

use corelog_format::FormatError;

/// Damage that was found while opening. It is left in place and named.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenDamage {
    /// Bytes that were synced, or that no mark tells from such, are not a batch of this log.
    Corrupt {
        /// First offset of the segment.
        segment: u64,
        /// First damaged byte in its file.
        position: u64,
        /// What is wrong.
        why: FormatError,
    },
    /// The device does not give back some bytes of this batch. They are never cut: acknowledged
    /// batches may stand there, and another opening may be able to read them.
    Unreadable {
        /// First offset of the segment.
        segment: u64,
        /// First byte of the batch in its file.
        position: u64,
    },
    /// A segment that the mark or a neighbour speaks of is not there.
    MissingSegment {
        /// The first offset that has no segment.
        offset: u64,
    },
    /// Neither slot of the manifest can be used; the log was read without its mark.
    Manifest,
    /// What consumers have stored cannot be read: neither slot is sound. They begin again.
    ConsumerOffsets,
}

/// What opening found and did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenReport {
    /// Name of the row that applied, of the table in `docs/durability.md`, section "After a crash".
    pub row: &'static str,
    /// The row's reason, in a sentence.
    pub why: &'static str,
    /// Nothing was there: the partition was created.
    pub created: bool,
    /// A log without a manifest was taken over (the reference server's files).
    pub adopted: bool,
    /// What had to be done could not be, for want of space perhaps. Nothing was cut, everything that verifies is
    /// served, appends are refused: free space and reopen.
    pub read_only: bool,
    /// Batches found above the durable mark.
    pub recovered_batches: u64,
    /// Bytes above the durable mark that were written again, since a sync may have failed on them.
    pub rewritten_bytes: u64,
    /// Bytes of an interrupted write that were cut off.
    pub cut_bytes: u64,
    /// Copies of what was cut or moved away although it held whole batches.
    pub quarantined: Vec<PathBuf>,
    /// Damage that was left in place.
    pub damage: Vec<OpenDamage>,
    /// Files of trimmed segments that could not be removed. They are not served; the next opening
    /// tries again.
    pub left: Vec<PathBuf>,
    /// Names in the directory that are none of ours.
    pub ignored: Vec<OsString>,
    /// Blank files that do not continue the log: made ahead of need, and removed now.
    pub blank_removed: u64,
    /// Bytes of log that were read.
    pub bytes_read: u64,
}
