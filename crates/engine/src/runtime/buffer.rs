//! Buffers that a device can fill and drain: a runtime's own, counted against the shard's budgets.
#![allow(unsafe_code, reason = "bytes are found by address, beside what keeps them there")]

use std::ptr::NonNull;
use std::rc::Rc;

use corelog_io::{BLOCK, Buf, align_up};
use glommio::io::{DmaBuffer, ReadResult};

use super::boxes::{Memory, Shared, Spares};
use super::budget::{Budget, Charge};
use super::choice::Runtime;
use super::ring;

/// A writable buffer out of the executor's registered pool.
pub(crate) struct RealBuf {
    shared: Frozen,
}

/// Immutable bytes: a frozen [`RealBuf`] or what a read brought. Clones share the memory, which
/// goes back to the pool, and to the budget, with the last of them.
#[derive(Clone)]
pub(crate) struct RealBytes {
    start: NonNull<u8>,
    len: usize,
    held: Held,
}

/// What keeps bytes in their place.
#[derive(Clone)]
enum Held {
    Frozen(Frozen),
    /// What glommio has read lies in a buffer of its own.
    Read {
        #[expect(dead_code, reason = "held for the bytes that it keeps in their place")]
        result: ReadResult,
        charge: Rc<Charge>,
    },
    /// No memory: an empty read.
    Nothing,
}

/// A buffer that its runtime can write.
#[derive(Clone)]
pub(super) enum Frozen {
    Glommio(Shared<DmaBuffer>),
    Ring(Shared<ring::Buffer>),
}

/// A shard's [`Spares`], of its runtime.
pub(super) enum Boxes {
    Glommio(Rc<Spares<DmaBuffer>>),
    Ring(Rc<Spares<ring::Buffer>>),
}

/// What one read has brought.
pub(super) enum Piece {
    Glommio(ReadResult),
    /// The first so many bytes of the buffer.
    Ring(ring::Buffer, usize),
}

impl Boxes {
    /// None yet.
    pub(super) fn new(runtime: Runtime) -> Boxes {
        match runtime {
            Runtime::Glommio => Boxes::Glommio(Spares::new()),
            Runtime::Ring => Boxes::Ring(Spares::new()),
        }
    }

    fn lend(&self, len: usize, charge: Charge) -> Frozen {
        match self {
            Boxes::Glommio(spares) => Frozen::Glommio(spares.lend(len, charge)),
            Boxes::Ring(spares) => Frozen::Ring(spares.lend(len, charge)),
        }
    }

    /// What a read brought, charged with the whole buffer that was read into.
    pub(super) fn of_read(&self, piece: Piece, charge: Charge) -> RealBytes {
        let len = piece.as_ref().len();
        match (self, piece) {
            _ if len == 0 => RealBytes::new(&[], Held::Nothing),
            (_, Piece::Glommio(result)) => {
                let (start, charge) = (NonNull::from(&*result).cast(), Rc::new(charge));
                RealBytes { start, len, held: Held::Read { result, charge } }
            }
            (Boxes::Ring(spares), Piece::Ring(buffer, _)) => {
                RealBytes::frozen(Frozen::Ring(spares.boxed(buffer, charge)), len)
            }
            (Boxes::Glommio(_), Piece::Ring(..)) => unreachable!("a shard has one runtime"),
        }
    }

    /// A copy of `bytes`, charged to `charge`.
    pub(super) fn copy_of(&self, bytes: &[u8], charge: Charge) -> RealBytes {
        let whole = usize::try_from(align_up(bytes.len() as u64)).unwrap_or(usize::MAX);
        let mut copy = self.lend(whole, charge);
        copy.alone_mut()[..bytes.len()].copy_from_slice(bytes);
        RealBytes::frozen(copy, bytes.len())
    }
}

impl Frozen {
    fn bytes(&self) -> &[u8] {
        match self {
            Frozen::Glommio(shared) => shared.bytes(),
            Frozen::Ring(shared) => shared.bytes(),
        }
    }

    fn alone_mut(&mut self) -> &mut [u8] {
        match self {
            Frozen::Glommio(shared) => shared.alone().bytes_mut(),
            Frozen::Ring(shared) => shared.alone().bytes_mut(),
        }
    }

    fn charged(&self) -> usize {
        match self {
            Frozen::Glommio(shared) => shared.charged(),
            Frozen::Ring(shared) => shared.charged(),
        }
    }
}

impl RealBuf {
    /// A buffer of `len` bytes against `budget`, or `None` where that is used up. Call it on an
    /// executor's thread. Contents are whatever the memory held before.
    pub(super) fn alloc(budget: &Budget, boxes: &Boxes, len: usize) -> Option<RealBuf> {
        assert!(len > 0 && len.is_multiple_of(BLOCK), "a buffer of {len} bytes is not of blocks");
        let charge = budget.try_take(len)?;
        Some(RealBuf { shared: boxes.lend(len, charge) })
    }
}

impl AsRef<[u8]> for RealBuf {
    fn as_ref(&self) -> &[u8] {
        self.shared.bytes()
    }
}

impl AsMut<[u8]> for RealBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        self.shared.alone_mut()
    }
}

impl Buf for RealBuf {
    type Bytes = RealBytes;

    fn freeze(mut self, len: usize) -> RealBytes {
        assert!(len.is_multiple_of(BLOCK), "{len} bytes are not whole blocks");
        match &mut self.shared {
            Frozen::Glommio(shared) => shared.alone().trim(len),
            Frozen::Ring(shared) => shared.alone().trim(len),
        }
        RealBytes::frozen(self.shared, len)
    }
}

impl RealBytes {
    fn frozen(shared: Frozen, len: usize) -> RealBytes {
        let start = NonNull::from(&shared.bytes()[..len]).cast();
        RealBytes { start, len, held: Held::Frozen(shared) }
    }

    fn new(bytes: &'static [u8], held: Held) -> RealBytes {
        RealBytes { start: NonNull::from(bytes).cast(), len: bytes.len(), held }
    }

    /// Bytes of the budget that the memory behind them occupies.
    pub(super) fn charged(&self) -> usize {
        match &self.held {
            Held::Frozen(shared) => shared.charged(),
            Held::Read { charge, .. } => charge.bytes(),
            Held::Nothing => 0,
        }
    }

    /// The buffer, where it is one that the runtime can write and holds these bytes and no others:
    /// glommio cannot write from the buffer of a read.
    pub(super) fn writable(&self) -> Option<&Frozen> {
        match &self.held {
            Held::Frozen(shared) if shared.bytes().len() == self.len => Some(shared),
            Held::Frozen(_) | Held::Read { .. } | Held::Nothing => None,
        }
    }
}

impl AsRef<[u8]> for RealBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the bytes are those of `held`, which was made with them: a buffer behind an `Rc`, or
        // inside of glommio's own, that stays in its place and is not written to while it is shared.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        match self {
            Piece::Glommio(result) => result,
            Piece::Ring(buffer, len) => &buffer.as_bytes()[..*len],
        }
    }
}

impl Memory for DmaBuffer {
    fn alloc(len: usize) -> DmaBuffer {
        glommio::allocate_dma_buffer(len)
    }

    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.as_bytes_mut()
    }

    fn trim(&mut self, len: usize) {
        self.trim_to_size(len);
    }
}

impl Memory for ring::Buffer {
    fn alloc(len: usize) -> ring::Buffer {
        ring::Buffer::alloc(len)
    }

    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.as_bytes_mut()
    }

    fn trim(&mut self, len: usize) {
        self.trim_to_size(len);
    }
}
