//! Decoding allocates nothing, whatever the input says about its own size.

mod counting;

use std::hint::black_box;

use corelog_format::{
    Consumer, HeaderValue, Identifier, Name, OptionalPartition, OptionsBlock, OptionsBuilder,
    Partitioning, PollingStrategy, UserHeaders, UserHeadersBuilder,
};
use counting::asked;

/// Reads `bytes` as everything, and every header and option in it.
fn decode_all(bytes: &[u8]) {
    let _ = black_box(Name::decode(bytes));
    let _ = black_box(Identifier::decode(bytes));
    let _ = black_box(Consumer::decode(bytes));
    let _ = black_box(OptionalPartition::decode(bytes));
    let _ = black_box(Partitioning::decode(bytes));
    let _ = black_box(PollingStrategy::decode(bytes));
    if let Ok(headers) = UserHeaders::decode_structure(bytes) {
        assert_eq!(headers.iter().all(|header| header.is_ok()), UserHeaders::decode(bytes).is_ok());
        black_box(headers.untyped().count());
    }
    if let Ok(block) = OptionsBlock::decode(bytes) {
        assert_eq!(block.iter().count(), block.len());
    }
}

#[test]
fn decoding_allocates_nothing() {
    let mut options = OptionsBuilder::new();
    for index in 0..1024 {
        options.push(&format!("key {index}"), HeaderValue::Int64(index)).expect("a good entry");
    }
    let mut full = Vec::new();
    options.block().encode(&mut full);
    assert_eq!(OptionsBlock::decode(&full).expect("a good block").len(), 1024);
    let repeated = [&full[..full.len() / 2], &full[..]].concat();

    let inputs: [&[u8]; 8] = [
        &[],
        &full,
        &full[..full.len() - 1],
        &repeated,
        &[2, 1, 0, 0, 0, b'k', 2, 255, 255, 255, 255],
        &[2, 255, 255, 255, 127, b'k'],
        &[2, 255, b'x'],
        &[3, 255, 1],
    ];
    for bytes in inputs {
        let count = asked(|| decode_all(bytes)).count;
        assert_eq!(count, 0, "{} bytes: {:?}", bytes.len(), &bytes[..bytes.len().min(16)]);
    }
}

#[test]
fn a_builder_keeps_its_memory() {
    let mut builder = UserHeadersBuilder::new();
    let mut fill = || {
        builder.clear();
        for key in ["trace", "tenant", "content-type"] {
            builder.push(key, HeaderValue::Uint128(1)).expect("a good header");
        }
    };
    fill();
    assert_eq!(asked(fill).count, 0);
}
