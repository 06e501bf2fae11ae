//! What the messages hold: seeded, different for every batch, and known again when read back.
//!
//! A few templates are built once with the producers' own builder. A batch is a template whose
//! first frame got an id that says who sent it, where to, and as which batch; that costs one
//! frame's checksum, so that a producer spends its time on appending. `check` is the way back.

use bytes::Bytes;
use corelog_format::layout::{batch_header, frame_header};
use corelog_format::{
    BATCH_HEADER_LEN, BatchBuilder, BatchHeader, BuildError, FRAME_HEADER_LEN, Message, checksum,
};

use crate::rng::Rng;

/// Templates of a run. Their frames shift against the file's blocks from batch to batch, so a block
/// that lands in the wrong place differs even where the template is the same.
const TEMPLATES: usize = 4;

/// Bytes of the header fields at the front of what a batch's checksum covers.
const SUMMED_HEADER_LEN: usize = 44;

/// The producer's clock of the first message, in microseconds; a constant, so that a seed gives
/// the same bytes on every day.
const ORIGIN_US: u64 = 1_750_000_000_000_000;

/// Who sent a batch, where to, and as which one: the id of its first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchId {
    /// The round.
    pub round: u32,
    /// The producer's number.
    pub producer: u16,
    /// The partition's number.
    pub partition: u32,
    /// Counts the producer's batches to this partition from 0.
    pub sequence: u32,
}

impl BatchId {
    /// The message id.
    pub fn encode(self) -> u128 {
        u128::from(self.round) << 96
            | u128::from(self.producer) << 64
            | u128::from(self.partition) << 32
            | u128::from(self.sequence)
    }

    /// What a message id says; None for an id that `encode` never gives.
    pub fn decode(id: u128) -> Option<BatchId> {
        let word = |shift: u32| (id >> shift) as u32;
        let producer = u16::try_from(word(64)).ok()?;
        Some(BatchId { round: word(96), producer, partition: word(32), sequence: word(0) })
    }

    fn template(self) -> usize {
        (self.sequence as usize + self.partition as usize + usize::from(self.producer)) % TEMPLATES
    }
}

/// All batches of a run, by their ids.
#[derive(Debug)]
pub struct Content {
    templates: Vec<Template>,
    message_count: u32,
    frame_len: usize,
}

/// A producer's batch and what its checksum is made of.
#[derive(Debug)]
struct Template {
    bytes: Vec<u8>,
    header: BatchHeader,
    /// The checksums of its frames, eight bytes each.
    sums: Vec<u8>,
}

impl Content {
    /// Templates of `messages` messages (at least 1) with `payload_bytes` random bytes each.
    pub fn new(seed: u64, messages: u32, payload_bytes: usize) -> Result<Content, BuildError> {
        let templates = (0..TEMPLATES as u64)
            .map(|number| {
                Template::new(&mut Rng::new(seed ^ number << 56), messages, payload_bytes)
            })
            .collect::<Result<_, _>>()?;
        Ok(Content {
            templates,
            message_count: messages,
            frame_len: FRAME_HEADER_LEN + payload_bytes,
        })
    }

    /// Messages in a batch.
    pub fn message_count(&self) -> u32 {
        self.message_count
    }

    /// Bytes of a frame; all have the same length.
    pub fn frame_len(&self) -> usize {
        self.frame_len
    }

    /// Bytes of a batch.
    pub fn batch_len(&self) -> usize {
        BATCH_HEADER_LEN + self.frame_len * self.message_count as usize
    }

    /// The frames of batch `id` from index 1 on: those that it shares with its template.
    pub fn shared_frames(&self, id: BatchId) -> &[u8] {
        &self.template(id).bytes[BATCH_HEADER_LEN + self.frame_len..]
    }

    /// The header of the first frame of batch `id`; its payload is the template's.
    pub fn first_frame_header(&self, id: BatchId) -> [u8; FRAME_HEADER_LEN] {
        let mut frame = self.first_frame(id).to_vec();
        put_id(&mut frame, id);
        *frame.first_chunk().expect("a frame begins with its header")
    }

    /// The first frame of the template of `id`.
    pub fn first_frame(&self, id: BatchId) -> &[u8] {
        &self.template(id).bytes[BATCH_HEADER_LEN..][..self.frame_len]
    }

    /// The header that frames `first..first + count` of batch `id` must have behind `stamped`, a
    /// header from storage: the three fields that storage stamps are believed, nothing else is.
    pub fn stored_header(
        &self,
        id: BatchId,
        first: u32,
        count: u32,
        stamped: &BatchHeader,
    ) -> BatchHeader {
        let template = self.template(id);
        let batch_length = BATCH_HEADER_LEN + self.frame_len * count as usize;
        let header = BatchHeader {
            partition_id: stamped.partition_id,
            base_offset: stamped.base_offset,
            base_timestamp: stamped.base_timestamp,
            batch_length: batch_length as u64,
            message_count: count,
            ..template.header
        };
        let mut sums = template.sums[first as usize * 8..(first + count) as usize * 8].to_vec();
        if first == 0 {
            let frame_header = self.first_frame_header(id);
            sums[..8].copy_from_slice(&frame_header[..frame_header::CHECKSUM.end()]);
        }
        BatchHeader { batch_checksum: batch_checksum(&header, &sums), ..header }
    }

