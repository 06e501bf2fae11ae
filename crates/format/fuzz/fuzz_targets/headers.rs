//! User headers: whatever the bytes, both strictnesses agree where they should, and what was
//! decoded encodes to the same bytes.
#![no_main]

use corelog_format::{USER_HEADERS_BYTES_MAX, UserHeaders, UserHeadersBuilder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let typed = UserHeaders::decode(bytes);
    let structure = match UserHeaders::decode_structure(bytes) {
        Ok(structure) => structure,
        Err(error) => {
            assert!(error.at <= bytes.len() as u64, "{error}");
            assert!(typed.is_err(), "the typed view took a broken structure");
            return;
        }
    };

    let mut again = Vec::new();
    for pair in structure.untyped() {
        let (key, value) = pair.expect("the structure is good");
        key.encode(&mut again).expect("what was decoded encodes");
        value.encode(&mut again).expect("what was decoded encodes");
    }
    assert_eq!(again, bytes);

    let refused = structure.iter().find_map(Result::err);
    assert_eq!(typed.err(), refused, "the walk and decode name the same key");
    if let Ok(headers) = typed
        && bytes.len() <= USER_HEADERS_BYTES_MAX
    {
        let mut builder = UserHeadersBuilder::new();
        for header in headers {
            let (key, value) = header.expect("decode checked every key");
            builder.push(key, value).expect("what was decoded encodes");
        }
        assert_eq!(builder.headers(), headers);
    }
});
