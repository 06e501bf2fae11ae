//! Every byte that comes back is compared with what was sent; the first difference is named.
//!
//! A checker follows one partition from offset 0. It takes views as they come: cut anywhere,
//! batches whole or sliced by a poll's limits. From the layout it knows which batch must be next,
//! from the id in its first frame which producer sent it; a producer's batches must come in its
//! order, each once. All bytes are checked: header, frames, and both checksums with them.

use std::fmt;

use corelog_format::layout::frame_header;
use corelog_format::{BATCH_HEADER_LEN, BatchHeader, FRAME_HEADER_LEN};

use crate::content::{BatchId, Content};

/// Bytes that differ from what was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) partition: u32,
    /// Offset of the message that was next.
    pub(crate) offset: u64,
    pub(crate) what: What,
}

/// What is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// No batch header, or one that this batch cannot have.
    Header { expected: String, found: String },
    /// The first frame belongs to another batch than any that could come here.
    Stranger { found: u128 },
    /// A producer's batches came twice, out of order, or with one left out.
    Order { producer: u16, expected: u32, found: u32 },
    /// A byte of a frame, counted from the batch's first frame.
    Frame { position: usize, expected: u8, found: u8 },
    /// Fewer messages than were appended.
    Missing { appended: u64 },
    /// The reply ended inside of a batch.
    Cut,
    /// The reply says another next offset than its messages do.
    NextOffset { said: u64 },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { partition, offset, what } = self;
        write!(f, "partition {partition}, offset {offset}: ")?;
        match what {
            What::Header { expected, found } => {
                write!(f, "batch header: expected {expected}, found {found}")
            }
            What::Stranger { found } => {
                write!(f, "message id {found:#034x} was not sent in this run to this partition")
            }
            What::Order { producer, expected, found } => {
                write!(f, "producer {producer}'s batch {expected} is next, found its batch {found}")
            }
            What::Frame { position, expected, found } => write!(
                f,
                "byte {position} of the batch's frames: {expected:#04x} is due, found {found:#04x}"
            ),
            What::Missing { appended } => {
                write!(f, "no more messages come, {appended} were appended")
            }
            What::Cut => write!(f, "the reply ends inside of a batch"),
            What::NextOffset { said } => {
                write!(f, "the reply ends here and says that offset {said} is next")
            }
        }
    }
}

/// Follows one partition.
#[derive(Debug)]
pub(crate) struct Checker<'a> {
    content: &'a Content,
    round: u32,
    partition: u32,
    /// Offset of the next message; the whole place in the log follows from it.
    next_offset: u64,
    /// Sequence of the next batch of each producer.
    next_sequence: Vec<u32>,
    /// The batch that `next_offset` stands in, once its first frame was seen.
    id: Option<BatchId>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Gathers a header, and the first frame's header behind it where the batch's first frame
    /// comes.
    Head { bytes: Vec<u8> },
    /// Compares frames: bytes of the batch's frames from `at` up to `end`.
    Frames { at: usize, end: usize },
}

impl<'a> Checker<'a> {
    /// A checker of `partition` in `round`, for `producers` producers.
    pub(crate) fn new(content: &'a Content, round: u32, partition: u32, producers: u16) -> Self {
        Checker {
            content,
            round,
            partition,
            next_offset: 0,
            next_sequence: vec![0; usize::from(producers)],
            id: None,
            state: State::Head { bytes: Vec::new() },
        }
    }

