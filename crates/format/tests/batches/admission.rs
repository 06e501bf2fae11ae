//! Admission: what it accepts, what it refuses and how it says so, and what stamping writes.

use corelog_format::{
    Admitted, FormatError, FormatErrorKind as Kind, UnverifiedBatch, admit, admit_with,
};

use crate::make::{self, Random, SMALL_FRAME_1 as FRAME_1, frame_starts, put_u32, put_u64, reseal};

/// A change to the small batch, and the refusal it has to meet.
struct Case {
    what: &'static str,
    change: fn(&mut Vec<u8>),
    error: FormatError,
}

fn case(what: &'static str, change: fn(&mut Vec<u8>), error: (u64, &'static str, Kind)) -> Case {
    Case { what, change, error: FormatError::new(error.0, error.1, error.2) }
}

fn refusals() -> Vec<Case> {
    header_refusals().into_iter().chain(frame_refusals()).collect()
}

fn header_refusals() -> Vec<Case> {
    let range = |found, min, max| Kind::OutOfRange { found, min, max };
    vec![
        case("reserved header byte", |b| b[100] = 1, (100, "reserved", Kind::NotZero { found: 1 })),
        case(
            "newer producer",
            |b| b[52..60].fill(3),
            (52, "idempotent_producer", Kind::NotZero { found: 3 }),
        ),
        case("no messages", |b| put_u32(b, 48, 0), (48, "message_count", range(0, 1, 3))),
        case(
            "too many for the bytes",
            |b| put_u32(b, 48, 4),
            (48, "message_count", range(4, 1, 3)),
        ),
        case(
            "one frame fewer",
            |b| put_u32(b, 48, 1),
            (FRAME_1 as u64, "message_count", Kind::Trailing { extra: 54 }),
        ),
        case(
            "one frame more",
            |b| put_u32(b, 48, 3),
            (403, "frame_header", Kind::Truncated { needed: 48, have: 0 }),
        ),
        case(
            "shorter than it says",
            |b| put_u64(b, 32, 404),
            (32, "batch_length", Kind::Truncated { needed: 404, have: 403 }),
        ),
        case(
            "longer than it says",
            |b| put_u64(b, 32, 402),
            (402, "batch_length", Kind::Trailing { extra: 1 }),
        ),
    ]
}

fn frame_refusals() -> Vec<Case> {
    let range = |found, min, max| Kind::OutOfRange { found, min, max };
    let delta = |expected, found| Kind::Mismatch { expected, found };
    vec![
        case(
            "payload leaves the batch",
            |b| put_u32(b, FRAME_1 + 36, 7),
            (FRAME_1 as u64 + 36, "payload_length", range(7, 0, 6)),
        ),
        case(
            "payload of 4 GiB",
            |b| put_u32(b, 256 + 36, u32::MAX),
            (256 + 36, "payload_length", range(u64::from(u32::MAX), 0, 99)),
        ),
        case(
            "headers leave the batch",
            |b| put_u32(b, FRAME_1 + 32, 1),
            (FRAME_1 as u64 + 32, "user_headers_length", range(1, 0, 0)),
        ),
        case(
            "reserved frame byte",
            |b| b[256 + 47] = 9,
            (256 + 47, "reserved", Kind::NotZero { found: 9 }),
        ),
        case("first delta", |b| put_u32(b, 256 + 24, 1), (256 + 24, "offset_delta", delta(0, 1))),
        case(
            "second delta",
            |b| put_u32(b, FRAME_1 + 24, 7),
            (FRAME_1 as u64 + 24, "offset_delta", delta(1, 7)),
        ),
        case(
            "header kind 0",
            |b| b[256 + 48 + 17] = 0,
            (256 + 48 + 17, "key kind", Kind::UnknownCode { found: 0 }),
        ),
        case(
            "payload counted as headers",
            |b| (put_u32(b, FRAME_1 + 32, 6), put_u32(b, FRAME_1 + 36, 0)).0,
            (FRAME_1 as u64 + 48 + 1, "key length", range(0x646c_726f, 1, 255)),
        ),
    ]
}

#[test]
fn the_small_batch_is_what_the_cases_say() {
    let small = make::small();
    assert_eq!(small.len(), 403);
    assert_eq!(frame_starts(&small), [256, FRAME_1]);
    assert!(admit(&small).is_ok());
}

#[test]
fn every_broken_rule_is_named_where_it_is() {
    for Case { what, change, error } in refusals() {
        let mut batch = make::small();
        change(&mut batch);
        // With the sums right again, only the rule itself stands in the way.
        reseal(&mut batch);
        assert_eq!(admit(&batch).map(|_| ()), Err(error), "{what}");
    }
}

#[test]
fn wrong_checksums_are_named_where_they_are() {
    let small = make::small();
    for place in [256, FRAME_1 + 8, FRAME_1 + 52] {
        let mut batch = small.clone();
        batch[place] ^= 0x40;
        let error = admit(&batch).expect_err("a frame was changed");
        let frame = if place < FRAME_1 { 256 } else { FRAME_1 };
        assert_eq!((error.at, error.field), (frame as u64, "checksum"), "byte {place}");
        assert!(matches!(error.kind, Kind::Checksum { .. }), "{error}");
    }
    for place in [0, 8, 16, 24, 40] {
        let mut batch = small.clone();
        batch[place] ^= 0x40;
        let error = admit(&batch).expect_err("the header was changed");
        assert_eq!((error.at, error.field), (40, "batch_checksum"), "byte {place}");
    }
}

