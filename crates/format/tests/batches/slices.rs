//! Slices: put together they are batches, and nothing but the header is new.

use corelog_format::{BATCH_HEADER_LEN, Batch, BatchBuilder, Message, UnverifiedBatch};

use crate::make::{self, Random, SMALL_FRAME_1, put_u32, reseal};

fn verified(bytes: &[u8]) -> Batch<'_> {
    UnverifiedBatch::new(bytes).and_then(UnverifiedBatch::verify).expect("a good batch")
}

#[test]
fn every_range_is_a_batch_of_its_own() {
    let mut random = Random(3);
    for _ in 0..6 {
        let stored = make::stamped(make::random(&mut random, 12), 5, 1000, 77);
        let batch = verified(&stored);
        let frames: Vec<_> = batch.frames().collect();
        let count = batch.header().message_count;
        for start in 0..count {
            for end in start + 1..=count {
                let slice = batch.slice(start..end).expect("a good range");
                let together = [&slice.header[..], &stored[slice.frames.clone()]].concat();
                let view = verified(&together);
                assert_eq!(view.header().message_count, end - start);
                assert_eq!(slice.message_count, end - start);
                assert_eq!(view.first_offset(), 1000 + u64::from(start));
                assert_eq!(view.deltas_are_index(), start == 0);
                let selected = &frames[start as usize..end as usize];
                assert!(
                    view.frames().map(|frame| frame.bytes()).eq(selected.iter().map(|f| f.bytes()))
                );
                let (was, is) = (batch.header(), view.header());
                assert_eq!(
                    (is.partition_id, is.base_offset, is.base_timestamp, is.origin_timestamp),
                    (was.partition_id, was.base_offset, was.base_timestamp, was.origin_timestamp),
                );
            }
        }
        let whole = batch.slice(0..count).expect("a good range");
        assert_eq!(whole.header, stored[..BATCH_HEADER_LEN]);
        assert_eq!(whole.frames, BATCH_HEADER_LEN..stored.len());
    }
}

#[test]
fn a_slice_of_a_slice_is_the_same_slice() {
    let stored = make::stamped(make::random(&mut Random(11), 40), 5, 1000, 77);
    let count = verified(&stored).header().message_count;
    assert!(count > 6, "the seed gives a batch that is long enough");
    let outer = verified(&stored).slice(2..count).expect("a good range");
    let view = [&outer.header[..], &stored[outer.frames.clone()]].concat();
    let inner = verified(&view).slice(1..3).expect("a good range");
    let direct = verified(&stored).slice(3..5).expect("a good range");
    assert_eq!(inner.header, direct.header);
    assert_eq!(view[inner.frames], stored[direct.frames]);
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
fn empty_and_foreign_ranges_give_nothing() {
    let small = make::small();
    let batch = verified(&small);
    for range in [0..0, 1..1, 2..2, 1..0, 0..3, 2..3, u32::MAX..u32::MAX, 0..u32::MAX] {
        assert_eq!(batch.slice(range.clone()), None, "{range:?}");
    }
}

/// Computed from the specification by another implementation of the hash.
#[test]
fn the_worked_example_comes_out_to_the_byte() {
    let mut builder = BatchBuilder::new();
    let origin = 1_700_000_000_000_000;
    builder.push(Message::new(b"hello").id(1).origin_timestamp(origin)).expect("it fits");
    builder.push(Message::new(b"world!").id(2).origin_timestamp(origin + 250)).expect("it fits");
    let sent = builder.finish().expect("two messages");
    let stored = make::stamped(sent, 3, 42, 1_700_000_000_000_500);
    let slice = verified(&stored).slice(1..2).expect("a good range");
    let together = [&slice.header[..], &stored[slice.frames]].concat();
    let header = *verified(&together).header();
    assert_eq!((header.batch_length, header.message_count, header.base_offset), (310, 1, 42));
    assert_eq!(header.batch_checksum, 0x991f_bfe0_53e0_2a07);
}

#[test]
fn deltas_must_follow_one_another_in_a_view() {
    let mut stored = make::small();
    put_u32(&mut stored, 256 + 24, 5);
    put_u32(&mut stored, SMALL_FRAME_1 + 24, 7);
    reseal(&mut stored);
    let unverified = || UnverifiedBatch::new(&stored).expect("whole");
    let error = unverified().verify().expect_err("5, 7");
    assert_eq!((error.at as usize, error.field), (SMALL_FRAME_1 + 24, "offset_delta"));
    // In a segment of the reference server it is a finding.
    let batch = unverified().verify_stored().expect("no damage");
    assert!(!batch.deltas_are_index());
    assert_eq!(batch.first_offset(), 5);

    put_u32(&mut stored, SMALL_FRAME_1 + 24, 6);
    reseal(&mut stored);
    let view = UnverifiedBatch::new(&stored).and_then(UnverifiedBatch::verify);
    assert_eq!(view.expect("5, 6").first_offset(), 5);
}

/// The delta after u32::MAX is not 0.
#[test]
fn deltas_do_not_wrap() {
    let mut stored = make::small();
    put_u32(&mut stored, 256 + 24, u32::MAX);
    put_u32(&mut stored, SMALL_FRAME_1 + 24, 0);
    reseal(&mut stored);
    let view = UnverifiedBatch::new(&stored).and_then(UnverifiedBatch::verify);
    assert_eq!(view.expect_err("wrapped").field, "offset_delta");
}
