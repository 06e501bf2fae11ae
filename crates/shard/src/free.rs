//! A stack of free slot numbers that any thread takes from and gives back to, without a lock and
//! without allocating. Last in, first out: the slot that was used last is the one in the cache.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// No slot. Slot numbers are below it.
const NONE: u32 = u32::MAX;

/// The head of the stack. Each slot keeps its own link to the slot below it.
///
/// The head carries a tag that grows with every change. Without it, a taker that read "slot 7, and
/// 5 is below" and was then held up could put 5 on top although others have taken 7 and 5 and given
/// 7 back in between. With 2^32 tags that takes four billion changes during one hold-up.
pub(crate) struct FreeStack {
    /// Tag in the upper half, slot number in the lower.
    head: AtomicU64,
}

impl FreeStack {
    /// An empty stack.
    pub(crate) fn new() -> Self {
        FreeStack { head: AtomicU64::new(pack(0, NONE)) }
    }

    /// Takes a slot off, if one is there. `link(n)` is the link of slot `n`.
    pub(crate) fn pop<'a>(&self, link: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let (tag, slot) = unpack(head);
            if slot == NONE {
                return None;
            }
            // May be stale where another thread took the slot: then the exchange fails.
            let below = link(slot).load(Ordering::Relaxed);
            let new = pack(tag.wrapping_add(1), below);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(slot),
                Err(now) => head = now,
            }
        }
    }

    /// Puts `slot` on top. It must not be on the stack.
    pub(crate) fn push<'a>(&self, slot: u32, link: impl Fn(u32) -> &'a AtomicU32) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let (tag, top) = unpack(head);
            link(slot).store(top, Ordering::Relaxed);
            let new = pack(tag.wrapping_add(1), slot);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

const fn pack(tag: u32, slot: u32) -> u64 {
    (tag as u64) << 32 | slot as u64
}

const fn unpack(head: u64) -> (u32, u32) {
    ((head >> 32) as u32, head as u32)
}
