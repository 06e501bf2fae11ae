//! Wakes that come home: an answer from another thread for a task on a shard.
//!
//! A runtime takes a wake from another thread in when it turns to its I/O. A shard that is busy does
//! that late, so whoever waits on a shard is not woken by the thread that answers: his waker goes
//! into the queue of his shard, which looks into it at the end of each task ([`crate::glance`]) and
//! wakes him there. A shard that sleeps is woken by the rule of its mailbox ([`crate::wake`]).
//!
//! | shard, as it ends | answering thread |
//! | --- | --- |
//! | sets `ended` | pushes |
//! | fence | fence |
//! | wakes all that is queued | reads `ended`; where it is set, wakes all that is queued itself |
//!
//! So no waker stays in the queue of a shard that looks no more: one of the two fences is the later
//! one, and behind it the push or the end is seen. `tests/loom.rs` walks through the interleavings.

use std::sync::Arc;
use std::task::Waker;

use crate::sync::{AtomicBool, Ordering, Queue, fence};
use crate::tasks::contained;
use crate::wake::Sleep;

/// Where those who wait on one shard are woken. One shard looks, any number of threads answer.
pub(crate) struct Home {
    wakes: Queue<Waker>,
    sleep: Arc<Sleep>,
    ended: AtomicBool,
}

impl Home {
    /// Of the shard that sleeps `sleep`, with room for `depth` wakes at a time.
    pub(crate) fn new(depth: usize, sleep: Arc<Sleep>) -> Self {
        Home { wakes: Queue::new(depth), sleep, ended: AtomicBool::new(false) }
    }

    /// Another thread: has the shard wake `waker`. Where it cannot, this thread does.
    pub(crate) fn send(&self, waker: Waker) {
        if let Err(waker) = self.wakes.push(waker) {
            return wake(waker);
        }
        // Begins with the fence.
        self.sleep.notify();
        if self.ended.load(Ordering::Relaxed) {
            self.deliver_all();
        }
    }

    /// True where nobody is to be woken.
    pub(crate) fn is_empty(&self) -> bool {
        self.wakes.is_empty()
    }

    /// The shard: wakes those who were queued when this was called.
    pub(crate) fn deliver(&self) {
        for _ in 0..self.wakes.len() {
            self.wakes.pop().into_iter().for_each(wake);
        }
    }

    /// The shard looks no more: everybody is woken by the thread that answers him. Callable from
    /// any thread, any number of times.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.deliver_all();
    }

    fn deliver_all(&self) {
        while let Some(waker) = self.wakes.pop() {
            wake(waker);
        }
    }
}

/// A waker is foreign code: its panic is not that of the partition that answers.
pub(crate) fn wake(waker: Waker) {
    // The message went to the panic hook; there is nobody else to tell.
    let _ = contained(|| waker.wake());
}
