//! The producer's builder: what it writes, what it refuses, and that a refusal changes nothing.

use corelog_format::{
    BATCH_BYTES_MAX, BatchBuilder, BuildError, FormatErrorKind, HeaderValue, Message,
    USER_HEADERS_BYTES_MAX, UnverifiedBatch, UserHeadersBuilder, admit,
};

use crate::make::{self, Random};

#[test]
fn the_batchs_time_is_the_earliest_messages() {
    let times = [500, 100, 4_000_000_000, 100, 300];
    let mut builder = BatchBuilder::new();
    for time in times {
        builder.push(Message::new(b"x").origin_timestamp(time)).expect("it fits");
    }
    let bytes = builder.finish().expect("five messages");
    let batch = UnverifiedBatch::new(&bytes).and_then(UnverifiedBatch::verify).expect("good");
    assert_eq!(batch.header().origin_timestamp, 100);
    let stored: Vec<u64> =
        batch.frames().map(|frame| 100 + u64::from(frame.timestamp_delta())).collect();
    assert_eq!(stored, times);
}

#[test]
fn what_was_pushed_comes_back() {
    let typed = [("one", HeaderValue::Int8(-1)), ("two", HeaderValue::Float64(0.5))];
    let mut block = UserHeadersBuilder::new();
    block.push("three", HeaderValue::Bool(true)).expect("a good header");
    let mut builder = BatchBuilder::new();
    assert_eq!((builder.message_count(), builder.batch_length()), (0, 0));
    builder.push(Message::new(b"").id(0)).expect("it fits");
    builder.push(Message::new(b"payload").id(u128::MAX).headers(&typed)).expect("it fits");
    builder.push(Message::new(b"p").user_headers(block.headers())).expect("it fits");
    assert_eq!(builder.message_count(), 3);
    let length = builder.batch_length();
    let bytes = builder.finish().expect("three messages");
    assert_eq!(bytes.len(), length);

    let batch = UnverifiedBatch::new(&bytes).and_then(UnverifiedBatch::verify).expect("good");
    assert_eq!(batch.frames().len(), 3);
    let frames: Vec<_> = batch.frames().collect();
    assert_eq!((frames[0].id(), frames[0].payload()), (0, &b""[..]));
    assert!(frames[0].user_headers().is_empty());
    assert_eq!((frames[1].id(), frames[1].payload()), (u128::MAX, &b"payload"[..]));
    let headers: Result<Vec<_>, _> = frames[1].user_headers().iter().collect();
    assert_eq!(headers.expect("typed headers"), typed);
    assert_eq!(frames[2].user_headers(), block.headers());
    assert_eq!(frames.iter().map(|frame| frame.offset_delta()).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(frames.iter().map(|frame| frame.bytes().len()).sum::<usize>() + 256, bytes.len());
}

/// 71.6 minutes: a u32 of microseconds exactly, and one more.
#[test]
fn the_span_of_a_batch_is_a_u32_of_microseconds() {
    let most = u64::from(u32::MAX);
    for (first, second) in [(0, most), (most, 0), (u64::MAX, u64::MAX - most)] {
        let mut builder = BatchBuilder::new();
        builder.push(Message::new(b"a").origin_timestamp(first)).expect("it fits");
        let beyond = if second > first { second + 1 } else { second.wrapping_sub(1) };
        if first != most {
            let error = builder.push(Message::new(b"b").origin_timestamp(beyond));
            assert_eq!(error, Err(BuildError::SpanTooLong { span_us: most + 1, max_us: most }));
        }
        builder.push(Message::new(b"c").origin_timestamp(second)).expect("just within");
        let bytes = builder.finish().expect("two messages");
        let batch = UnverifiedBatch::new(&bytes).and_then(UnverifiedBatch::verify).expect("good");
        let deltas: Vec<u32> = batch.frames().map(|frame| frame.timestamp_delta()).collect();
        assert_eq!(deltas, if second > first { [0, u32::MAX] } else { [u32::MAX, 0] });
    }
}

#[test]
fn an_empty_batch_is_refused() {
    let mut builder = BatchBuilder::new();
    assert_eq!(builder.finish(), Err(BuildError::Empty));
    builder.push(Message::new(b"a")).expect("it fits");
    builder.clear();
    assert_eq!(builder.finish(), Err(BuildError::Empty));
}

#[test]
fn a_batch_of_exactly_the_limit_is_built_and_admitted() {
    let limit = BATCH_BYTES_MAX as usize;
    let payload = vec![7; limit - 256 - 48 + 1];
    let mut builder = BatchBuilder::new();
    let too_long = builder.push(Message::new(&payload));
    let (bytes, max) = (BATCH_BYTES_MAX + 1, BATCH_BYTES_MAX);
    assert_eq!(too_long, Err(BuildError::MessageTooLong { bytes, max }));

    builder.push(Message::new(&payload[1..])).expect("exactly the limit");
    let full = builder.push(Message::new(b""));
    assert_eq!(full, Err(BuildError::BatchFull { bytes: max + 48, max }));
    let bytes = builder.finish().expect("one message");
    assert_eq!(bytes.len(), limit);
    assert_eq!(admit(&bytes).expect("the limit is allowed").len(), limit);
    builder.push(Message::new(b"")).expect("the next batch is empty");
}

#[test]
fn user_headers_have_a_limit_and_a_structure() {
    let block = vec![0; USER_HEADERS_BYTES_MAX + 1];
    let long = ["k"; 400].map(|key| (key, HeaderValue::Raw(&[1; 255])));
    let long_key = "k".repeat(256);
    let bad_key = [("good", HeaderValue::Bool(true)), (&long_key, HeaderValue::Bool(true))];
    let refused = [
        (Message::new(b"p").user_headers_block(&block), 0, "block length"),
        (Message::new(b"p").user_headers_block(&block[..12]), 0, "key kind"),
        (Message::new(b"p").headers(&long), 0, "block length"),
        (Message::new(b"p").headers(&bad_key), 15, "key length"),
    ];
    for (message, at, field) in refused {
        let mut builder = BatchBuilder::new();
        builder.push(Message::new(b"first").origin_timestamp(5)).expect("it fits");
        let before = builder.batch_length();
        let Err(BuildError::UserHeaders(error)) = builder.push(message.origin_timestamp(1)) else {
            panic!("{field}: not refused");
        };
        assert_eq!(error.field, field);
        if field == "block length" {
            let max = USER_HEADERS_BYTES_MAX as u64;
            let FormatErrorKind::OutOfRange { found, max: said, .. } = error.kind else {
                panic!("{error}");
            };
            assert!(found > max && found <= max + 300 && said == max, "{error}");
        } else {
            assert_eq!(error.at, at);
        }
        // As it was before: neither bytes nor the earliest time of the refused message are left.
        assert_eq!((builder.message_count(), builder.batch_length()), (1, before));
        let bytes = builder.finish().expect("one message");
        assert_eq!(admit(&bytes).expect("good").header().origin_timestamp, 5);
    }
}

#[test]
fn a_used_builder_builds_like_a_new_one() {
    let mut reused = BatchBuilder::with_capacity(1 << 16);
    let mut out = Vec::new();
    for seed in 1..40 {
        let expected = make::random(&mut Random(seed), 30);
        let batch = UnverifiedBatch::new(&expected).and_then(UnverifiedBatch::verify);
        let batch = batch.expect("a good batch");
        for frame in batch.frames() {
            let origin = batch.header().origin_timestamp + u64::from(frame.timestamp_delta());
            let message = Message::new(frame.payload()).id(frame.id()).origin_timestamp(origin);
            reused.push(message.user_headers(frame.user_headers())).expect("it fits");
        }
        reused.finish_into(&mut out).expect("not empty");
        assert_eq!(out, expected, "seed {seed}");
    }
}
