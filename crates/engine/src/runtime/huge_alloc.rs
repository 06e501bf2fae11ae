//! A global allocator that puts buffer pools on 2 MiB pages, for binaries that want to install it.
#![allow(unsafe_code, reason = "a global allocator is unsafe by its trait")]

use std::alloc::{GlobalAlloc, Layout, System};

use rustix::mm::Advice;

/// The size of a huge page of x86-64 and of aarch64 with 4 KiB pages.
pub(super) const HUGE: usize = 2 << 20;

/// The system's allocator, but for allocations that look like a pool of I/O buffers (aligned to
/// 4096 bytes, 2 MiB or more): those are aligned to 2 MiB and given huge pages, so that the device
/// sees them in a few large pieces.
///
/// A library may not choose its host's allocator; a binary can:
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: corelog::machine::HugePageAlloc = corelog::machine::HugePageAlloc;
/// ```
///
/// Without it the engine does the same to its pools after the fact, where the kernel allows it
/// (Linux 6.1 or newer); with it the pools need no copying at start.
#[derive(Debug, Default, Clone, Copy)]
pub struct HugePageAlloc;

/// The layout in which `layout` is allocated, where it is a pool's.
fn pool_layout(layout: Layout) -> Option<Layout> {
    if layout.align() == 4096 && layout.size() >= HUGE {
        Layout::from_size_align(layout.size(), HUGE).ok()
    } else {
        None
    }
}

// SAFETY: everything is `System`'s; which layout an allocation has there depends on the layout that
// the caller gave and on nothing else, so that it is freed with the one it was made with. `realloc`
// is the trait's own (allocate, copy, free) wherever one of the two layouts is a pool's.
unsafe impl GlobalAlloc for HugePageAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(pool) = pool_layout(layout) else {
            // SAFETY: the caller's contract is passed on.
            return unsafe { System.alloc(layout) };
        };
        // SAFETY: the size is that of `layout`, not zero by the caller's contract.
        let start = unsafe { System.alloc(pool) };
        if !start.is_null() {
            let len = pool.size() / HUGE * HUGE;
            // SAFETY: the range was allocated above, and the advice changes no contents. An error
            // leaves small pages, which is correct as well.
            let _ = unsafe { rustix::mm::madvise(start.cast(), len, Advice::LinuxHugepage) };
        }
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the layout that `alloc` used for `layout`.
        unsafe { System.dealloc(start, pool_layout(layout).unwrap_or(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if pool_layout(layout).is_none() {
            // SAFETY: the caller's contract is passed on.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as above.
        let start = unsafe { self.alloc(layout) };
        if !start.is_null() {
            // SAFETY: `alloc` answered at least this many bytes.
            unsafe { start.write_bytes(0, layout.size()) };
        }
        start
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: size and alignment are valid by the caller's contract.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if pool_layout(layout).is_none() && pool_layout(new).is_none() {
            // SAFETY: the caller's contract is passed on.
            return unsafe { System.realloc(start, layout, size) };
        }
        // SAFETY: as above.
        let moved = unsafe { self.alloc(new) };
        if !moved.is_null() {
            // SAFETY: both ranges are that long, and `moved` is new.
            unsafe { start.copy_to_nonoverlapping(moved, layout.size().min(size)) };
            // SAFETY: the caller gives `start` up.
            unsafe { self.dealloc(start, layout) };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).expect("a valid layout")
    }

    #[test]
    fn pools_are_aligned_to_huge_pages_and_survive_every_way_of_growing() {
        let (small, pool) = (layout(4096, 4096), layout(5 << 20, 4096));
        // SAFETY: layouts are those of the allocations; nothing is read that was not written.
        unsafe {
            let start = HugePageAlloc.alloc(small);
            start.write_bytes(0xA5, small.size());
            let grown = HugePageAlloc.realloc(start, small, pool.size());
            assert_eq!(grown.addr() % HUGE, 0);
            assert_eq!((*grown, *grown.add(4095)), (0xA5, 0xA5));
            let shrunk = HugePageAlloc.realloc(grown, pool, small.size());
            assert_eq!((*shrunk, *shrunk.add(4095)), (0xA5, 0xA5));
            HugePageAlloc.dealloc(shrunk, small);
            let zeroed = HugePageAlloc.alloc_zeroed(pool);
            assert!((0..pool.size()).step_by(4096).all(|at| *zeroed.add(at) == 0));
            HugePageAlloc.dealloc(zeroed, pool);
        }
    }

    #[test]
    fn other_allocations_are_the_systems() {
        assert!(pool_layout(layout(HUGE, 8)).is_none());
        assert!(pool_layout(layout(HUGE - 1, 4096)).is_none());
        assert_eq!(pool_layout(layout(HUGE, 4096)), Some(layout(HUGE, HUGE)));
    }
}
