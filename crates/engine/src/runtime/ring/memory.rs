//! The memory of buffers: a pool on huge pages, mapped once, and aligned memory beyond it.
#![allow(unsafe_code, reason = "maps memory and lends it in pieces; contracts in docs/unsafe.md")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::io;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use corelog_io::BLOCK;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use super::buddy::{Buddy, ORDER_MAX};
use crate::runtime::huge_alloc::HUGE;
use crate::runtime::pages::{self, PoolPages, SmallBecause};

/// As much as the kernel registers in one piece.
const PIECE: usize = BLOCK << ORDER_MAX;

/// One region of memory, lent in pieces of a power of two of blocks. It lives as long as a piece of
/// it.
pub(super) struct Pool {
    map: *mut u8,
    map_len: usize,
    start: *mut u8,
    len: usize,
    free: RefCell<Buddy>,
    /// Whether the ring has it registered.
    registered: Cell<bool>,
    pages: PoolPages,
}

impl Pool {
    /// A pool of `len` bytes, whole blocks of them, faulted in.
    pub(super) fn new(len: usize, huge: bool) -> io::Result<Rc<Pool>> {
        let len = len / BLOCK * BLOCK;
        let blocks = u32::try_from(len / BLOCK).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // So much more that an aligned start lies inside.
        let map_len = len.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice.
        let map = unsafe { mmap_anonymous(ptr::null_mut(), map_len, access, MapFlags::PRIVATE) }?;
        let map = map.cast::<u8>();
        // SAFETY: less than a huge page, by which the mapping is longer than `len`.
        let start = unsafe { map.add(map.align_offset(HUGE)) };
        let free = RefCell::new(Buddy::new(blocks));
        let pages = PoolPages::Small(SmallBecause::NotWanted);
        let registered = Cell::new(false);
        let mut pool = Pool { map, map_len, start, len, free, registered, pages };
        if len > 0 {
            pool.fault_in(huge)?;
        }
        Ok(Rc::new(pool))
    }

    fn fault_in(&mut self, huge: bool) -> io::Result<()> {
        self.pages = match huge {
            false => PoolPages::Small(SmallBecause::NotWanted),
            true if self.len < 2 * HUGE => PoolPages::Small(SmallBecause::PoolSize),
            true => self.advise(),
        };
        // SAFETY: the range is of our mapping, and keeps its contents.
        match unsafe { madvise(self.start.cast(), self.len, Advice::LinuxPopulateWrite) } {
            // Before Linux 5.14 there is no such advice: the first use of a page faults it in.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        if self.pages == PoolPages::Huge && !self.is_huge() {
            self.pages = PoolPages::Small(SmallBecause::NoMemory);
        }
        Ok(())
    }

    /// Asks for huge pages.
    fn advise(&self) -> PoolPages {
        if pages::is_switched_off() {
            return PoolPages::Small(SmallBecause::SwitchedOff);
        }
        // SAFETY: the range is of our mapping, and the advice changes no contents.
        match unsafe { madvise(self.start.cast(), self.len, Advice::LinuxHugepage) } {
            Ok(()) => PoolPages::Huge,
            Err(_) => PoolPages::Small(SmallBecause::SwitchedOff),
        }
    }

    /// True where all but an end shorter than a huge page lies on huge pages.
    fn is_huge(&self) -> bool {
        pages::is_huge_but_for(HUGE, self.start.addr(), self.len)
    }

    /// On what pages it lies.
    pub(super) fn pages(&self) -> PoolPages {
        self.pages
    }

    /// What is to be registered with the ring, in its order.
    pub(super) fn pieces(&self) -> Vec<libc::iovec> {
        let piece = |at: usize| libc::iovec {
            // `at` is within the pool.
            iov_base: self.start.wrapping_add(at).cast(),
            iov_len: PIECE.min(self.len - at),
        };
        (0..self.len).step_by(PIECE).map(piece).collect()
    }

    /// The ring has registered the pieces, or has gone.
    pub(super) fn set_registered(&self, registered: bool) {
        self.registered.set(registered);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: ours since `new`. Every piece that was lent keeps the pool, so none is out. An
        // error could only mean a wrong range, and leaves it mapped.
        let _ = unsafe { munmap(self.map.cast(), self.map_len) };
    }
}

/// Memory that one owner may write to, in whole blocks, aligned to them.
pub(super) struct Memory {
    start: NonNull<u8>,
    len: usize,
    from: From,
}

