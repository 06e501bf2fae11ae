//! Local wake-ups: a signal that many tasks may wait for, and a one-time answer. One thread only.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Wakes everyone who waits, each time it is raised. A waiter sees every raise after its
/// [`Signal::wait`] call, not only those after the first poll.
#[derive(Default)]
pub(crate) struct Signal {
    inner: RefCell<SignalState>,
}

#[derive(Default)]
struct SignalState {
    raised: u64,
    /// Number of the next waiter.
    next: u64,
    /// Who waits: at most one entry for each [`Wait`] that is alive.
    wakers: Vec<(u64, Waker)>,
}

impl Signal {
    /// Wakes all who wait now.
    pub(crate) fn raise(&self) {
        let mut state = self.inner.borrow_mut();
        state.raised += 1;
        if state.wakers.is_empty() {
            return;
        }
        let mut wakers = std::mem::take(&mut state.wakers);
        drop(state);
        for (_, waker) in wakers.drain(..) {
            waker.wake();
        }
        // The emptied list goes back so that a steady raise allocates nothing.
        let mut state = self.inner.borrow_mut();
        if state.wakers.is_empty() {
            state.wakers = wakers;
        }
    }

    /// Ends at the first raise after this call. Cancel-safe.
    pub(crate) fn wait(self: &Rc<Self>) -> Wait {
        let mut state = self.inner.borrow_mut();
        state.next += 1;
        Wait { signal: Rc::clone(self), seen: state.raised, number: state.next }
    }
}

/// The future of [`Signal::wait`]. A dropped one leaves nothing behind: those who give up waiting
/// for a signal that is never raised must not pile up in it.
pub(crate) struct Wait {
    signal: Rc<Signal>,
    seen: u64,
    number: u64,
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.signal.inner.borrow_mut();
        if state.raised != self.seen {
            return Poll::Ready(());
        }
        match state.wakers.iter_mut().find(|(number, _)| *number == self.number) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => state.wakers.push((self.number, cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut state = self.signal.inner.borrow_mut();
        if let Some(place) = state.wakers.iter().position(|(number, _)| *number == self.number) {
            let waker = state.wakers.swap_remove(place);
            // Its drop may run code of the task's.
            drop(state);
            drop(waker);
        }
    }
}

/// Ends when one of the two has ended; the other one is dropped.
pub(crate) async fn first_of(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|cx| match one.as_mut().poll(cx) {
        Poll::Pending => other.as_mut().poll(cx),
        done => done,
    })
    .await;
}

/// An answer that is given once and awaited once.
pub(crate) struct Promise<T> {
    slot: Rc<RefCell<Slot<T>>>,
}

enum Slot<T> {
    Waiting(Option<Waker>),
    Given(T),
    Gone,
}

impl<T: 'static> Promise<T> {
    /// The promise and the future of its answer. The future gives `None` where the promise was
    /// dropped without an answer.
    pub(crate) fn new() -> (Self, impl Future<Output = Option<T>> + 'static) {
        let slot = Rc::new(RefCell::new(Slot::Waiting(None)));
        let promise = Promise { slot: Rc::clone(&slot) };
        let future = poll_fn(move |cx| {
            let mut state = slot.borrow_mut();
            match std::mem::replace(&mut *state, Slot::Gone) {
                Slot::Given(value) => Poll::Ready(Some(value)),
                Slot::Gone => Poll::Ready(None),
                Slot::Waiting(_) => {
                    *state = Slot::Waiting(Some(cx.waker().clone()));
                    Poll::Pending
                }
            }
        });
        (promise, future)
    }

    /// Gives the answer.
    pub(crate) fn give(self, value: T) {
        self.put(Slot::Given(value));
    }
}

impl<T> Promise<T> {
    fn put(&self, next: Slot<T>) {
        let before = std::mem::replace(&mut *self.slot.borrow_mut(), next);
        if let Slot::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if matches!(*self.slot.borrow(), Slot::Waiting(_)) {
            self.put(Slot::Gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_raise_between_wait_and_poll_is_seen() {
        let signal = Rc::new(Signal::default());
        let mut wait = pin!(signal.wait());
        signal.raise();
        let waker = Waker::from(Arc::new(Count(AtomicUsize::new(0))));
        assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    }

    #[test]
    fn a_raise_wakes_each_waiter_once() {
        let signal = Rc::new(Signal::default());
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        let mut wait = pin!(signal.wait());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        assert!(wait.as_mut().poll(&mut cx).is_pending());
        signal.raise();
        assert_eq!(count.0.load(Ordering::Relaxed), 1, "polled twice, registered once");
        assert!(wait.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn who_gives_up_waiting_leaves_no_waker_behind() {
        let signal = Rc::new(Signal::default());
        for _ in 0..100 {
            let task = Arc::new(Count(AtomicUsize::new(0)));
            let waker = Waker::from(Arc::clone(&task));
            let mut wait = Box::pin(signal.wait());
            assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            drop((wait, waker));
            assert_eq!(Arc::strong_count(&task), 1, "the task is free to go");
        }
    }

    #[test]
    fn two_waits_of_one_task_are_two() {
        let signal = Rc::new(Signal::default());
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        let (mut kept, mut dropped) = (pin!(signal.wait()), Box::pin(signal.wait()));
        assert!(kept.as_mut().poll(&mut cx).is_pending());
        assert!(dropped.as_mut().poll(&mut cx).is_pending());
        drop(dropped);
        signal.raise();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(kept.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn a_dropped_promise_ends_its_future() {
        let waker = Waker::from(Arc::new(Count(AtomicUsize::new(0))));
        let mut cx = Context::from_waker(&waker);
        let (promise, future) = Promise::<u32>::new();
        let mut future = pin!(future);
        assert!(future.as_mut().poll(&mut cx).is_pending());
        drop(promise);
        assert_eq!(future.as_mut().poll(&mut cx), Poll::Ready(None));
        let (promise, future) = Promise::new();
        let mut future = pin!(future);
        promise.give(7);
        assert_eq!(future.as_mut().poll(&mut cx), Poll::Ready(Some(7)));
    }
}