#[test]
fn every_prefix_and_every_longer_input_is_refused() {
    let small = make::small();
    for length in 0..small.len() {
        let error = admit(&small[..length]).map(|_| ()).expect_err("cut");
        assert!(matches!(error.kind, Kind::Truncated { .. }), "{length}: {error}");
    }
    let longer = [&small[..], &[0]].concat();
    let error = admit(&longer).map(|_| ()).expect_err("a byte too many");
    assert_eq!(error.kind, Kind::Trailing { extra: 1 });
}

#[test]
fn what_a_producer_put_into_the_owners_fields_is_overwritten() {
    let clean = make::small();
    let mut dirty = clean.clone();
    for (at, value) in [(0, 77), (8, u64::MAX), (16, 5)] {
        put_u64(&mut dirty, at, value);
    }
    assert!(admit(&dirty).is_err(), "the batch checksum has to agree with what was sent");
    reseal(&mut dirty);
    let mut admitted = admit(&dirty).expect("the owner's fields do not matter");
    assert_eq!(admitted.header().base_offset, u64::MAX);
    let expected = admit(&clean).expect("a good batch").stamp(3, 42, 99);
    assert_eq!(admitted.stamp(3, 42, 99), expected);
}

#[test]
fn a_stamped_batch_verifies_and_keeps_its_frames() {
    let mut random = Random(1);
    for round in 0..100 {
        let sent = make::random(&mut random, 100);
        let mut admitted = admit(&sent).expect("a good batch");
        assert_eq!(admitted.len(), sent.len());
        let header = admitted.stamp(round, round << 40, 1_700_000_000_000_000 + round);
        let stored = [&header[..], &sent[256..]].concat();
        let batch = UnverifiedBatch::new(&stored).and_then(UnverifiedBatch::verify);
        let batch = batch.expect("a stamped batch");
        assert_eq!(batch.header(), admitted.header());
        assert_eq!(batch.header().base_offset, round << 40);
        assert_eq!(batch.header().message_count, admitted.message_count());
        assert!(batch.deltas_are_index());
        // Stamping again replaces the stamp, and nothing of the first one is left.
        assert_eq!(admitted.stamp(9, 9, 9), admit(&sent).expect("good").stamp(9, 9, 9));
    }
}

/// Vectors computed from the specification by another implementation of the hash.
#[test]
fn the_worked_example_comes_out_to_the_byte() {
    use corelog_format::{BatchBuilder, Message};
    let mut builder = BatchBuilder::new();
    let origin = 1_700_000_000_000_000;
    builder.push(Message::new(b"hello").id(1).origin_timestamp(origin)).expect("it fits");
    builder.push(Message::new(b"world!").id(2).origin_timestamp(origin + 250)).expect("it fits");
    let sent = builder.finish().expect("two messages");

    let mut frame_0 = vec![0x8e, 0x5c, 0xa5, 0x9e, 0xdb, 0xbd, 0xbf, 0xb9, 1];
    frame_0.resize(8 + 16 + 12, 0);
    frame_0.extend_from_slice(&[5, 0, 0, 0]);
    frame_0.resize(48, 0);
    frame_0.extend_from_slice(b"hello");
    assert_eq!(sent[256..309], frame_0);
    assert_eq!(sent[309..317], 0x894d_5fd4_f246_4a6b_u64.to_le_bytes());

    let mut admitted = admit(&sent).expect("a good batch");
    assert_eq!(admitted.header().batch_length, 363);
    assert_eq!(admitted.header().batch_checksum, 0xb6f4_7b10_d645_be6b);
    let header = admitted.stamp(3, 42, 1_700_000_000_000_500);
    let mut expected = [0; 256];
    let stated = [
        "0300000000000000",
        "2a00000000000000",
        "f4411e18240a0600",
        "00401e18240a0600",
        "6b01000000000000",
        "c4e9eb96f35c942a",
        "02000000",
    ]
    .concat();
    for (place, byte) in expected.iter_mut().take(52).enumerate() {
        *byte = u8::from_str_radix(&stated[2 * place..2 * place + 2], 16).expect("hex");
    }
    assert_eq!(header, expected);
}

#[test]
fn scratch_is_reused_and_leaves_nothing_behind() {
    let mut random = Random(7);
    let mut scratch = Vec::new();
    for _ in 0..50 {
        let sent = make::random(&mut random, 60);
        let mut fresh = admit(&sent).expect("good");
        let mut reused = admit_with(&sent, scratch).expect("good");
        assert_eq!(reused.stamp(1, 2, 3), fresh.stamp(1, 2, 3));
        scratch = reused.into_scratch();
    }
}

#[test]
fn an_admitted_batch_may_cross_threads() {
    fn sendable<T: Send + 'static>() {}
    sendable::<Admitted>();
}
