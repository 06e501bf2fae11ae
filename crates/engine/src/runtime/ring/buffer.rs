//! A buffer that a file can be read into and written from.

use std::fmt;

use super::local;
use super::memory::Memory;

/// Whole blocks of memory with one owner, out of the executor's registered pool where that has
/// room. May be dropped at any time on its thread, also after the executor.
pub(in crate::runtime) struct Buffer {
    memory: Memory,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` bytes, a multiple of [`corelog_io::BLOCK`], which is not zero. Contents
    /// are whatever the memory held before. Never fails: what the pool has no room for comes from
    /// the system's allocator.
    pub(in crate::runtime) fn alloc(len: usize) -> Buffer {
        let pool = local::current().map(|local| std::rc::Rc::clone(&local.pool));
        Buffer { memory: Memory::new(pool.as_ref(), len), len }
    }

    /// Bytes it shows.
    pub(in crate::runtime) fn len(&self) -> usize {
        self.len
    }

    /// Its bytes.
    pub(in crate::runtime) fn as_bytes(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }

    /// Its bytes, to write to.
    pub(in crate::runtime) fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[..self.len]
    }

    /// Shows only the first `len` bytes from here on; the memory stays as it is.
    pub(in crate::runtime) fn trim_to_size(&mut self, len: usize) {
        assert!(len <= self.len, "{len} bytes of a buffer of {}", self.len);
        self.len = len;
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}
