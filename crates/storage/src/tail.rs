//! The end of the log in memory: one open buffer over a block-aligned window of the active file.
//!
//! Blocks are 4096 bytes and batches are not aligned, so the last, partial block is kept and
//! rewritten with what follows. With 4,094 bytes in the log, a batch of 10 bytes touches two
//! blocks: the window opens at 0, the 4,094 bytes that are already in the file are copied in front
//! (the carry), and the write covers 0..8192 with 4,088 zeros behind byte 4,104. Afterwards the
//! carry is the 8 bytes of the second block.

use corelog_io::{BLOCK, Buf, align_down, align_up};

/// The undispatched end of the active segment. Positions are bytes in the segment's file.
pub(crate) struct Tail<B> {
    window: Option<Window<B>>,
    /// Logical end: the next byte goes here.
    end: u64,
    /// First byte that no dispatched write covers; `sent <= end`.
    sent: u64,
    /// Bytes of the block that holds `sent`, up to `sent`: an idle partition keeps this much and
    /// no buffer.
    carry: Box<[u8; BLOCK]>,
}

struct Window<B> {
    buf: B,
    /// File position of the buffer's first byte, a multiple of the block.
    start: u64,
    capacity: usize,
}

/// A piece cut off the tail, ready to be written: `bytes` go to `start`; `from..end` is new.
pub(crate) struct Cut<S> {
    pub(crate) bytes: S,
    pub(crate) start: u64,
    pub(crate) from: u64,
    pub(crate) end: u64,
    /// Memory that the bytes hold on to: the whole buffer, however little of it is used.
    pub(crate) held: usize,
}

impl<B: Buf> Tail<B> {
    /// A tail at logical end `end`; `last_block` are the bytes of the file from the block boundary
    /// at or below `end` up to `end`.
    pub(crate) fn new(end: u64, last_block: &[u8]) -> Self {
        let kept = (end - align_down(end)) as usize;
        assert_eq!(last_block.len(), kept, "the carry must end at the logical end {end}");
        let mut carry = Box::new([0; BLOCK]);
        carry[..kept].copy_from_slice(last_block);
        Tail { window: None, end, sent: end, carry }
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// First position that no dispatched write covers.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// True where bytes wait to be dispatched.
    pub(crate) fn is_dirty(&self) -> bool {
        self.end > self.sent
    }

    /// Bytes that fit before the window is full; 0 without a window.
    pub(crate) fn room(&self) -> usize {
        match &self.window {
            Some(window) => window.capacity - (self.end - window.start) as usize,
            None => 0,
        }
    }

    /// True where there is a window and it is full: it must be cut before anything else.
    pub(crate) fn is_full(&self) -> bool {
        self.window.is_some() && self.room() == 0
    }

    /// Capacity of the window; 0 without one.
    pub(crate) fn capacity(&self) -> usize {
        self.window.as_ref().map_or(0, |window| window.capacity)
    }

    /// Bytes that a window opened now would hold before any new byte.
    pub(crate) fn carry_len(&self) -> usize {
        (self.end - align_down(self.end)) as usize
    }

    /// Opens a window on `buf` (its whole capacity) at the block of the logical end. Only with a
    /// clean tail: a window that holds nothing new may be replaced by a larger one.
    pub(crate) fn open(&mut self, mut buf: B) {
        assert!(!self.is_dirty(), "a window with undispatched bytes cannot be replaced");
        let (start, carry) = (align_down(self.end), self.carry_len());
        let bytes = buf.as_mut();
        bytes[..carry].copy_from_slice(&self.carry[..carry]);
        let capacity = bytes.len();
        self.window = Some(Window { buf, start, capacity });
    }

    /// Copies as much of `bytes` as fits and says how much that was.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.room());
        if let Some(window) = &mut self.window {
            let at = (self.end - window.start) as usize;
            window.buf.as_mut()[at..at + count].copy_from_slice(&bytes[..count]);
            self.end += count as u64;
        }
        count
    }

