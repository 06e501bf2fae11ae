//! A part of a segment file that was read, or is being read, for everyone who needs it.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use corelog_io::{File, IoError, SharedBytes, align_down, align_up};

use super::plan::Cut;
use crate::signal::Signal;

/// Bytes of a segment from a batch's first byte on, rounded out to blocks.
///
/// | | position |
/// | --- | --- |
/// | `start` | the block that holds `from`: where the buffer begins |
/// | `from` | where a batch was said to begin |
/// | `to` | where the next window begins |
/// | `limit` | first byte that was not in the file yet when the read was planned: never served |
pub(crate) struct Window<S> {
    from: u64,
    to: u64,
    whole: bool,
    limit: u64,
    state: RefCell<State<S>>,
    ended: Rc<Signal>,
    /// Batches back to back that have verified, so that no other reader checks them again.
    sound: Cell<(u64, u64)>,
}

enum State<S> {
    Reading,
    Ready(S),
    /// Read and failed; the error is taken by whoever asked.
    Failed(Option<IoError>),
}

impl<S: SharedBytes> Window<S> {
    /// A window that is about to be read; bytes at `limit` and above are not served.
    pub(crate) fn new(cut: Cut, limit: u64) -> Self {
        let Cut { from, to, whole } = cut;
        let state = RefCell::new(State::Reading);
        let sound = Cell::new((from, from));
        Window { from, to, whole, limit, state, ended: Rc::default(), sound }
    }

    pub(crate) fn from(&self) -> u64 {
        self.from
    }

    pub(crate) fn to(&self) -> u64 {
        self.to
    }

    /// True where a batch begins at [`Window::to`], as far as the index says.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// File position of the buffer's first byte.
    pub(crate) fn start(&self) -> u64 {
        align_down(self.from)
    }

    /// Bytes that are read: whole blocks.
    pub(crate) fn len(&self) -> usize {
        (align_up(self.to) - self.start()) as usize
    }

    /// Memory that the window costs: buffers come in powers of two.
    pub(crate) fn cost(&self) -> usize {
        self.len().next_power_of_two()
    }

    pub(crate) fn is_failed(&self) -> bool {
        matches!(*self.state.borrow(), State::Failed(_))
    }

    /// The bytes, once they are there.
    pub(crate) fn bytes(&self) -> Option<S> {
        match &*self.state.borrow() {
            State::Ready(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// The part of `bytes`, the window's, from `position` on that may be served.
    pub(crate) fn range(&self, bytes: &S, position: u64) -> Range<usize> {
        let end = (self.start() + bytes.as_ref().len() as u64).min(self.limit);
        let from = position.clamp(self.start(), end);
        (from - self.start()) as usize..(end - self.start()) as usize
    }

    /// True where `len` bytes from `position` on can be had from the window when it is ready, or
    /// the file ends before.
    pub(crate) fn covers(&self, position: u64, len: u64) -> bool {
        let (asked, need) = (align_up(self.to).min(self.limit), position.saturating_add(len));
        if !(self.from..asked).contains(&position) {
            return false;
        }
        match &*self.state.borrow() {
            State::Ready(bytes) if bytes.as_ref().len() < self.len() => true,
            _ => need <= asked,
        }
    }

    /// True where the batch at `range` has verified, for whoever knows that one begins there.
    pub(crate) fn is_sound(&self, range: &Range<u64>) -> bool {
        let (from, to) = self.sound.get();
        from <= range.start && range.end <= to
    }

    /// Remembers that the batch at `range` has verified.
    pub(crate) fn verified(&self, range: Range<u64>) {
        let (from, to) = self.sound.get();
        if range.start == to {
            self.sound.set((from, range.end));
        } else if from == to {
            self.sound.set((range.start, range.end));
        }
    }

    /// Reads the window. Whoever waits is woken, also where the task ends before its time.
    pub(crate) async fn read<F: File<Bytes = S>>(self: Rc<Self>, file: Rc<F>) -> usize {
        let reading = Reading(&self);
        let read = file.read_at(self.start(), self.len()).await;
        let len = read.as_ref().map_or(0, |bytes| bytes.as_ref().len());
        reading.ends(match read {
            Ok(bytes) => State::Ready(bytes),
            Err(error) => State::Failed(Some(error)),
        });
        len
    }

    /// Ends when the read has, well or not. Cancel-safe.
    pub(crate) async fn ended(&self) {
        let ended = self.ended.wait();
        if matches!(*self.state.borrow(), State::Reading) {
            ended.await;
        }
    }

    /// The error of the read, for one of those who asked.
    pub(crate) fn take_error(&self) -> Option<IoError> {
        match &mut *self.state.borrow_mut() {
            State::Failed(error) => error.take(),
            _ => None,
        }
    }
}

/// Ends the wait of all when it is dropped.
struct Reading<'a, S>(&'a Window<S>);

impl<S> Reading<'_, S> {
    fn ends(&self, state: State<S>) {
        *self.0.state.borrow_mut() = state;
    }
}

impl<S> Drop for Reading<'_, S> {
    fn drop(&mut self) {
        {
            let mut state = self.0.state.borrow_mut();
            if matches!(*state, State::Reading) {
                *state = State::Failed(None);
            }
        }
        self.0.ended.raise();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(from: u64, to: u64, limit: u64, bytes: usize) -> Window<Rc<[u8]>> {
        let window = Window::new(Cut { from, to, whole: true }, limit);
        *window.state.borrow_mut() = State::Ready(vec![7; bytes].into());
        window
    }

    #[test]
    fn a_window_is_its_blocks_and_never_more_than_was_written() {
        let whole = window(5_000, 20_000, u64::MAX, 16 << 10);
        assert_eq!((whole.start(), whole.len(), whole.cost()), (4_096, 16 << 10, 16 << 10));
        let bytes = whole.bytes().unwrap();
        assert_eq!(whole.range(&bytes, 5_000), 904..16 << 10);
        // position, length -> covered
        for (position, len, is) in [
            (4_999, 1, false),
            (5_000, 15_480, true),
            (5_000, 15_481, false),
            (20_479, 1, true),
            (20_480, 1, false),
        ] {
            assert_eq!(whole.covers(position, len), is, "{len} at {position}");
        }
        // The last block is written up to 20,000 only.
        let active = window(5_000, 20_000, 20_000, 16 << 10);
        assert_eq!(active.range(&active.bytes().unwrap(), 19_000), 14_904..15_904);
        assert!(active.covers(19_000, 1_000) && !active.covers(19_000, 1_001));
        // The file was shorter than asked for: whoever needs more is told by the bytes.
        let short = window(5_000, 20_000, u64::MAX, 5_000);
        assert!(short.covers(6_000, 1_000_000));
        assert_eq!(short.range(&short.bytes().unwrap(), 6_000), 1_904..5_000);
        assert_eq!(short.range(&short.bytes().unwrap(), 12_000), 5_000..5_000);
    }

    #[test]
    fn only_an_unbroken_run_counts_as_verified() {
        let window = window(100, 20_000, u64::MAX, 20 << 10);
        window.verified(300..400);
        assert!(!window.is_sound(&(100..300)) && window.is_sound(&(300..400)));
        window.verified(500..600);
        assert!(!window.is_sound(&(500..600)), "400..500 is not known");
        window.verified(400..500);
        assert!(window.is_sound(&(300..500)) && !window.is_sound(&(400..501)));
    }
}
