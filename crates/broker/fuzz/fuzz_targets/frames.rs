//! Bytes as frames, and as the body of every command: nothing is believed that is not there.
#![no_main]

use corelog_broker::probe::take_apart;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    take_apart(input);
});
