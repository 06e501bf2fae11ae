//! Tasks on a shard: none of them may take the executor down.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use corelog_io::Spawn;
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
        let task = contained(Unless { ended: Rc::clone(&self.ended), task: Some(task) });
        let guarded = Guarded { shard: self.shard, hook: Arc::clone(&self.hook), task };
        self.runtime.queue(guarded);
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
    /// A task of the shard: it runs until it ends, or until it is woken where `ended` is true. Before
    /// each of its turns the shard looks around: it sees what comes from other threads however busy
    /// it is.
    ///
    /// This and [`Contained`] are no `async` blocks: one keeps room for a future that it was given
    /// twice, as it came and as it is polled. Three of them around a task of 2 KiB made 28 KiB, which
    /// were moved half a dozen times until the task was queued.
    struct Unless<F> {
        ended: Rc<Cell<bool>>,
        #[pin]
        task: Option<F>,
    }
}

impl<F: Future<Output = ()>> Future for Unless<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if this.ended.get() {
            this.task.set(None);
        }
        corelog_shard::glance();
        this.task.as_pin_mut().map_or(Poll::Ready(()), |task| task.poll(cx))
    }
}

pin_project! {
    /// Ends as its task does, or with the message of its panic.
    pub(super) struct Contained<F> {
        #[pin]
        task: Option<F>,
    }
}

/// Runs `task` to its end, or to its panic, of which it answers the message.
pub(super) fn contained<F: Future>(task: F) -> Contained<F> {
    Contained { task: Some(task) }
}

impl<F: Future> Future for Contained<F> {
    type Output = Result<F::Output, String>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.project().task;
        let task = slot.as_mut().as_pin_mut().expect("polled after it was ready");
        let result = match catch_unwind(AssertUnwindSafe(|| task.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(done)) => Ok(done),
            Err(panic) => Err(panic_text("task", &*panic)),
        };
        // What the task owned may panic as well when it is dropped.
        match catch_unwind(AssertUnwindSafe(|| slot.set(None))) {
            Ok(()) => Poll::Ready(result),
            Err(panic) => Poll::Ready(Err(panic_text("dropping a task", &*panic))),
        }
    }
}

pin_project! {
    /// A task whose panic is told.
    struct Guarded<F> {
        shard: usize,
        hook: PanicHook,
        #[pin]
        task: Contained<Unless<F>>,
    }
}

impl<F: Future<Output = ()>> Future for Guarded<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.task.poll(cx).map(|ended| {
            if let Err(message) = ended {
                // The hook is the engine's, but a panic in it would end the shard all the same.
                let _ = catch_unwind(AssertUnwindSafe(|| (this.hook)(*this.shard, &message)));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("from drop");
        }
    }

    #[test]
    fn what_is_put_around_a_task_is_no_second_one() {
        let task = || async {
            let held = [0_u8; 4096];
            std::future::pending::<()>().await;
            assert_eq!(held[0], 0);
        };
        let ended = Rc::default();
        let spawned = contained(Unless { ended, task: Some(task()) });
        assert!(size_of_val(&spawned) < size_of_val(&task()) + 64);
    }

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(run(contained(async { 7 })), Ok(7));
        let message = run(contained(async { panic!("at {}", 9) })).map(|(): ()| ()).unwrap_err();
        assert_eq!(message, "task panicked: at 9");
    }

    #[test]
    fn a_panic_in_a_destructor_is_contained_too() {
        // The guard is captured, so it is dropped with the future, not while it is polled.
        let guard = PanicsOnDrop;
        let task = poll_fn(move |_| {
            let _captured = &guard;
            Poll::Ready(())
        });
        assert_eq!(run(contained(task)), Err("dropping a task panicked: from drop".to_owned()));
    }
}
