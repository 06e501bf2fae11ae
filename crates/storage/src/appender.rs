//! The appender: a state machine that stamps batches, copies them into the tail, and says what the
//! disk must do next. It does no I/O itself and never awaits.
//!
//! What an answer promises: `Appended` - the batch has its offset and readers see it; `Written` -
//! every byte up to and with the batch is in the device; `Durable` - a sync that began after that
//! has returned. Batches are stamped in the order of the calls, and an answer of a later batch never
//! says more than the earlier ones have.
//!
//! When bytes leave: a full window at once, next to others in flight; the partial rest only when
//! nothing is in flight and someone waits for it, a threshold was reached, or `flush_after` has
//! passed. So while a write is out, what arrives gathers, and one write then answers all of it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use corelog_format::{BATCH_HEADER_LEN, IndexEntry, Mark};
use corelog_io::{BLOCK, Disk, align_up};

use crate::index::SparseIndex;
use crate::memory::{BatchPlace, Chunk, Memory};
use crate::space::Space;
use crate::tail::Tail;
use crate::waiting::{Pending, Ready, Waiter, Waiting};
use crate::writes::Writes;
use crate::{Ack, AppendError, Appended, Fault, LogConfig, SharedLimits, Watermarks};

/// What the partition must do for its appender.
pub(crate) enum Action<S> {
    /// Write `bytes` at `at` of the active file, then [`Appender::wrote`].
    Write { id: u64, bytes: S, at: u64 },
    /// Sync the active file, then [`Appender::synced`].
    Sync(Mark),
    /// Allocate the active file up to this length, then [`Appender::allocated`].
    Allocate(u64),
    /// Nothing is in flight: seal the active segment and begin the next.
    Seal,
    /// Nothing is in flight and nothing comes: close the files.
    Close,
    /// Come back after `flush_after`: [`Appender::flush_due`].
    FlushTimer,
    /// No buffer, or no time to stamp: come back a little later ([`Appender::retry`]).
    Retry,
}

/// What the appender is lent for one step.
pub(crate) struct Lent<'a, D: Disk> {
    pub(crate) alloc: &'a dyn Fn(usize) -> Option<D::Buf>,
    pub(crate) memory: &'a RefCell<Memory<D::Bytes>>,
    pub(crate) index: &'a RefCell<SparseIndex>,
    pub(crate) now_us: u64,
    pub(crate) ceiling_us: u64,
}

/// A stamped batch that is being copied.
struct Current<A> {
    header: Box<[u8; BATCH_HEADER_LEN]>,
    bytes: Bytes,
    copied: usize,
    place: BatchPlace,
    ack: Ack,
    answer: A,
}

/// Which background step is under way; each at most once.
#[derive(Default)]
struct Busy {
    allocating: bool,
    syncing: bool,
    sealing: bool,
    flush_timer: bool,
    retrying: bool,
}

pub(crate) struct Appender<D: Disk, A> {
    partition_id: u32,
    config: Rc<LogConfig>,
    window_bytes_max: usize,
    pending: VecDeque<Pending<A>>,
    pending_bytes: usize,
    current: Option<Current<A>>,
    tail: Tail<D::Buf>,
    writes: Writes<D::Bytes>,
    waiting: Waiting<A>,
    /// Ends of appended batches that are not written yet.
    ends: VecDeque<Mark>,
    appended: Mark,
    written: Mark,
    durable: Mark,
    watermarks: Watermarks,
    space: Space,
    busy: Busy,
    /// Capacity of the last window that was cut because it was full; 0 after a partial one.
    last_full: usize,
    /// Messages in the tail that no write covers.
    unsent_messages: u64,
    flush_now: bool,
    rolling: bool,
    closing: bool,
    closed: bool,
    fault: Option<Arc<Fault>>,
    pub(crate) ready: Vec<Ready<A>>,
    pub(crate) bytes_dispatched: u64,
}

/// What an attempt to place or copy came to.
enum Step<S> {
    Moved,
    Blocked,
    Do(Action<S>),
}

