//! What producers use to make a batch.
//!
//! Frames are written where they will stay. A frame's checksum covers its `timestamp_delta`, and
//! the delta is known only when the earliest message is, so until the batch is finished the
//! checksum's eight bytes hold the message's origin time; finishing goes over the frames once.

use crate::USER_HEADERS_BYTES_MAX;
use crate::checksum::{self, Pieces};
use crate::layout::frame_header as at;

use super::{
    BATCH_BYTES_MAX, BATCH_HEADER_LEN, BatchHeader, BuildError, FRAME_HEADER_LEN, Frame, Message,
};

/// Gathers messages into one batch. Reusable: after [`BatchBuilder::finish`] it is empty again.
///
/// ```
/// use corelog_format::{BatchBuilder, Message, admit};
///
/// let mut builder = BatchBuilder::new();
/// builder.push(Message::new(b"hello").id(1).origin_timestamp(1_700_000_000_000_000))?;
/// builder.push(Message::new(b"world").id(2).origin_timestamp(1_700_000_000_000_250))?;
/// let batch = builder.finish()?;
/// assert_eq!(admit(&batch)?.message_count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct BatchBuilder {
    /// Empty, or a header's room and the frames.
    bytes: Vec<u8>,
    message_count: u32,
    /// Origin times of the earliest and the latest message; without messages they mean nothing.
    earliest: u64,
    latest: u64,
}

impl BatchBuilder {
    /// An empty builder. It allocates with the first message.
    pub fn new() -> Self {
        BatchBuilder::default()
    }

    /// An empty builder with room for a batch of `bytes` bytes, header included.
    pub fn with_capacity(bytes: usize) -> Self {
        let bytes = bytes.min(BATCH_BYTES_MAX as usize);
        BatchBuilder { bytes: Vec::with_capacity(bytes), ..BatchBuilder::default() }
    }

    /// Messages pushed since the last finish.
    pub fn message_count(&self) -> u32 {
        self.message_count
    }