    /// Offset of the next message that has to come.
    pub(crate) fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Takes the next bytes of a reply.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Mismatch> {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Head { .. } => self.feed_head(bytes)?,
                State::Frames { at, end } => self.feed_frames(bytes, at, end)?,
            };
        }
        Ok(())
    }

    /// A reply has ended, not inside of a batch, and `said` is the offset it named as the next.
    pub(crate) fn end_reply(&self, said: u64) -> Result<(), Mismatch> {
        match &self.state {
            State::Head { bytes } if !bytes.is_empty() => Err(self.mismatch(What::Cut)),
            State::Frames { .. } => Err(self.mismatch(What::Cut)),
            State::Head { .. } if said != self.next_offset => {
                Err(self.mismatch(What::NextOffset { said }))
            }
            State::Head { .. } => Ok(()),
        }
    }

    /// The log has ended, and each producer had appended this many batches.
    pub(crate) fn end_log(&self, appended: &[u32]) -> Result<(), Mismatch> {
        if self.next_sequence == appended {
            return Ok(());
        }
        let batches: u64 = appended.iter().map(|batches| u64::from(*batches)).sum();
        let appended = batches * u64::from(self.content.message_count());
        Err(self.mismatch(What::Missing { appended }))
    }

    fn feed_head<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Mismatch> {
        let first = self.first_frame_index();
        // The first frame says which batch it is, and the header is checked against that.
        let needed = BATCH_HEADER_LEN + if first == 0 { FRAME_HEADER_LEN } else { 0 };
        let State::Head { bytes: head } = &mut self.state else { unreachable!("asked by feed") };
        let (now, rest) = bytes.split_at(bytes.len().min(needed - head.len()));
        head.extend_from_slice(now);
        if head.len() < needed {
            return Ok(rest);
        }
        let head = std::mem::take(head);
        let (header, frame) = head.split_at(BATCH_HEADER_LEN);
        if first == 0 {
            self.meet(frame)?;
        }
        let frames = self.check_header(header, first)?;
        let frame_len = self.content.frame_len();
        let start = first as usize * frame_len;
        let end = start + frames as usize * frame_len;
        self.state = State::Frames { at: start, end };
        if first == 0 {
            self.feed_frames(frame, 0, end)?;
        }
        Ok(rest)
    }

    /// Index of the next message in its batch: all batches hold equally many.
    fn first_frame_index(&self) -> u32 {
        (self.next_offset % u64::from(self.content.message_count())) as u32
    }

    /// Learns from a batch's first frame which batch it is.
    fn meet(&mut self, frame: &[u8]) -> Result<(), Mismatch> {
        let id = frame[frame_header::ID.at..frame_header::ID.end()].try_into();
        let id = u128::from_le_bytes(id.expect("an id has 16 bytes"));
        let stranger = || self.mismatch(What::Stranger { found: id });
        let batch = BatchId::decode(id).ok_or_else(stranger)?;
        let sequence = self.next_sequence.get(usize::from(batch.producer)).ok_or_else(stranger)?;
        if batch.round != self.round || batch.partition != self.partition {
            return Err(stranger());
        }
        if batch.sequence != *sequence {
            let (producer, found) = (batch.producer, batch.sequence);
            return Err(self.mismatch(What::Order { producer, expected: *sequence, found }));
        }
        self.next_sequence[usize::from(batch.producer)] += 1;
        self.id = Some(batch);
        Ok(())
    }

    /// Checks every byte of a header and returns its message count.
    fn check_header(&self, header: &[u8], first: u32) -> Result<u32, Mismatch> {
        let wrong =
            |expected: String, found: String| self.mismatch(What::Header { expected, found });
        let found = BatchHeader::parse(header)
            .map_err(|error| wrong("a valid one".to_owned(), error.to_string()))?;
        let left = self.content.message_count() - first;
        if found.message_count > left {
            let expected = format!("at most {left} messages");
            return Err(wrong(expected, format!("{} messages", found.message_count)));
        }
        let id = self.id.expect("the first frame of this batch was met");
        let stamped = BatchHeader {
            partition_id: u64::from(self.partition),
            base_offset: self.next_offset - u64::from(first),
            ..found
        };
        let expected = self.content.stored_header(id, first, found.message_count, &stamped);
        if found != expected {
            return Err(wrong(format!("{expected:?}"), format!("{found:?}")));
        }
        Ok(found.message_count)
    }

    fn feed_frames<'b>(
        &mut self,
        bytes: &'b [u8],
        at: usize,
        end: usize,
    ) -> Result<&'b [u8], Mismatch> {
        let (now, rest) = bytes.split_at(bytes.len().min(end - at));
        self.compare(now, at)?;
        let at = at + now.len();
        let is_whole = at == end;
        self.state = State::Frames { at, end };
        if is_whole {
            let frames = end / self.content.frame_len();
            let first = self.first_frame_index() as usize;
            self.next_offset += (frames - first) as u64;
            self.state =
                State::Head { bytes: Vec::with_capacity(BATCH_HEADER_LEN + FRAME_HEADER_LEN) };
        }
        Ok(rest)
    }

    /// `bytes` are those at `at` of this batch's frames.
    fn compare(&self, bytes: &[u8], at: usize) -> Result<(), Mismatch> {
        let id = self.id.expect("the first frame of this batch was met");
        let frame_len = self.content.frame_len();
        let mut rest = bytes;
        let mut position = at;
        while !rest.is_empty() {
            let first_frame_header;
            let expected = if position < FRAME_HEADER_LEN {
                first_frame_header = self.content.first_frame_header(id);
                &first_frame_header[position..]
            } else if position < frame_len {
                &self.content.first_frame(id)[position..]
            } else {
                &self.content.shared_frames(id)[position - frame_len..]
            };
            let len = rest.len().min(expected.len());
            if rest[..len] != expected[..len] {
                return Err(self.first_difference(&rest[..len], &expected[..len], position));
            }
            rest = &rest[len..];
            position += len;
        }
        Ok(())
    }

    fn first_difference(&self, found: &[u8], expected: &[u8], position: usize) -> Mismatch {
        let mut pairs = found.iter().zip(expected).enumerate();
        let (at, (found, expected)) =
            pairs.find(|(_, (found, expected))| found != expected).expect("the slices differ");
        self.mismatch(What::Frame { position: position + at, expected: *expected, found: *found })
    }

    fn mismatch(&self, what: What) -> Mismatch {
        Mismatch { partition: self.partition, offset: self.next_offset, what }
    }
}

