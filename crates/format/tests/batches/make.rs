//! Batches to test with, and the tools to break them. The offsets here are written out on purpose:
//! a test that took them from the library could not notice that they moved.

use corelog_format::checksum::xxh3;
use corelog_format::{BatchBuilder, HeaderValue, Message, admit};

/// Deterministic random numbers (xorshift64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// Where frame 1 of the small batch begins: behind 48 + 17 bytes of payload + 28 of headers.
pub(crate) const SMALL_FRAME_1: usize = 349;

/// Two messages, one with typed headers: small enough to try every bit.
pub(crate) fn small() -> Vec<u8> {
    let headers = [("k", HeaderValue::Uint16(7)), ("s", HeaderValue::String("text"))];
    let mut builder = BatchBuilder::new();
    let hello = Message::new(b"hello, all of you").id(1).origin_timestamp(1_700_000_000_000_250);
    let world = Message::new(b"world!").id(2).origin_timestamp(1_700_000_000_000_000);
    builder.push(hello.headers(&headers)).expect("it fits");
    builder.push(world).expect("it fits");
    builder.finish().expect("two messages")
}

/// A batch of 1 to `messages_max` messages of every shape: empty payloads, long ones, headers.
pub(crate) fn random(random: &mut Random, messages_max: u64) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for _ in 0..=random.below(messages_max) {
        let length = match random.below(4) {
            0 => 0,
            1 => random.below(64),
            2 => random.below(600),
            _ => random.below(3000),
        };
        let payload = random.bytes(length as usize);
        let number = HeaderValue::Int64(random.next() as i64);
        let headers = [("number", number), ("raw", HeaderValue::Raw(&[9; 20]))];
        let id = u128::from(random.below(3)) * u128::from(random.next());
        let headers = &headers[..random.below(3) as usize];
        let origin = 1_700_000_000_000_000 + random.below(4_000_000_000);
        let message = Message::new(&payload).id(id).origin_timestamp(origin).headers(headers);
        builder.push(message).expect("it fits");
    }
    builder.finish().expect("at least one message")
}

/// The batch as its owner stores it.
pub(crate) fn stamped(mut batch: Vec<u8>, partition: u64, offset: u64, time: u64) -> Vec<u8> {
    let header = admit(&batch).expect("a good batch").stamp(partition, offset, time);
    batch[..256].copy_from_slice(&header);
    batch
}

/// First byte of each frame that fits, by the lengths that are written there.
pub(crate) fn frame_starts(batch: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = 256;
    while let Some(end) = frame_end(batch, at) {
        starts.push(at);
        at = end;
    }
    starts
}

fn frame_end(batch: &[u8], at: usize) -> Option<usize> {
    let header = batch.get(at..at + 48)?;
    let end = at as u64 + 48 + u64::from(u32_at(header, 32)) + u64::from(u32_at(header, 36));
    (end <= batch.len() as u64).then_some(end as usize)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Makes all checksums right again after a batch was changed, for as many frames as fit: so that a
/// test reaches the checks behind them.
pub(crate) fn reseal(batch: &mut [u8]) {
    if batch.len() < 256 {
        return;
    }
    let starts = frame_starts(batch);
    let mut covered = [&batch[..40], &batch[48..52]].concat();
    for start in starts {
        let end = frame_end(batch, start).expect("it fitted before");
        let sum = xxh3(&batch[start + 8..end]);
        put_u64(batch, start, sum);
        covered.extend_from_slice(&sum.to_le_bytes());
    }
    put_u64(batch, 40, xxh3(&covered));
}
