//! Tasks on a shard: none of them may take the executor down.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use corelog_io::Spawn;

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
        let this = self.clone();
        let guarded = async move {
            let task = unless(Rc::clone(&this.ended), task);
            if let Err(message) = contained(task).await {
                // The hook is the engine's, but a panic in it would end the shard all the same.
                let _ = catch_unwind(AssertUnwindSafe(|| (this.hook)(this.shard, &message)));
            }
        };
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

/// Runs `task` until it ends, or until it is woken where `ended` is true. Before each of its turns
/// the shard looks around: it sees what comes from other threads however busy it is.
async fn unless(ended: Rc<Cell<bool>>, task: impl Future<Output = ()>) {
    let mut task = pin!(Some(task));
    poll_fn(|cx| {
        if ended.get() {
            task.set(None);
        }
        corelog_shard::glance();
        task.as_mut().as_pin_mut().map_or(Poll::Ready(()), |task| task.poll(cx))
    })
    .await;
}

/// Runs `task` to its end, or to its panic, of which it answers the message.
pub(super) async fn contained<T>(task: impl Future<Output = T>) -> Result<T, String> {
    let mut slot = pin!(Some(task));
    let result = poll_fn(|cx| {
        let task = slot.as_mut().as_pin_mut().expect("polled after it was ready");
        match catch_unwind(AssertUnwindSafe(|| task.poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Err(panic) => Poll::Ready(Err(panic_text("task", &*panic))),
        }
    })
    .await;
    // What the task owned may panic as well when it is dropped.
    match catch_unwind(AssertUnwindSafe(|| slot.set(None))) {
        Ok(()) => result,
        Err(panic) => Err(panic_text("dropping a task", &*panic)),
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

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