#[cfg(test)]
mod tests {
    use corelog_format::{UnverifiedBatch, admit};

    use super::*;
    use crate::content::Outbox;

    const ROUND: u32 = 2;
    const PARTITION: u32 = 5;

    /// A batch as the log stores it.
    fn stored(content: &Content, producer: u16, sequence: u32, base_offset: u64) -> Vec<u8> {
        let id = BatchId { round: ROUND, producer, partition: PARTITION, sequence };
        let batch = Outbox::new(content).batch(id);
        let time = 1_000_000 + base_offset;
        let header = admit(&batch).unwrap().stamp(u64::from(PARTITION), base_offset, time);
        [&header, &batch[BATCH_HEADER_LEN..]].concat()
    }

    /// Three batches of two producers, back to back.
    fn log(content: &Content) -> Vec<u8> {
        let order = [(0, 0), (1, 0), (0, 1)];
        let batches = order.iter().enumerate().map(|(number, (producer, sequence))| {
            let base_offset = number as u64 * u64::from(content.message_count());
            stored(content, *producer, *sequence, base_offset)
        });
        batches.collect::<Vec<_>>().concat()
    }

    fn check(content: &Content, pieces: &[&[u8]]) -> Result<(), Mismatch> {
        let mut checker = Checker::new(content, ROUND, PARTITION, 2);
        for piece in pieces {
            checker.feed(piece)?;
        }
        checker.end_reply(checker.next_offset())?;
        checker.end_log(&[2, 1])
    }

    #[test]
    fn a_good_log_passes_however_its_views_are_cut() {
        for (messages, payload) in [(1, 0), (2, 7), (9, 40)] {
            let content = Content::new(1, messages, payload).unwrap();
            let log = log(&content);
            check(&content, &[&log]).unwrap();
            let bytes: Vec<&[u8]> = log.chunks(1).collect();
            check(&content, &bytes).unwrap();
            for cut in 1..log.len() {
                let (front, back) = log.split_at(cut);
                check(&content, &[front, back]).unwrap();
            }
        }
    }

