//! Admission: one pass over a producer's batch, and the header that its owner stamps.
//!
//! The pass reads every byte once. What it keeps is the 8-byte checksum of each frame, so that the
//! owner can restamp the header without going over the frames again.

use crate::layout::{batch_header, frame_header};
use crate::{FormatError, FormatErrorKind, checksum};

use super::header::COVERED_LEN;
use super::walk::walk;
use super::{BATCH_HEADER_LEN, BatchHeader, UnverifiedBatch};

/// A batch that may be appended: everything the specification asks of a producer holds.
///
/// It does not hold the batch's bytes; whoever admitted them keeps the two together.
#[derive(Debug)]
pub struct Admitted {
    header: BatchHeader,
    /// What the batch checksum is computed over: the header's part, then the frames' checksums.
    sums: Vec<u8>,
}

/// Admits the batch that `bytes` is, whole.
///
/// Checked, in one pass: header structure (see [`BatchHeader::parse`]); the frames tile the batch
/// exactly; reserved bytes are zero; each `offset_delta` is the frame's index; every frame
/// checksum; the structure of user headers; the batch checksum. What the producer wrote into the
/// three fields that the owner stamps does not matter, but the batch checksum has to agree with it.
///
/// Allocates once: 8 bytes a message, and only after `message_count` was found possible for
/// `bytes.len()`, so at most a sixth of what the caller already holds. [`admit_with`] reuses it.
///
/// # Errors
/// The first rule that is broken, with its byte in `bytes`.
pub fn admit(bytes: &[u8]) -> Result<Admitted, FormatError> {
    admit_with(bytes, Vec::new())
}

/// [`admit`] with memory from an earlier batch, see [`Admitted::into_scratch`].
///
/// # Errors
/// As [`admit`]; the scratch is then dropped.
pub fn admit_with(bytes: &[u8], scratch: Vec<u8>) -> Result<Admitted, FormatError> {
    let header = *UnverifiedBatch::new(bytes)?.header();
    let mut sums = scratch;
    sums.clear();
    sums.reserve_exact(COVERED_LEN + frame_header::CHECKSUM.size * header.message_count as usize);
    sums.extend_from_slice(&header.covered());
    walk(bytes, header.message_count, |visit| {
        visit.frame.check_checksum(visit.at)?;
        visit.frame.check_offset_delta(visit.at, u64::from(visit.index))?;
        visit.frame.check_user_headers(visit.at)?;
        sums.extend_from_slice(visit.frame.checksum_bytes());
        Ok(())
    })?;
    check_batch_checksum(&header, checksum::xxh3(&sums))?;
    Ok(Admitted { header, sums })
}

/// Compares the stored batch checksum with the one computed from the bytes.
pub(super) fn check_batch_checksum(header: &BatchHeader, computed: u64) -> Result<(), FormatError> {
    let found = header.batch_checksum;
    if computed != found {
        let field = batch_header::BATCH_CHECKSUM;
        let kind = FormatErrorKind::Checksum { expected: computed, found };
        return Err(FormatError::new(field.at as u64, field.name, kind));
    }
    Ok(())
}

impl Admitted {
    /// The header as it was sent, or as it was last stamped.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Number of messages, at least 1.
    pub fn message_count(&self) -> u32 {
        self.header.message_count
    }

    /// Bytes of the whole batch.
    #[expect(clippy::len_without_is_empty, reason = "an admitted batch is never empty")]
    pub fn len(&self) -> usize {
        self.header.batch_length as usize
    }

    /// Stamps the three fields that the partition's owner decides and recomputes the batch
    /// checksum from the gathered frame checksums. Returns the header that replaces the first 256
    /// bytes; the frames stay as they came. Stamping again replaces the stamp.
    pub fn stamp(
        &mut self,
        partition_id: u64,
        base_offset: u64,
        base_timestamp: u64,
    ) -> [u8; BATCH_HEADER_LEN] {
        self.header.partition_id = partition_id;
        self.header.base_offset = base_offset;
        self.header.base_timestamp = base_timestamp;
        self.sums[..COVERED_LEN].copy_from_slice(&self.header.covered());
        self.header.batch_checksum = checksum::xxh3(&self.sums);
        self.header.encode()
    }

    /// Gives the memory back for the next [`admit_with`].
    pub fn into_scratch(self) -> Vec<u8> {
        self.sums
    }
}
