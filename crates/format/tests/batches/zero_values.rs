//! Zero is a value like any other: no field of a batch that happens to be zero means "nothing here"
//! (REC-13), not even a checksum.

use corelog_format::checksum::xxh3;
use corelog_format::{BatchBuilder, Expect, Message, Step, UnverifiedBatch, admit, scan};

use crate::make::{self, put_u64, reseal};

/// The first 16 bytes of XXH3's secret, as two little-endian numbers.
const SECRET: [u64; 2] = [0xbe4b_a423_396c_feb8, 0x1cad_21f7_2c81_017c];

/// The sum that XXH3 scrambles in the end to get `hash`, for inputs of 17 to 128 bytes: the last
/// step is made of operations that all have an inverse.
fn sum_behind(hash: u64) -> u64 {
    const PRIME: u64 = 0x1656_6791_9e37_79f9;
    // Newton's iteration doubles the right bits; an odd number is its own inverse in the low three.
    let inverse =
        (0..5).fold(PRIME, |x, _| x.wrapping_mul(2_u64.wrapping_sub(PRIME.wrapping_mul(x))));
    let h = (hash ^ (hash >> 32)).wrapping_mul(inverse);
    h ^ (h >> 37)
}

/// Writes 16 bytes at `at`, where the hashed input `bytes` begins, so that all of it hashes to 0.
/// XXH3 adds the folded product of two numbers there; with the secret in place they are 0, so what
/// is left is the sum of all the rest, and the product is chosen to cancel it.
fn make_hash_zero(bytes: &mut [u8], at: usize, hash: impl Fn(&[u8]) -> u64) {
    put_u64(bytes, at, SECRET[0]);
    put_u64(bytes, at + 8, SECRET[1]);
    let rest = sum_behind(hash(bytes));
    put_u64(bytes, at, SECRET[0] ^ rest.wrapping_neg());
    put_u64(bytes, at + 8, SECRET[1] ^ 1);
    assert_eq!(hash(bytes), 0, "the construction holds");
}

/// One message whose frame checksum is 0, by its id.
fn frame_checksum_zero() -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.push(Message::new(&[0; 24])).expect("it fits");
    let mut batch = builder.finish().expect("one message");
    make_hash_zero(&mut batch, 256 + 8, |batch| xxh3(&batch[256 + 8..]));
    reseal(&mut batch);
    assert_eq!(batch[256..264], [0; 8]);
    batch
}

/// ... and whose batch checksum is 0 too, by partition and offset.
fn both_checksums_zero() -> Vec<u8> {
    let mut batch = frame_checksum_zero();
    make_hash_zero(&mut batch, 0, |batch| {
        xxh3(&[&batch[..40], &batch[48..52], &batch[256..264]].concat())
    });
    reseal(&mut batch);
    assert_eq!(batch[40..48], [0; 8]);
    batch
}

fn only_batch(file: &[u8]) -> Vec<Step<'_>> {
    scan(file, 0, Expect::default()).collect()
}

#[test]
fn a_checksum_of_zero_is_a_checksum() {
    for batch in [frame_checksum_zero(), both_checksums_zero()] {
        assert!(admit(&batch).is_ok());
        let verified = UnverifiedBatch::new(&batch).and_then(UnverifiedBatch::verify);
        assert_eq!(verified.expect("good").frames().next().expect("one frame").checksum(), 0);
        for zeros in [0, 100, 10_000] {
            let mut file = batch.clone();
            file.resize(batch.len() + zeros, 0);
            let steps = only_batch(&file);
            let end = batch.len() as u64;
            assert!(
                matches!(steps[..], [Step::Batch { at: 0, .. }, Step::End { at }] if at == end),
                "{steps:?}"
            );
        }
    }
}

/// A stored checksum of 0 is compared like any other.
#[test]
fn a_checksum_of_zero_is_not_a_missing_checksum() {
    let mut batch = make::small();
    batch[40..48].fill(0);
    assert!(admit(&batch).is_err());
    let mut batch = make::small();
    batch[256..264].fill(0);
    assert!(UnverifiedBatch::new(&batch).and_then(UnverifiedBatch::verify).is_err());
}

#[test]
fn everything_that_can_be_zero_may_be() {
    let mut builder = BatchBuilder::new();
    for _ in 0..3 {
        builder.push(Message::new(b"").id(0).origin_timestamp(0)).expect("it fits");
    }
    let stored = make::stamped(builder.finish().expect("three messages"), 0, 0, 0);
    assert_eq!(stored[..32], [0; 32]);
    let mut file = stored.clone();
    file.resize(stored.len() + 4096, 0);
    let steps = only_batch(&file);
    assert!(matches!(steps[..], [Step::Batch { .. }, Step::End { .. }]), "{steps:?}");
}
