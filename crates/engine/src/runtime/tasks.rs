//! Tasks and sleeps on whichever executor runs on this thread: one branch, then the runtime's own.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use corelog_io::task::then;
use pin_project_lite::pin_project;

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
    pub(super) fn sleep(self, duration: Duration) -> impl Future<Output = ()> + 'static {
        match self {
            Runtime::Glommio => OfEither::Glommio { future: glommio::timers::sleep(duration) },
            Runtime::Ring => OfEither::Ring { future: ring::sleep(duration) },
        }
    }

    /// Ends when `fd` has something to read: see [`ShardContext::readable`](crate::ShardContext::readable).
    pub(super) fn readable(
        self,
        fd: BorrowedFd<'_>,
    ) -> io::Result<impl Future<Output = ()> + 'static> {
        Ok(match self {
            Runtime::Glommio => OfEither::Glommio { future: glommio::readable::readable(fd)? },
            Runtime::Ring => OfEither::Ring { future: ring::readable(fd)? },
        })
    }

    /// As [`corelog_io::Spawn::yield_now`].
    pub(super) fn yield_now(self) -> impl Future<Output = ()> + 'static {
        match self {
            Runtime::Glommio => OfEither::Glommio { future: glommio::tasks::yield_now() },
            Runtime::Ring => OfEither::Ring { future: ring::yield_now() },
        }
    }

    /// As [`corelog_io::Spawn::turn_to_io`].
    pub(super) fn turn_to_io(self) -> impl Future<Output = ()> + 'static {
        match self {
            Runtime::Glommio => OfEither::Glommio { future: glommio::tasks::turn_to_io() },
            Runtime::Ring => OfEither::Ring { future: ring::turn_to_io() },
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
    /// begins at once, at the call or when the answer is first waited for. Only for tasks that no
    /// other thread wakes: see [`Runtime::apart`].
    pub(super) fn detached<T: 'static>(
        self,
        task: impl Future<Output = io::Result<T>> + 'static,
    ) -> impl Future<Output = io::Result<T>> {
        match self {
            Runtime::Glommio => OfEither::Glommio { future: glommio::tasks::detached(task) },
            Runtime::Ring => OfEither::Ring { future: finished(task) },
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
    pub(super) fn apart<T: 'static>(
        self,
        task: impl Future<Output = io::Result<T>> + 'static,
    ) -> impl Future<Output = io::Result<T>> {
        match self {
            Runtime::Glommio => OfEither::Glommio { future: self.spawned(task) },
            Runtime::Ring => OfEither::Ring { future: finished(task) },
        }
    }

    /// As [`Runtime::apart`], as a task of the executor from the start.
    pub(super) fn spawned<T: 'static>(
        self,
        task: impl Future<Output = io::Result<T>> + 'static,
    ) -> impl Future<Output = io::Result<T>> {
        let (reply, answer) = oneshot::channel();
        self.queue(then(contained(task), move |ended| {
            // Nobody waits any more where sending fails: the future was dropped.
            let _ = reply.send(ended);
        }));
        async {
            match answer.await {
                Ok(ended) => ended.map_err(io::Error::other)?,
                Err(oneshot::RecvError) => Err(io::Error::other("the shard has ended")),
            }
        }
    }
}

/// A task that runs inside of whoever waits for it, and so takes no turn of its own; its panic is an
/// error. Dropped before its end, it goes on as a task of the ring executor: the answer is lost then,
/// never the operation.
fn finished<T: 'static>(
    task: impl Future<Output = io::Result<T>> + 'static,
) -> impl Future<Output = io::Result<T>> {
    let mut here = Here { task: Some(Box::pin(contained(task))) };
    let ended = poll_fn(move |cx| {
        let task = here.task.as_mut().expect("polled after it was ready");
        let ended = ready!(task.as_mut().poll(cx));
        here.task = None;
        Poll::Ready(ended)
    });
    async { ended.await.map_err(io::Error::other)? }
}

struct Here<F: Future + 'static> {
    /// None once it has ended.
    task: Option<Pin<Box<F>>>,
}

impl<F: Future + 'static> Drop for Here<F> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            ring::spawn(then(task, drop));
        }
    }
}

pin_project! {
    /// A future of one of the two runtimes.
    #[project = OfEitherProjected]
    enum OfEither<G, R> {
        Glommio { #[pin] future: G },
        Ring { #[pin] future: R },
    }
}

impl<G: Future, R: Future<Output = G::Output>> Future for OfEither<G, R> {
    type Output = G::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<G::Output> {
        match self.project() {
            OfEitherProjected::Glommio { future } => future.poll(cx),
            OfEitherProjected::Ring { future } => future.poll(cx),
        }
    }
}