impl<D: Disk, A> Appender<D, A> {
    pub(crate) fn new(
        partition_id: u32,
        config: Rc<LogConfig>,
        limits: &SharedLimits,
        start: u64,
        end: Mark,
        last_block: &[u8],
    ) -> Self {
        Appender {
            partition_id,
            window_bytes_max: limits.write_bytes,
            pending: VecDeque::new(),
            pending_bytes: 0,
            current: None,
            tail: Tail::new(end.position, last_block),
            writes: Writes::new(limits.writes_in_flight),
            waiting: Waiting::new(),
            ends: VecDeque::new(),
            appended: end,
            written: end,
            durable: end,
            watermarks: Watermarks::new(start, end.next_offset),
            space: Space::new(end.position, &config),
            config,
            busy: Busy::default(),
            last_full: 0,
            unsent_messages: 0,
            flush_now: false,
            rolling: false,
            closing: false,
            closed: false,
            fault: None,
            ready: Vec::new(),
            bytes_dispatched: 0,
        }
    }

    pub(crate) fn watermarks(&self) -> Watermarks {
        self.watermarks
    }

    pub(crate) fn durable(&self) -> Mark {
        self.durable
    }

    pub(crate) fn written(&self) -> Mark {
        self.written
    }

    pub(crate) fn appended(&self) -> Mark {
        self.appended
    }

    pub(crate) fn tail(&self) -> &Tail<D::Buf> {
        &self.tail
    }

    pub(crate) fn writes_in_flight(&self) -> usize {
        self.writes.in_flight()
    }

