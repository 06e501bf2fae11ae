//! Leases: bytes of a shard's buffers, lent to any thread without a copy, that find their way home.
//!
//! A runtime's buffer may be dropped on its own thread only. So the shard keeps the buffer, in a slot
//! of a table of fixed size, and gives out a [`bytes::Bytes`] over the memory. The last clone of
//! that, wherever it is dropped, pushes the slot's number onto a stack of returned slots: one
//! compare-and-swap on memory that is there already, so it cannot fail and cannot wait for the shard.
//! The shard takes the whole stack when it next looks, and only then drops its buffer.
#![allow(unsafe_code, reason = "a Send view of memory that a slot of the home shard keeps alive")]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;

/// Bytes that can be lent.
///
/// # Safety
/// As long as a value of the type, or a clone of it, exists (and however it is moved): `as_ref` of
/// it and of its clones answers the same address and length, the bytes there do not change, and
/// they may be read from any thread.
pub(super) unsafe trait Lendable: AsRef<[u8]> + Clone + 'static {
    /// Bytes of the budget for leases that a view of the value takes, however short it is.
    fn pinned(&self) -> usize {
        self.as_ref().len()
    }
}

// SAFETY: the memory is a runtime's buffer behind an `Rc` (or inside glommio's own), which stays in
// its place; it is frozen, or a finished read that nobody writes to again.
unsafe impl Lendable for super::buffer::RealBytes {
    /// At least half of what the buffer was charged with: one of 1 MiB + 4 KiB is charged 2 MiB,
    /// and one that met the end of a file was charged for all that was asked for. So leases keep at
    /// most twice their bytes from those who want to read (`Limits::read_bytes` allows for that).
    fn pinned(&self) -> usize {
        self.as_ref().len().max(self.charged() / 2)
    }
}

/// The end of the stack of returned slots, and of every list in it.
const NONE: u32 = u32::MAX;

/// The leases of one shard, local to its thread.
pub(super) struct Leases<T: Lendable> {
    returns: Arc<Returns>,
    /// What each slot keeps alive.
    held: RefCell<Vec<Option<T>>>,
    free: RefCell<Vec<u32>>,
    /// Leases out on each buffer, by the buffer's address: one that is lent to a hundred readers
    /// pins its memory once and is counted once.
    buffers: RefCell<HashMap<usize, usize>>,
    bytes: Cell<usize>,
    bytes_max: usize,
    copied: Cell<u64>,
}

/// The returned slots: a stack, linked through the slots themselves.
struct Returns {
    head: AtomicU32,
    next: Box<[AtomicU32]>,
}

/// The far end of a lease: what a `Bytes` owns.
struct View {
    start: NonNull<u8>,
    len: usize,
    slot: u32,
    returns: Arc<Returns>,
}

