//! Every byte that comes back is compared with what was sent; the first difference is named.
//!
//! A checker follows one partition from offset 0. It takes views as they come: cut anywhere,
//! batches whole or sliced by a poll's limits. From the layout it knows which batch must be next,
//! from the id in its first frame which producer sent it; a producer's batches must come in its
//! order, each once. All bytes are checked: header, frames, and both checksums with them.

use std::fmt;
use std::path::PathBuf;

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
    /// Where the batch stands, when it was read from a file.
    pub(crate) file: Option<InFile>,
}

/// A batch's place in a segment file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InFile {
    pub(crate) path: PathBuf,
    /// Of the batch's first byte.
    pub(crate) position: u64,
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
    /// An acknowledged batch of a producer is not there: its batches end before.
    Lost { producer: u16, acked: u32, found: u32 },
    /// A checksum, or what else a batch must hold by itself.
    Invalid { error: String },
    /// The reply ended inside of a batch.
    Cut,
    /// The reply says another next offset than its messages do.
    NextOffset { said: u64 },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mismatch { partition, offset, what, file } = self;
        write!(f, "partition {partition}, offset {offset}")?;
        if let Some(InFile { path, position }) = file {
            write!(f, " (batch at byte {position} of {})", path.display())?;
        }
        write!(f, ": ")?;
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
            What::Lost { producer, acked, found } => write!(
                f,
                "producer {producer} was answered for {acked} batches, and {found} are there"
            ),
            What::Invalid { error } => write!(f, "the batch is not valid: {error}"),
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
    /// Messages that have come.
    seen: u64,
    /// False until the first batch said where the log begins: its older part may be deleted.
    knows_start: bool,
    /// Whether old messages may be deleted while the log is read: the next batch may be a later one.
    may_jump: bool,
    /// Sequence of the next batch of each producer; None until its first one, where that is not
    /// known.
    next_sequence: Vec<Option<u32>>,
    /// The batch that `next_offset` stands in, once its first frame was seen.
    id: Option<BatchId>,
    /// Messages of it that have come.
    done: u32,
    state: State,
    /// Batches that have come whole, when somebody wants to know.
    whole: Option<Vec<BatchId>>,
}

#[derive(Debug)]
enum State {
    /// Gathers a header, and the first frame's header behind it where the batch's first frame
    /// comes.
    Head { bytes: Vec<u8> },
    /// Compares frames: bytes of the batch's frames from `at` up to `end`, `count` messages.
    Frames { at: usize, end: usize, count: u32 },
}

impl<'a> Checker<'a> {
    /// A checker of `partition` in `round` from its first message on, for `producers` producers.
    pub(crate) fn new(content: &'a Content, round: u32, partition: u32, producers: u16) -> Self {
        Checker::resumed(content, round, partition, 0, &vec![0; usize::from(producers)])
    }

    /// One from `offset` on, where a batch begins and each producer's next one has this sequence.
    pub(crate) fn resumed(
        content: &'a Content,
        round: u32,
        partition: u32,
        offset: u64,
        sequences: &[u32],
    ) -> Self {
        Checker {
            content,
            round,
            partition,
            next_offset: offset,
            seen: 0,
            knows_start: true,
            may_jump: false,
            next_sequence: sequences.iter().copied().map(Some).collect(),
            id: None,
            done: 0,
            state: State::Head { bytes: Vec::new() },
            whole: None,
        }
    }

    /// One of a log whose older part may have been deleted: it begins wherever the first batch says.
    pub(crate) fn retained(
        content: &'a Content,
        round: u32,
        partition: u32,
        producers: u16,
    ) -> Self {
        let mut checker = Checker::new(content, round, partition, producers);
        checker.knows_start = false;
        checker.next_sequence.fill(None);
        checker
    }

    /// The same checker for a log whose oldest messages are deleted while it is read: where the next
    /// batch begins at a later offset than is due, it goes on there.
    pub(crate) fn jumping(mut self) -> Self {
        self.may_jump = true;
        self
    }

    /// The same checker, which keeps the batches that have come whole for [`Checker::take_whole`].
    pub(crate) fn noting(mut self) -> Self {
        self.whole = Some(Vec::new());
        self
    }

