//! Polls that wait for messages, and callers that give up meanwhile.
//!
//! A poll that waits has a place among the polls in flight, perhaps for an hour. Where its caller
//! drops the call, nobody would take the answer, and the place would stay taken: consumers that come
//! and go would be answered `Busy` before long. So a call that is dropped while its poll waits tells
//! the shard, and the poll ends. It goes by mailbox, as everything does; where that is full a flag
//! says it, which the shard looks at when it next drains.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use crate::Unavailable;
use crate::mailbox::{Refused, Sender};
use crate::reply::{Reply, Tell};
use crate::request::Request;

/// What a caller that gives up does.
pub(crate) fn tell(mailbox: Sender<Request>, missed: Arc<AtomicBool>) -> Tell {
    Box::new(move |slot| {
        if let Err(Refused::Full(_)) = mailbox.try_send(Request::GaveUp(slot)) {
            missed.store(true, Ordering::Release);
        }
    })
}

/// Those that wait on this shard, by the slots of their replies.
#[derive(Default)]
pub(crate) struct Waits {
    waiting: RefCell<HashMap<u32, Waker>>,
}

impl Waits {
    /// `work` to its end, or nothing where the caller has given up before. Work that does not have
    /// to wait is not disturbed.
    pub(crate) async fn unless_given_up<V, E: From<Unavailable>, T>(
        &self,
        reply: &Reply<V, E>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let (mut work, entry) = (pin!(work), Entry { waits: self, slot: reply.slot() });
        let done = poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            let old = self.waiting.borrow_mut().insert(entry.slot, cx.waker().clone());
            drop(old);
            // Behind the entry: whoever gives up from here on is heard.
            if reply.is_given_up() { Poll::Ready(None) } else { Poll::Pending }
        })
        .await;
        drop(entry);
        done
    }

    /// The caller of the poll with this slot has given up. It may be another poll's by now, which
    /// then looks for itself.
    pub(crate) fn gave_up(&self, slot: u32) {
        let waker = self.waiting.borrow_mut().remove(&slot);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Where somebody could not say that he gave up, all look for themselves.
    pub(crate) fn look(&self, missed: &AtomicBool) {
        if missed.load(Ordering::Relaxed) && missed.swap(false, Ordering::Acquire) {
            let all = self.waiting.take();
            all.into_values().for_each(Waker::wake);
        }
    }
}

/// The place of one that waits; it is left with it, however that ends.
struct Entry<'a> {
    waits: &'a Waits,
    slot: u32,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let waker = self.waits.waiting.borrow_mut().remove(&self.slot);
        drop(waker);
    }
}
