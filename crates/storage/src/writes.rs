//! Writes of the active segment in file order: which may go out, and how far the prefix is done.
//!
//! Completion may come out of order; `written` is the longest prefix that is done. Two writes that
//! share a block (the second rewrites the first one's partial tail) are never in flight together.

use std::collections::VecDeque;

use corelog_io::align_up;

use crate::tail::Cut;

/// One write's way. The only transitions are downwards.
enum State<S> {
    Queued(S),
    Dispatched,
    Done,
}

struct Write<S> {
    start: u64,
    /// Logical end; the padded end is the next block boundary.
    end: u64,
    state: State<S>,
}

/// What may go out now.
pub(crate) enum Next<S> {
    /// This one.
    Write { id: u64, bytes: S, at: u64 },
    /// One that the shard has no room for at present.
    NoRoom,
    /// Nothing before one in flight has landed.
    None,
}

/// The queue of one partition's writes.
pub(crate) struct Writes<S> {
    queue: VecDeque<Write<S>>,
    /// Id of the queue's first write; ids count up for ever.
    first: u64,
    in_flight: usize,
    limit: usize,
}

impl<S> Writes<S> {
    /// A queue that lets `limit` writes be in flight.
    pub(crate) fn new(limit: usize) -> Self {
        assert!(limit > 0, "at least one write must be allowed in flight");
        Writes { queue: VecDeque::new(), first: 0, in_flight: 0, limit }
    }

    /// True where nothing is queued or in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// True where as much waits behind writes in flight as may: further bytes wait outside of the
    /// shard's buffers. A write that never comes back would get hold of all of them otherwise, and
    /// the shard's other partitions would find none.
    pub(crate) fn is_backed_up(&self) -> bool {
        self.queue.len() >= 2 * self.limit
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Id of the first write that has not landed.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Puts a cut at the end.
    pub(crate) fn push(&mut self, cut: Cut<S>) {
        if let Some(last) = self.queue.back() {
            assert!(cut.start >= last.start && cut.from == last.end, "cuts must be contiguous");
        }
        let Cut { bytes, start, end, .. } = cut;
        self.queue.push_back(Write { start, end, state: State::Queued(bytes) });
    }

    /// The next write that may go out, now dispatched if there is `room` for it on the shard. The
    /// only one of a partition needs none: what never comes back holds up its own partition only.
    ///
    /// A write waits only for the one before it, and only where they share a block: if three share
    /// one, the second went out after the first was done.
    pub(crate) fn next(&mut self, room: bool) -> Next<S> {
        if self.in_flight == self.limit {
            return Next::None;
        }
        let is_queued = |write: &Write<S>| matches!(write.state, State::Queued(_));
        match (0..self.queue.len()).find(|&i| is_queued(&self.queue[i]) && self.is_free(i)) {
            None => Next::None,
            Some(_) if !room && self.in_flight > 0 => Next::NoRoom,
            Some(index) => self.dispatch(index),
        }
    }

    /// No write in flight touches a block of write `index`.
    fn is_free(&self, index: usize) -> bool {
        let Some(before) = index.checked_sub(1).map(|index| &self.queue[index]) else {
            return true;
        };
        align_up(before.end) <= self.queue[index].start || matches!(before.state, State::Done)
    }

    fn dispatch(&mut self, index: usize) -> Next<S> {
        let write = &mut self.queue[index];
        let State::Queued(bytes) = std::mem::replace(&mut write.state, State::Dispatched) else {
            panic!("only a queued write is dispatched");
        };
        self.in_flight += 1;
        let (id, at) = (self.first + index as u64, write.start);
        Next::Write { id, bytes, at }
    }

    /// Write `id` has failed: it is no longer in flight, and the prefix never passes it.
    pub(crate) fn failed(&mut self, _id: u64) {
        self.in_flight -= 1;
    }

    /// Lets go of what is not sent, where nothing is in flight and nothing will be sent any more.
    pub(crate) fn give_up(&mut self) {
        assert_eq!(self.in_flight, 0, "what is in flight is still needed");
        self.queue.clear();
    }

    /// Write `id` has landed. Says how far the contiguous prefix reaches now, where it moved.
    pub(crate) fn done(&mut self, id: u64) -> Option<u64> {
        let index = usize::try_from(id - self.first).expect("ids count from the queue's front");
        let state = &mut self.queue[index].state;
        assert!(matches!(state, State::Dispatched), "a completion for a write not in flight");
        *state = State::Done;
        self.in_flight -= 1;
        let mut end = None;
        while let Some(write) = self.queue.front()
            && matches!(write.state, State::Done)
        {
            end = Some(write.end);
            self.queue.pop_front();
            self.first += 1;
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(start: u64, from: u64, end: u64) -> Cut<u64> {
        Cut { bytes: end, start, from, end, held: 4096 }
    }

    /// The id of the next write that may go out.
    fn next(writes: &mut Writes<u64>) -> Option<u64> {
        match writes.next(true) {
            Next::Write { id, .. } => Some(id),
            Next::NoRoom => panic!("there is room for everything"),
            Next::None => None,
        }
    }

    #[test]
    fn full_blocks_go_out_together_and_done_is_a_prefix() {
        let mut writes = Writes::new(8);
        for i in 0..3 {
            writes.push(cut(i * 4096, i * 4096, (i + 1) * 4096));
        }
        let ids: Vec<u64> = std::iter::from_fn(|| next(&mut writes)).collect();
        assert_eq!(ids, [0, 1, 2]);
        assert_eq!(writes.done(2), None);
        assert_eq!(writes.done(0), Some(4096));
        assert_eq!(writes.done(1), Some(3 * 4096));
        assert!(writes.is_empty());
    }

    #[test]
    fn writes_of_one_block_follow_each_other() {
        let mut writes = Writes::new(8);
        writes.push(cut(0, 0, 100));
        writes.push(cut(0, 100, 200));
        writes.push(cut(0, 200, 8192));
        writes.push(cut(8192, 8192, 9000));
        assert_eq!(next(&mut writes), Some(0));
        assert_eq!(next(&mut writes), Some(3), "what shares no block need not wait");
        assert_eq!(next(&mut writes), None);
        assert_eq!(writes.done(0), Some(100));
        assert_eq!(next(&mut writes), Some(1));
        assert_eq!(next(&mut writes), None);
        assert_eq!(writes.done(3), None);
        assert_eq!(writes.done(1), Some(200));
        assert_eq!(next(&mut writes), Some(2));
        assert_eq!(writes.done(2), Some(9000));
    }

    #[test]
    fn the_limit_holds() {
        let mut writes = Writes::new(1);
        writes.push(cut(0, 0, 4096));
        writes.push(cut(4096, 4096, 8192));
        assert_eq!(next(&mut writes), Some(0));
        assert_eq!(next(&mut writes), None);
        assert_eq!(writes.in_flight(), 1);
    }

    #[test]
    fn all_but_the_only_one_wait_for_room() {
        let mut writes = Writes::new(8);
        for i in 0..2 {
            writes.push(cut(i * 4096, i * 4096, (i + 1) * 4096));
        }
        assert!(matches!(writes.next(false), Next::Write { id: 0, at: 0, .. }));
        assert!(matches!(writes.next(false), Next::NoRoom));
        assert_eq!(next(&mut writes), Some(1));
        assert!(matches!(writes.next(false), Next::None), "nothing waits for room any more");
    }
}
