//! Zero is a value like any other: no field of a batch that happens to be zero means "nothing here"
//! (REC-13), not even a checksum.

use corelog_format::checksum::xxh3;
use corelog_format::{BatchBuilder, Expect, Message, Step, UnverifiedBatch, admit, scan};

use crate::make::{self, reseal};
use crate::zero_hash::{SECRET_0, make_zero};

/// One message whose frame checksum is 0, by its id.
fn frame_checksum_zero() -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.push(Message::new(&[0; 24])).expect("it fits");
    let mut batch = builder.finish().expect("one message");
    make_zero(&mut batch, 256 + 8, SECRET_0, |batch| xxh3(&batch[256 + 8..]));
    reseal(&mut batch);
    assert_eq!(batch[256..264], [0; 8]);
    batch
}

/// ... and whose batch checksum is 0 too, by partition and offset.
fn both_checksums_zero() -> Vec<u8> {
    let mut batch = frame_checksum_zero();
    make_zero(&mut batch, 0, SECRET_0, |batch| {
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
