//! Who sleeps, and until when. Nothing of it is with the kernel: the wait for I/O ends in time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::local;

/// The sleeps of one executor.
#[derive(Default)]
pub(super) struct Timers {
    /// By the time that is waited for, and a number that tells equal times apart.
    due: RefCell<BTreeMap<(Instant, u64), Waker>>,
    numbers: Cell<u64>,
}

impl Timers {
    /// When the first sleep ends.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.borrow().first_key_value().map(|(key, _)| key.0)
    }

    /// How many sleep.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.due.borrow().len()
    }

    /// A waker whose time has come by `now`, the earliest first.
    pub(super) fn pop_due(&self, now: Instant) -> Option<Waker> {
        let mut due = self.due.borrow_mut();
        let first = due.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}

/// Ends when `duration` has passed since it was polled first. Dropping it takes it off the list.
///
/// # Panics
///
/// When it is first polled on a thread without an executor.
pub(in crate::runtime) fn sleep(duration: Duration) -> impl Future<Output = ()> + 'static {
    Sleep { duration, set: None }
}

struct Sleep {
    duration: Duration,
    set: Option<Set>,
}

struct Set {
    /// None: later than the clock can tell.
    key: Option<(Instant, u64)>,
    timers: Rc<Timers>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        let duration = self.duration;
        let set = self.set.get_or_insert_with(|| {
            let timers = Rc::clone(&local::expect().timers);
            let number = timers.numbers.replace(timers.numbers.get() + 1);
            Set { key: now.checked_add(duration).map(|at| (at, number)), timers }
        });
        let Some(key) = set.key else { return Poll::Pending };
        let old = if key.0 <= now {
            set.timers.due.borrow_mut().remove(&key)
        } else {
            set.timers.due.borrow_mut().insert(key, cx.waker().clone())
        };
        // Outside of the borrow: it may be the last of its task.
        drop(old);
        if key.0 <= now { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(Set { key: Some(key), timers }) = &self.set {
            let old = timers.due.borrow_mut().remove(key);
            drop(old);
        }
    }
}
