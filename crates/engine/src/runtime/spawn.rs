//! Tasks on a shard: none of them may take the executor down.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use corelog_io::Spawn;
use corelog_io::task::{self, Caught, Panic};
use pin_project_lite::pin_project;

use super::choice::Runtime;
use super::fileops::panic_text;

/// Called with the shard's number and the message when a task has panicked.
pub(crate) type PanicHook = Arc<dyn Fn(usize, &str) + Send + Sync>;

/// Spawns on the executor of this thread. A panic unwinds through glommio's loop and ends the whole
/// thread, and any executor's would go unreported: so every task is polled, and dropped, under
/// `catch_unwind`.
#[derive(Clone)]
pub(crate) struct RealSpawn {
    runtime: Runtime,
    shard: usize,
    hook: PanicHook,
    ended: Rc<Cell<bool>>,
}

impl RealSpawn {
    /// Tasks of shard number `shard`, panics reported to `hook`.
    pub(super) fn new(runtime: Runtime, shard: usize, hook: PanicHook) -> Self {
        RealSpawn { runtime, shard, hook, ended: Rc::default() }
    }

    /// From now on every task that is woken is dropped instead.
    pub(super) fn end(&self) {
        self.ended.set(true);
    }
}

impl RealSpawn {
    /// Waits for a descriptor of an embedder's.
    pub(crate) fn readable(
        &self,
        fd: BorrowedFd<'_>,
    ) -> io::Result<impl Future<Output = ()> + 'static> {
        self.runtime.readable(fd)
    }
}

impl Spawn for RealSpawn {
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.runtime.queue(Guarded { task: contained(Glancing { task }), of: self.clone() });
    }

    fn yield_now(&self) -> impl Future<Output = ()> + 'static {
        self.runtime.yield_now()
    }

    fn turn_to_io(&self) -> impl Future<Output = ()> + 'static {
        self.runtime.turn_to_io()
    }

    fn turns(&self) -> u64 {
        self.runtime.turns()
    }
}

pin_project! {
    /// Runs a task until it ends, or until it is woken where the shard has ended; its panic is told.
    struct Guarded<F: Future> {
        #[pin]
        task: Contained<Glancing<F>>,
        of: RealSpawn,
    }
}

impl<F: Future<Output = ()>> Future for Guarded<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let ended =
            if this.of.ended.get() { this.task.give_up() } else { ready!(this.task.poll(cx)) };
        if let Err(message) = ended {
            // The hook is the engine's, but a panic in it would end the shard all the same.
            let _ = catch_unwind(AssertUnwindSafe(|| (this.of.hook)(this.of.shard, &message)));
        }
        Poll::Ready(())
    }
}

pin_project! {
    /// Before each turn of a task the shard looks around: it sees what comes from other threads
    /// however busy it is.
    struct Glancing<F> {
        #[pin]
        task: F,
    }
}

impl<F: Future> Future for Glancing<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        corelog_shard::glance();
        self.project().task.poll(cx)
    }
}

/// A task whose panic, of which this has the message, is an error.
pub(super) type Contained<F> = Caught<F, fn(Panic) -> String>;

/// Runs `task` to its end, or to its panic, of which it answers the message.
pub(super) fn contained<F: Future>(task: F) -> Contained<F> {
    task::caught(task, |panic| panic_text("task", &*panic))
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::mem::size_of_val;

    use super::*;

    #[test]
    fn what_is_around_a_task_does_not_grow_with_it() {
        let big = async {
            let buf = [0_u8; 10_000];
            pending::<()>().await;
            let _used = buf.len();
        };
        let alone = size_of_val(&big);
        let of = RealSpawn::new(Runtime::Ring, 0, Arc::new(|_, _| ()));
        let guarded = size_of_val(&Guarded { task: contained(Glancing { task: big }), of });
        assert!(guarded <= alone + 128, "{guarded} of {alone}");
    }
}
