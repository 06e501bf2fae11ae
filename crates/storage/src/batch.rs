//! A batch on its way into a log: admitted bytes, how sure the caller wants to be, and the answer.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use corelog_format::{Admitted, BATCH_HEADER_LEN, FormatError, admit_with};

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

/// Memory for the checksums that an admitted batch carries to its owner, used again and again: it
/// is taken where a batch is admitted and comes back where it is stamped, on whatever threads. A
/// producer that appends steadily then allocates nothing here. Clones are the same memory.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    /// Locked for a move only, so that neither side waits for the other's work.
    spares: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// Pieces of memory that wait for a batch, at most, and bytes of each: 1 MiB together.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 16 << 10;

impl Scratch {
    fn take(&self) -> Vec<u8> {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        spares.pop().unwrap_or_default()
    }

    fn give(&self, memory: Vec<u8>) {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.len() < SPARES_MAX && memory.capacity() <= SPARE_BYTES_MAX {
            spares.push(memory);
        }
    }
}

/// A verified producer batch, ready to cross to its owner. The bytes are shared, not copied.
#[derive(Debug)]
pub struct AdmittedBatch {
    admitted: Admitted,
    bytes: Bytes,
    scratch: Option<Scratch>,
}

impl AdmittedBatch {
    /// Verifies `bytes`, which must be exactly one batch: layout, counts, reserved zeros and both
    /// checksums in one pass (message-batches.md). Refused bytes name the field and its position.
    pub fn admit(bytes: Bytes) -> Result<Self, FormatError> {
        let admitted = admit_with(&bytes, Vec::new())?;
        Ok(AdmittedBatch { admitted, bytes, scratch: None })
    }

    /// [`AdmittedBatch::admit`] in memory of `scratch`. It goes back there when the batch is
    /// stamped, and is freed where that never happens.
    pub fn admit_in(bytes: Bytes, scratch: &Scratch) -> Result<Self, FormatError> {
        let admitted = admit_with(&bytes, scratch.take())?;
        Ok(AdmittedBatch { admitted, bytes, scratch: Some(scratch.clone()) })
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
        if let Some(scratch) = self.scratch {
            scratch.give(self.admitted.into_scratch());
        }
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
