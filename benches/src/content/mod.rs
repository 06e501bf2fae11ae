//! What the messages hold: seeded, different for every batch, and known again when read back.
//!
//! A few templates are built once with the producers' own builder. A batch is a template whose
//! first frame got an id that says who sent it, where to, and as which batch; that costs one
//! frame's checksum, so that a producer spends its time on appending. `check` is the way back.

mod outbox;
mod template;

use std::ops::Range;

use corelog_format::{BatchHeader, BuildError, FRAME_HEADER_LEN};

pub use self::outbox::Outbox;
use self::template::Template;
use crate::rng::Rng;

/// Templates of a run whose batches are of one size. Their frames shift against the file's blocks
/// from batch to batch, so a block that lands in the wrong place differs even where the template is
/// the same.
const TEMPLATES: usize = 4;

/// Templates of a run whose sizes are drawn: enough that their mean is near the range's, while they
/// fit into [`TEMPLATES_BYTES`].
const DRAWN_TEMPLATES: usize = 64;

/// Bytes of all templates, about, beyond the first [`TEMPLATES`].
const TEMPLATES_BYTES: usize = 64 << 20;

/// How many messages a batch has and how large they are. Ranges are half-open and not empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// Messages of a batch, at least 1.
    pub messages: Range<u32>,
    /// Payload bytes of a message.
    pub payload: Range<usize>,
    /// User headers of a message: a key of a few bytes and a number each.
    pub headers: u16,
    /// How much of a payload is random, up to 100; the rest is zeros, which compress to nothing.
    pub entropy_percent: u8,
}

impl Sizes {
    /// Always the same.
    pub fn fixed(messages: u32, payload_bytes: usize) -> Sizes {
        Sizes {
            messages: messages..messages + 1,
            payload: payload_bytes..payload_bytes + 1,
            headers: 0,
            entropy_percent: 100,
        }
    }

    fn is_fixed(&self) -> bool {
        self.messages.len() == 1 && self.payload.len() == 1
    }
}

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

    /// Which of `count` templates it is made from: the next one for the next batch.
    fn template(self, count: usize) -> usize {
        (self.sequence as usize + self.partition as usize + usize::from(self.producer)) % count
    }
}

/// All batches of a run, by their ids.
#[derive(Debug)]
pub struct Content {
    templates: Vec<Template>,
}

impl Content {
    /// Batches of `messages` messages (at least 1) with `payload_bytes` random bytes each.
    pub fn new(seed: u64, messages: u32, payload_bytes: usize) -> Result<Content, BuildError> {
        Content::of(seed, &Sizes::fixed(messages, payload_bytes))
    }

    /// Batches of these sizes.
    pub fn of(seed: u64, sizes: &Sizes) -> Result<Content, BuildError> {
        let count = if sizes.is_fixed() { TEMPLATES } else { DRAWN_TEMPLATES };
        let mut templates = Vec::with_capacity(count);
        let mut bytes = 0;
        for number in 0..count as u64 {
            if number >= TEMPLATES as u64 && bytes > TEMPLATES_BYTES {
                break;
            }
            let template = Template::new(&mut Rng::new(seed ^ number << 56), sizes)?;
            bytes += template.bytes().len();
            templates.push(template);
        }
        Ok(Content { templates })
    }

    /// Messages of batch `id`.
    pub fn message_count(&self, id: BatchId) -> u32 {
        self.template(id).message_count()
    }

    /// Messages of the first `batches` batches of `first`'s producer to its partition.
    pub fn messages_of(&self, first: BatchId, batches: u32) -> u64 {
        let count = self.templates.len() as u32;
        let messages = |sequence| u64::from(self.message_count(BatchId { sequence, ..first }));
        let all: u64 = (0..count).map(messages).sum();
        all * u64::from(batches / count) + (0..batches % count).map(messages).sum::<u64>()
    }

    /// Bytes of batch `id`.
    pub fn batch_len(&self, id: BatchId) -> usize {
        self.template(id).bytes().len()
    }

    /// Bytes of the longest batch.
    pub fn batch_len_max(&self) -> usize {
        self.templates.iter().map(|template| template.bytes().len()).max().unwrap_or(0)
    }

    /// Bytes of a batch, the mean of all.
    pub fn batch_len_mean(&self) -> u64 {
        let bytes: usize = self.templates.iter().map(|template| template.bytes().len()).sum();
        (bytes / self.templates.len()) as u64
    }