enum From {
    Pool {
        pool: Rc<Pool>,
        at: u32,
        order: u8,
    },
    /// The system's allocator.
    Beyond(Layout),
}

impl Memory {
    /// `len` bytes of `pool`, or beyond it where it has no piece of that size. Contents are
    /// whatever the memory held before.
    pub(super) fn new(pool: Option<&Rc<Pool>>, len: usize) -> Memory {
        assert!(len > 0 && len.is_multiple_of(BLOCK), "a buffer of {len} bytes is not of blocks");
        pool.and_then(|pool| Memory::of_pool(pool, len)).unwrap_or_else(|| Memory::beyond(len))
    }

    fn of_pool(pool: &Rc<Pool>, len: usize) -> Option<Memory> {
        let order = (len / BLOCK).checked_next_power_of_two()?.ilog2() as u8;
        if order > ORDER_MAX {
            return None;
        }
        let at = pool.free.borrow_mut().take(order)?;
        // SAFETY: the piece lies within the pool's mapping.
        let start = unsafe { NonNull::new_unchecked(pool.start.add(at as usize * BLOCK)) };
        Some(Memory { start, len, from: From::Pool { pool: Rc::clone(pool), at, order } })
    }

    fn beyond(len: usize) -> Memory {
        let layout = Layout::from_size_align(len, BLOCK).expect("a length that memory can have");
        // SAFETY: the length is not zero. Zeroed, since whoever reads it as bytes needs it
        // initialised.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Memory { start, len, from: From::Beyond(layout) }
    }

    /// The number under which the ring has it registered.
    pub(super) fn registered(&self) -> Option<u16> {
        match &self.from {
            From::Pool { pool, at, .. } if pool.registered.get() => {
                u16::try_from(*at as usize * BLOCK / PIECE).ok()
            }
            From::Pool { .. } | From::Beyond(_) => None,
        }
    }

    /// Where it begins, for the kernel.
    pub(super) fn pointer(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: ours alone since `new` and initialised (the mapping and the allocation are
        // zeroed); the kernel writes to it only while a read owns `self` by value.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above. `&mut self` rules out other views; a write in flight holds a share of
        // its buffer, so that nobody has it as `&mut` meanwhile.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &self.from {
            From::Pool { pool, at, order } => pool.free.borrow_mut().give(*at, *order),
            // SAFETY: allocated with this layout, freed once.
            From::Beyond(layout) => unsafe { dealloc(self.start.as_ptr(), *layout) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_apart_and_the_pool_goes_round() {
        let pool = Pool::new(8 * BLOCK, false).expect("a pool");
        let mut all: Vec<_> = (0..9).map(|_| Memory::new(Some(&pool), BLOCK)).collect();
        for (number, memory) in all.iter_mut().enumerate() {
            assert!(memory.pointer().addr().is_multiple_of(BLOCK));
            assert_eq!(memory.bytes(), [0; BLOCK]);
            memory.bytes_mut().fill(number as u8 + 1);
        }
        for (number, memory) in all.iter().enumerate() {
            assert_eq!(memory.bytes(), [number as u8 + 1; BLOCK]);
        }
        assert!(matches!(all[7].from, From::Pool { .. }));
        assert!(matches!(all[8].from, From::Beyond(_)), "the ninth of eight");
        all.clear();
        assert!(matches!(Memory::new(Some(&pool), 8 * BLOCK).from, From::Pool { .. }));
        assert!(matches!(Memory::new(Some(&pool), 9 * BLOCK).from, From::Beyond(_)));
        assert!(matches!(Memory::new(None, BLOCK).from, From::Beyond(_)));
    }

    #[test]
    fn memory_outlives_its_pool_handle() {
        let pool = Pool::new(4 << 20, true).expect("a pool");
        let mut memory = Memory::new(Some(&pool), 3 * BLOCK);
        drop(pool);
        memory.bytes_mut().fill(9);
        assert_eq!(memory.bytes(), [9; 3 * BLOCK]);
    }

    #[test]
    fn a_pool_of_nothing_gives_nothing() {
        let pool = Pool::new(BLOCK - 1, true).expect("a pool");
        assert!(pool.pieces().is_empty());
        assert!(matches!(Memory::new(Some(&pool), BLOCK).from, From::Beyond(_)));
    }
}
