//! One budget for the two kinds of buffers that are kept for readers: dispatched buffers of the
//! tails, and windows read from files.
//!
//! Either kind may use what the other does not need, and is left its half where both want more: a
//! consumer that reads old data does not push the tails out, nor appends what was read ahead.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use corelog_io::SharedBytes;

use crate::memory::Memory;
use crate::read::{Window, Windows};

pub(super) struct Cache<S> {
    limit: usize,
    /// Written buffers of all tails, the oldest first.
    chunks: VecDeque<CachedChunk<S>>,
    chunk_bytes: usize,
    pub(super) windows: Windows<S>,
}

struct CachedChunk<S> {
    memory: Weak<RefCell<Memory<S>>>,
    number: u64,
    bytes: usize,
}

/// What the cache gave up. To be dropped where the cache is not borrowed.
pub(super) enum Evicted<S> {
    Chunk { memory: Weak<RefCell<Memory<S>>>, number: u64 },
    Window(Rc<Window<S>>),
}

impl<S: SharedBytes> Evicted<S> {
    /// Lets go of the bytes. Readers that hold them keep them.
    pub(super) fn drop_bytes(self) {
        match self {
            Evicted::Chunk { memory, number } => {
                if let Some(memory) = memory.upgrade() {
                    memory.borrow_mut().evict(number);
                }
            }
            Evicted::Window(window) => drop(window),
        }
    }
}

impl<S: SharedBytes> Cache<S> {
    pub(super) fn new(limit: usize) -> Self {
        Cache { limit, chunks: VecDeque::new(), chunk_bytes: 0, windows: Windows::new() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunk_bytes + self.windows.bytes()
    }

    pub(super) fn push_chunk(
        &mut self,
        memory: &Rc<RefCell<Memory<S>>>,
        number: u64,
        bytes: usize,
    ) {
        self.chunk_bytes += bytes;
        self.chunks.push_back(CachedChunk { memory: Rc::downgrade(memory), number, bytes });
    }

    /// True where `window` may be read ahead: what is read ahead and waits for its reader stays
    /// within the windows' half, so that nothing of it is pushed out before it was used.
    pub(super) fn has_room(&self, window: &Window<S>) -> bool {
        self.windows.unread_bytes() + window.cost() <= self.limit / 2
    }

    /// Gives up one thing, where the budget is exceeded.
    pub(super) fn evict_excess(&mut self) -> Option<Evicted<S>> {
        if self.bytes() <= self.limit {
            return None;
        }
        if self.windows.bytes() > self.limit / 2 || self.chunks.is_empty() {
            return self.windows.evict().map(Evicted::Window);
        }
        self.evict_chunk()
    }

    /// Gives up the oldest written buffer.
    pub(super) fn evict_chunk(&mut self) -> Option<Evicted<S>> {
        let CachedChunk { memory, number, bytes } = self.chunks.pop_front()?;
        self.chunk_bytes -= bytes;
        Some(Evicted::Chunk { memory, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Cut;

    type Plain = Cache<Rc<[u8]>>;

    fn window(from: u64, blocks: u64) -> Rc<Window<Rc<[u8]>>> {
        Rc::new(Window::new(Cut { from, to: from + blocks * 4096, whole: true }, u64::MAX))
    }

    /// What goes, one letter each: `c` a chunk, `w` a window.
    fn excess(cache: &mut Plain) -> String {
        let mut gone = String::new();
        while let Some(evicted) = cache.evict_excess() {
            gone.push(if matches!(evicted, Evicted::Chunk { .. }) { 'c' } else { 'w' });
            evicted.drop_bytes();
        }
        gone
    }

    #[test]
    fn each_kind_is_left_its_half() {
        let memory = Rc::new(RefCell::new(Memory::new(0)));
        // chunks and windows of a block each, in a budget of eight -> what goes
        for (chunks, windows, gone) in [
            (8, 0, ""),
            (0, 8, ""),
            (10, 0, "cc"),
            (0, 10, "ww"),
            (8, 3, "ccc"),
            (3, 8, "www"),
            (6, 6, "wwcc"),
            (100, 4, &"c".repeat(96)),
        ] {
            let mut cache = Plain::new(8 * 4096);
            for number in 0..chunks {
                cache.push_chunk(&memory, number, 4096);
            }
            for n in 0..windows {
                cache.windows.insert(1, 0, &window(n * 4096, 1), true);
            }
            assert_eq!(excess(&mut cache), gone, "{chunks} chunks, {windows} windows");
        }
    }

    #[test]
    fn what_is_read_ahead_stays_within_its_half() {
        let mut cache = Plain::new(8 * 4096);
        assert!(cache.has_room(&window(0, 4)) && !cache.has_room(&window(0, 5)));
        let first = window(0, 3);
        cache.windows.insert(1, 0, &first, false);
        assert!(!cache.has_room(&window(4 * 4096, 1)), "three blocks cost four");
        cache.windows.touch(1, 0, &first);
        assert!(cache.has_room(&window(4 * 4096, 4)));
    }
}