    /// Messages of a batch, the mean of all.
    pub fn messages_mean(&self) -> f64 {
        let messages = self.templates.iter().map(|one| f64::from(one.message_count()));
        messages.sum::<f64>() / self.templates.len() as f64
    }

    /// The frames of batch `id` from index 1 on: those that it shares with its template.
    pub fn shared_frames(&self, id: BatchId) -> &[u8] {
        let template = self.template(id);
        &template.frames()[template.first_frame_len()..]
    }

    /// Where frame `index` of batch `id` begins, counted from its first frame's start; for the
    /// number of its messages, where the last one ends.
    pub fn frame_start(&self, id: BatchId, index: u32) -> usize {
        self.template(id).frame_start(index)
    }

    /// The header of the first frame of batch `id`; its payload is the template's.
    pub fn first_frame_header(&self, id: BatchId) -> [u8; FRAME_HEADER_LEN] {
        self.template(id).first_frame_header(id)
    }

    /// The first frame of the template of `id`.
    pub fn first_frame(&self, id: BatchId) -> &[u8] {
        let template = self.template(id);
        &template.frames()[..template.first_frame_len()]
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
        self.template(id).stored_header(id, first, count, stamped)
    }

    fn template(&self, id: BatchId) -> &Template {
        &self.templates[self.template_number(id)]
    }

    fn template_number(&self, id: BatchId) -> usize {
        id.template(self.templates.len())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
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
    fn what_is_not_random_is_zero() {
        let zeros = |percent| {
            let sizes = Sizes { entropy_percent: percent, ..Sizes::fixed(3, 1000) };
            let content = Content::of(1, &sizes).unwrap();
            let batch = Outbox::new(&content).batch(id(0));
            batch.iter().filter(|byte| **byte == 0).count()
        };
        // Besides the headers, which have zeros of their own, and one random byte of 256.
        let none = zeros(100);
        assert!((zeros(75) - none).abs_diff(750) < 50, "{none}, {}", zeros(75));
        assert!((zeros(0) - none).abs_diff(3000) < 50, "{none}, {}", zeros(0));
    }

    #[test]
    fn every_batch_is_admitted_and_no_two_are_equal() {
        for (messages, payload) in [(1, 0), (1, 1), (3, 100), (50, 1000)] {
            let content = Content::new(5, messages, payload).unwrap();
            let mut outbox = Outbox::new(&content);
            let mut seen = std::collections::HashSet::new();
            for sequence in 0..20 {
                let batch = outbox.batch(id(sequence));
                assert_eq!(batch.len(), content.batch_len(id(sequence)));
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

    #[test]
    fn drawn_sizes_stay_in_their_ranges_and_use_them() {
        let sizes = Sizes { messages: 2..9, payload: 0..500, headers: 3, entropy_percent: 100 };
        let content = Content::of(5, &sizes).unwrap();
        let mut outbox = Outbox::new(&content);
        let (mut counts, mut payloads) = (Vec::new(), Vec::new());
        for sequence in 0..200 {
            let batch = outbox.batch(id(sequence));
            assert_eq!(batch.len(), content.batch_len(id(sequence)));
            assert!(batch.len() <= content.batch_len_max());
            assert_eq!(admit(&batch).unwrap().message_count(), content.message_count(id(sequence)));
            let batch = UnverifiedBatch::new(&batch).unwrap().verify().unwrap();
            counts.push(batch.header().message_count as usize);
            for frame in batch.frames() {
                payloads.push(frame.payload().len());
                assert_eq!(frame.user_headers().iter().count(), 3);
            }
        }
        for (drawn, range) in [(counts, 2..9), (payloads, 0..500)] {
            assert!(drawn.iter().all(|one| range.contains(one)), "{range:?}");
            let spread = drawn.iter().max().unwrap() - drawn.iter().min().unwrap();
            assert!(spread >= range.len() * 3 / 4, "{spread} of {range:?}");
        }
    }

    #[test]
    fn messages_are_counted_without_walking_over_all_batches() {
        let content = Content::of(5, &Sizes { messages: 1..20, ..Sizes::fixed(1, 1) }).unwrap();
        for batches in [0, 1, 63, 64, 65, 1000] {
            let one_by_one: u64 =
                (0..batches).map(|sequence| u64::from(content.message_count(id(sequence)))).sum();
            assert_eq!(content.messages_of(id(0), batches), one_by_one);
        }
    }
}