    fn template(&self, id: BatchId) -> &Template {
        &self.templates[id.template()]
    }
}

impl Template {
    fn new(rng: &mut Rng, messages: u32, payload_bytes: usize) -> Result<Template, BuildError> {
        let frames_len = (FRAME_HEADER_LEN + payload_bytes).saturating_mul(messages as usize);
        let mut builder = BatchBuilder::with_capacity(BATCH_HEADER_LEN.saturating_add(frames_len));
        let mut payload = vec![0; payload_bytes];
        for message in 0..messages {
            rng.fill(&mut payload);
            let id = u128::from(rng.draw()) << 64 | u128::from(rng.draw());
            let time = ORIGIN_US + u64::from(message);
            builder.push(Message::new(&payload).id(id).origin_timestamp(time))?;
        }
        let bytes = builder.finish()?;
        let header = BatchHeader::parse(&bytes).expect("the builder makes batches");
        let frame_len = FRAME_HEADER_LEN + payload_bytes;
        let frames = bytes[BATCH_HEADER_LEN..].chunks_exact(frame_len);
        let sums =
            frames.flat_map(|frame| &frame[..frame_header::CHECKSUM.end()]).copied().collect();
        Ok(Template { bytes, header, sums })
    }
}

/// Writes `id` and the checksum that goes with it into a frame.
fn put_id(frame: &mut [u8], id: BatchId) {
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

/// A producer's buffers: batches that the engine has let go of are made into the next ones.
#[derive(Debug)]
pub struct Outbox<'a> {
    content: &'a Content,
    /// For each template, batches handed out, the oldest first.
    sent: Vec<std::collections::VecDeque<Bytes>>,
}

impl<'a> Outbox<'a> {
    /// An outbox without buffers.
    pub fn new(content: &'a Content) -> Outbox<'a> {
        Outbox { content, sent: vec![std::collections::VecDeque::new(); TEMPLATES] }
    }

    /// The batch `id`, ready to append.
    pub fn batch(&mut self, id: BatchId) -> Bytes {
        let template = self.content.template(id);
        let sent = &mut self.sent[id.template()];
        let reused = sent.pop_front().map(Bytes::try_into_mut);
        let mut bytes = match reused {
            Some(Ok(bytes)) => bytes,
            // The engine still has the oldest one: another buffer joins.
            Some(Err(busy)) => {
                sent.push_front(busy);
                template.bytes.as_slice().into()
            }
            None => template.bytes.as_slice().into(),
        };
        let first_frame = &mut bytes[BATCH_HEADER_LEN..][..self.content.frame_len];
        put_id(first_frame, id);
        let count = self.content.message_count;
        let header = self.content.stored_header(id, 0, count, &template.header);
        let sum_field = batch_header::BATCH_CHECKSUM;
        bytes[sum_field.at..sum_field.end()].copy_from_slice(&header.batch_checksum.to_le_bytes());
        let bytes = bytes.freeze();
        sent.push_back(bytes.clone());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use corelog_format::{UnverifiedBatch, admit};

    use super::*;

    fn id(sequence: u32) -> BatchId {
        BatchId { round: 3, producer: 7, partition: 70_000, sequence }
    }

    #[test]
    fn ids_are_read_back() {
        assert_eq!(BatchId::decode(id(9).encode()), Some(id(9)));
        assert_eq!(BatchId::decode(0x1_0000 << 64), None);
    }

    #[test]
    fn every_batch_is_admitted_and_no_two_are_equal() {
        for (messages, payload) in [(1, 0), (1, 1), (3, 100), (50, 1000)] {
            let content = Content::new(5, messages, payload).unwrap();
            let mut outbox = Outbox::new(&content);
            let mut seen = std::collections::HashSet::new();
            for sequence in 0..20 {
                let batch = outbox.batch(id(sequence));
                assert_eq!(batch.len(), content.batch_len());
                assert_eq!(admit(&batch).unwrap().message_count(), messages);
                assert!(seen.insert(batch.to_vec()), "batch {sequence} repeats an earlier one");
            }
        }
    }

    #[test]
    fn a_batch_in_use_is_never_changed() {
        let content = Content::new(5, 2, 30).unwrap();
        let mut outbox = Outbox::new(&content);
        let held: Vec<Bytes> = (0..10).map(|sequence| outbox.batch(id(sequence))).collect();
        for (sequence, batch) in held.iter().enumerate() {
            let verified = UnverifiedBatch::new(batch).unwrap().verify().unwrap();
            let first = verified.frames().next().unwrap();
            assert_eq!(BatchId::decode(first.id()), Some(id(sequence as u32)));
        }
    }

    #[test]
    fn buffers_are_used_again_once_they_are_free() {
        let content = Content::new(5, 2, 30).unwrap();
        let mut outbox = Outbox::new(&content);
        let mut places = std::collections::HashSet::new();
        for sequence in 0..100 {
            places.insert(outbox.batch(id(sequence)).as_ptr() as usize);
        }
        assert_eq!(places.len(), TEMPLATES);
    }

    #[test]
    fn seeds_give_different_and_repeatable_bytes() {
        let bytes = |seed| {
            let content = Content::new(seed, 2, 100).unwrap();
            Outbox::new(&content).batch(id(0)).to_vec()
        };
        assert_eq!(bytes(1), bytes(1));
        assert_ne!(bytes(1), bytes(2));
    }
}
