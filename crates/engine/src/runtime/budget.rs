//! Bytes of buffer memory a shard may hold, fixed at open, given back when the last user drops.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use corelog_io::BLOCK;

/// A limit in bytes, local to its thread. Appends and reads have one each, so that neither can
/// starve the other: a consumer that sits on its replies never stops a producer.
#[derive(Clone)]
pub(crate) struct Budget {
    state: Rc<State>,
}

struct State {
    limit: usize,
    used: Cell<usize>,
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

/// Someone in the queue. The grant is made by whoever gives bytes back, so a waiter that is first
/// cannot be overtaken between its waking and its next poll.
struct Waiter {
    bytes: usize,
    granted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// Bytes taken from a [`Budget`]; dropping gives them back.
pub(crate) struct Charge {
    state: Rc<State>,
    bytes: usize,
}

/// The request can never be met: it is larger than the whole budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverLimit {
    /// Bytes the request would occupy.
    pub(crate) bytes: usize,
    /// Bytes of the budget.
    pub(crate) limit: usize,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OverLimit { bytes, limit } = self;
        write!(f, "needs {bytes} bytes of buffer, the shard's whole budget is {limit}")
    }
}

impl std::error::Error for OverLimit {}

/// What a buffer of `len` bytes occupies. The pool is a buddy allocator that knows powers of two
/// only: a buffer of 1 MiB + 4 KiB takes 2 MiB of it, and is charged so.
pub(crate) fn footprint(len: usize) -> usize {
    len.max(BLOCK).checked_next_power_of_two().unwrap_or(usize::MAX)
}

impl Budget {
    /// A budget of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let waiting = RefCell::new(VecDeque::new());
        Budget { state: Rc::new(State { limit, used: Cell::new(0), waiting }) }
    }

    /// Takes room for a buffer of `len` bytes, or `None` where there is none now. Those who wait
    /// in [`Budget::take`] come first.
    pub(crate) fn try_take(&self, len: usize) -> Option<Charge> {
        if self.has_waiters() {
            return None;
        }
        self.state.take(footprint(len))
    }

    /// Takes room for a buffer of `len` bytes; waits for it, first come first served.
    /// Cancel-safe: dropping the future leaves the queue, or gives the bytes back.
    pub(crate) async fn take(&self, len: usize) -> Result<Charge, OverLimit> {
        let bytes = footprint(len);
        if bytes > self.state.limit {
            return Err(OverLimit { bytes, limit: self.state.limit });
        }
        if let Some(charge) = self.try_take(len) {
            return Ok(charge);
        }
        let waiter =
            Rc::new(Waiter { bytes, granted: Cell::new(false), waker: RefCell::new(None) });
        self.state.waiting.borrow_mut().push_back(Rc::clone(&waiter));
        let mut place = Place { state: Rc::clone(&self.state), waiter: Some(waiter) };
        poll_fn(|cx| {
            let waiter = place.waiter.as_ref().expect("polled after it was ready");
            if !waiter.granted.get() {
                let mut waker = waiter.waker.borrow_mut();
                match waker.as_mut() {
                    Some(known) => known.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                return Poll::Pending;
            }
            place.waiter = None;
            Poll::Ready(())
        })
        .await;
        Ok(Charge { state: Rc::clone(&self.state), bytes })
    }

    /// Bytes of it.
    pub(crate) fn limit(&self) -> usize {
        self.state.limit
    }

    /// Bytes held now.
    pub(crate) fn used(&self) -> usize {
        self.state.used.get()
    }

    /// True while someone waits in [`Budget::take`].
    pub(crate) fn has_waiters(&self) -> bool {
        !self.state.waiting.borrow().is_empty()
    }
}

impl State {
    fn take(self: &Rc<Self>, bytes: usize) -> Option<Charge> {
        let used = self.used.get().checked_add(bytes).filter(|used| *used <= self.limit)?;
        self.used.set(used);
        Some(Charge { state: Rc::clone(self), bytes })
    }

    fn give_back(&self, bytes: usize) {
        self.used.set(self.used.get() - bytes);
        self.serve();
    }

