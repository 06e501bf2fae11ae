//! The answer to a change of the catalog, for tasks and for threads.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use corelog_shard::ShardThread;

use crate::error::ChangeError;

type Answer<T> = oneshot::Receiver<Result<T, ChangeError>>;

/// A change of the catalog that is on its way: `.await` it under any runtime, or [`Change::wait`]
/// on a thread that may block. Dropping it gives up the answer, not the change.
#[must_use = "the answer says whether it was done"]
pub struct Change<T> {
    asked: Result<Answer<T>, ChangeError>,
}

impl<T> Change<T> {
    pub(crate) fn new(asked: Result<Answer<T>, ChangeError>) -> Change<T> {
        Change { asked }
    }

    /// Waits on this thread.
    ///
    /// # Errors
    /// Those of the change. On a shard's own thread `OnShard`; the change goes on.
    pub fn wait(self) -> Result<T, ChangeError> {
        let answer = self.asked?;
        if ShardThread::is_current() {
            return Err(ChangeError::OnShard);
        }
        answer.recv().unwrap_or(Err(ChangeError::Closed))
    }
}

impl<T: Send + 'static> IntoFuture for Change<T> {
    type Output = Result<T, ChangeError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T, ChangeError>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.asked?.await.unwrap_or(Err(ChangeError::Closed)) })
    }
}