// SAFETY: a view reads memory that, by the contract of `Lendable`, any thread may read as long as
// the slot holds its value; the slot is emptied only after the view was dropped. It drops nothing of
// the value itself.
unsafe impl Send for View {}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` and `len` are a part of the slot's value, which outlives `self`: the slot
        // is taken back only after `drop` below has pushed it. Where the shard ends first, the
        // value is leaked.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.returns.push(self.slot);
    }
}

impl Returns {
    fn push(&self, slot: u32) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            self.next[slot as usize].store(head, Ordering::Relaxed);
            // Release: reads through the view, and the link, are done before the shard sees it.
            match self.head.compare_exchange_weak(head, slot, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Empties the stack. Nobody pops a single slot, so there is no ABA: a slot is on the stack
    /// once, and comes back only after it was lent anew.
    fn take(&self) -> u32 {
        if self.head.load(Ordering::Relaxed) == NONE {
            return NONE;
        }
        self.head.swap(NONE, Ordering::Acquire)
    }
}

impl<T: Lendable> Leases<T> {
    /// A table of `slots` leases over at most `bytes_max` bytes of distinct buffers.
    pub(super) fn new(slots: usize, bytes_max: usize) -> Self {
        let slots = u32::try_from(slots).unwrap_or(NONE).min(NONE - 1);
        Leases {
            returns: Arc::new(Returns {
                head: AtomicU32::new(NONE),
                next: (0..slots).map(|_| AtomicU32::new(NONE)).collect(),
            }),
            held: RefCell::new((0..slots).map(|_| None).collect()),
            free: RefCell::new((0..slots).rev().collect()),
            buffers: RefCell::new(HashMap::with_capacity(slots as usize)),
            bytes: Cell::new(0),
            bytes_max,
            copied: Cell::new(0),
        }
    }

    /// Bytes `range` of `from` for any thread: a view, or a copy where slots or bytes are used up.
    /// Panics where `range` is not within `from`.
    pub(super) fn lend(&self, from: &T, range: Range<usize>) -> Bytes {
        let whole = from.as_ref();
        let part = &whole[range];
        if part.is_empty() {
            return Bytes::new();
        }
        self.reclaim();
        let Some(slot) = self.occupy(from) else {
            self.copied.set(self.copied.get() + 1);
            return Bytes::copy_from_slice(part);
        };
        let view = View {
            start: NonNull::from(part).cast(),
            len: part.len(),
            slot,
            returns: Arc::clone(&self.returns),
        };
        Bytes::from_owner(view)
    }

    /// A slot that holds a clone of `from`, or None where the budget says no.
    fn occupy(&self, from: &T) -> Option<u32> {
        let (buffer, len) = buffer_of(from);
        let mut buffers = self.buffers.borrow_mut();
        let lent = buffers.contains_key(&buffer);
        let bytes = self.bytes.get() + if lent { 0 } else { len };
        if bytes > self.bytes_max {
            return None;
        }
        let slot = self.free.borrow_mut().pop()?;
        *buffers.entry(buffer).or_insert(0) += 1;
        self.bytes.set(bytes);
        self.held.borrow_mut()[slot as usize] = Some(from.clone());
        Some(slot)
    }

    /// Takes back every lease that was dropped, and answers how many that were.
    pub(super) fn reclaim(&self) -> usize {
        let mut slot = self.returns.take();
        let mut count = 0;
        while slot != NONE {
            let next = self.returns.next[slot as usize].load(Ordering::Relaxed);
            self.vacate(slot);
            slot = next;
            count += 1;
        }
        count
    }

    fn vacate(&self, slot: u32) {
        let value = self.held.borrow_mut()[slot as usize].take().expect("a lease returns once");
        let (buffer, len) = buffer_of(&value);
        let mut buffers = self.buffers.borrow_mut();
        let count = buffers.get_mut(&buffer).expect("a lent buffer is counted");
        *count -= 1;
        if *count == 0 {
            buffers.remove(&buffer);
            self.bytes.set(self.bytes.get() - len);
        }
        self.free.borrow_mut().push(slot);
        // Last, and outside of the borrows: giving memory back may wake a task that comes here.
        drop(buffers);
        drop(value);
    }

    /// Leases that are out, as far as the shard knows (after [`Leases::reclaim`]: exactly).
    pub(super) fn out(&self) -> usize {
        self.returns.next.len() - self.free.borrow().len()
    }

    /// Bytes of distinct buffers that leases pin.
    pub(super) fn bytes_out(&self) -> usize {
        self.bytes.get()
    }

    /// How often a copy was given because the budget was used up.
    pub(super) fn copied(&self) -> u64 {
        self.copied.get()
    }
}

fn buffer_of<T: Lendable>(value: &T) -> (usize, usize) {
    let bytes = value.as_ref();
    (bytes.as_ptr().addr(), value.pinned())
}

impl<T: Lendable> Drop for Leases<T> {
    fn drop(&mut self) {
        self.reclaim();
        // What is still out is read by somebody: its memory is never freed.
        for value in self.held.get_mut().drain(..).flatten() {
            std::mem::forget(value);
        }
    }
}

#[cfg(test)]
mod tests;
