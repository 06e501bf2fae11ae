//! Values and blocks that are made here, not decoded: every kind, every limit.

use corelog_format::{
    FormatError, FormatErrorKind as Kind, HeaderKind, HeaderValue, MessagesKey, Name,
    OPTIONS_BYTES_MAX, OPTIONS_ENTRIES_MAX, OptionsBlock, OptionsBuilder, USER_HEADERS_BYTES_MAX,
    UserHeaders, UserHeadersBuilder,
};

/// Each kind with its edges, beside the bytes that the specification gives it.
fn every_kind() -> Vec<(HeaderValue<'static>, u8, Vec<u8>)> {
    use HeaderValue as V;
    vec![
        (V::Raw(&[0, 255]), 1, vec![0, 255]),
        (V::String("\u{17c}"), 2, vec![0xc5, 0xbc]),
        (V::Bool(false), 3, vec![0]),
        (V::Bool(true), 3, vec![1]),
        (V::Int8(i8::MIN), 4, vec![0x80]),
        (V::Int16(-2), 5, vec![0xfe, 0xff]),
        (V::Int32(i32::MIN), 6, vec![0, 0, 0, 0x80]),
        (V::Int64(i64::MAX), 7, vec![255, 255, 255, 255, 255, 255, 255, 0x7f]),
        (V::Int128(-1), 8, vec![255; 16]),
        (V::Uint8(200), 9, vec![200]),
        (V::Uint16(0x0102), 10, vec![2, 1]),
        (V::Uint32(0x0102_0304), 11, vec![4, 3, 2, 1]),
        (V::Uint64(1), 12, vec![1, 0, 0, 0, 0, 0, 0, 0]),
        (V::Uint128(1 << 120), 13, vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        (V::Float32(-1.5), 14, vec![0, 0, 0xc0, 0xbf]),
        (V::Float64(0.25), 15, vec![0, 0, 0, 0, 0, 0, 0xd0, 0x3f]),
        (V::Unknown { code: 16, bytes: &[9] }, 16, vec![9]),
        (V::Unknown { code: 255, bytes: &[1, 2, 3] }, 255, vec![1, 2, 3]),
        (V::Invalid { kind: HeaderKind::Bool, bytes: &[2] }, 3, vec![2]),
        (V::Invalid { kind: HeaderKind::String, bytes: &[0xff] }, 2, vec![0xff]),
        (V::Invalid { kind: HeaderKind::Uint64, bytes: &[1; 7] }, 12, vec![1; 7]),
    ]
}

fn out_of_range(at: usize, field: &'static str, found: usize, min: u64, max: u64) -> FormatError {
    FormatError::new(at as u64, field, Kind::OutOfRange { found: found as u64, min, max })
}

#[test]
fn every_kind_has_its_bytes_and_they_have_it() {
    let mut builder = UserHeadersBuilder::new();
    let mut expected = Vec::new();
    for (value, code, data) in every_kind() {
        assert_eq!(value.code(), code);
        assert_eq!(HeaderValue::from_parts(code, &data), value);
        let mut field = Vec::new();
        value.encode(&mut field).expect("a good value");
        assert_eq!(field, [&[code, data.len() as u8, 0, 0, 0], &data[..]].concat());
        builder.push("k", value).expect("a good header");
        expected.extend([2, 1, 0, 0, 0, b'k']);
        expected.extend(field);
    }
    assert_eq!(builder.headers().bytes(), expected);
    let decoded = UserHeaders::decode(&expected).expect("a good block");
    let values: Vec<_> = decoded.iter().map(|header| header.expect("a good header").1).collect();
    assert_eq!(values, every_kind().into_iter().map(|(value, ..)| value).collect::<Vec<_>>());
}

#[test]
fn a_number_fits_its_kind_only_at_its_own_width() {
    let widths = [(4, 1), (5, 2), (6, 4), (7, 8), (8, 16), (9, 1), (10, 2), (11, 4), (12, 8)];
    for (code, width) in widths.into_iter().chain([(3, 1), (13, 16), (14, 4), (15, 8)]) {
        for length in 1..=255 {
            let data = vec![0; length];
            let value = HeaderValue::from_parts(code, &data);
            let invalid = matches!(value, HeaderValue::Invalid { .. });
            assert_eq!(invalid, length != width, "kind {code}, {length} bytes");
            assert_eq!(value.kind().map(HeaderKind::code), Some(code));
        }
    }
}

#[test]
fn floats_keep_their_bits() {
    for bits in [0x7fc0_0001_u32, 0xff80_0000, 0x7f80_0001, 1, 0x8000_0000] {
        let data = bits.to_le_bytes();
        let mut field = Vec::new();
        HeaderValue::from_parts(14, &data).encode(&mut field).expect("a good value");
        assert_eq!(field[5..], data, "{bits:#x}");
    }
}

#[test]
fn what_the_structure_refuses_cannot_be_built() {
    let long = "x".repeat(256);
    let mut builder = UserHeadersBuilder::new();
    builder.push("first", HeaderValue::Bool(true)).expect("a good header");
    let before = builder.headers().bytes().to_vec();
    let at = before.len();
    let value_at = at + 6;

    let refused = [
        (builder.push("", HeaderValue::Uint8(1)), out_of_range(at, "key length", 0, 1, 255)),
        (builder.push(&long, HeaderValue::Uint8(1)), out_of_range(at, "key length", 256, 1, 255)),
        (
            builder.push("k", HeaderValue::Raw(&[])),
            out_of_range(value_at, "value length", 0, 1, 255),
        ),
        (
            builder.push("k", HeaderValue::String(&long)),
            out_of_range(value_at, "value length", 256, 1, 255),
        ),
        (
            builder.push("k", HeaderValue::Unknown { code: 15, bytes: &[1] }),
            out_of_range(value_at, "value kind", 15, 16, 255),
        ),
        (
            builder.push("k", HeaderValue::Unknown { code: 0, bytes: &[1] }),
            out_of_range(value_at, "value kind", 0, 16, 255),
        ),
    ];
    for (result, error) in refused {
        assert_eq!(result, Err(error));
    }
    assert_eq!(builder.headers().bytes(), before, "a refusal leaves the block as it was");
    builder.clear();
    assert!(builder.headers().is_empty());
}

#[test]
fn a_block_of_user_headers_stops_at_its_limit() {
    // 500 pairs of 200 bytes: 5 + 189 for the key, 5 + 1 for the value.
    let key = "k".repeat(189);
    let mut builder = UserHeadersBuilder::new();
    for _ in 0..USER_HEADERS_BYTES_MAX / 200 {
        builder.push(&key, HeaderValue::Uint8(1)).expect("within the limit");
    }
    assert_eq!(builder.headers().bytes().len(), USER_HEADERS_BYTES_MAX);
    let error = out_of_range(100_000, "block length", 100_012, 0, 100_000);
    assert_eq!(builder.push("k", HeaderValue::Uint8(1)), Err(error));
    assert_eq!(builder.headers().bytes().len(), USER_HEADERS_BYTES_MAX);
    assert!(UserHeaders::decode(builder.headers().bytes()).is_ok());
}

#[test]
fn options_stop_at_both_limits_and_at_a_key_that_is_there() {
    let mut builder = OptionsBuilder::new();
    for index in 0..OPTIONS_ENTRIES_MAX {
        builder.push(&format!("{index:04}"), HeaderValue::Uint8(1)).expect("within the limit");
    }
    let length = builder.block().bytes().len();
    let full = out_of_range(length, "options entries", 1025, 0, 1024);
    assert_eq!(builder.push("one more", HeaderValue::Uint8(1)), Err(full));
    assert_eq!(OptionsBlock::decode(builder.block().bytes()), Ok(builder.block()));
    assert_eq!(builder.block().get("0007"), Some(HeaderValue::Uint8(1)));
    assert_eq!(builder.block().get("7"), None);

    let mut builder = OptionsBuilder::new();
    builder.push("key", HeaderValue::Uint8(1)).expect("a good entry");
    let again = builder.push("key", HeaderValue::Uint8(2));
    assert_eq!(again, Err(FormatError::new(14, "key", Kind::DuplicateKey)));
    assert_eq!(builder.block().len(), 1);

    // 200 entries of 500 bytes, 5 + 235 and 5 + 255, are exactly the limit.
    let (mut builder, data) = (OptionsBuilder::new(), [7; 255]);
    for index in 0..OPTIONS_BYTES_MAX / 500 {
        builder.push(&format!("{index:0235}"), HeaderValue::Raw(&data)).expect("within the limit");
    }
    assert_eq!(builder.block().bytes().len(), OPTIONS_BYTES_MAX);
    assert_eq!(OptionsBlock::decode(builder.block().bytes()), Ok(builder.block()));
    let full = out_of_range(100_000, "block length", 100_012, 0, 100_000);
    assert_eq!(builder.push("k", HeaderValue::Uint8(1)), Err(full));

    // One byte more in the first key is one too many.
    let mut longer = builder.block().bytes().to_vec();
    longer[1] += 1;
    longer.insert(5, b'x');
    assert!(UserHeaders::decode(&longer).is_ok());
    let error = out_of_range(0, "options length", 100_001, 0, 100_000);
    assert_eq!(OptionsBlock::decode(&longer), Err(error));
}

#[test]
fn the_first_repeated_key_is_the_one_that_is_named() {
    let entry = |key: &str| [&[2, 1, 0, 0, 0], key.as_bytes(), &[9, 1, 0, 0, 0, 1]].concat();
    let block = ["z", "b", "a", "z", "a"].map(entry).concat();
    // The fourth entry begins at 3 * 12; its text five bytes later.
    let error = FormatError::new(41, "key", Kind::DuplicateKey);
    assert_eq!(OptionsBlock::decode(&block), Err(error));
}

#[test]
fn a_key_of_another_kind_passes_the_structure_and_not_the_typed_view() {
    let mut block = Vec::new();
    HeaderValue::Uint16(7).encode(&mut block).expect("a good value");
    HeaderValue::Bool(true).encode(&mut block).expect("a good value");
    let second = block.len();
    HeaderValue::String("k").encode(&mut block).expect("a good value");
    HeaderValue::Int8(-1).encode(&mut block).expect("a good value");

    let error = FormatError::new(0, "key kind", Kind::KeyNotString { found: 10 });
    assert_eq!(UserHeaders::decode(&block), Err(error));
    let headers = UserHeaders::decode_structure(&block).expect("good structure");
    assert_eq!(
        headers.iter().collect::<Vec<_>>(),
        [Err(error), Ok(("k", HeaderValue::Int8(-1)))],
        "the walk goes on behind a key that it refuses"
    );
    let keys: Vec<_> = headers.untyped().map(|pair| pair.expect("good structure").0).collect();
    assert_eq!(keys, [HeaderValue::Uint16(7), HeaderValue::String("k")]);
    assert!(UserHeaders::decode(&block[second..]).is_ok());
}

#[test]
fn names_and_keys_have_1_to_255_bytes() {
    let text = "\u{142}".repeat(128);
    assert!(Name::new("a").is_ok() && Name::new(&text[..254]).is_ok());
    assert_eq!(Name::new(""), Err(out_of_range(0, "name length", 0, 1, 255)));
    assert_eq!(Name::new(&text), Err(out_of_range(0, "name length", 256, 1, 255)));
    assert!(MessagesKey::new(&[0; 255]).is_ok());
    assert_eq!(MessagesKey::new(&[]), Err(out_of_range(0, "messages key length", 0, 1, 255)));
    let error = out_of_range(0, "messages key length", 256, 1, 255);
    assert_eq!(MessagesKey::new(&[0; 256]), Err(error));
}
