//! What a poll takes of each batch that it meets: nothing, all, or a range of its messages.

use std::ops::Range;

use bytes::Bytes;
use corelog_format::UnverifiedBatch;
use corelog_io::SharedBytes;

use super::{Piece, Polled, Served};

/// With less room than this left, a poll that has something ends rather than read on.
const WORTH_A_READ: usize = 64 << 10;

/// What to do with a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Take {
    /// It lies before the place where the poll starts.
    Skip,
    /// All of it.
    Whole,
    /// These messages, by index.
    Part(Range<u32>),
    /// Nothing more: a limit or the end was reached.
    Stop,
}

/// Collects a reply within the limits of its query.
pub(crate) struct Selection<S> {
    next: u64,
    end: u64,
    messages_left: u32,
    bytes_left: usize,
    first: Option<u64>,
    messages: u32,
    stopped: bool,
    pieces: Vec<Piece<S>>,
}

impl<S: SharedBytes> Selection<S> {
    pub(crate) fn new(from: u64, end: u64, max_messages: u32, max_bytes: usize) -> Self {
        Selection {
            next: from,
            end,
            messages_left: max_messages,
            bytes_left: max_bytes,
            first: None,
            messages: 0,
            stopped: false,
            pieces: Vec::new(),
        }
    }

    /// The next offset to serve.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn bytes_left(&self) -> usize {
        self.bytes_left
    }

    /// First offset that is certainly not served.
    pub(crate) fn until(&self) -> u64 {
        self.end.min(self.next.saturating_add(u64::from(self.messages_left)))
    }

    /// Pieces that were served.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Serves nothing more, if anything is served.
    pub(crate) fn stop(&mut self) {
        self.stopped |= self.has_any();
    }

    /// True where a next batch of this length (`None`: not known without another read) is not
    /// worth reading: something is served, and it would not fit or little room is left.
    pub(crate) fn stop_before(&mut self, len: Option<u64>) -> bool {
        let fits = match len {
            Some(len) => usize::try_from(len).is_ok_and(|len| len <= self.bytes_left),
            None => self.bytes_left >= WORTH_A_READ,
        };
        self.stopped |= self.has_any() && !fits;
        self.stopped
    }

    pub(crate) fn has_any(&self) -> bool {
        self.messages > 0
    }

    pub(crate) fn is_done(&self) -> bool {
        self.stopped || self.messages_left == 0 || self.next >= self.end
    }

    /// Decides about the batch of `count` messages from `base` on, `len` bytes long, and counts
    /// what is taken. Batches come in order.
    pub(crate) fn take(&mut self, base: u64, count: u32, len: u64) -> Take {
        let batch_end = base + u64::from(count);
        if batch_end <= self.next {
            return Take::Skip;
        }
        let low = self.next.max(base);
        let high = batch_end.min(self.end).min(low.saturating_add(u64::from(self.messages_left)));
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let too_long = self.has_any() && len > self.bytes_left;
        if self.is_done() || low >= high || too_long {
            self.stopped = true;
            return Take::Stop;
        }
        // Within one batch: both differences fit.
        let (from, to) = ((low - base) as u32, (high - base) as u32);
        self.first.get_or_insert(low);
        self.messages += to - from;
        self.messages_left -= to - from;
        self.bytes_left = self.bytes_left.saturating_sub(len);
        self.next = high;
        if to - from == count { Take::Whole } else { Take::Part(from..to) }
    }

    /// Adds bytes of a shared buffer; what continues the last piece extends it.
    pub(crate) fn view(&mut self, bytes: &S, range: Range<usize>) {
        if let Some(Piece::View { bytes: last, range: before }) = self.pieces.last_mut()
            && before.end == range.start
            && std::ptr::eq(last.as_ref(), bytes.as_ref())
        {
            before.end = range.end;
            return;
        }
        self.pieces.push(Piece::View { bytes: bytes.clone(), range });
    }

    /// Adds bytes that are not shared.
    pub(crate) fn copied(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.pieces.push(Piece::Copied(bytes));
        }
    }

    /// Adds a part of the verified batch at `batch` of `bytes`: a new header and its frames.
    pub(crate) fn part(&mut self, bytes: &S, batch: Range<usize>, messages: Range<u32>) {
        let (header, frames) = sliced(&bytes.as_ref()[batch.clone()], messages);
        self.pieces.push(Piece::Header(header));
        self.view(bytes, batch.start + frames.start..batch.start + frames.end);
    }

    /// Adds a part of a batch whose bytes had to be put together.
    pub(crate) fn copied_part(&mut self, batch: Bytes, messages: Range<u32>) {
        let (header, frames) = sliced(&batch, messages);
        self.pieces.push(Piece::Header(header));
        self.copied(batch.slice(frames));
    }

    pub(crate) fn finish(self) -> Polled<S> {
        Polled {
            pieces: self.pieces,
            messages: self.messages,
            first_offset: self.first,
            next_offset: self.next,
            end_offset: self.end,
            served: Served::FromMemory,
        }
    }
}

