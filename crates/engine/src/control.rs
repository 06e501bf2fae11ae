//! What is done once for the whole engine: topics come to be, and everything is asked how it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use corelog_shard::{Call, ControlError, ShardStats, Shards};

use crate::catalog::{Catalog, CreateFailure, NotTaken, Store, now_us};
use crate::clock_keeper::ClockKeeper;
use crate::error::CreateTopicError;
use crate::opening::Opener;
use crate::stats::EngineStats;
use crate::topic::NewTopic;

/// The engine behind its clients.
pub(crate) struct Control {
    pub(crate) shards: Shards,
    pub(crate) catalog: Catalog,
    pub(crate) opener: Arc<Opener>,
    pub(crate) clock: Arc<ClockKeeper>,
    pub(crate) panics: Arc<Panics>,
    pub(crate) direct_io: bool,
}

/// Panics of tasks on shards, for the statistics.
#[derive(Debug, Default)]
pub(crate) struct Panics {
    count: AtomicU64,
    last: Mutex<Option<String>>,
}

impl Panics {
    pub(crate) fn note(&self, shard: usize, message: &str) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(format!("shard {shard}: {message}"));
    }
}

impl Control {
    /// Queues the creation of `new`. The catalog commits first; then, on the same thread, the
    /// partitions are opened, so that an answer that nobody waits for leaves nothing half done.
    pub(crate) fn create_topic(
        &self,
        new: NewTopic,
    ) -> Result<oneshot::Receiver<Result<(), CreateTopicError>>, CreateTopicError> {
        new.validate()?;
        let (done, answer) = oneshot::channel();
        let opener = Arc::clone(&self.opener);
        let job = move |store: &Store| drop(done.send(create(store, &opener, &new)));
        match self.catalog.run(job) {
            Ok(()) => Ok(answer),
            Err(NotTaken::Busy) => Err(CreateTopicError::Busy),
            Err(NotTaken::Closed) => Err(CreateTopicError::Closed),
        }
    }

    pub(crate) fn ask_stats(&self) -> Vec<Call<ShardStats, ControlError>> {
        (0..self.shards.count()).map(|shard| self.shards.stats(shard)).collect()
    }

    pub(crate) fn stats(&self, shards: Vec<ShardStats>) -> EngineStats {
        let (clock_failures, clock_failure) = self.clock.failures();
        EngineStats {
            shards,
            direct_io: self.direct_io,
            clock_failures,
            clock_failure,
            panics: self.panics.count.load(Ordering::Relaxed),
            panic: self.panics.last.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

fn create(store: &Store, opener: &Opener, new: &NewTopic) -> Result<(), CreateTopicError> {
    let entries = store.create_topic(new, now_us()).map_err(|failure| match failure {
        CreateFailure::Exists => CreateTopicError::Exists { stream: new.stream, topic: new.topic },
        CreateFailure::Catalog(error) => CreateTopicError::Catalog(error),
    })?;
    for (partition, opened) in opener.open_all(entries) {
        opened.map_err(|why| CreateTopicError::Partition { partition, why })?;
    }
    Ok(())
}
