//! Options: accepted exactly when the bytes are user headers whose keys are unique and whose
//! counts are within the limits; what was decoded encodes to the same bytes.
#![no_main]

use std::collections::HashSet;

use corelog_format::{
    OPTIONS_BYTES_MAX, OPTIONS_ENTRIES_MAX, OptionsBlock, OptionsBuilder, UserHeaders,
};
use libfuzzer_sys::fuzz_target;

/// The rule, written again in the plainest way.
fn is_options_block(bytes: &[u8]) -> bool {
    let Ok(headers) = UserHeaders::decode(bytes) else { return false };
    let mut keys = HashSet::new();
    let unique = headers.iter().flatten().all(|(key, _)| keys.insert(key));
    unique && keys.len() <= OPTIONS_ENTRIES_MAX && bytes.len() <= OPTIONS_BYTES_MAX
}

fuzz_target!(|bytes: &[u8]| {
    let decoded = OptionsBlock::decode(bytes);
    assert_eq!(decoded.is_ok(), is_options_block(bytes), "{:?}", decoded.err());
    match decoded {
        Err(error) => assert!(error.at <= bytes.len() as u64, "{error}"),
        Ok(block) => {
            let mut builder = OptionsBuilder::new();
            for (key, value) in block.iter() {
                builder.push(key, value).expect("what was decoded encodes");
            }
            assert_eq!(builder.block(), block);
        }
    }
});