    /// Undispatched bytes, for readers: they begin at [`Tail::sent`].
    pub(crate) fn unsent(&self) -> &[u8] {
        match &self.window {
            Some(window) => {
                let from = (self.sent - window.start) as usize;
                let to = (self.end - window.start) as usize;
                &window.buf.as_ref()[from..to]
            }
            None => &[],
        }
    }

    /// Cuts everything off for dispatch, zero-padded to the block, and keeps the partial last
    /// block as carry. `None` where nothing is new.
    pub(crate) fn cut(&mut self) -> Option<Cut<B::Bytes>> {
        if !self.is_dirty() {
            return None;
        }
        let Window { mut buf, start, capacity } = self.window.take()?;
        let used = (self.end - start) as usize;
        let padded = (align_up(self.end) - start) as usize;
        // Buffers come with another write's bytes in them: they must not reach the file.
        buf.as_mut()[used..padded].fill(0);
        let kept = self.carry_len();
        self.carry[..kept].copy_from_slice(&buf.as_ref()[used - kept..used]);
        let (from, end, held) = (self.sent, self.end, capacity);
        let cut = Cut { bytes: buf.freeze(padded), start, from, end, held };
        self.sent = self.end;
        Some(cut)
    }

    /// Gives the window back with all that is in it: nothing of it will be dispatched or read.
    pub(crate) fn give_up(&mut self) {
        self.window = None;
    }

    /// Gives the window back where it holds nothing new.
    pub(crate) fn release(&mut self) {
        if !self.is_dirty() {
            self.window = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain(Vec<u8>);
    impl AsRef<[u8]> for Plain {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl AsMut<[u8]> for Plain {
        fn as_mut(&mut self) -> &mut [u8] {
            &mut self.0
        }
    }
    impl Buf for Plain {
        type Bytes = std::rc::Rc<[u8]>;
        fn freeze(mut self, len: usize) -> Self::Bytes {
            self.0.truncate(len);
            self.0.into()
        }
    }
    fn buf(blocks: usize) -> Plain {
        Plain(vec![0xA5; blocks * BLOCK])
    }

    #[test]
    fn the_worked_example_of_4094_and_10() {
        let mut tail = Tail::new(4094, &[7; 4094]);
        assert_eq!((tail.room(), tail.is_dirty()), (0, false));
        tail.open(buf(2));
        assert_eq!(tail.room(), 8192 - 4094);
        assert_eq!(tail.copy(&[9; 10]), 10);
        assert_eq!(tail.unsent(), &[9; 10]);
        let cut = tail.cut().unwrap();
        assert_eq!((cut.start, cut.from, cut.end, cut.bytes.len()), (0, 4094, 4104, 8192));
        assert_eq!(&cut.bytes[..4094], &[7; 4094]);
        assert_eq!(&cut.bytes[4094..4104], &[9; 10]);
        assert!(cut.bytes[4104..].iter().all(|b| *b == 0), "padding is zeroed");
        assert_eq!((tail.carry_len(), tail.sent(), tail.end()), (8, 4104, 4104));
        tail.open(buf(1));
        tail.copy(&[3]);
        let cut = tail.cut().unwrap();
        assert_eq!((cut.start, cut.from, cut.end), (4096, 4104, 4105));
        assert_eq!(&cut.bytes[..9], &[9, 9, 9, 9, 9, 9, 9, 9, 3]);
    }

    #[test]
    fn a_full_window_carries_nothing() {
        let mut tail = Tail::new(0, &[]);
        tail.open(buf(1));
        assert_eq!(tail.copy(&[1; 5000]), 4096);
        assert!(tail.is_full());
        let cut = tail.cut().unwrap();
        assert_eq!((cut.start, cut.end, cut.bytes.len()), (0, 4096, 4096));
        assert_eq!(tail.carry_len(), 0);
        assert!(tail.cut().is_none());
    }

    #[test]
    fn a_clean_window_may_be_replaced_by_a_larger_one() {
        let mut tail = Tail::new(10, &[1; 10]);
        tail.open(buf(1));
        tail.open(buf(4));
        assert_eq!(tail.room(), 4 * 4096 - 10);
        tail.copy(&[2; 5]);
        assert_eq!(
            &tail.cut().unwrap().bytes[..15],
            &[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]
        );
    }
}
