//! A batch on its way into a log: admitted bytes, how sure the caller wants to be, and the answer.

use bytes::Bytes;
use corelog_format::{Admitted, BATCH_HEADER_LEN, FormatError, admit};

use crate::AppendError;

/// When an append is answered.
///
/// | ack | the batch is | survives |
/// | --- | --- | --- |
/// | `Appended` | stamped, in the owning shard's memory | nothing yet; sent to the device within `flush_after` |
/// | `Written` | in the device, as far as the kernel says | the death of the process |
/// | `Durable` | synced after it was written | power loss |
///
/// A topic with `enforce_fsync` raises every ack to `Durable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ack {
    /// In memory, with its offset.
    Appended,
    /// In the device.
    Written,
    /// Synced.
    Durable,
}

/// A verified producer batch, ready to cross to its owner. The bytes are shared, not copied.
#[derive(Debug)]
pub struct AdmittedBatch {
    admitted: Admitted,
    bytes: Bytes,
}

impl AdmittedBatch {
    /// Verifies `bytes`, which must be exactly one batch: layout, counts, reserved zeros and both
    /// checksums in one pass (message-batches.md). Refused bytes name the field and its position.
    pub fn admit(bytes: Bytes) -> Result<Self, FormatError> {
        let admitted = admit(&bytes)?;
        Ok(AdmittedBatch { admitted, bytes })
    }

    /// Length of the batch in bytes, header included.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Always false: a batch holds its header at least.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Messages in the batch, at least one.
    pub fn message_count(&self) -> u32 {
        self.admitted.message_count()
    }

    /// The stored header for this place and time, and the bytes whose header it replaces.
    pub(crate) fn stamp(
        mut self,
        partition_id: u32,
        base_offset: u64,
        base_timestamp: u64,
    ) -> ([u8; BATCH_HEADER_LEN], Bytes) {
        let header = self.admitted.stamp(u64::from(partition_id), base_offset, base_timestamp);
        (header, self.bytes)
    }
}

/// What an append is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the batch's first message; message `i` has `base_offset + i`.
    pub base_offset: u64,
    /// Time of the append, microseconds since the Unix epoch, strictly increasing in a partition.
    pub base_timestamp: u64,
    /// Messages in the batch.
    pub message_count: u32,
}

/// Where the answer to one append goes. Called exactly once, on the partition's thread; must not
/// block and must not call back into the partition.
pub trait Answer: 'static {
    /// Takes the answer.
    fn answer(self, result: Result<Appended, AppendError>);
}
