//! What the disk answered: watermarks move, appends are answered, or the partition is poisoned.

use std::sync::Arc;

use corelog_format::Mark;
use corelog_io::{Disk, IoError, align_up};

use super::Appender;
use crate::space::Space;
use crate::tail::Tail;
use crate::waiting::{Pending, Ready};
use crate::{AppendError, Fault};

impl<D: Disk, A> Appender<D, A> {
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

    /// A sync that covered `mark` has returned; with `None` it failed.
    pub(crate) fn synced(&mut self, mark: Option<Mark>) {
        self.busy.syncing = false;
        if let Some(mark) = mark {
            self.set_durable(mark);
            self.answer();
        }
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

    /// The file has space up to `to`; with `None` the attempt was a fault.
    pub(crate) fn allocated(&mut self, to: Option<u64>) {
        self.busy.allocating = false;
        if let Some(to) = to {
            self.space.granted(to);
        }
    }

    /// There is no space up to `to`. Whoever cannot do with less is answered: then it is true.
    pub(crate) fn full(&mut self, to: u64, error: IoError) -> bool {
        self.busy.allocating = false;
        let least = match self.pending.front() {
            Some(Pending::Append { batch, .. }) => {
                let need = align_up(self.tail.end() + batch.len() as u64);
                (need > self.space.reserved()).then_some(need)
            }
            _ => None,
        };
        self.space.refused();
        let is_refused = least.is_some_and(|need| to <= need);
        if is_refused {
            self.refuse_front(AppendError::StorageFull(Arc::new(error)));
        }
        is_refused
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
    pub(crate) fn roll_failed(&mut self, error: IoError) {
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
        self.rolling = false;
        (self.appended, self.written) = (mark, mark);
        self.set_durable(mark);
        self.tail = Tail::new(0, &[]);
        self.space = Space::new(reserved, &self.config);
        self.next_capacity = 0;
        self.answer();
    }

    /// The log begins at `start` now: the segments below are dropped.
    pub(crate) fn trimmed(&mut self, start: u64) {
        self.watermarks.set_start(start);
    }

    /// The task that sealed is over: index and mark are stored, or it stopped at an error.
    pub(crate) fn seal_ended(&mut self) {
        self.busy.sealing = false;
    }

    pub(crate) fn flush_due(&mut self) {
        self.busy.flush_timer = false;
        self.flush_now = self.tail.is_dirty();
    }

    /// The shard has room for a write again.
    pub(crate) fn room(&mut self) {
        self.busy.awaiting_room = false;
    }

    pub(crate) fn retry(&mut self) {
        self.busy.retrying = false;
    }

    /// Step `what` of the disk failed for good: no more appends, nobody is told that anything
    /// that was on its way is safe. What is on its way stays so until it has ended: a close waits
    /// for it, so that the next life finds a still file.
    pub(crate) fn poison(&mut self, fault: Arc<Fault>) {
        if self.fault.is_some() {
            return;
        }
        self.waiting.fail(&fault, &mut self.ready);
        if let Some(current) = self.current.take() {
            let error = AppendError::Poisoned(Arc::clone(&fault));
            self.ready.push_back(Ready::Append(current.answer, Err(error)));
        }
        for work in self.pending.drain(..) {
            self.ready.extend(work.failed(AppendError::Poisoned(Arc::clone(&fault))));
        }
        self.pending_bytes = 0;
        self.fault = Some(fault);
    }

    /// After a fault, and when nothing is in flight: lets go of the buffers that were to be
    /// written, and says where `written` stands for good. Nobody will read what is above.
    pub(crate) fn give_up_unwritten(&mut self) -> Option<Mark> {
        if self.fault.is_none() || self.writes.in_flight() > 0 {
            return None;
        }
        self.writes.give_up();
        self.tail.give_up();
        Some(self.written)
    }

    /// A failed write is no longer in flight.
    pub(crate) fn write_failed(&mut self, id: u64) {
        self.writes.failed(id);
    }
}
