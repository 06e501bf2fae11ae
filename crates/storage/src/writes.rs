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

    /// The next write that may go out, now dispatched: its id, bytes and position.
    ///
    /// A write waits only for the one before it, and only where they share a block: if three share
    /// one, the second went out after the first was done.
    pub(crate) fn next(&mut self) -> Option<(u64, S, u64)> {
        if self.in_flight == self.limit {
            return None;
        }
        let index = self.queue.iter().position(|w| matches!(w.state, State::Queued(_)))?;
        let start = self.queue[index].start;
        if let Some(before) = index.checked_sub(1).map(|i| &self.queue[i]) {
            let overlaps = align_up(before.end) > start;
            if overlaps && !matches!(before.state, State::Done) {
                return self.next_behind(index);
            }
        }
        Some(self.dispatch(index))
    }

    /// The first queued write waits for its neighbour; one further back that shares no block with
    /// its own may still go.
    fn next_behind(&mut self, blocked: usize) -> Option<(u64, S, u64)> {
        let index = (blocked + 1..self.queue.len()).find(|&i| {
            let (before, write) = (&self.queue[i - 1], &self.queue[i]);
            let free = align_up(before.end) <= write.start || matches!(before.state, State::Done);
            matches!(write.state, State::Queued(_)) && free
        })?;
        Some(self.dispatch(index))
    }

    fn dispatch(&mut self, index: usize) -> (u64, S, u64) {
        let write = &mut self.queue[index];
        let State::Queued(bytes) = std::mem::replace(&mut write.state, State::Dispatched) else {
            panic!("only a queued write is dispatched");
        };
        self.in_flight += 1;
        (self.first + index as u64, bytes, write.start)
    }

    /// Write `id` has failed: it is no longer in flight, and the prefix never passes it.
    pub(crate) fn failed(&mut self, _id: u64) {
        self.in_flight -= 1;
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

    #[test]
    fn full_blocks_go_out_together_and_done_is_a_prefix() {
        let mut writes = Writes::new(8);
        for i in 0..3 {
            writes.push(cut(i * 4096, i * 4096, (i + 1) * 4096));
        }
        let ids: Vec<u64> = std::iter::from_fn(|| writes.next().map(|w| w.0)).collect();
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
        assert_eq!(writes.next().unwrap().0, 0);
        assert_eq!(writes.next().unwrap().0, 3, "what shares no block need not wait");
        assert!(writes.next().is_none());
        assert_eq!(writes.done(0), Some(100));
        assert_eq!(writes.next().unwrap().0, 1);
        assert!(writes.next().is_none());
        assert_eq!(writes.done(3), None);
        assert_eq!(writes.done(1), Some(200));
        assert_eq!(writes.next().unwrap().0, 2);
        assert_eq!(writes.done(2), Some(9000));
    }

    #[test]
    fn the_limit_holds() {
        let mut writes = Writes::new(1);
        writes.push(cut(0, 0, 4096));
        writes.push(cut(4096, 4096, 8192));
        assert!(writes.next().is_some());
        assert!(writes.next().is_none());
        assert_eq!(writes.in_flight(), 1);
    }
}
