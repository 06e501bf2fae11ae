//! The atomics, locks and queues of the crossing. The loom test puts its own in place of these, so
//! that [`crate::wake`], [`crate::home`] and [`crate::free`] are checked as they are, not as a copy.

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use crossbeam_channel as channel;

/// A bounded queue between any threads that nobody waits at.
pub(crate) struct Queue<T> {
    push: channel::Sender<T>,
    pop: channel::Receiver<T>,
}

impl<T> Queue<T> {
    /// A queue for at most `depth` items (at least 1), allocated here and now.
    pub(crate) fn new(depth: usize) -> Self {
        let (push, pop) = channel::bounded(depth.max(1));
        Queue { push, pop }
    }

    /// Puts `item` last; where the queue is full it comes back.
    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        self.push.try_send(item).map_err(channel::TrySendError::into_inner)
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.pop.try_recv().ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.pop.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pop.is_empty()
    }
}
