//! A template: one producer's batch, and what its checksum is made of.

use corelog_format::layout::frame_header;
use corelog_format::{
    BATCH_HEADER_LEN, BatchBuilder, BatchHeader, BuildError, FRAME_HEADER_LEN, HeaderValue,
    Message, UnverifiedBatch, checksum,
};

use super::{BatchId, Sizes};
use crate::rng::Rng;

/// Bytes of the header fields at the front of what a batch's checksum covers.
const SUMMED_HEADER_LEN: usize = 44;

/// The producer's clock of the first message, in microseconds; a constant, so that a seed gives
/// the same bytes on every day.
const ORIGIN_US: u64 = 1_750_000_000_000_000;

/// A producer's batch.
#[derive(Debug)]
pub(super) struct Template {
    bytes: Vec<u8>,
    header: BatchHeader,
    /// The checksums of its frames, eight bytes each.
    sums: Vec<u8>,
    /// Where each frame ends, counted from the first one's start.
    ends: Vec<usize>,
}

impl Template {
    /// A batch as large as the sizes allow and the stream draws, of random bytes and zeros.
    pub(super) fn new(rng: &mut Rng, sizes: &Sizes) -> Result<Template, BuildError> {
        let count = rng.draw_in(u64::from(sizes.messages.start), u64::from(sizes.messages.end));
        let mut builder = BatchBuilder::new();
        let mut payload = Vec::new();
        let mut ends = Vec::new();
        let keys: Vec<String> = (0..sizes.headers).map(|number| format!("key-{number}")).collect();
        for message in 0..count {
            let len = rng.draw_in(sizes.payload.start as u64, sizes.payload.end as u64);
            payload.clear();
            payload.resize(len as usize, 0);
            let random = payload.len() * usize::from(sizes.entropy_percent) / 100;
            rng.fill(&mut payload[..random]);
            let id = u128::from(rng.draw()) << 64 | u128::from(rng.draw());
            let headers: Vec<(&str, HeaderValue<'_>)> =
                keys.iter().map(|key| (key.as_str(), HeaderValue::Uint64(rng.draw()))).collect();
            let time = ORIGIN_US + message;
            let message = Message::new(&payload).id(id).origin_timestamp(time).headers(&headers);
            builder.push(message)?;
        }
        let bytes = builder.finish()?;
        let header = BatchHeader::parse(&bytes).expect("the builder makes batches");
        let mut sums = Vec::new();
        let mut at = 0;
        let batch = UnverifiedBatch::new(&bytes).and_then(UnverifiedBatch::verify);
        for frame in batch.expect("the builder makes batches").frames() {
            sums.extend_from_slice(&frame.bytes()[..frame_header::CHECKSUM.end()]);
            at += frame.bytes().len();
            ends.push(at);
        }
        Ok(Template { bytes, header, sums, ends })
    }

    /// The whole batch.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its header, as the producer made it.
    pub(super) fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Messages in it.
    pub(super) fn message_count(&self) -> u32 {
        self.header.message_count
    }

    /// Its frames, back to back.
    pub(super) fn frames(&self) -> &[u8] {
        &self.bytes[BATCH_HEADER_LEN..]
    }

    /// Bytes of its first frame.
    pub(super) fn first_frame_len(&self) -> usize {
        self.ends[0]
    }

    /// Where frame `index` begins, or the last one ends, counted from the first one's start.
    pub(super) fn frame_start(&self, index: u32) -> usize {
        if index == 0 { 0 } else { self.ends[index as usize - 1] }
    }

    /// The header of its first frame as the one of batch `id`.
    pub(super) fn first_frame_header(&self, id: BatchId) -> [u8; FRAME_HEADER_LEN] {
        let mut frame = self.frames()[..self.first_frame_len()].to_vec();
        put_id(&mut frame, id);
        *frame.first_chunk().expect("a frame begins with its header")
    }

    /// The header that frames `first..first + count` of batch `id`, made from this template, must
    /// have behind `stamped`.
    pub(super) fn stored_header(
        &self,
        id: BatchId,
        first: u32,
        count: u32,
        stamped: &BatchHeader,
    ) -> BatchHeader {
        let frames_len = self.frame_start(first + count) - self.frame_start(first);
        let header = BatchHeader {
            partition_id: stamped.partition_id,
            base_offset: stamped.base_offset,
            base_timestamp: stamped.base_timestamp,
            batch_length: (BATCH_HEADER_LEN + frames_len) as u64,
            message_count: count,
            ..self.header
        };
        let mut sums = self.sums[first as usize * 8..(first + count) as usize * 8].to_vec();
        if first == 0 {
            let frame_header = self.first_frame_header(id);
            sums[..8].copy_from_slice(&frame_header[..frame_header::CHECKSUM.end()]);
        }
        BatchHeader { batch_checksum: batch_checksum(&header, &sums), ..header }
    }
}

/// Writes `id` and the checksum that goes with it into a frame.
pub(super) fn put_id(frame: &mut [u8], id: BatchId) {
    frame[frame_header::ID.at..frame_header::ID.end()].copy_from_slice(&id.encode().to_le_bytes());
    let sum = checksum::xxh3(&frame[frame_header::CHECKSUM.end()..]);
    frame[..frame_header::CHECKSUM.end()].copy_from_slice(&sum.to_le_bytes());
}

/// The batch checksum: six header fields, then the frames' checksums (message-batches, offset 40).
fn batch_checksum(header: &BatchHeader, sums: &[u8]) -> u64 {
    let mut summed = Vec::with_capacity(SUMMED_HEADER_LEN + sums.len());
    for number in [
        header.partition_id,
        header.base_offset,
        header.base_timestamp,
        header.origin_timestamp,
        header.batch_length,
    ] {
        summed.extend_from_slice(&number.to_le_bytes());
    }
    summed.extend_from_slice(&header.message_count.to_le_bytes());
    summed.extend_from_slice(sums);
    checksum::xxh3(&summed)
}
