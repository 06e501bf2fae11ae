//! Memory of batches: none for what the input merely claims, and none at all where a caller gives
//! back what it got (SEC-2).

mod counting;

use std::hint::black_box;

use corelog_format::{
    BatchBuilder, Expect, Message, Scan, Step, UnverifiedBatch, admit, admit_with, scan,
};
use counting::asked;

/// A good batch of `messages` messages of 100 bytes.
fn batch(messages: u32) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    fill(&mut builder, messages);
    builder.finish().expect("not empty")
}

fn fill(builder: &mut BatchBuilder, messages: u32) {
    for id in 0..messages {
        builder.push(Message::new(&[7; 100]).id(id.into())).expect("it fits");
    }
}

/// Headers that claim more than there is: the most that each field can say, and the borders.
fn liars() -> Vec<Vec<u8>> {
    let lengths = [0, 255, 1 << 20, 64 << 20, 0x7fff_ffff, 0xffff_ffff, 1 << 63, u64::MAX];
    let counts = [0, 1, 10, 0x7fff_ffff, u32::MAX];
    let mut all = Vec::new();
    for (length, count) in lengths.into_iter().flat_map(|l| counts.map(|c| (l, c))) {
        for honest_length in [false, true] {
            let mut bytes = batch(3);
            if !honest_length {
                bytes[32..40].copy_from_slice(&length.to_le_bytes());
            }
            bytes[48..52].copy_from_slice(&count.to_le_bytes());
            all.push(bytes);
        }
    }
    for field in [32, 36] {
        let mut bytes = batch(3);
        bytes[256 + field..256 + field + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        all.push(bytes);
    }
    all
}

#[test]
fn claimed_lengths_and_counts_get_no_memory() {
    for bytes in liars() {
        let admitting = asked(|| assert!(admit(black_box(&bytes)).is_err()));
        // The one allocation that may happen is bounded by the bytes that are there.
        assert!(admitting.count <= 1 && admitting.bytes <= bytes.len() as u64, "{admitting:?}");
        let reading = asked(|| {
            let verified = UnverifiedBatch::split_first(black_box(&bytes))
                .and_then(|(batch, _)| batch.verify());
            assert!(verified.is_err());
            let mut steps = scan(&bytes, 0, Expect::default());
            assert!(matches!(steps.next(), Some(Step::Torn { at: 0, .. })));
            let mut streamed = Scan::new(0, u64::MAX, 0, Expect::default());
            black_box(streamed.next(&bytes));
        });
        assert_eq!(reading.count, 0);
    }
}

#[test]
fn reading_a_batch_allocates_nothing() {
    let bytes = batch(500);
    let reading = asked(|| {
        for _ in 0..3 {
            let batch = UnverifiedBatch::new(&bytes).and_then(UnverifiedBatch::verify);
            let batch = batch.expect("a good batch");
            assert_eq!(batch.frames().map(|frame| frame.payload().len()).sum::<usize>(), 50_000);
            black_box(batch.slice(100..400).expect("a good range"));
        }
    });
    assert_eq!(reading.count, 0);
}

#[test]
fn admission_allocates_once_and_with_scratch_not_at_all() {
    let bytes = batch(500);
    let mut scratch = Vec::new();
    let fresh = asked(|| {
        let mut admitted = admit(&bytes).expect("a good batch");
        black_box(admitted.stamp(1, 2, 3));
        scratch = admitted.into_scratch();
    });
    assert_eq!(fresh.count, 1);
    assert_eq!(fresh.bytes, 44 + 8 * 500, "the header's part and a checksum a message");
    let again = asked(|| {
        let admitted = admit_with(&bytes, std::mem::take(&mut scratch)).expect("a good batch");
        scratch = admitted.into_scratch();
    });
    assert_eq!(again.count, 0);
}

#[test]
fn a_builder_allocates_once_a_batch_and_with_two_buffers_not_at_all() {
    let mut builder = BatchBuilder::new();
    fill(&mut builder, 300);
    black_box(builder.finish().expect("not empty"));
    let second = asked(|| {
        fill(&mut builder, 300);
        black_box(builder.finish().expect("not empty"));
    });
    assert_eq!(second.count, 1, "the memory of the next batch");

    let mut out = Vec::new();
    for round in 0..3 {
        let swapped = asked(|| {
            fill(&mut builder, 300);
            builder.finish_into(&mut out).expect("not empty");
        });
        // The first two rounds bring both buffers to their size.
        assert!(round < 2 || swapped.count == 0, "round {round}: {swapped:?}");
    }
}