    #[test]
    fn every_byte_is_checked() {
        for (messages, payload) in [(1, 0), (3, 11)] {
            let content = Content::new(1, messages, payload).unwrap();
            let log = log(&content);
            for at in 0..log.len() {
                let mut damaged = log.clone();
                damaged[at] ^= 0x10;
                assert!(check(&content, &[&damaged]).is_err(), "byte {at} of {}", log.len());
            }
        }
    }

    #[test]
    fn sliced_batches_continue_where_the_poll_before_ended() {
        let content = Content::new(1, 5, 9).unwrap();
        let batch = stored(&content, 0, 0, 0);
        let batch = UnverifiedBatch::new(&batch).unwrap().verify().unwrap();
        let slice = |frames: std::ops::Range<u32>| {
            let slice = batch.slice(frames).unwrap();
            [&slice.header, &batch.bytes()[slice.frames]].concat()
        };
        let run = |parts: &[Vec<u8>]| {
            let mut checker = Checker::new(&content, ROUND, PARTITION, 1);
            for part in parts {
                checker.feed(part)?;
                checker.end_reply(checker.next_offset())?;
            }
            checker.end_log(&[1]).map(|()| checker.next_offset())
        };
        assert_eq!(run(&[slice(0..2), slice(2..3), slice(3..5)]), Ok(5));
        // A slice that repeats or leaves out a message is not what comes next.
        for wrong in [1..3, 3..4, 0..2] {
            let error = run(&[slice(0..2), slice(wrong.clone())]).unwrap_err();
            assert_eq!(error.offset, 2, "{wrong:?}: {error}");
        }
    }

    #[test]
    fn batches_that_are_not_due_are_named() {
        let content = Content::new(1, 2, 8).unwrap();
        let first = stored(&content, 0, 0, 0);
        let again = stored(&content, 0, 0, 2);
        let skipped = stored(&content, 0, 2, 2);
        for (next, found) in [(again, 0), (skipped, 2)] {
            let error = check(&content, &[&first, &next]).unwrap_err();
            assert_eq!(error.what, What::Order { producer: 0, expected: 1, found });
            assert_eq!(error.offset, 2);
        }
        // Another round's batch at the right place: a file that was not new.
        let mut checker = Checker::new(&content, ROUND + 1, PARTITION, 2);
        assert!(matches!(checker.feed(&first).unwrap_err().what, What::Stranger { .. }));
        // A producer that is not there.
        let mut checker = Checker::new(&content, ROUND, PARTITION, 0);
        assert!(matches!(checker.feed(&first).unwrap_err().what, What::Stranger { .. }));
    }

    #[test]
    fn missing_messages_and_cut_replies_are_errors() {
        let content = Content::new(1, 2, 8).unwrap();
        let log = log(&content);
        let error = check(&content, &[&log[..log.len() / 3]]).unwrap_err();
        assert_eq!(error.what, What::Missing { appended: 6 });
        let error = check(&content, &[&log[..log.len() - 1]]).unwrap_err();
        assert_eq!((error.what, error.offset), (What::Cut, 4));
        let mut checker = Checker::new(&content, ROUND, PARTITION, 2);
        checker.feed(&log).unwrap();
        assert_eq!(checker.end_reply(5).unwrap_err().what, What::NextOffset { said: 5 });
        assert_eq!(checker.end_reply(6), Ok(()));
    }

    #[test]
    fn a_difference_is_named_by_its_byte() {
        let content = Content::new(1, 2, 8).unwrap();
        let mut log = log(&content);
        let at = content.batch_len() + BATCH_HEADER_LEN + 70;
        let expected = log[at];
        log[at] = !expected;
        let error = check(&content, &[&log]).unwrap_err();
        assert_eq!(error.what, What::Frame { position: 70, expected, found: !expected });
        assert_eq!(error.offset, 2);
        assert!(error.to_string().starts_with("partition 5, offset 2: byte 70 of"), "{error}");
    }
}
