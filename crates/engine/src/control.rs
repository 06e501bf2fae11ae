//! What is done once for the whole engine: topics come to be, and everything is asked how it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use corelog_shard::{Call, ControlError, PartitionId, ShardStats, Shards, Unavailable};
use corelog_storage::OpenReport;

use crate::catalog::{Catalog, CreateFailure, NotTaken, Store, now_us};
use crate::clock_keeper::ClockKeeper;
use crate::context::ShardContext;
use crate::error::{CreateTopicError, ReopenError};
use crate::guests::Door;
use crate::opening::Opener;
use crate::runtime::MemoryUse;
use crate::stats::EngineStats;
use crate::topic::NewTopic;

/// The engine behind its clients.
pub(crate) struct Control {
    pub(crate) shards: Shards,
    pub(crate) doors: Arc<[Door]>,
    pub(crate) catalog: Catalog,
    pub(crate) opener: Arc<Opener>,
    pub(crate) clock: Arc<ClockKeeper>,
    pub(crate) panics: Arc<Panics>,
    pub(crate) direct_io: bool,
}

/// The answers of one shard that was asked how it is.
pub(crate) struct AskedShard {
    stats: Call<ShardStats, ControlError>,
    memory: oneshot::Receiver<MemoryUse>,
}

impl AskedShard {
    pub(crate) async fn answer(self) -> Result<(ShardStats, MemoryUse), ControlError> {
        let stats = self.stats.await?;
        let memory = self.memory.await.map_err(|_| ControlError::from(Unavailable::Closed))?;
        Ok((stats, memory))
    }

    pub(crate) fn wait(self) -> Result<(ShardStats, MemoryUse), ControlError> {
        let stats = self.stats.wait()?;
        let memory = self.memory.recv().map_err(|_| ControlError::from(Unavailable::Closed))?;
        Ok((stats, memory))
    }
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

    /// Queues the opening of a partition that its shard does not serve: it could not be opened, or
    /// not be recovered.
    pub(crate) fn open_failed(
        &self,
        id: PartitionId,
    ) -> Result<oneshot::Receiver<Result<OpenReport, ReopenError>>, ReopenError> {
        let (done, answer) = oneshot::channel();
        let opener = Arc::clone(&self.opener);
        let job = move |store: &Store| drop(done.send(open_failed(store, &opener, id)));
        match self.catalog.run(job) {
            Ok(()) => Ok(answer),
            Err(NotTaken::Busy) => Err(Unavailable::Busy.into()),
            Err(NotTaken::Closed) => Err(Unavailable::Closed.into()),
        }
    }

    /// Asks every shard how it is.
    pub(crate) fn ask_stats(&self) -> Vec<AskedShard> {
        let ask = |(shard, door): (usize, &Door)| {
            let (done, memory) = oneshot::channel();
            let look = move |context: ShardContext| drop(done.send(context.memory()));
            // Refused or dropped, it shows as an answer that never comes.
            let _ = door.enter(Box::new(|context| Box::pin(async move { look(context) })));
            AskedShard { stats: self.shards.stats(shard), memory }
        };
        self.doors.iter().enumerate().map(ask).collect()
    }

    pub(crate) fn stats(&self, asked: Vec<(ShardStats, MemoryUse)>) -> EngineStats {
        let (shards, memory) = asked.into_iter().unzip();
        let (clock_failures, clock_failure) = self.clock.failures();
        EngineStats {
            shards,
            memory,
            direct_io: self.direct_io,
            clock_failures,
            clock_failure,
            panics: self.panics.count.load(Ordering::Relaxed),
            panic: self.panics.last.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

fn open_failed(store: &Store, opener: &Opener, id: PartitionId) -> Result<OpenReport, ReopenError> {
    let entry = store.entry(id).map_err(ReopenError::Catalog)?;
    let entry = entry.ok_or(Unavailable::UnknownPartition(id))?;
    let opened = opener.open_all(vec![entry]).pop().map(|(_, result)| result);
    opened.expect("one entry has one answer").map_err(ReopenError::Partition)
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
