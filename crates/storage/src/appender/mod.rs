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

mod completion;
mod handle;
mod placing;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use corelog_format::{BATCH_HEADER_LEN, Mark};
use corelog_io::Disk;

use crate::canary::{self, Canary};
use crate::index::SparseIndex;
use crate::memory::{BatchPlace, Chunk, Memory};
use crate::space::Space;
use crate::stats::Tally;
use crate::tail::Tail;
use crate::waiting::{Pending, Ready, Waiter, Waiting};
use crate::writes::{Next, Writes};
use crate::{Ack, AppendError, Fault, LogConfig, SharedLimits, Watermarks};

/// What the partition must do for its appender.
pub(crate) enum Action<S> {
    /// Write `bytes` at `at` of the active file, then [`Appender::wrote`].
    Write { id: u64, bytes: S, at: u64 },
    /// A write is ready and the shard has no room for it: [`Appender::room`] when it has.
    AwaitRoom,
    /// Open the active file again, then [`Appender::file_opened`] or [`Appender::no_file`].
    OpenFile,
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
    /// A write may go out now, by what all partitions together have in flight.
    pub(crate) room: bool,
    /// The active file is open.
    pub(crate) has_file: bool,
}

/// A stamped batch that is being copied.
struct Current<A> {
    header: [u8; BATCH_HEADER_LEN],
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
    awaiting_room: bool,
    opening: bool,
    parking: bool,
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
    /// Twice the capacity of the last window that was cut because it was full (a stream wants
    /// larger writes); 0 after a partial one.
    next_capacity: usize,
    /// Messages in the tail that no write covers.
    unsent_messages: u64,
    flush_now: bool,
    rolling: bool,
    closing: bool,
    closed: bool,
    fault: Option<Arc<Fault>>,
    pub(crate) ready: VecDeque<Ready<A>>,
    tally: Tally,
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
        tally: Tally,
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
            next_capacity: 0,
            unsent_messages: 0,
            flush_now: false,
            rolling: false,
            closing: false,
            closed: false,
            fault: None,
            ready: VecDeque::new(),
            tally,
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

    /// Where polls may end: what a power cut would take back is not shown on an `enforce_fsync`
    /// topic, and after a fault only what the device has.
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
        match (self.refusal(), work) {
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

    /// Refuses work, with `why` where nothing else speaks against it.
    pub(crate) fn refuse(&mut self, work: Pending<A>, why: AppendError) {
        let error = self.refusal().unwrap_or(why);
        self.ready.extend(work.failed(error));
    }

    fn refusal(&self) -> Option<AppendError> {
        match &self.fault {
            Some(fault) => Some(AppendError::Poisoned(Arc::clone(fault))),
            None if self.closing || self.closed => Some(AppendError::Closed),
            None => None,
        }
    }

    /// The next thing to do; `None` where only a completion or a new call can move it on.
    pub(crate) fn next(&mut self, lent: &Lent<'_, D>) -> Option<Action<D::Bytes>> {
        loop {
            if self.fault.is_some() {
                return self.close_if_quiet();
            }
            match self.writes.next(lent.room) {
                Next::Write { id, bytes, at } => return Some(Action::Write { id, bytes, at }),
                Next::NoRoom if !self.busy.awaiting_room => {
                    self.busy.awaiting_room = true;
                    return Some(Action::AwaitRoom);
                }
                Next::NoRoom | Next::None => {}
            }
            match self.advance(lent) {
                Step::Moved => continue,
                Step::Do(action) => return Some(action),
                Step::Blocked => {}
            }
            if self.partial_is_due() {
                self.cut(lent.memory);
                self.next_capacity = 0;
                self.flush_now = false;
                continue;
            }
            if self.sync_is_due() {
                if !lent.has_file {
                    return self.open_file();
                }
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
            Some(Pending::Append { .. }) if !lent.has_file => {
                self.open_file().map_or(Step::Blocked, Step::Do)
            }
            Some(Pending::Append { batch, .. }) => {
                let (len, count) = (batch.len() as u64, batch.message_count());
                self.place(lent, len, count)
            }
        }
    }

    fn raise(&self, ack: Ack) -> Ack {
        if self.config.enforce_fsync { Ack::Durable } else { ack }
    }

    fn wait(&mut self, ack: Ack, waiter: Waiter<A>) {
        let end = self.appended.next_offset;
        let reached = match ack {
            Ack::Appended => true,
            _ if canary::is(Canary::EarlyAck) => true,
            Ack::Written => end <= self.written.next_offset,
            Ack::Durable => end <= self.durable.next_offset,
        };
        if reached {
            self.ready.push_back(waiter.fine());
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
        // After a fault nothing more is sent: what is queued stays there.
        let written = match self.fault {
            Some(_) => self.writes.in_flight() == 0,
            None => self.writes.is_empty() && !self.tail.is_dirty(),
        };
        let handle = busy.opening || busy.parking;
        let busy = handle || busy.allocating || busy.syncing || busy.sealing;
        self.current.is_none() && written && !busy
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
        let (start, from, end, held) = (cut.start, cut.from, cut.end, cut.held);
        let chunk = Chunk { bytes: cut.bytes.clone(), start, from, end, held };
        memory.borrow_mut().push_chunk(chunk);
        // What stands in front of the new bytes was copied out of the block before.
        self.tally.add(|c| &c.bytes_carried, from - start);
        self.unsent_messages = 0;
        self.writes.push(cut);
    }
}
