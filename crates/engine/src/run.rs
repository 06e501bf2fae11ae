//! A closure and the place of its answer, as a job that a shard's door takes.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::ShardContext;
use crate::error::RunError;
use crate::guests::Job;

/// Where code on a shard answers. Code and door share it: an executor that dies never drops the code,
/// and whoever waits for the answer is to hear of it all the same.
pub(crate) struct Answer<T> {
    done: Mutex<Option<oneshot::Sender<T>>>,
}

/// An answer that will not come.
pub(crate) trait GiveUp: Send + Sync {
    /// Tells whoever waits, if the answer was not given.
    fn give_up(&self);
}

impl<T> Answer<T> {
    pub(crate) fn new(done: oneshot::Sender<T>) -> Arc<Answer<T>> {
        Arc::new(Answer { done: Mutex::new(Some(done)) })
    }

    fn send(&self, answer: T) {
        if let Some(done) = self.take() {
            // Nobody waits any more where this fails.
            let _ = done.send(answer);
        }
    }

    fn take(&self) -> Option<oneshot::Sender<T>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T: Send> GiveUp for Answer<T> {
    fn give_up(&self) {
        drop(self.take());
    }
}

/// `code`, which answers at `answer`, or drops it.
pub(crate) fn job<T, F>(
    code: impl FnOnce(ShardContext) -> F + Send + 'static,
    answer: &Arc<Answer<Result<T, RunError>>>,
) -> Job
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let answer = Arc::clone(answer);
    Box::new(move |context| {
        Box::pin(async move {
            let made = catch_unwind(AssertUnwindSafe(|| code(context)));
            let result = match made {
                Ok(future) => Caught { future: Box::pin(future) }.await,
                Err(_) => Err(RunError::Panicked),
            };
            answer.send(result);
        })
    })
}

/// The embedder's future; its panic is an answer.
struct Caught<F> {
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, RunError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(answer)) => Poll::Ready(Ok(answer)),
            Err(_) => Poll::Ready(Err(RunError::Panicked)),
        }
    }
}
