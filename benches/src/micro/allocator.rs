//! The global allocator of the micro benchmarks: counts, remembers who asked, and can do without
//! huge pages.
//!
//! Counting is per thread, so that a shard's allocations are told from those of its callers.
#![expect(unsafe_code, reason = "a global allocator is unsafe by its trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use corelog::machine::HugePageAlloc;

/// Install it in a benchmark:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: corelog_bench::micro::BenchAlloc = corelog_bench::micro::BenchAlloc;
/// ```
pub struct BenchAlloc;

/// Which allocator serves large aligned memory; decided once, by the first who asks.
static POOLS: AtomicU8 = AtomicU8::new(UNDECIDED);
const UNDECIDED: u8 = 0;
const HUGE: u8 = 1;
const SYSTEM: u8 = 2;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static IS_TRACED: Cell<bool> = const { Cell::new(false) };
}

/// Where traced allocations were made. Not thread-local: that would need a destructor.
static TRACES: Mutex<Vec<Backtrace>> = Mutex::new(Vec::new());

/// Lets the system's allocator serve everything. Called before any pool is made (asserted).
pub(super) fn use_system_alone() {
    let decided = POOLS.compare_exchange(UNDECIDED, SYSTEM, Ordering::Relaxed, Ordering::Relaxed);
    assert!(decided != Err(HUGE), "a pool was made before the flags were read");
}

/// Allocations that the calling thread has made since it began, growing ones included.
pub fn counted() -> u64 {
    COUNT.get()
}

/// Remembers where the calling thread allocates from now on, or, with false, does no longer and
/// answers what was remembered. Slow: nothing is timed meanwhile.
pub fn traced(on: bool) -> Vec<Backtrace> {
    IS_TRACED.set(on);
    match on {
        true => Vec::new(),
        false => std::mem::take(&mut *TRACES.lock().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn count() {
    COUNT.set(COUNT.get() + 1);
    if IS_TRACED.get() {
        // What this allocates itself is not of interest.
        IS_TRACED.set(false);
        let trace = Backtrace::force_capture();
        TRACES.lock().unwrap_or_else(PoisonError::into_inner).push(trace);
        IS_TRACED.set(true);
    }
}

/// True where `HugePageAlloc` serves. Never changes between the first allocation that asks and the
/// end of the process, so that memory is freed by the allocator that gave it.
fn is_huge() -> bool {
    match POOLS.load(Ordering::Relaxed) {
        UNDECIDED => {
            let decided =
                POOLS.compare_exchange(UNDECIDED, HUGE, Ordering::Relaxed, Ordering::Relaxed);
            decided != Err(SYSTEM)
        }
        decided => decided == HUGE,
    }
}

/// What `HugePageAlloc` treats differently from the system's allocator lies above both.
fn may_be_pool(layout: Layout) -> bool {
    layout.align() >= 4096
}

// SAFETY: each call goes unchanged to `System` or to `HugePageAlloc`. Which one depends on the
// layout's alignment alone, which is the same when memory is grown or freed, and on a choice that
// is made once before the first such allocation. The counters are thread-locals without destructor
// or lazy start, so touching them cannot allocate or run after they are gone.
unsafe impl GlobalAlloc for BenchAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        if may_be_pool(layout) && is_huge() {
            // SAFETY: the caller keeps `alloc`'s contract, which is the same.
            return unsafe { HugePageAlloc.alloc(layout) };
        }
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if may_be_pool(layout) && is_huge() {
            // SAFETY: the memory came from `HugePageAlloc`, see above, with this layout.
            return unsafe { HugePageAlloc.dealloc(start, layout) };
        }
        // SAFETY: the memory came from `System`, see above, with this layout.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        if may_be_pool(layout) && is_huge() {
            // SAFETY: the caller keeps the contract, which is the same.
            return unsafe { HugePageAlloc.alloc_zeroed(layout) };
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        if may_be_pool(layout) && is_huge() {
            // SAFETY: the memory came from `HugePageAlloc`, see above, with this layout.
            return unsafe { HugePageAlloc.realloc(start, layout, size) };
        }
        // SAFETY: the memory came from `System`, see above, with this layout.
        unsafe { System.realloc(start, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The library's tests have the system's allocator, so the trait is called by hand.
    #[test]
    fn every_way_of_asking_is_counted_once_and_memory_survives_growing() {
        let small = Layout::from_size_align(4096, 4096).expect("valid");
        let before = counted();
        // SAFETY: layouts are those of the allocations; nothing is read that was not written.
        unsafe {
            let start = BenchAlloc.alloc(small);
            start.write_bytes(7, 4096);
            let grown = BenchAlloc.realloc(start, small, 3 << 20);
            assert_eq!((*grown, *grown.add(4095)), (7, 7));
            BenchAlloc.dealloc(grown, Layout::from_size_align(3 << 20, 4096).expect("valid"));
            let zeroed = BenchAlloc.alloc_zeroed(small);
            assert_eq!(*zeroed.add(100), 0);
            BenchAlloc.dealloc(zeroed, small);
        }
        assert_eq!(counted() - before, 3);
    }

    #[test]
    fn only_what_is_made_while_tracing_is_remembered() {
        let layout = Layout::from_size_align(64, 8).expect("valid");
        let one = || {
            // SAFETY: allocated and freed with the same layout.
            unsafe { BenchAlloc.dealloc(BenchAlloc.alloc(layout), layout) };
        };
        one();
        assert!(traced(true).is_empty());
        one();
        one();
        let traces = traced(false);
        one();
        assert_eq!(traces.len(), 2);
        assert!(traced(false).is_empty());
        assert!(traces[0].to_string().contains("only_what_is_made_while_tracing"));
    }
}