    /// The batches that have come whole since the last call.
    pub(crate) fn take_whole(&mut self) -> Vec<BatchId> {
        self.whole.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Messages that have come.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Sequence of each producer's next batch; 0 for one that is not known.
    pub(crate) fn sequences(&self) -> Vec<u32> {
        self.next_sequence.iter().map(|next| next.unwrap_or(0)).collect()
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
                State::Frames { at, end, count } => self.feed_frames(bytes, at, end, count)?,
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
        let all = self.next_sequence.iter().zip(appended);
        let is_there = |next: &Option<u32>, appended: &u32| match next {
            Some(next) => next == appended,
            // All that it appended may have been deleted, once something was.
            None => *appended == 0 || self.knows_start,
        };
        if all.clone().all(|(next, appended)| is_there(next, appended)) {
            return Ok(());
        }
        let appended = (0..).zip(appended).map(|(producer, batches)| {
            let (round, partition) = (self.round, self.partition);
            let first = BatchId { round, producer, partition, sequence: 0 };
            self.content.messages_of(first, *batches)
        });
        Err(self.mismatch(What::Missing { appended: appended.sum() }))
    }

    /// The log has ended after a crash: what each producer was answered for is there.
    pub(crate) fn end_crashed(&self, acked: &[u32]) -> Result<(), Mismatch> {
        for (producer, (found, acked)) in (0..).zip(self.sequences().into_iter().zip(acked)) {
            if found < *acked {
                return Err(self.mismatch(What::Lost { producer, acked: *acked, found }));
            }
        }
        Ok(())
    }

    fn feed_head<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], Mismatch> {
        let first = self.done;
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
            self.jump(header);
            self.meet(frame)?;
        }
        let (id, count) = self.check_header(header, first)?;
        let start = self.content.frame_start(id, first);
        let end = self.content.frame_start(id, first + count);
        self.state = State::Frames { at: start, end, count };
        if first == 0 {
            self.feed_frames(frame, 0, end, count)?;
        }
        Ok(rest)
    }

    /// Goes on at the batch with this header, where what was due before it may have been deleted.
    fn jump(&mut self, header: &[u8]) {
        let Ok(BatchHeader { base_offset, .. }) = BatchHeader::parse(header) else { return };
        if self.may_jump && base_offset > self.next_offset {
            self.next_offset = base_offset;
            self.next_sequence.fill(None);
        }
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
        if let Some(expected) = sequence.filter(|sequence| *sequence != batch.sequence) {
            let (producer, found) = (batch.producer, batch.sequence);
            return Err(self.mismatch(What::Order { producer, expected, found }));
        }
        self.next_sequence[usize::from(batch.producer)] = Some(batch.sequence + 1);
        self.id = Some(batch);
        Ok(())
    }

    /// Checks every byte of a header and returns the batch it belongs to and its message count.
    fn check_header(&mut self, header: &[u8], first: u32) -> Result<(BatchId, u32), Mismatch> {
        let found = BatchHeader::parse(header).map_err(|error| {
            let expected = "a valid one".to_owned();
            self.mismatch(What::Header { expected, found: error.to_string() })
        })?;
        if !self.knows_start {
            self.next_offset = found.base_offset;
            self.knows_start = true;
        }
        let wrong =
            |expected: String, found: String| self.mismatch(What::Header { expected, found });
        let id = self.id.expect("the first frame of this batch was met");
        let left = self.content.message_count(id) - first;
        if found.message_count > left {
            let expected = format!("at most {left} messages");
            return Err(wrong(expected, format!("{} messages", found.message_count)));
        }
        let stamped = BatchHeader {
            partition_id: u64::from(self.partition),
            base_offset: self.next_offset - u64::from(first),
            ..found
        };
        let expected = self.content.stored_header(id, first, found.message_count, &stamped);
        if found != expected {
            return Err(wrong(format!("{expected:?}"), format!("{found:?}")));
        }
        Ok((id, found.message_count))
    }

    fn feed_frames<'b>(
        &mut self,
        bytes: &'b [u8],
        at: usize,
        end: usize,
        count: u32,
    ) -> Result<&'b [u8], Mismatch> {
        let (now, rest) = bytes.split_at(bytes.len().min(end - at));
        self.compare(now, at)?;
        let at = at + now.len();
        self.state = State::Frames { at, end, count };
        if at == end {
            self.next_offset += u64::from(count);
            self.seen += u64::from(count);
            self.done += count;
            self.end_batch();
            self.state =
                State::Head { bytes: Vec::with_capacity(BATCH_HEADER_LEN + FRAME_HEADER_LEN) };
        }
        Ok(rest)
    }

    /// Lets go of the batch once all of its messages have come.
    fn end_batch(&mut self) {
        let id = self.id.expect("the first frame of this batch was met");
        if self.done == self.content.message_count(id) {
            self.done = 0;
            self.id = None;
            if let Some(whole) = &mut self.whole {
                whole.push(id);
            }
        }
    }

    /// `bytes` are those at `at` of this batch's frames.
    fn compare(&self, bytes: &[u8], at: usize) -> Result<(), Mismatch> {
        let id = self.id.expect("the first frame of this batch was met");
        let frame_len = self.content.first_frame(id).len();
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

    /// What is wrong at the place where the checker stands.
    pub(crate) fn mismatch(&self, what: What) -> Mismatch {
        Mismatch { partition: self.partition, offset: self.next_offset, what, file: None }
    }
}

#[cfg(test)]
mod tests;
