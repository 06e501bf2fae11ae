//! Tasks on a shard: none of them may take the executor down.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use corelog_io::Spawn;
use glommio::TaskQueueHandle;

use super::counts::counts;
use crate::runtime::fileops::panic_text;

/// Called with the shard's number and the message when a task has panicked.
pub(crate) type PanicHook = Arc<dyn Fn(usize, &str) + Send + Sync>;

/// Spawns on the glommio executor of this thread. A panic unwinds through glommio's loop and ends
/// the whole thread, so every task is polled, and dropped, under `catch_unwind`.
#[derive(Clone)]
pub(crate) struct RealSpawn {
    shard: usize,
    hook: PanicHook,
    ended: Rc<Cell<bool>>,
}

impl RealSpawn {
    /// Tasks of shard number `shard`, panics reported to `hook`.
    pub(in crate::runtime) fn new(shard: usize, hook: PanicHook) -> Self {
        RealSpawn { shard, hook, ended: Rc::default() }
    }

    /// From now on every task that is woken is dropped instead.
    pub(in crate::runtime) fn end(&self) {
        self.ended.set(true);
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
        queue(guarded);
    }

    #[expect(clippy::manual_async_fn, reason = "an async fn would borrow self, against the trait")]
    fn yield_now(&self) -> impl Future<Output = ()> + 'static {
        // Not `yield_if_needed`: that one returns at once until the preempt timer (200 us) has
        // fired, and a task spawned a moment ago would wait as long. This puts the task behind all
        // others; the executor itself turns to I/O when the timer fires.
        async { glommio::executor().yield_now().await }
    }

    #[expect(clippy::manual_async_fn, reason = "an async fn would borrow self, against the trait")]
    fn turn_to_io(&self) -> impl Future<Output = ()> + 'static {
        // glommio hands its submissions to the kernel when no task is left to run or its preempt
        // timer has fired, never sooner, and looks at its timers in the same turn. One that is due
        // when it is first polled would end there and then: hence the microsecond, from that poll.
        async { glommio::timer::sleep(Duration::from_micros(1)).await }
    }

    fn turns(&self) -> u64 {
        counts().turns
    }
}

/// Queues `task`, and leaves no handle to it.
fn queue(task: impl Future<Output = ()> + 'static) {
    // Not `spawn_local`: that one runs the task up to its first wait before it returns, inside
    // of whatever its spawner holds borrowed. This only queues it.
    let queued = glommio::spawn_local_into(task, TaskQueueHandle::default());
    queued.expect("the default queue is always there").detach();
}

/// Runs `task` detached, to its end, whether or not the answer is waited for; its panic is an error.
/// Whatever another thread may wake is awaited in here, never under a glommio `JoinHandle`.
///
/// glommio 0.9 frees such a task twice. A foreign thread that lets go of a task's last waker counts
/// the references down to zero, then up again to send the task home for its end. A handle that is
/// dropped between the two sees a finished task without references and frees it, and the foreign
/// thread sends home what is free. The thread is there at the wrong time easily: it queues the wake,
/// writes to an eventfd, and only then lets go, while the task runs and ends. Without a handle the
/// references are all there is, and only the one that takes the last away frees the task.
pub(in crate::runtime) async fn apart<T: 'static>(
    task: impl Future<Output = T> + 'static,
) -> io::Result<T> {
    let (reply, answer) = oneshot::channel();
    queue(async move {
        // Nobody waits any more where sending fails: the future was dropped.
        let _ = reply.send(contained(task).await);
    });
    match answer.await {
        Ok(ended) => ended.map_err(io::Error::other),
        Err(oneshot::RecvError) => Err(io::Error::other("the shard has ended")),
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
pub(in crate::runtime) async fn contained<T>(task: impl Future<Output = T>) -> Result<T, String> {
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
