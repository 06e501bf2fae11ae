//! Buffers that a device can fill and drain: glommio's, counted against the shard's budgets.
//!
//! A buffer for writing lies in a box that readers and glommio share. The boxes go round (see
//! [`Spares`]), so that a shard that appends steadily allocates none.

use std::cell::RefCell;
use std::rc::Rc;

use corelog_io::{BLOCK, Buf};
use glommio::io::{DmaBuffer, ReadResult};

use super::budget::{Budget, Charge};

/// Boxes that wait for their next use, at most, and blanks: 512 KiB together, beyond the budget.
const SPARES_MAX: usize = 64;

/// A writable buffer out of the executor's registered pool.
pub(crate) struct RealBuf {
    shared: Shared,
}

/// Immutable bytes: a frozen [`RealBuf`] or what a read brought. Clones share the memory, which
/// goes back to the pool, and to the budget, with the last of them.
#[derive(Clone)]
pub(crate) struct RealBytes {
    held: Held,
}

#[derive(Clone)]
enum Held {
    Frozen(Shared),
    Read {
        result: ReadResult,
        /// None: no memory behind it (an empty read).
        charge: Option<Rc<Charge>>,
    },
}

/// Boxes between two uses, local to their shard. A box cannot be empty, so it holds one block then:
/// one that comes back with more gets a blank for it, and puts that down again when it leaves with
/// more. Nothing is asked of glommio when a box comes back, which may be outside of its executor.
#[derive(Default)]
pub(super) struct Spares {
    boxes: RefCell<Vec<Rc<Boxed>>>,
    blanks: RefCell<Vec<DmaBuffer>>,
}

/// A buffer, and what the shard is owed for it.
struct Boxed {
    /// Behind a count of its own, as glommio writes from no other form.
    data: Rc<DmaBuffer>,
    /// None while it is a spare.
    lent: Option<Lent>,
}

struct Lent {
    /// Bytes of the buffer before it was trimmed.
    capacity: usize,
    charge: Charge,
    /// None: the box does not go round.
    home: Option<Rc<Spares>>,
}

/// A box in use. The last clone gives the memory back, and the box.
#[derive(Clone)]
struct Shared(Rc<Boxed>);

impl RealBuf {
    /// A buffer of `len` bytes against `budget`, or `None` where that is used up. Call it on an
    /// executor's thread. Contents are whatever the memory held before.
    pub(super) fn alloc(budget: &Budget, spares: &Rc<Spares>, len: usize) -> Option<RealBuf> {
        assert!(len > 0 && len.is_multiple_of(BLOCK), "a buffer of {len} bytes is not of blocks");
        let charge = budget.try_take(len)?;
        let mut boxed = spares.take(len);
        let lent = Lent { capacity: len, charge, home: Some(Rc::clone(spares)) };
        Rc::get_mut(&mut boxed).expect("nobody shares a spare").lent = Some(lent);
        Some(RealBuf { shared: Shared(boxed) })
    }
}

impl AsRef<[u8]> for RealBuf {
    fn as_ref(&self) -> &[u8] {
        self.shared.0.data.as_bytes()
    }
}

impl AsMut<[u8]> for RealBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        self.shared.alone().as_bytes_mut()
    }
}

impl Buf for RealBuf {
    type Bytes = RealBytes;

    fn freeze(mut self, len: usize) -> RealBytes {
        assert!(len.is_multiple_of(BLOCK), "{len} bytes are not whole blocks");
        self.shared.alone().trim_to_size(len);
        RealBytes { held: Held::Frozen(self.shared) }
    }
}

