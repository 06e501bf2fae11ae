//! Speed of XXH3-64 by length: `checksum::xxh3` beside the two crates it chooses from. The
//! threshold in `src/checksum.rs` is where their lines cross.
//!
//! `cargo bench -p corelog-format --bench checksum`. Input is hot in the cache; each call's hash
//! decides where the next call's input begins, so what is timed is latency, as in a walk over
//! frames, where nothing but the next frame's hash is there to overlap with.

mod timing;

use std::cell::Cell;
use std::hint::black_box;
use std::time::Duration;

use timing::{Case, measure};

const LENGTHS: [usize; 19] = [
    40, 48, 64, 100, 128, 144, 160, 192, 240, 241, 256, 384, 512, 1024, 2048, 4096, 16_384, 65_528,
    65_536,
];

type Hash = fn(&[u8]) -> u64;

const IMPLEMENTATIONS: [(&str, Hash); 3] = [
    ("checksum::xxh3", corelog_format::checksum::xxh3),
    ("xxhash-rust", xxhash_rust::xxh3::xxh3_64),
    ("twox-hash", twox_hash::XxHash3_64::oneshot),
];

fn main() {
    let input: Vec<u8> = (0..65_536 + 64).map(|i: u32| (i.wrapping_mul(31) >> 3) as u8).collect();
    for length in LENGTHS {
        let cases = IMPLEMENTATIONS.iter().map(|&(name, hash)| case(name, hash, &input, length));
        println!("{length} bytes");
        for timed in measure(cases.collect(), Duration::from_micros(500)) {
            println!("  {:<14} {}", timed.name, timed.cell());
        }
    }
}

fn case<'a>(name: &str, hash: Hash, input: &'a [u8], length: usize) -> Case<'a> {
    let last = Cell::new(0);
    let run = move || {
        let from = (last.get() & 7) as usize;
        last.set(hash(black_box(&input[from..from + length])));
    };
    Case { name: name.to_string(), bytes: length, run: Box::new(run) }
}
