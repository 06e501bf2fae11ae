//! A word that is given once, and that one task waits for. On one thread.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::task::{Poll, Waker};

/// A word that is given once.
#[derive(Default)]
pub(crate) struct Signal {
    is_given: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Signal {
    /// Gives it.
    pub(crate) fn give(&self) {
        self.is_given.set(true);
        let waiting = self.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether it was given.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given.get()
    }

    /// Ends when it was given. For one task: another one that waits is forgotten.
    pub(crate) fn given(&self) -> impl Future<Output = ()> + '_ {
        poll_fn(|cx| {
            if self.is_given.get() {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            match &mut *waiting {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            Poll::Pending
        })
    }
}
