//! Tasks on the glommio executor of this thread.

use std::future::Future;
use std::io;
use std::time::Duration;

use glommio::TaskQueueHandle;

use crate::runtime::spawn::contained;

/// Queues `task`, and leaves no handle to it.
pub(in crate::runtime) fn queue(task: impl Future<Output = ()> + 'static) {
    // Not `spawn_local`: that one runs the task up to its first wait before it returns, inside
    // of whatever its spawner holds borrowed. This only queues it.
    let queued = glommio::spawn_local_into(task, TaskQueueHandle::default());
    queued.expect("the default queue is always there").detach();
}

/// Puts the caller behind all other tasks.
pub(in crate::runtime) async fn yield_now() {
    // Not `yield_if_needed`: that one returns at once until the preempt timer (200 us) has
    // fired, and a task spawned a moment ago would wait as long. This puts the task behind all
    // others; the executor itself turns to I/O when the timer fires.
    glommio::executor().yield_now().await;
}

/// Ends after a turn to I/O.
pub(in crate::runtime) async fn turn_to_io() {
    // glommio hands its submissions to the kernel when no task is left to run or its preempt
    // timer has fired, never sooner, and looks at its timers in the same turn. One that is due
    // when it is first polled would end there and then: hence the microsecond, from that poll.
    glommio::timer::sleep(Duration::from_micros(1)).await;
}

/// Runs `task` detached, to its end, whether or not the answer is waited for. It begins at once.
/// Only for tasks that no other thread wakes: see `Runtime::apart`.
pub(in crate::runtime) fn detached<T: 'static>(
    task: impl Future<Output = io::Result<T>> + 'static,
) -> impl Future<Output = io::Result<T>> {
    let running = glommio::spawn_local(contained(task)).detach();
    async {
        match running.await {
            Some(Ok(answer)) => answer,
            Some(Err(panic)) => Err(io::Error::other(panic)),
            None => Err(io::Error::other("the shard has ended")),
        }
    }
}
