//! A shard's mailbox: a bounded queue that any thread pushes into and one shard drains in runs.
//!
//! Order: what one thread pushed arrives in the order of its pushes. A push never waits: a full
//! queue gives the message back. The wake rule is [`crate::wake`]'s.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use crossbeam_channel as channel;

use crate::wake::Sleep;

/// A mailbox for at most `depth` messages (at least 1), allocated here and now.
pub(crate) fn mailbox<T>(depth: usize) -> (Sender<T>, Receiver<T>) {
    let (push, pop) = channel::bounded(depth.max(1));
    let sleep = Arc::new(Sleep::new());
    (Sender { queue: push, sleep: Arc::clone(&sleep) }, Receiver { queue: pop, sleep })
}

/// A push that did not happen; the message comes back.
#[derive(Debug)]
pub(crate) enum Refused<T> {
    /// The mailbox is full.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// The senders' side.
pub(crate) struct Sender<T> {
    queue: channel::Sender<T>,
    sleep: Arc<Sleep>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { queue: self.queue.clone(), sleep: Arc::clone(&self.sleep) }
    }
}

impl<T> Sender<T> {
    /// Pushes `message` and wakes the receiver if it sleeps. Never waits.
    pub(crate) fn try_send(&self, message: T) -> Result<(), Refused<T>> {
        match self.queue.try_send(message) {
            Ok(()) => {
                self.sleep.notify();
                Ok(())
            }
            Err(channel::TrySendError::Full(message)) => Err(Refused::Full(message)),
            Err(channel::TrySendError::Disconnected(message)) => Err(Refused::Closed(message)),
        }
    }

    /// True where a push would very likely be refused now. Saves the work that precedes a push.
    pub(crate) fn is_full(&self) -> bool {
        self.queue.is_full()
    }

    /// Messages that wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// The shard's side. What waits when it is dropped stays in the queue until the last sender is
/// dropped too, so whoever drops it drains it first.
pub(crate) struct Receiver<T> {
    queue: channel::Receiver<T>,
    sleep: Arc<Sleep>,
}

impl<T> Receiver<T> {
    /// The next message, if one is there.
    pub(crate) fn pop(&self) -> Option<T> {
        self.queue.try_recv().ok()
    }

    /// True where no message waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The receiver's sleep, for others who wake it.
    pub(crate) fn sleep(&self) -> Arc<Sleep> {
        Arc::clone(&self.sleep)
    }

    /// Ends when a message waits or `done` says true. Only pushes wake: `done` may become true only
    /// by a message that someone else on this thread popped, or by one who notifies the receiver's
    /// sleep behind it. One task at a time may await this: the mailbox has one waker. Cancel-safe.
    pub(crate) async fn ready_or(&self, done: impl Fn() -> bool) {
        let Receiver { queue, sleep } = self;
        poll_fn(|cx| {
            let sees = || !queue.is_empty() || done();
            if !sees() {
                sleep.announce(cx.waker());
                if !sees() {
                    return Poll::Pending;
                }
            }
            sleep.awake();
            Poll::Ready(())
        })
        .await;
    }
}

#[cfg(test)]
mod tests;