    pub(crate) fn waiting_appends(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn fault(&self) -> Option<&Arc<Fault>> {
        self.fault.as_ref()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Bytes of the active file that are allocated.
    pub(crate) fn reserved(&self) -> u64 {
        self.space.reserved()
    }

    /// Where polls end: what a power cut would take back is not shown on an `enforce_fsync` topic,
    /// and after a fault only what the device has.
    pub(crate) fn readable_end(&self) -> u64 {
        let marks = &self.watermarks;
        match (self.config.enforce_fsync, &self.fault) {
            (true, _) => marks.durable(),
            (false, Some(_)) => marks.written(),
            (false, None) => marks.appended(),
        }
    }

    /// Takes work at its place in the order, or refuses it at once.
    pub(crate) fn push(&mut self, work: Pending<A>) {
        let refusal = match &self.fault {
            Some(fault) => Some(AppendError::Poisoned(Arc::clone(fault))),
            None if self.closing || self.closed => Some(AppendError::Closed),
            None => None,
        };
        match (refusal, work) {
            // A poisoned partition still closes: its handles go back.
            (Some(_), Pending::Close) => self.closing = true,
            (Some(error), work) => self.ready.extend(work.failed(error)),
            (None, Pending::Close) => {
                self.closing = true;
                self.pending.push_back(Pending::Close);
            }
            (None, work) => {
                if let Pending::Append { batch, .. } = &work {
                    self.pending_bytes += batch.len();
                }
                self.pending.push_back(work);
            }
        }
    }

    /// The next thing to do; `None` where only a completion or a new call can move it on.
    pub(crate) fn next(&mut self, lent: &Lent<'_, D>) -> Option<Action<D::Bytes>> {
        loop {
            if self.fault.is_some() {
                return self.close_if_quiet();
            }
            if let Some((id, bytes, at)) = self.writes.next() {
                return Some(Action::Write { id, bytes, at });
            }
            match self.advance(lent) {
                Step::Moved => continue,
                Step::Do(action) => return Some(action),
                Step::Blocked => {}
            }
            if self.partial_is_due() {
                self.cut(lent.memory);
                self.last_full = 0;
                self.flush_now = false;
                continue;
            }
            if self.sync_is_due() {
                self.busy.syncing = true;
                return Some(Action::Sync(self.written));
            }
            if self.rolling && self.is_quiet() {
                self.busy.sealing = true;
                return Some(Action::Seal);
            }
            if self.tail.is_dirty() && !self.busy.flush_timer {
                self.busy.flush_timer = true;
                return Some(Action::FlushTimer);
            }
            if !self.tail.is_dirty() && self.current.is_none() {
                self.tail.release();
            }
            return self.close_if_quiet();
        }
    }

    /// Copies what is stamped, or stamps what is next.
    fn advance(&mut self, lent: &Lent<'_, D>) -> Step<D::Bytes> {
        if self.current.is_some() {
            return self.copy(lent);
        }
        if self.rolling {
            return Step::Blocked;
        }
        match self.pending.front() {
            None | Some(Pending::Close) => self.allocate_ahead(),
            Some(Pending::Flush { .. }) => {
                if let Some(Pending::Flush { ack, promise }) = self.pending.pop_front() {
                    self.wait(self.raise(ack), Waiter::Flush(promise));
                }
                Step::Moved
            }
            Some(Pending::Append { batch, .. }) => {
                let (len, count) = (batch.len() as u64, batch.message_count());
                self.place(lent, len, count)
            }
        }
    }

    /// Stamps the batch at the front of the queue, if there is room, space and time for it.
    fn place(&mut self, lent: &Lent<'_, D>, len: u64, count: u32) -> Step<D::Bytes> {
        let end = self.tail.end();
        if end >= self.config.segment_bytes {
            self.rolling = true;
            return Step::Moved;
        }
        if let Some(to) = self.space.needed(end + len) {
            if self.busy.allocating {
                return Step::Blocked;
            }
            self.busy.allocating = true;
            return Step::Do(Action::Allocate(to));
        }
        let base_offset = self.appended.next_offset;
        let Some(next_offset) = base_offset.checked_add(u64::from(count)) else {
            self.refuse_front(AppendError::OffsetsExhausted { next_offset: base_offset });
            return Step::Moved;
        };
        let base_timestamp = lent.now_us.max(self.appended.last_timestamp.saturating_add(1));
        if base_timestamp > lent.ceiling_us {
            return self.retry_later();
        }
        let Some(Pending::Append { batch, ack, answer }) = self.pending.pop_front() else {
            panic!("the front of the queue was an append");
        };
        self.pending_bytes -= batch.len();
        let (header, bytes) = batch.stamp(self.partition_id, base_offset, base_timestamp);
        let place =
            BatchPlace { base_offset, base_timestamp, message_count: count, position: end, len };
        debug_assert_eq!(place.end_offset(), next_offset);
        self.current = Some(Current { header, bytes, copied: 0, place, ack, answer });
        Step::Moved
    }

    fn copy(&mut self, lent: &Lent<'_, D>) -> Step<D::Bytes> {
        if self.tail.is_full() {
            self.last_full = self.window_bytes_max.min(self.last_full.max(BLOCK) * 2);
            self.cut(lent.memory);
            return Step::Moved;
        }
        let Some(current) = &mut self.current else { return Step::Blocked };
        if self.tail.room() == 0 {
            let left = current.bytes.len() - current.copied;
            let wanted = self.tail.carry_len() + left + self.pending_bytes;
            let largest = self.window_bytes_max;
            let mut capacity =
                wanted.max(self.last_full).clamp(BLOCK, largest).next_power_of_two().min(largest);
            let buf = loop {
                match (lent.alloc)(capacity) {
                    Some(buf) => break buf,
                    // Scarce memory: a smaller window still makes progress.
                    None if capacity > BLOCK => capacity /= 2,
                    None => return self.retry_later(),
                }
            };
            self.tail.open(buf);
        }
        let (header, bytes) = (&current.header[..], &current.bytes[..]);
        if current.copied < BATCH_HEADER_LEN {
            current.copied += self.tail.copy(&header[current.copied..]);
        }
        if current.copied >= BATCH_HEADER_LEN {
            current.copied += self.tail.copy(&bytes[current.copied..]);
        }
        if current.copied == bytes.len() {
            self.finish(lent);
        }
        Step::Moved
    }

    /// The batch is whole in memory: readers may see it.
    fn finish(&mut self, lent: &Lent<'_, D>) {
        let Some(current) = self.current.take() else { return };
        let place = current.place;
        assert_eq!(place.end(), self.tail.end(), "a batch ends where it was planned to end");
        self.appended = Mark {
            segment: self.appended.segment,
            position: place.end(),
            next_offset: place.end_offset(),
            last_timestamp: place.base_timestamp,
        };
        self.watermarks.set_appended(self.appended.next_offset);
        self.unsent_messages += u64::from(place.message_count);
        self.ends.push_back(self.appended);
        lent.memory.borrow_mut().push_batch(place);
        let BatchPlace { base_offset, base_timestamp, position, .. } = place;
        let entry = IndexEntry { base_offset, base_timestamp, position };
        lent.index.borrow_mut().note(entry, self.config.index_step);
        let appended = Appended { base_offset, base_timestamp, message_count: place.message_count };
        self.wait(self.raise(current.ack), Waiter::Append(current.answer, appended));
    }

    fn raise(&self, ack: Ack) -> Ack {
        if self.config.enforce_fsync { Ack::Durable } else { ack }
    }

    fn wait(&mut self, ack: Ack, waiter: Waiter<A>) {
        let end = self.appended.next_offset;
        let reached = match ack {
            Ack::Appended => true,
            Ack::Written => end <= self.written.next_offset,
            Ack::Durable => end <= self.durable.next_offset,
        };
        if reached {
            self.ready.push(waiter.fine());
        } else {
            self.waiting.push(ack, end, waiter);
        }
    }

    fn refuse_front(&mut self, error: AppendError) {
        if let Some(work) = self.pending.pop_front() {
            if let Pending::Append { batch, .. } = &work {
                self.pending_bytes -= batch.len();
            }
            self.ready.extend(work.failed(error));
        }
    }

    fn retry_later(&mut self) -> Step<D::Bytes> {
        if self.busy.retrying {
            return Step::Blocked;
        }
        self.busy.retrying = true;
        Step::Do(Action::Retry)
    }

    fn allocate_ahead(&mut self) -> Step<D::Bytes> {
        let Some(to) = self.space.ahead(self.tail.end()) else { return Step::Blocked };
        if self.busy.allocating || self.closing {
            return Step::Blocked;
        }
        self.busy.allocating = true;
        Step::Do(Action::Allocate(to))
    }

    fn partial_is_due(&self) -> bool {
        if !self.tail.is_dirty() || !self.writes.is_empty() {
            return false;
        }
        let unsent_bytes = self.tail.end() - self.tail.sent();
        // With nothing in flight, whoever waits behind `written` waits for the tail.
        self.waiting.wanted() > self.written.next_offset
            || self.flush_now
            || self.rolling
            || self.closing
            || self.unsent_messages >= u64::from(self.config.messages_required_to_save)
            || unsent_bytes >= self.config.size_of_messages_required_to_save
    }

    fn sync_is_due(&self) -> bool {
        !self.config.enforce_fsync
            && !self.busy.syncing
            && self.waiting.wanted_durable() > self.durable.next_offset
            && self.written.next_offset > self.durable.next_offset
    }

    /// Nothing to copy, nothing on its way: the active file is still.
    fn is_quiet(&self) -> bool {
        let busy = &self.busy;
        self.current.is_none()
            && (self.fault.is_some() || !self.tail.is_dirty())
            && self.writes.in_flight() == 0
            && !(busy.allocating || busy.syncing || busy.sealing)
    }

    fn close_if_quiet(&mut self) -> Option<Action<D::Bytes>> {
        let drained = match self.pending.front() {
            None => self.fault.is_some(),
            Some(work) => matches!(work, Pending::Close),
        };
        if !self.closing || self.closed || !drained || !self.is_quiet() {
            return None;
        }
        self.pending.clear();
        self.closed = true;
        Some(Action::Close)
    }

    /// Moves the tail's new bytes to the write queue and to the memory that readers use.
    fn cut(&mut self, memory: &RefCell<Memory<D::Bytes>>) {
        let Some(cut) = self.tail.cut() else { return };
        let chunk =
            Chunk { bytes: cut.bytes.clone(), start: cut.start, from: cut.from, end: cut.end };
        memory.borrow_mut().push_chunk(chunk);
        self.bytes_dispatched += align_up(cut.end) - cut.start;
        self.unsent_messages = 0;
        self.writes.push(cut);
    }

    /// A write has landed. True where `written` moved.
    pub(crate) fn wrote(&mut self, id: u64) -> bool {
        let Some(position) = self.writes.done(id) else { return false };
        let mut moved = false;
        while self.ends.front().is_some_and(|end| end.position <= position)
            && let Some(end) = self.ends.pop_front()
        {
            self.written = end;
            moved = true;
        }
        if !moved {
            return false;
        }
        self.watermarks.set_written(self.written.next_offset);
        if self.config.enforce_fsync {
            // The handle is O_DSYNC and all writes of the topic go through it: the contiguous
            // prefix of what has landed is durable.
            self.set_durable(self.written);
        }
        self.answer();
        true
    }

    /// Number of the first write that has not landed, counted as `Memory` numbers chunks.
    pub(crate) fn first_unwritten(&self) -> u64 {
        self.writes.first()
    }

    /// A sync that covered `mark` has returned.
    pub(crate) fn synced(&mut self, mark: Mark) {
        self.busy.syncing = false;
        self.set_durable(mark);
        self.answer();
    }

    fn set_durable(&mut self, mark: Mark) {
        if mark.next_offset >= self.durable.next_offset {
            self.durable = mark;
            self.watermarks.set_durable(mark.next_offset);
        }
    }

    fn answer(&mut self) {
        // After a fault nobody is told that anything is safe: it was answered `Poisoned`.
        if self.fault.is_none() {
            let (written, durable) = (self.written.next_offset, self.durable.next_offset);
            self.waiting.reached(written, durable, &mut self.ready);
        }
    }

    /// The file has space up to `to`.
    pub(crate) fn allocated(&mut self, to: u64) {
        self.busy.allocating = false;
        self.space.granted(to);
    }

    /// There is no space up to `to`. Whoever cannot do with less is answered.
    pub(crate) fn full(&mut self, to: u64, error: corelog_io::IoError) {
        self.busy.allocating = false;
        let least = match self.pending.front() {
            Some(Pending::Append { batch, .. }) => {
                let need = align_up(self.tail.end() + batch.len() as u64);
                (need > self.space.reserved()).then_some(need)
            }
            _ => None,
        };
        self.space.refused();
        if least.is_some_and(|need| to <= need) {
            self.refuse_front(AppendError::StorageFull(Arc::new(error)));
        }
    }

    /// The active file was cut to `mark` and synced.
    pub(crate) fn sealed(&mut self, mark: Mark) {
        self.set_durable(mark);
        // The cut gave back what was reserved behind the end.
        self.space = Space::new(mark.position, &self.config);
        self.answer();
    }

    /// The next segment could not be begun: the append that needed it is answered, the next one
    /// tries again.
    pub(crate) fn roll_failed(&mut self, error: corelog_io::IoError) {
        self.busy.sealing = false;
        self.rolling = false;
        let error = Arc::new(error);
        self.refuse_front(match error.is_full() {
            true => AppendError::StorageFull(error),
            false => AppendError::NoSegment(error),
        });
    }

    /// The active segment is sealed and durable; the empty one at `mark` is the active one now.
    pub(crate) fn rolled(&mut self, mark: Mark, reserved: u64) {
        assert!(self.writes.is_empty() && self.ends.is_empty(), "a seal waits for all writes");
        assert_eq!(mark.next_offset, self.appended.next_offset);
        self.busy.sealing = false;
        self.rolling = false;
        (self.appended, self.written) = (mark, mark);
        self.set_durable(mark);
        self.tail = Tail::new(0, &[]);
        self.space = Space::new(reserved, &self.config);
        self.last_full = 0;
        self.answer();
    }

    pub(crate) fn flush_due(&mut self) {
        self.busy.flush_timer = false;
        self.flush_now = self.tail.is_dirty();
    }

    pub(crate) fn retry(&mut self) {
        self.busy.retrying = false;
    }

    /// Step `what` of the disk failed for good: no more appends, nobody is told that anything
    /// that was on its way is safe.
    pub(crate) fn poison(&mut self, fault: Arc<Fault>) {
        self.busy.allocating = false;
        self.busy.syncing = false;
        self.busy.sealing = false;
        if self.fault.is_some() {
            return;
        }
        self.waiting.fail(&fault, &mut self.ready);
        if let Some(current) = self.current.take() {
            let error = AppendError::Poisoned(Arc::clone(&fault));
            self.ready.push(Ready::Append(current.answer, Err(error)));
        }
        for work in self.pending.drain(..) {
            self.ready.extend(work.failed(AppendError::Poisoned(Arc::clone(&fault))));
        }
        self.pending_bytes = 0;
        self.fault = Some(fault);
    }

    /// A failed write is no longer in flight.
    pub(crate) fn write_failed(&mut self, id: u64) {
        self.writes.failed(id);
    }
}
