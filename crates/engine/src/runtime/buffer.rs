//! Buffers that a device can fill and drain: glommio's, counted against the shard's budgets.

use std::rc::Rc;

use corelog_io::{BLOCK, Buf};
use glommio::io::{DmaBuffer, ReadResult};

use super::budget::{Budget, Charge};

/// A writable buffer out of the executor's registered pool.
pub(crate) struct RealBuf {
    data: DmaBuffer,
    charge: Charge,
}

/// Immutable bytes: a frozen [`RealBuf`] or what a read brought. Clones share the memory, which
/// goes back to the pool, and to the budget, with the last of them.
#[derive(Clone)]
pub(crate) struct RealBytes {
    held: Held,
    /// None: no memory behind it (an empty read).
    _charge: Option<Rc<Charge>>,
}

#[derive(Clone)]
enum Held {
    Frozen(Rc<DmaBuffer>),
    Read(ReadResult),
}

impl RealBuf {
    /// A buffer of `len` bytes against `budget`, or `None` where that is used up. Call it on an
    /// executor's thread. Contents are whatever the memory held before.
    pub(super) fn alloc(budget: &Budget, len: usize) -> Option<RealBuf> {
        assert!(len > 0 && len.is_multiple_of(BLOCK), "a buffer of {len} bytes is not of blocks");
        let charge = budget.try_take(len)?;
        // Where the pool has no block of that size the memory comes from the global allocator:
        // correct, slower, and within the same budget.
        Some(RealBuf { data: glommio::allocate_dma_buffer(len), charge })
    }
}

impl AsRef<[u8]> for RealBuf {
    fn as_ref(&self) -> &[u8] {
        self.data.as_bytes()
    }
}

impl AsMut<[u8]> for RealBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        self.data.as_bytes_mut()
    }
}

impl Buf for RealBuf {
    type Bytes = RealBytes;

    fn freeze(mut self, len: usize) -> RealBytes {
        assert!(len.is_multiple_of(BLOCK), "{len} bytes are not whole blocks");
        self.data.trim_to_size(len);
        RealBytes { held: Held::Frozen(Rc::new(self.data)), _charge: Some(Rc::new(self.charge)) }
    }
}

impl RealBytes {
    /// What a read brought, charged with the whole buffer that was read into.
    pub(super) fn from_read(result: ReadResult, charge: Charge) -> RealBytes {
        let charge = if result.is_empty() { None } else { Some(Rc::new(charge)) };
        RealBytes { held: Held::Read(result), _charge: charge }
    }

    /// A copy of `bytes`, charged to `charge`.
    pub(super) fn copied(bytes: &[u8], charge: Charge) -> RealBytes {
        let mut data = glommio::allocate_dma_buffer(bytes.len());
        data.as_bytes_mut().copy_from_slice(bytes);
        RealBytes { held: Held::Frozen(Rc::new(data)), _charge: Some(Rc::new(charge)) }
    }

    /// The bytes in the form in which glommio writes them, and `None` for those of a read: glommio
    /// cannot write from the buffer of a read.
    pub(super) fn writable(&self) -> Option<Rc<DmaBuffer>> {
        match &self.held {
            Held::Frozen(data) => Some(Rc::clone(data)),
            Held::Read(_) => None,
        }
    }
}

impl AsRef<[u8]> for RealBytes {
    fn as_ref(&self) -> &[u8] {
        match &self.held {
            Held::Frozen(data) => data.as_bytes(),
            Held::Read(result) => result,
        }
    }
}
