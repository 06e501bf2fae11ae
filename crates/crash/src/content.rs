//! Batches that are a function of a seed: who judges makes them again and compares byte for byte.
//!
//! The key of a batch stands in the id of each of its messages, so a stored batch says which one it
//! claims to be, and everything else about it follows.

use bytes::Bytes;
use corelog::{BatchBuilder, Message, PartitionId};
use corelog_format::{
    BATCH_HEADER_LEN, BatchHeader, FRAME_HEADER_LEN, HeaderValue, UnverifiedBatch,
};

use crate::random::Random;

/// Largest batch by default, bytes: over the thresholds for saving in small topics, and a good part
/// of the smallest segment (1 MiB).
const BYTES_MAX: usize = 300 << 10;
/// Time of the first message of all producers, microseconds since the Unix epoch.
const ORIGIN_US: u64 = 1_700_000_000_000_000;

/// Which batch of which producer: unique within a partition, never offered with other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchKey {
    /// The producer.
    pub producer: u32,
    /// The producer's number for it. Grows along each producer's calls, over all lives.
    pub number: u64,
}

impl BatchKey {
    /// The `nth` batch of `producer` in a life of the process. Later lives have higher numbers.
    pub fn new(producer: u32, life: u32, nth: u32) -> BatchKey {
        BatchKey { producer, number: u64::from(life) << 32 | u64::from(nth) }
    }

    fn message_id(self, place: u32) -> u128 {
        u128::from(self.producer) << 96 | u128::from(self.number) << 32 | u128::from(place)
    }

    fn of_message(id: u128) -> BatchKey {
        BatchKey { producer: (id >> 96) as u32, number: (id >> 32) as u64 }
    }
}

/// What all batches of a run hold: a function of the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    seed: u64,
    bytes_max: usize,
}

/// A stored batch that was recognised: its frames are those of `key`, byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Which batch it is.
    pub key: BatchKey,
    /// Its header, as the owner stamped it. Its checksum and those of all frames are right.
    pub header: BatchHeader,
}

/// Bytes that are none of our batches, or not as they were offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlike {
    /// What should be there.
    pub expected: String,
    /// What is.
    pub found: String,
}

impl Content {
    /// The content of `seed`, with batches of up to about 300 KiB.
    pub fn new(seed: u64) -> Content {
        Content { seed, bytes_max: BYTES_MAX }
    }

