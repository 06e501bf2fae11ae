//! Tasks and sleeps on whichever executor runs on this thread: one branch, then the runtime's own.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use super::choice::Runtime;
use super::spawn::contained;
use super::{glommio, ring};

impl Runtime {
    /// Queues `task` behind those that are ready; never runs it before this returns.
    pub(super) fn queue(self, task: impl Future<Output = ()> + 'static) {
        match self {
            Runtime::Glommio => glommio::tasks::queue(task),
            Runtime::Ring => ring::spawn(task),
        }
    }

    /// Ends when `duration` has passed since it was polled first.
    pub(super) async fn sleep(self, duration: Duration) {
        match self {
            Runtime::Glommio => glommio::timers::sleep(duration).await,
            Runtime::Ring => ring::sleep(duration).await,
        }
    }

    /// Ends when `fd` has something to read: see [`ShardContext::readable`](crate::ShardContext::readable).
    pub(super) fn readable(
        self,
        fd: BorrowedFd<'_>,
    ) -> io::Result<impl Future<Output = ()> + 'static> {
        let (of_glommio, of_ring) = match self {
            Runtime::Glommio => (Some(glommio::readable::readable(fd)?), None),
            Runtime::Ring => (None, Some(ring::readable(fd)?)),
        };
        Ok(async move {
            match (of_glommio, of_ring) {
                (Some(wait), _) => wait.await,
                (None, wait) => wait.expect("one of the two").await,
            }
        })
    }

    /// As [`corelog_io::Spawn::yield_now`].
    pub(super) async fn yield_now(self) {
        match self {
            Runtime::Glommio => glommio::tasks::yield_now().await,
            Runtime::Ring => ring::yield_now().await,
        }
    }

    /// As [`corelog_io::Spawn::turn_to_io`].
    pub(super) async fn turn_to_io(self) {
        match self {
            Runtime::Glommio => glommio::tasks::turn_to_io().await,
            Runtime::Ring => ring::turn_to_io().await,
        }
    }

    /// As [`corelog_io::Spawn::turns`].
    pub(super) fn turns(self) -> u64 {
        match self {
            Runtime::Glommio => glommio::counts::counts().turns,
            Runtime::Ring => ring::turns(),
        }
    }

    /// Runs `task` to its end, whether or not the answer is waited for; its panic is an error. It
    /// begins at once. Only for tasks that no other thread wakes: see [`Runtime::apart`].
    pub(super) async fn detached<T: 'static>(
        self,
        task: impl Future<Output = io::Result<T>> + 'static,
    ) -> io::Result<T> {
        match self {
            Runtime::Glommio => glommio::tasks::detached(task).await,
            Runtime::Ring => finished(task).await?,
        }
    }

    /// As [`Runtime::detached`], for tasks that other threads wake as well.
    ///
    /// Such a task is never awaited under a glommio `JoinHandle`: glommio 0.9 frees it twice. A foreign
    /// thread that lets go of a task's last waker counts the references down to zero, then up again to
    /// send the task home for its end. A handle that is dropped between the two sees a finished task
    /// without references and frees it, and the foreign thread sends home what is free. The thread is
    /// there at the wrong time easily: it queues the wake, writes to an eventfd, and only then lets go,
    /// while the task runs and ends. Without a handle the references are all there is, and only the one
    /// that takes the last away frees the task.
    pub(super) async fn apart<T: 'static>(
        self,
        task: impl Future<Output = T> + 'static,
    ) -> io::Result<T> {
        match self {
            Runtime::Glommio => self.spawned(task).await,
            Runtime::Ring => finished(task).await,
        }
    }

    /// As [`Runtime::apart`], as a task of the executor from the start.
    pub(super) async fn spawned<T: 'static>(
        self,
        task: impl Future<Output = T> + 'static,
    ) -> io::Result<T> {
        let (reply, answer) = oneshot::channel();
        self.queue(async move {
            // Nobody waits any more where sending fails: the future was dropped.
            let _ = reply.send(contained(task).await);
        });
        match answer.await {
            Ok(ended) => ended.map_err(io::Error::other),
            Err(oneshot::RecvError) => Err(io::Error::other("the shard has ended")),
        }
    }
}

/// A task that runs inside of whoever waits for it, and so takes no turn of its own; its panic is an
/// error. Dropped before its end, it goes on as a task of the ring executor: the answer is lost then,
/// never the operation.
async fn finished<T: 'static>(task: impl Future<Output = T> + 'static) -> io::Result<T> {
    let mut here = Here { task: Some(Box::pin(contained(task))) };
    let ended = poll_fn(|cx| {
        let task = here.task.as_mut().expect("polled after it was ready");
        let ended = ready!(task.as_mut().poll(cx));
        here.task = None;
        Poll::Ready(ended)
    });
    ended.await.map_err(io::Error::other)
}

struct Here<F: Future + 'static> {
    /// None once it has ended.
    task: Option<Pin<Box<F>>>,
}

impl<F: Future + 'static> Drop for Here<F> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            ring::spawn(async move {
                let _ = task.await;
            });
        }
    }
}