    /// Grants the front of the queue as far as the room goes.
    fn serve(&self) {
        loop {
            let waker = {
                let mut waiting = self.waiting.borrow_mut();
                let Some(first) = waiting.front() else { return };
                let used = self.used.get() + first.bytes;
                if used > self.limit {
                    return;
                }
                self.used.set(used);
                first.granted.set(true);
                let first = waiting.pop_front().expect("it was at the front");
                first.waker.borrow_mut().take()
            };
            // Outside of the borrow: a waker may run code that comes back here.
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl Charge {
    /// What it occupies.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.state.give_back(self.bytes);
    }
}

/// A place in the queue that is left when its future is dropped.
struct Place {
    state: Rc<State>,
    waiter: Option<Rc<Waiter>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        if waiter.granted.get() {
            self.state.give_back(waiter.bytes);
        } else {
            self.state.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, &waiter));
            // Whoever stood behind a large request may fit now.
            self.state.serve();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn counts_and_gives_back() {
        let budget = Budget::new(3 * BLOCK);
        let one = budget.try_take(BLOCK).expect("room for one");
        let two = budget.try_take(2 * BLOCK).expect("room for two more");
        assert!(budget.try_take(BLOCK).is_none(), "over the limit");
        drop(one);
        assert_eq!(budget.used(), 2 * BLOCK);
        assert!(budget.try_take(BLOCK).is_some());
        drop(two);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn charges_what_the_buddy_allocator_takes() {
        assert_eq!(footprint(1), BLOCK);
        assert_eq!(footprint(3 * BLOCK), 4 * BLOCK);
        assert_eq!(footprint((1 << 20) + BLOCK), 2 << 20);
        assert_eq!(footprint(usize::MAX), usize::MAX);
    }

    #[test]
    fn larger_than_the_budget_is_refused_not_queued() {
        let budget = Budget::new(4 * BLOCK);
        let refused = poll(pin!(budget.take(5 * BLOCK)));
        let want = OverLimit { bytes: 8 * BLOCK, limit: 4 * BLOCK };
        assert!(matches!(refused, Poll::Ready(Err(got)) if got == want));
        assert!(!budget.has_waiters());
    }

    #[test]
    fn first_come_first_served_even_where_a_later_one_would_fit() {
        let budget = Budget::new(4 * BLOCK);
        let held = budget.try_take(2 * BLOCK).expect("room");
        let mut large = Box::pin(budget.take(4 * BLOCK));
        let mut small = Box::pin(budget.take(BLOCK));
        assert!(poll(large.as_mut()).is_pending());
        assert!(poll(small.as_mut()).is_pending(), "it must not pass the large one");
        assert!(budget.try_take(BLOCK).is_none(), "nor may a third");
        drop(held);
        let Poll::Ready(Ok(got)) = poll(large.as_mut()) else { panic!("the large one's turn") };
        assert!(poll(small.as_mut()).is_pending());
        drop(got);
        assert!(matches!(poll(small.as_mut()), Poll::Ready(Ok(_))));
    }

    #[test]
    fn leaving_the_queue_lets_the_next_one_through() {
        let budget = Budget::new(4 * BLOCK);
        let _held = budget.try_take(2 * BLOCK).expect("room");
        let mut large = Box::pin(budget.take(4 * BLOCK));
        let mut small = Box::pin(budget.take(BLOCK));
        assert!(poll(large.as_mut()).is_pending());
        assert!(poll(small.as_mut()).is_pending());
        drop(large);
        assert!(matches!(poll(small.as_mut()), Poll::Ready(Ok(_))));
    }

    #[test]
    fn a_grant_that_is_never_picked_up_is_given_back() {
        let budget = Budget::new(BLOCK);
        let held = budget.try_take(BLOCK).expect("room");
        let mut waiting = Box::pin(budget.take(BLOCK));
        assert!(poll(waiting.as_mut()).is_pending());
        drop(held);
        assert_eq!(budget.used(), BLOCK, "granted at once");
        drop(waiting);
        assert_eq!(budget.used(), 0);
    }
}
