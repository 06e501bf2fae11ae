//! An allocator that counts what the current thread asks for; the witness that hostile lengths get
//! no memory and that reused memory is enough.
#![expect(unsafe_code, reason = "a counting allocator is the only witness of allocations")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// What some work asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Allocations, growing ones included.
    pub(crate) count: u64,
    /// Bytes of all of them together, freed or not.
    pub(crate) bytes: u64,
}

thread_local! {
    static ASKED: Cell<Asked> = const { Cell::new(Asked { count: 0, bytes: 0 }) };
}

/// Counts what this thread allocates; the test harness has threads of its own.
struct Counting;

fn count(bytes: usize) {
    let asked = ASKED.get();
    ASKED.set(Asked { count: asked.count + 1, bytes: asked.bytes + bytes as u64 });
}

// SAFETY: every call goes to `System` unchanged. The counter is a thread-local without destructor
// or lazy start, so touching it cannot allocate or run after it is gone.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
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

/// What `work` allocates on this thread.
pub(crate) fn asked(work: impl FnOnce()) -> Asked {
    let before = ASKED.get();
    work();
    let after = ASKED.get();
    Asked { count: after.count - before.count, bytes: after.bytes - before.bytes }
}

#[test]
fn the_counter_counts() {
    let one = asked(|| drop(std::hint::black_box(Box::new([7_u64; 4]))));
    assert_eq!(one, Asked { count: 1, bytes: 32 });
}
