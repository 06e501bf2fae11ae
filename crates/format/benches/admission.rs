//! Speed of the fused admission pass beside plain reads of the same memory.
//!
//! `cargo bench -p corelog-format --bench admission`. Batches hot in the cache and batches in turn
//! out of more memory than the last cache level holds; medians of interleaved rounds, with
//! quartiles. The plain read folds all bytes as u64 and is what the memory gives at best.

mod timing;

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use corelog_format::{
    Batch, BatchBuilder, FormatError, HeaderValue, Message, UnverifiedBatch, admit, admit_with,
};
use timing::{Case, Timed, measure};

/// Bytes of batches that one cold case goes round in.
const COLD_BYTES: usize = 256 * 1024 * 1024;

struct Shape {
    name: &'static str,
    messages: u32,
    payload: usize,
    headers: bool,
}

const SHAPES: [Shape; 5] = [
    Shape { name: "1000 x 1 KB frames", messages: 1000, payload: 1024 - 48, headers: false },
    Shape { name: "1000 x 100 B frames", messages: 1000, payload: 52, headers: false },
    Shape { name: "1000 x 100 B payloads", messages: 1000, payload: 100, headers: false },
    Shape { name: "1000 x 1 KB + 2 headers", messages: 1000, payload: 1000, headers: true },
    Shape { name: "1 x 1 KB frame", messages: 1, payload: 1024 - 48, headers: false },
];

fn main() {
    for shape in &SHAPES {
        let batch = build(shape);
        report(shape, "hot", &measure(cases(&[&batch]), Duration::from_micros(500)));
        let copies = (COLD_BYTES / batch.len()).clamp(1, 50_000);
        let cold: Vec<Vec<u8>> = vec![batch; copies];
        let cold: Vec<&Vec<u8>> = cold.iter().collect();
        report(shape, "cold", &measure(cases(&cold), Duration::from_millis(1)));
    }
}

fn build(shape: &Shape) -> Vec<u8> {
    let payload: Vec<u8> = (0..shape.payload).map(|i| (i * 7) as u8).collect();
    let headers = [("trace", HeaderValue::Uint64(7)), ("source", HeaderValue::String("sensor-17"))];
    let headers = if shape.headers { &headers[..] } else { &[] };
    let mut builder = BatchBuilder::new();
    for i in 0..shape.messages {
        let message = Message::new(&payload).id(u128::from(i)).origin_timestamp(u64::from(i));
        builder.push(message.headers(headers)).expect("the shapes fit into a batch");
    }
    builder.finish().expect("the shapes are not empty")
}

/// Something to do with a batch.
type Work = Box<dyn FnMut(&[u8])>;

/// What is measured for one shape, each over the batches in turn.
fn cases<'a>(batches: &[&'a Vec<u8>]) -> Vec<Case<'a>> {
    let mut scratch = Vec::new();
    let mut reused = move |bytes: &[u8]| {
        let admitted = admit_with(bytes, std::mem::take(&mut scratch)).expect("a good batch");
        scratch = admitted.into_scratch();
    };
    let works: Vec<(&str, Work)> = vec![
        ("plain read", Box::new(|bytes| _ = black_box(read(bytes)))),
        ("admit", Box::new(|bytes| _ = black_box(admit(bytes).expect("a good batch")))),
        ("admit_with", Box::new(move |bytes| reused(bytes))),
        ("verify", Box::new(|bytes| check(bytes, UnverifiedBatch::verify))),
        ("verify_stored", Box::new(|bytes| check(bytes, UnverifiedBatch::verify_stored))),
        ("verify_layout", Box::new(|bytes| check(bytes, UnverifiedBatch::verify_layout))),
    ];
    // One turn for all cases: each call gets the batch that was touched longest ago, so that no
    // case finds in the cache what the one before it has read.
    let turn = Rc::new(Cell::new(0));
    let bytes = batches[0].len();
    works
        .into_iter()
        .map(|(name, mut work)| {
            let (batches, turn) = (batches.to_vec(), Rc::clone(&turn));
            let run = move || {
                let index = turn.get();
                work(black_box(batches[index].as_slice()));
                turn.set((index + 1) % batches.len());
            };
            Case { name: name.to_string(), bytes, run: Box::new(run) }
        })
        .collect()
}

fn check<'a>(
    bytes: &'a [u8],
    verify: impl Fn(UnverifiedBatch<'a>) -> Result<Batch<'a>, FormatError>,
) {
    black_box(UnverifiedBatch::new(bytes).and_then(verify).expect("a good batch"));
}

/// Reads every byte, as wide as the compiler likes.
fn read(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0, |all, word| all ^ u64::from_le_bytes(*word))
}

fn report(shape: &Shape, place: &str, timed: &[Timed]) {
    println!("{}, {place}, batch of {} bytes", shape.name, timed[0].bytes);
    for case in timed {
        let m_frames_per_s = f64::from(shape.messages) * 1000.0 / case.median_ns;
        println!("  {:<14} {} {m_frames_per_s:>8.2} M frames/s", case.name, case.cell());
    }
}
