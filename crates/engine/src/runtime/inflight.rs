//! How many operations are on their way, and the wait until none is.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A count of operations in flight, local to its thread. One a shard, so that an executor is left
/// only after its I/O has drained (a buffer that the kernel still writes to must not be freed), and
/// one a file, so that closing waits for its I/O.
#[derive(Clone, Default)]
pub(crate) struct InFlight {
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    count: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

/// One operation; dropping it ends the operation.
pub(crate) struct Flight {
    state: Rc<State>,
}

impl InFlight {
    /// Counts one more operation until the answer is dropped.
    pub(crate) fn begin(&self) -> Flight {
        self.state.count.set(self.state.count.get() + 1);
        Flight { state: Rc::clone(&self.state) }
    }

    /// Operations on their way now.
    pub(crate) fn count(&self) -> usize {
        self.state.count.get()
    }

    /// Ends when nothing is in flight. Cancel-safe.
    pub(crate) async fn idle(&self) {
        poll_fn(|cx| {
            if self.count() == 0 {
                return Poll::Ready(());
            }
            let mut waiting = self.state.waiting.borrow_mut();
            if !waiting.iter().any(|known| known.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let left = self.state.count.get() - 1;
        self.state.count.set(left);
        if left == 0 {
            for waker in self.state.waiting.take() {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[test]
    fn idle_waits_for_the_last_one() {
        let flights = InFlight::default();
        let (one, two) = (flights.begin(), flights.begin());
        let mut idle = pin!(flights.idle());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(idle.as_mut().poll(&mut cx).is_pending());
        drop(one);
        assert!(idle.as_mut().poll(&mut cx).is_pending());
        assert_eq!(flights.count(), 1);
        drop(two);
        assert!(idle.as_mut().poll(&mut cx).is_ready());
    }
}
