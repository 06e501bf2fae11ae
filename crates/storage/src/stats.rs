//! Counters of one partition, for operators and benchmarks.

use crate::Watermarks;

/// Counts since the partition was opened, and queue lengths now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStats {
    /// Where the log stands.
    pub watermarks: Watermarks,
    /// Segments, the active one included.
    pub segments: usize,
    /// Batches taken for appending.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Polls begun.
    pub polls: u64,
    /// Syncs of log files begun; with `enforce_fsync` the writes themselves are synced instead.
    pub syncs: u64,
    /// Bytes given to the device for the log, padding and rewritten tail blocks included. Over
    /// `bytes` this is the write amplification, with `bytes_zeroed`.
    pub bytes_written: u64,
    /// Zeros written ahead of the tail (`enforce_fsync` only).
    pub bytes_zeroed: u64,
    /// Bytes copied a second time because their block was dispatched before it was full.
    pub bytes_carried: u64,
    /// Bytes read from the disk for polls.
    pub disk_read_bytes: u64,
    /// Polls that met damage.
    pub corrupt_reads: u64,
    /// Writes in flight now.
    pub writes_in_flight: usize,
    /// Appends that are not stamped yet: no space, no buffer, or a segment is being sealed.
    pub waiting_appends: usize,
    /// The partition takes no more appends.
    pub poisoned: bool,
}