    /// Bytes that the batch has so far: 0 when empty, else what finishing will give.
    pub fn batch_length(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a message. Its `offset_delta` is its place in the batch.
    ///
    /// # Errors
    /// See [`BuildError`]; nothing was appended then.
    pub fn push(&mut self, message: Message<'_>) -> Result<(), BuildError> {
        let (earliest, latest) = self.span_with(message.origin_timestamp)?;
        // Before a byte is copied: only the length of typed headers is not known yet.
        self.check_room(message.payload.len().saturating_add(message.block_len()))?;
        let before = self.bytes.len();
        if let Err(error) = self.put_frame(&message) {
            self.bytes.truncate(before);
            return Err(error);
        }
        self.message_count += 1;
        (self.earliest, self.latest) = (earliest, latest);
        Ok(())
    }

    /// Writes a frame whose checksum and time delta are still to come.
    fn put_frame(&mut self, message: &Message<'_>) -> Result<(), BuildError> {
        if self.message_count == 0 {
            self.bytes.resize(BATCH_HEADER_LEN, 0);
        }
        let start = self.bytes.len();
        self.bytes.reserve(FRAME_HEADER_LEN + message.payload.len() + message.block_len());
        let mut header = [0; FRAME_HEADER_LEN];
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(message.payload);
        let headers_start = self.bytes.len();
        message
            .put_headers(&mut self.bytes, USER_HEADERS_BYTES_MAX)
            .map_err(BuildError::UserHeaders)?;
        let headers_length = self.bytes.len() - headers_start;
        check_length(start, self.bytes.len())?;

        // The origin time waits here until the earliest one is known, see the top of this file.
        at::CHECKSUM.put_u64(&mut header, message.origin_timestamp);
        at::ID.put_u128(&mut header, message.id);
        at::OFFSET_DELTA.put_u32(&mut header, self.message_count);
        // Both fit: `check_length` holds the whole batch to 64 MiB.
        at::USER_HEADERS_LENGTH.put_u32(&mut header, headers_length as u32);
        at::PAYLOAD_LENGTH.put_u32(&mut header, message.payload.len() as u32);
        self.bytes[start..start + FRAME_HEADER_LEN].copy_from_slice(&header);
        Ok(())
    }

    /// Refuses a frame of `body` bytes of payload and headers that cannot fit.
    fn check_room(&self, body: usize) -> Result<(), BuildError> {
        let start = self.bytes.len().max(BATCH_HEADER_LEN);
        check_length(start, start.saturating_add(FRAME_HEADER_LEN).saturating_add(body))
    }

    /// Earliest and latest origin time if a message of time `origin` joins.
    fn span_with(&self, origin: u64) -> Result<(u64, u64), BuildError> {
        if self.message_count == 0 {
            return Ok((origin, origin));
        }
        let (earliest, latest) = (self.earliest.min(origin), self.latest.max(origin));
        let (span_us, max_us) = (latest - earliest, u64::from(u32::MAX));
        if span_us > max_us {
            return Err(BuildError::SpanTooLong { span_us, max_us });
        }
        Ok((earliest, latest))
    }

    /// Ends the batch and returns its bytes; the builder is empty again. The producer's header:
    /// zero in the three fields that the owner stamps.
    ///
    /// # Errors
    /// [`BuildError::Empty`].
    pub fn finish(&mut self) -> Result<Vec<u8>, BuildError> {
        // The next batch is likely to be as long: one allocation for it, not a series of doublings.
        let mut out = Vec::with_capacity(self.bytes.len());
        self.finish_into(&mut out)?;
        Ok(out)
    }

    /// [`BatchBuilder::finish`] into `out`, whose content is dropped and whose memory the next
    /// batch is built in. A producer that swaps two buffers this way allocates nothing.
    ///
    /// # Errors
    /// [`BuildError::Empty`]; `out` is untouched then.
    pub fn finish_into(&mut self, out: &mut Vec<u8>) -> Result<(), BuildError> {
        if self.message_count == 0 {
            return Err(BuildError::Empty);
        }
        let mut header = BatchHeader {
            partition_id: 0,
            base_offset: 0,
            base_timestamp: 0,
            origin_timestamp: self.earliest,
            batch_length: self.bytes.len() as u64,
            batch_checksum: 0,
            message_count: self.message_count,
        };
        header.batch_checksum = self.seal_frames(&header);
        self.bytes[..BATCH_HEADER_LEN].copy_from_slice(&header.encode());
        std::mem::swap(&mut self.bytes, out);
        self.clear();
        Ok(())
    }

    /// Writes each frame's time delta and checksum; returns the batch checksum.
    fn seal_frames(&mut self, header: &BatchHeader) -> u64 {
        let mut sums = Pieces::new();
        sums.push(&header.covered());
        let mut rest = &mut self.bytes[BATCH_HEADER_LEN..];
        while !rest.is_empty() {
            let len = match Frame::split_first(rest, 0) {
                Ok((frame, _)) => frame.bytes().len(),
                Err(error) => unreachable!("the builder wrote these frames: {error}"),
            };
            let (frame, after) = rest.split_at_mut(len);
            sums.push(&seal_frame(frame, self.earliest));
            rest = after;
        }
        sums.finish()
    }

    /// Drops what was pushed and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.message_count = 0;
    }
}

/// Refuses a batch that would end at `end` with a frame from `start` on.
fn check_length(start: usize, end: usize) -> Result<(), BuildError> {
    let (bytes, max) = (end as u64, BATCH_BYTES_MAX);
    if bytes <= max {
        return Ok(());
    }
    let alone = (BATCH_HEADER_LEN + (end - start)) as u64;
    Err(if alone > max {
        BuildError::MessageTooLong { bytes: alone, max }
    } else {
        BuildError::BatchFull { bytes, max }
    })
}

/// Ends one frame: its origin time moves from the checksum's place into `timestamp_delta`.
fn seal_frame(frame: &mut [u8], earliest: u64) -> [u8; 8] {
    if let Some(header) = frame.first_chunk_mut::<FRAME_HEADER_LEN>() {
        let delta = at::CHECKSUM.u64(header) - earliest;
        // `push` let no message in whose distance to the earliest one is more than a u32.
        at::TIMESTAMP_DELTA.put_u32(header, delta as u32);
    }
    let sum = checksum::xxh3(&frame[at::CHECKSUM.end()..]).to_le_bytes();
    frame[at::CHECKSUM.at..at::CHECKSUM.end()].copy_from_slice(&sum);
    sum
}
