//! Producer batches whose every frame says where it came from, so that the oracle knows a frame by
//! its bytes alone.

use bytes::Bytes;
use corelog_format::{BatchBuilder, Message};
use corelog_io::sim::Rng;

/// Bytes before the first frame of a batch.
const HEADER: usize = 256;

/// How large a run's batches are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Messages of a batch: 1 to this many.
    pub(crate) messages: u64,
    /// Payload bytes of a batch, about, at most.
    pub(crate) bytes: u64,
    /// One batch in this many is up to sixteen times as large.
    pub(crate) giant_in: u64,
}

/// A batch as a producer sent it.
pub(crate) struct ProducerBatch {
    pub(crate) bytes: Bytes,
    /// Where each frame ends, counted from the first frame's start.
    pub(crate) ends: Vec<usize>,
}

impl ProducerBatch {
    /// The batch with this number, its content drawn from `rng`. The number stands in the id of
    /// each message, with the message's place in the batch.
    pub(crate) fn draw(number: u64, sizes: Sizes, rng: &mut Rng) -> Self {
        let count = rng.between(1, sizes.messages) as usize;
        let most = if rng.chance(1, sizes.giant_in) { sizes.bytes * 16 } else { sizes.bytes };
        let each = (most / count as u64).max(1);
        let mut builder = BatchBuilder::with_capacity(HEADER);
        let mut payload = Vec::new();
        let mut ends = Vec::with_capacity(count);
        for place in 0..count {
            payload.clear();
            let len = rng.below(each + 1) as usize;
            // Runs of zeros look like the unwritten end of a log, and must not pass for it.
            let zeros = rng.chance(1, 16);
            while payload.len() < len {
                let word = if zeros { 0 } else { rng.next_u64() };
                payload.extend_from_slice(&word.to_le_bytes());
            }
            payload.truncate(len);
            let message = Message::new(&payload)
                .id(message_id(number, place))
                .origin_timestamp(1_000 + rng.below(1_000));
            builder.push(message).expect("far below the limits of a batch");
            ends.push(builder.batch_length() - HEADER);
        }
        let bytes = builder.finish().expect("at least one message").into();
        ProducerBatch { bytes, ends }
    }

    pub(crate) fn messages(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of these frames as they were sent.
    pub(crate) fn frames(&self, from: usize, to: usize) -> &[u8] {
        let start = if from == 0 { 0 } else { self.ends[from - 1] };
        &self.bytes[HEADER + start..HEADER + self.ends[to - 1]]
    }

    /// The header as it was sent.
    pub(crate) fn header(&self) -> &[u8] {
        &self.bytes[..HEADER]
    }
}

fn message_id(number: u64, place: usize) -> u128 {
    u128::from(number) << 32 | place as u128
}

/// The batch's number and the message's place in it.
pub(crate) fn origin_of(message_id: u128) -> (u64, usize) {
    ((message_id >> 32) as u64, (message_id & 0xffff_ffff) as usize)
}
