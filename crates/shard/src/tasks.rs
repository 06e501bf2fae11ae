//! Tasks of a shard: counted, so that a close can wait for them, and contained, so that a panic
//! ends one of them and nothing else.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use corelog_io::task;

/// Runs `task` to its end or to its panic, whose message is the error.
pub(crate) fn caught<T>(
    task: impl Future<Output = T>,
) -> impl Future<Output = Result<T, Arc<str>>> {
    task::caught(task, |panic| message(panic.as_ref()))
}

/// Calls `work`; the message of its panic is the error.
///
/// Unwind safety: whoever catches takes the partition that panicked out of service, so that nobody
/// sees what it left half done.
pub(crate) fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Arc<str>> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(panic.as_ref()))
}

fn message(panic: &(dyn Any + Send)) -> Arc<str> {
    if let Some(text) = panic.downcast_ref::<&str>() {
        Arc::from(*text)
    } else if let Some(text) = panic.downcast_ref::<String>() {
        Arc::from(text.as_str())
    } else {
        Arc::from("a panic without a message")
    }
}

/// How many tasks run.
#[derive(Clone, Default)]
pub(crate) struct Tasks {
    inner: Rc<Inner>,
}

#[derive(Default)]
struct Inner {
    running: Cell<usize>,
    waiter: RefCell<Option<Waker>>,
}

/// One running task; dropped when it ends, also by a panic or when its executor drops it.
pub(crate) struct Running(Rc<Inner>);

impl Tasks {
    /// Counts a task that begins.
    pub(crate) fn enter(&self) -> Running {
        self.inner.running.set(self.inner.running.get() + 1);
        Running(Rc::clone(&self.inner))
    }

    /// Tasks that run now.
    pub(crate) fn running(&self) -> usize {
        self.inner.running.get()
    }

    /// Ends when no task runs. For one waiter at a time.
    pub(crate) async fn idle(&self) {
        poll_fn(|cx| {
            if self.running() == 0 {
                return Poll::Ready(());
            }
            let old = self.inner.waiter.replace(Some(cx.waker().clone()));
            drop(old);
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
        if self.0.running.get() == 0 {
            let waiter = self.0.waiter.take();
            waiter.into_iter().for_each(Waker::wake);
        }
    }
}
