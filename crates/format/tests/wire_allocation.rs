//! Decoding allocates nothing, whatever the input says about its own size.
#![expect(unsafe_code, reason = "a counting allocator is the only witness of allocations")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

use corelog_format::{
    Consumer, HeaderValue, Identifier, Name, OptionalPartition, OptionsBlock, OptionsBuilder,
    Partitioning, PollingStrategy, UserHeaders, UserHeadersBuilder,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what this thread allocates; the test harness has threads of its own.
struct Counting;

// SAFETY: every call goes to `System` unchanged. The counter is a thread-local without destructor
// or lazy start, so touching it cannot allocate or run after it is gone.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` by `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

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
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(black_box(Box::new(7_u64)))), 1);
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
        let count = allocations(|| decode_all(bytes));
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
    assert_eq!(allocations(fill), 0);
}