/// The batch was admitted or verified before: that it can be sliced is ours to keep.
fn sliced(batch: &[u8], messages: Range<u32>) -> (Box<[u8; 256]>, Range<usize>) {
    let batch = UnverifiedBatch::new(batch).and_then(UnverifiedBatch::verify_layout);
    let slice = batch.ok().and_then(|batch| batch.slice(messages));
    let slice = slice.expect("a verified batch holds the messages that its header counts");
    (Box::new(slice.header), slice.frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    type Plain = Selection<Rc<[u8]>>;

    /// Takes batches of 10 messages and 100 bytes from offset 0 on, in order.
    fn takes(mut selection: Plain) -> (Vec<Take>, Polled<Rc<[u8]>>) {
        let mut takes = Vec::new();
        for base in (0..100).step_by(10) {
            if selection.is_done() {
                break;
            }
            takes.push(selection.take(base, 10, 100));
        }
        (takes, selection.finish())
    }

    #[test]
    fn selection_table() {
        use Take::{Part, Skip, Stop, Whole};
        // from, end, max_messages, max_bytes -> what is taken, next offset
        let cases: Vec<(u64, u64, u32, usize, Vec<Take>, u64)> = vec![
            (0, 100, 10, 1000, vec![Whole], 10),
            (5, 100, 10, 1000, vec![Part(5..10), Part(0..5)], 15),
            (12, 100, 3, 1000, vec![Skip, Part(2..5)], 15),
            (0, 100, 1000, 250, vec![Whole, Whole, Stop], 20),
            (0, 100, 1000, 0, vec![Whole, Stop], 10),
            (0, 20, 1000, 10_000, vec![Whole, Whole], 20),
            (0, 100, 0, 1000, vec![], 0),
            (100, 100, 5, 1000, vec![], 100),
            (30, 100, u32::MAX, 100, vec![Skip, Skip, Skip, Whole, Stop], 40),
        ];
        for (from, end, messages, bytes, expected, next) in cases {
            let (takes, polled) = takes(Plain::new(from, end, messages, bytes));
            assert_eq!(takes, expected, "from {from} to {end}, {messages} messages, {bytes} bytes");
            assert_eq!(polled.next_offset, next);
        }
    }

    #[test]
    fn no_read_is_begun_for_what_will_not_fit() {
        let mut selection = Plain::new(0, 100, u32::MAX, WORTH_A_READ + 200);
        assert!(!selection.stop_before(Some(u64::MAX)), "the first batch is served, however long");
        selection.take(0, 10, 100);
        assert!(!selection.stop_before(None));
        assert!(!selection.stop_before(Some(WORTH_A_READ as u64 + 100)));
        selection.take(10, 10, 101);
        assert!(selection.stop_before(None));
        assert!(selection.is_done());
    }

    #[test]
    fn neighbours_in_one_buffer_become_one_view() {
        let buffer: Rc<[u8]> = (0..100u8).collect();
        let other: Rc<[u8]> = (0..100u8).collect();
        let mut selection = Plain::new(0, 1, 1, 1);
        selection.view(&buffer, 0..10);
        selection.view(&buffer, 10..20);
        selection.view(&other, 20..30);
        selection.view(&other, 40..50);
        let ranges: Vec<_> = selection.finish().pieces.iter().map(|p| p.as_ref().len()).collect();
        assert_eq!(ranges, [20, 10, 10]);
    }
}