    /// The same with other sizes: a batch has about `bytes` at most (the many small ones stay).
    #[must_use]
    pub fn bytes_max(self, bytes: usize) -> Content {
        Content { bytes_max: bytes.max(1 << 10), ..self }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The batch of `key` in `partition`, as its producer sends it.
    pub fn batch(&self, partition: PartitionId, key: BatchKey) -> Bytes {
        let PartitionId { stream, topic, partition } = partition;
        let place = [stream, topic, partition, key.producer].map(u64::from);
        let mut random =
            Random::of(&[self.seed, place[0], place[1], place[2], place[3], key.number]);
        let mut builder = BatchBuilder::new();
        let mut payload = Vec::new();
        for (place, len) in self.payloads(&mut random).into_iter().enumerate() {
            payload.clear();
            fill(&mut random, &mut payload, len);
            let origin = ORIGIN_US + random.below(1 << 30);
            let message = Message::new(&payload).id(key.message_id(place as u32));
            let message = message.origin_timestamp(origin);
            let number = HeaderValue::Uint64(key.number);
            let headers = [("number", number), ("kind", HeaderValue::String("crash"))];
            let headers = if random.once_in(8) { &headers[..] } else { &[] };
            builder.push(message.headers(headers)).expect("far below the limits of a batch");
        }
        builder.finish().expect("it has a message").into()
    }

    /// The payloads' lengths of one batch. What matters to a log is where batches begin and end:
    /// inside of a block, at the edge of a sector or a block, over several buffers.
    fn payloads(&self, random: &mut Random) -> Vec<usize> {
        let (frames, each) = match random.below(16) {
            0..=4 => (1, 200),
            5..=8 => (random.between(1, 20), 1_000),
            9..=10 => (random.between(100, 400), 40),
            11..=12 => return vec![edge(random)],
            13 => (random.between(1, 8), 8 << 10),
            14 => (random.between(1, 3), self.bytes_max as u64 / 3),
            _ => (1, self.bytes_max as u64),
        };
        let each = each.min(self.bytes_max as u64 / frames);
        (0..frames).map(|_| random.below(each + 1) as usize).collect()
    }

    /// Recognises `bytes`, one batch as `partition` serves it: whole, sound, and what was offered
    /// there under its key. Offsets and times are for the caller to judge.
    ///
    /// # Errors
    /// [`Unlike`], in words.
    pub fn identify(&self, partition: PartitionId, bytes: &[u8]) -> Result<Stored, Unlike> {
        let unlike = |expected: &str, found: String| Unlike { expected: expected.into(), found };
        let verified = UnverifiedBatch::new(bytes).and_then(UnverifiedBatch::verify_stored);
        let batch = verified.map_err(|error| unlike("a sound batch", error.to_string()))?;
        let header = *batch.header();
        let first = batch.frames().next().map_or(0, |frame| frame.id());
        let key = BatchKey::of_message(first);
        if header.partition_id != u64::from(partition.partition) {
            let of = format!("{key:?} stamped as of partition {}", header.partition_id);
            return Err(unlike("a batch of this partition", of));
        }
        let offered = self.batch(partition, key);
        let sent = BatchHeader::parse(&offered).expect("it was built");
        let BatchHeader { partition_id, base_offset, base_timestamp, batch_checksum, .. } = header;
        let stamped =
            BatchHeader { partition_id, base_offset, base_timestamp, batch_checksum, ..sent };
        if header != stamped {
            return Err(unlike(&format!("{key:?} with {stamped:?}"), format!("{header:?}")));
        }
        match (BATCH_HEADER_LEN..bytes.len()).find(|at| bytes[*at] != offered[*at]) {
            None => Ok(Stored { key, header }),
            Some(at) => {
                let expected = format!("{key:?} with {:#04x} at its byte {at}", offered[at]);
                Err(unlike(&expected, format!("{:#04x}", bytes[at])))
            }
        }
    }
}

/// A payload with which a batch of one message ends at the edge of a block or of a sector, or a byte
/// or two beside it.
fn edge(random: &mut Random) -> usize {
    let unit = random.pick(&[512, 4096]);
    let end = unit * random.between(1, 8) + random.below(5) - 2;
    (end as usize).saturating_sub(BATCH_HEADER_LEN + FRAME_HEADER_LEN)
}

/// Fills a payload: noise; or what could be taken for something else, namely zeros, which look like
/// the unwritten end of a log, and a whole batch, which a search for batches might find.
fn fill(random: &mut Random, payload: &mut Vec<u8>, len: usize) {
    match random.below(32) {
        0 | 1 => payload.resize(len, 0),
        2 => {
            let mut inner = BatchBuilder::new();
            while payload.len() < len {
                inner.push(Message::new(b"a batch in a payload")).expect("it is small");
                payload.extend_from_slice(&inner.finish().expect("it has a message"));
            }
            payload.truncate(len);
        }
        _ => random.fill(payload, len),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const P: PartitionId = PartitionId::new(0, 1, 2);

    /// As the owner stamps it.
    fn stamped(bytes: &[u8]) -> Vec<u8> {
        let mut admitted = corelog_format::admit(bytes).expect("our batches are admitted");
        let mut stored = bytes.to_vec();
        stored[..BATCH_HEADER_LEN].copy_from_slice(&admitted.stamp(2, 17, 1_000));
        stored
    }

    #[test]
    fn a_batch_is_a_function_of_its_key_and_nothing_else() {
        let (content, key) = (Content::new(7), BatchKey::new(3, 1, 4));
        assert_eq!(content.batch(P, key), content.batch(P, key));
        let others = [
            Content::new(8).batch(P, key),
            content.batch(PartitionId::new(0, 1, 3), key),
            content.batch(P, BatchKey::new(3, 1, 5)),
            content.batch(P, BatchKey::new(3, 2, 4)),
            content.batch(P, BatchKey::new(4, 1, 4)),
        ];
        assert!(others.iter().all(|other| *other != content.batch(P, key)));
    }

    #[test]
    fn sizes_reach_from_a_small_frame_over_edges_to_the_largest() {
        let content = Content::new(1);
        let lens: Vec<usize> =
            (0..400).map(|nth| content.batch(P, BatchKey::new(0, 0, nth)).len()).collect();
        assert!(lens.iter().any(|len| *len < 400));
        assert!(lens.iter().any(|len| *len > 200 << 10));
        assert!(lens.iter().all(|len| *len < 320 << 10));
        let at_edges: BTreeSet<usize> =
            lens.iter().map(|len| (len + 2) % 512).filter(|over| *over < 5).collect();
        assert_eq!(at_edges.len(), 5, "two below to two above an edge");
    }

    #[test]
    fn what_was_offered_is_recognised_and_every_change_is_not() {
        let content = Content::new(1);
        for nth in 0..40 {
            let key = BatchKey::new(0, 0, nth);
            let stored = stamped(&content.batch(P, key));
            let recognised = content.identify(P, &stored).expect("nothing was changed");
            assert_eq!((recognised.key, recognised.header.base_offset), (key, 17));
        }
        let stored = stamped(&content.batch(P, BatchKey::new(0, 0, 0)));
        for at in 0..stored.len() {
            let mut changed = stored.clone();
            changed[at] ^= 0x10;
            assert!(content.identify(P, &changed).is_err(), "byte {at} was changed");
        }
    }

    /// Sound by its checksums, and still another batch than was offered.
    #[test]
    fn sound_batches_of_another_place_or_content_are_not_recognised() {
        let key = BatchKey::new(0, 0, 0);
        let other = stamped(&Content::new(2).batch(P, key));
        let unlike = Content::new(1).identify(P, &other).expect_err("it is another seed's");
        assert!(unlike.expected.contains("number: 0"), "{unlike:?}");
        let here = stamped(&Content::new(1).batch(P, key));
        let there = PartitionId::new(0, 1, 3);
        let unlike = Content::new(1).identify(there, &here).expect_err("it is of partition 2");
        assert!(unlike.found.contains("partition 2"), "{unlike:?}");
    }
}
