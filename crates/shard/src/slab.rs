//! Numbered slots that are made once and used for ever: a steady crossing allocates nothing.
//!
//! The first `capacity` slots are made at open. More are made only where callers hold on to answers
//! that they have got but neither read nor dropped; each step doubles what is there.

use std::sync::{OnceLock, PoisonError};

use crate::free::FreeStack;
use crate::sync::{AtomicU32, Mutex};

/// The first chunk and up to 11 doublings: 2048 times the capacity.
const CHUNKS: usize = 12;

pub(crate) struct Slab<S> {
    /// Chunk 0 holds `1 << bits` slots, chunk `k` from 1 on `1 << (bits + k - 1)`.
    chunks: [OnceLock<Box<[Entry<S>]>>; CHUNKS],
    bits: u32,
    free: FreeStack,
    /// Chunks made so far.
    made: Mutex<usize>,
}

/// Aligned to a cache line: neighbours are used by different threads.
#[repr(align(64))]
struct Entry<S> {
    link: AtomicU32,
    item: S,
}

impl<S: Default> Slab<S> {
    /// A slab with room for `capacity` slots, rounded up to a power of two, at most 2^20.
    pub(crate) fn new(capacity: usize) -> Self {
        let bits = capacity.clamp(1, 1 << 20).next_power_of_two().ilog2();
        let slab = Slab {
            chunks: [const { OnceLock::new() }; CHUNKS],
            bits,
            free: FreeStack::new(),
            made: Mutex::new(0),
        };
        if let Some(first) = slab.grow() {
            slab.give(first);
        }
        slab
    }

    /// A slot for the caller alone. `None` where the last doubling is used up too.
    pub(crate) fn take(&self) -> Option<u32> {
        self.free.pop(|slot| &self.entry(slot).link).or_else(|| self.grow())
    }

    /// Gives a slot back that [`Slab::take`] gave.
    pub(crate) fn give(&self, slot: u32) {
        self.free.push(slot, |slot| &self.entry(slot).link);
    }

    /// What is in `slot`, a number that [`Slab::take`] has given once.
    pub(crate) fn get(&self, slot: u32) -> &S {
        &self.entry(slot).item
    }

    /// All slots that there are, in use or not.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &S> {
        self.chunks.iter().filter_map(OnceLock::get).flatten().map(|entry| &entry.item)
    }

    fn entry(&self, slot: u32) -> &Entry<S> {
        let (chunk, place) = match slot >> self.bits {
            0 => (0, slot),
            times => {
                let chunk = times.ilog2();
                (chunk as usize + 1, slot - (1 << (self.bits + chunk)))
            }
        };
        let entries = self.chunks[chunk].get().expect("slot numbers come from chunks that exist");
        &entries[place as usize]
    }

    /// Makes the next chunk and gives its first slot. Rare; whoever comes meanwhile waits.
    fn grow(&self) -> Option<u32> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have grown the slab while this one waited.
        if let Some(slot) = self.free.pop(|slot| &self.entry(slot).link) {
            return Some(slot);
        }
        let first = match *made {
            0 => 0,
            CHUNKS => return None,
            chunk => 1_u32 << (self.bits + chunk as u32 - 1),
        };
        let len = first.max(1 << self.bits);
        let entry = || Entry { link: AtomicU32::new(0), item: S::default() };
        let entries = (0..len).map(|_| entry()).collect();
        assert!(self.chunks[*made].set(entries).is_ok(), "chunks are made under the lock");
        *made += 1;
        // Lowest number on top, so that few slots stay in the cache.
        (first + 1..first + len).rev().for_each(|slot| self.give(slot));
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn slots_are_distinct_and_the_last_one_used_comes_first() {
        let slab: Slab<Mutex<u32>> = Slab::new(3);
        assert_eq!(slab.iter().count(), 4);
        let all: Vec<u32> = (0..4).map(|_| slab.take().unwrap()).collect();
        assert_eq!(all, [0, 1, 2, 3]);
        slab.give(2);
        slab.give(0);
        assert_eq!((slab.take(), slab.take()), (Some(0), Some(2)));
        assert_eq!(slab.iter().count(), 4, "nothing was made anew");
    }

    #[test]
    fn a_slab_grows_where_slots_are_kept_and_ends_at_its_limit() {
        let slab: Slab<Mutex<u32>> = Slab::new(1);
        let mut seen = HashSet::new();
        for n in 0..1 << (CHUNKS - 1) {
            let slot = slab.take().unwrap();
            assert!(seen.insert(slot), "slot {slot} was given twice");
            *slab.get(slot).lock().unwrap() = n;
        }
        assert_eq!(slab.take(), None);
        assert_eq!(slab.iter().count(), seen.len());
        let sum: u64 = slab.iter().map(|item| u64::from(*item.lock().unwrap())).sum();
        assert_eq!(sum, (0..1 << (CHUNKS - 1)).sum::<u64>(), "two numbers share a slot");
        slab.give(5);
        assert_eq!(slab.take(), Some(5));
    }

    #[test]
    fn threads_share_slots_without_sharing_one() {
        let slab: Arc<Slab<Mutex<()>>> = Arc::new(Slab::new(2));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50_000 {
                        let slot = slab.take().unwrap();
                        let held = slab.get(slot).try_lock();
                        assert!(held.is_ok(), "slot {slot} has two holders");
                        drop(held);
                        slab.give(slot);
                    }
                });
            }
        });
    }
}