impl Spares {
    /// A box with a buffer of `len` bytes.
    fn take(&self, len: usize) -> Rc<Boxed> {
        let Some(mut spare) = self.boxes.borrow_mut().pop() else {
            if len != BLOCK {
                self.put_down(glommio::allocate_dma_buffer(BLOCK));
            }
            return Rc::new(Boxed { data: Rc::new(glommio::allocate_dma_buffer(len)), lent: None });
        };
        if len != BLOCK {
            // Where the pool has no block of that size the memory comes from the global allocator:
            // correct, slower, and within the same budget.
            let data = glommio::allocate_dma_buffer(len);
            let boxed = Rc::get_mut(&mut spare).expect("nobody shares a spare");
            let blank = Rc::get_mut(&mut boxed.data).expect("nobody shares a spare's buffer");
            self.put_down(std::mem::replace(blank, data));
        }
        spare
    }

    fn put_down(&self, blank: DmaBuffer) {
        let mut blanks = self.blanks.borrow_mut();
        if blanks.len() < SPARES_MAX {
            blanks.push(blank);
        }
    }

    /// Whether a box whose buffer is `data` may become a spare: then `data` is one block.
    fn fits(&self, data: &mut DmaBuffer, capacity: usize) -> bool {
        if self.boxes.borrow().len() >= SPARES_MAX {
            return false;
        }
        if capacity == BLOCK {
            return true;
        }
        let Some(blank) = self.blanks.borrow_mut().pop() else { return false };
        *data = blank;
        true
    }
}

impl Shared {
    /// The buffer, while nobody shares it: before it is frozen.
    fn alone(&mut self) -> &mut DmaBuffer {
        let boxed = Rc::get_mut(&mut self.0).expect("a writable buffer has one owner");
        Rc::get_mut(&mut boxed.data).expect("no write of a writable buffer is under way")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(boxed) = Rc::get_mut(&mut self.0) else { return };
        let Some(Lent { capacity, charge, home }) = boxed.lent.take() else { return };
        // glommio may still have the buffer of a write that nobody waits for: that box is dropped.
        if let Some(home) = home
            && let Some(data) = Rc::get_mut(&mut boxed.data)
            && home.fits(data, capacity)
        {
            home.boxes.borrow_mut().push(Rc::clone(&self.0));
        }
        // Last, as it may wake whoever waits for room.
        drop(charge);
    }
}

impl RealBytes {
    /// What a read brought, charged with the whole buffer that was read into.
    pub(super) fn from_read(result: ReadResult, charge: Charge) -> RealBytes {
        let charge = if result.is_empty() { None } else { Some(Rc::new(charge)) };
        RealBytes { held: Held::Read { result, charge } }
    }

    /// A copy of `bytes`, charged to `charge`.
    pub(super) fn copied(bytes: &[u8], charge: Charge) -> RealBytes {
        let mut data = glommio::allocate_dma_buffer(bytes.len());
        data.as_bytes_mut().copy_from_slice(bytes);
        let lent = Some(Lent { capacity: bytes.len(), charge, home: None });
        RealBytes { held: Held::Frozen(Shared(Rc::new(Boxed { data: Rc::new(data), lent }))) }
    }

    /// Bytes of the budget that the memory behind them occupies.
    pub(super) fn charged(&self) -> usize {
        match &self.held {
            Held::Frozen(shared) => shared.0.lent.as_ref().map_or(0, |lent| lent.charge.bytes()),
            Held::Read { charge, .. } => charge.as_ref().map_or(0, |charge| charge.bytes()),
        }
    }

    /// The bytes in the form in which glommio writes them, and `None` for those of a read: glommio
    /// cannot write from the buffer of a read.
    pub(super) fn writable(&self) -> Option<Rc<DmaBuffer>> {
        match &self.held {
            Held::Frozen(shared) => Some(Rc::clone(&shared.0.data)),
            Held::Read { .. } => None,
        }
    }
}

impl AsRef<[u8]> for RealBytes {
    fn as_ref(&self) -> &[u8] {
        match &self.held {
            Held::Frozen(shared) => shared.0.data.as_bytes(),
            Held::Read { result, .. } => result,
        }
    }
}
