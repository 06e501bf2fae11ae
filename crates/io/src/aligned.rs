//! Block-aligned memory: what O_DIRECT asks of a buffer, in safe Rust, with a byte budget.
//!
//! A buffer of `len` bytes takes `len + BLOCK` from the allocator and lends out the aligned window
//! inside: 8,192 bytes asked for, 12,288 allocated, and the window begins at the first multiple of
//! 4,096. One block of waste a buffer buys a file without unsafe code; long-lived buffers are large
//! (a tail buffer is 256 KiB or more: under 2 % waste).

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use crate::{BLOCK, Buf};

/// A budget of buffer memory, in bytes lent out. Local to its thread, cheap to clone.
#[derive(Clone, Debug)]
pub struct BufPool {
    budget: Rc<Budget>,
}

#[derive(Debug)]
struct Budget {
    limit: Cell<usize>,
    used: Cell<usize>,
    peak: Cell<usize>,
}

impl BufPool {
    /// A pool that lends at most `limit` bytes at a time.
    pub fn new(limit: usize) -> Self {
        BufPool {
            budget: Rc::new(Budget {
                limit: Cell::new(limit),
                used: Cell::new(0),
                peak: Cell::new(0),
            }),
        }
    }

    /// A zeroed buffer of `len` bytes (a non-zero multiple of [`BLOCK`]), or `None` where that
    /// would exceed the limit. The bytes count until the buffer, or the last clone of what it was
    /// frozen into, is dropped.
    ///
    /// # Panics
    /// Where `len` is zero or no multiple of [`BLOCK`].
    pub fn alloc(&self, len: usize) -> Option<AlignedBuf> {
        let used = self.budget.used.get().checked_add(len)?;
        if used > self.budget.limit.get() {
            return None;
        }
        self.budget.used.set(used);
        self.budget.peak.set(self.budget.peak.get().max(used));
        Some(AlignedBuf { memory: Memory::new(len, Some(Rc::clone(&self.budget))) })
    }

    /// Changes the limit; what is lent already stays lent.
    pub fn set_limit(&self, limit: usize) {
        self.budget.limit.set(limit);
    }

    /// Bytes lent out now.
    pub fn used(&self) -> usize {
        self.budget.used.get()
    }

    /// The most bytes that were ever lent out at a time.
    pub fn peak(&self) -> usize {
        self.budget.peak.get()
    }
}

/// The allocation and the window in it.
struct Memory {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
    budget: Option<Rc<Budget>>,
}

impl Memory {
    fn new(len: usize, budget: Option<Rc<Budget>>) -> Self {
        assert!(
            len != 0 && len.is_multiple_of(BLOCK),
            "a buffer's length must be a non-zero multiple of {BLOCK}, not {len}"
        );
        let bytes = vec![0; len + BLOCK];
        // The vector is never grown, so its memory, and with it the alignment, stays where it is.
        let start = bytes.as_ptr().addr().next_multiple_of(BLOCK) - bytes.as_ptr().addr();
        Memory { bytes, start, len, budget }
    }

    fn window(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.used.set(budget.used.get() - self.len);
        }
    }
}

/// A writable buffer whose memory begins at a multiple of [`BLOCK`].
pub struct AlignedBuf {
    memory: Memory,
}

impl AlignedBuf {
    /// A zeroed buffer of `len` bytes outside every budget.
    ///
    /// # Panics
    /// Where `len` is zero or no multiple of [`BLOCK`].
    pub fn new(len: usize) -> Self {
        AlignedBuf { memory: Memory::new(len, None) }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self.memory.window()
    }
}

impl AsMut<[u8]> for AlignedBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        let Memory { bytes, start, len, .. } = &mut self.memory;
        &mut bytes[*start..*start + *len]
    }
}

impl Buf for AlignedBuf {
    type Bytes = AlignedBytes;

    fn freeze(self, len: usize) -> AlignedBytes {
        let capacity = self.memory.len;
        assert!(
            len.is_multiple_of(BLOCK) && len <= capacity,
            "freeze({len}): the length must be a multiple of {BLOCK}, at most the capacity \
             {capacity}"
        );
        AlignedBytes { memory: Rc::new(self.memory), len }
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.memory.len)
    }
}

/// Immutable bytes of an [`AlignedBuf`]; clones share the memory.
#[derive(Clone)]
pub struct AlignedBytes {
    memory: Rc<Memory>,
    len: usize,
}

impl AlignedBytes {
    /// Shows only the first `len` bytes from here on (a read that met the end of its file); the
    /// memory stays as it is. Longer than now: no change.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.memory.window()[..self.len]
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBytes({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_frozen_bytes_stay_where_they_were() {
        for blocks in [1, 2, 3, 64] {
            let mut buf = AlignedBuf::new(blocks * BLOCK);
            assert!(buf.as_ref().as_ptr().addr().is_multiple_of(BLOCK));
            assert_eq!(buf.as_ref().len(), blocks * BLOCK);
            buf.as_mut().fill(7);
            let address = buf.as_ref().as_ptr().addr();
            let bytes = buf.freeze(BLOCK);
            assert_eq!(bytes.as_ref().as_ptr().addr(), address);
            assert_eq!(bytes.clone().as_ref(), [7; BLOCK]);
        }
    }

    #[test]
    fn the_budget_counts_until_the_last_clone_is_gone() {
        let pool = BufPool::new(3 * BLOCK);
        let a = pool.alloc(2 * BLOCK).expect("within the limit");
        assert!(pool.alloc(2 * BLOCK).is_none(), "four blocks out of three");
        // Frozen to one block, the buffer still holds two.
        let bytes = a.freeze(BLOCK);
        let clone = bytes.clone();
        drop(bytes);
        assert_eq!(pool.used(), 2 * BLOCK);
        drop(clone);
        assert_eq!((pool.used(), pool.peak()), (0, 2 * BLOCK));
        assert!(pool.alloc(3 * BLOCK).is_some());
    }

    #[test]
    fn truncate_only_shortens() {
        let mut bytes = AlignedBuf::new(BLOCK).freeze(BLOCK);
        bytes.truncate(904);
        assert_eq!(bytes.as_ref().len(), 904);
        bytes.truncate(2000);
        assert_eq!(bytes.as_ref().len(), 904);
    }

    #[test]
    #[should_panic(expected = "freeze(4097)")]
    fn freeze_refuses_a_partial_block() {
        let _ = AlignedBuf::new(2 * BLOCK).freeze(BLOCK + 1);
    }

    #[test]
    #[should_panic(expected = "at most the capacity 4096")]
    fn freeze_refuses_more_than_there_is() {
        let _ = AlignedBuf::new(BLOCK).freeze(2 * BLOCK);
    }

    #[test]
    #[should_panic(expected = "non-zero multiple")]
    fn an_empty_buffer_is_a_bug() {
        let _ = AlignedBuf::new(0);
    }
}
