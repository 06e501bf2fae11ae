//! What is done once for the whole engine: the catalog is changed, and everything is asked how it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use corelog_shard::{Call, ControlError, PartitionId, Scope, ShardStats, Shards, Unavailable};
use corelog_storage::{Figures, OpenReport};

use crate::catalog::{CatalogKeeper, ChangeError, Desk, Model, NotTaken, Plan};
use crate::clock_keeper::ClockKeeper;
use crate::context::ShardContext;
use crate::error::ReopenError;
use crate::guests::Door;
use crate::observe::{Events, IoStats, Latencies};
use crate::runtime::{MemoryUse, Runtime};
use crate::stats::EngineStats;
use crate::works::Works;

/// The engine behind its clients.
pub(crate) struct Control {
    pub(crate) shards: Shards,
    pub(crate) doors: Arc<[Door]>,
    pub(crate) catalog: CatalogKeeper,
    pub(crate) works: Arc<Works>,
    pub(crate) clock: Arc<ClockKeeper>,
    pub(crate) panics: Arc<Panics>,
    pub(crate) direct_io: bool,
    pub(crate) runtime: Runtime,
    pub(crate) events: Events,
}

/// What one shard is asked about itself, and will answer.
pub(crate) struct AskedShard {
    stats: Call<ShardStats, ControlError>,
    report: oneshot::Receiver<ShardReport>,
}

/// What the runtime of one shard tells.
pub(crate) struct ShardReport {
    pub(crate) memory: MemoryUse,
    pub(crate) latencies: Latencies,
    pub(crate) io: IoStats,
}

impl AskedShard {
    pub(crate) async fn answer(self) -> Result<(ShardStats, ShardReport), ControlError> {
        let stats = self.stats.await?;
        let report = self.report.await.map_err(|_| ControlError::from(Unavailable::Closed))?;
        Ok((stats, report))
    }

    pub(crate) fn wait(self) -> Result<(ShardStats, ShardReport), ControlError> {
        let stats = self.stats.wait()?;
        let report = self.report.recv().map_err(|_| ControlError::from(Unavailable::Closed))?;
        Ok((stats, report))
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

    /// How many there were, and the message of the last one.
    pub(crate) fn told(&self) -> (u64, Option<String>) {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.count.load(Ordering::Relaxed), last)
    }
}

impl Control {
    /// Queues a change of the catalog. The catalog commits first; then, on the same thread, the
    /// partitions follow, so that an answer that nobody waits for leaves nothing half done.
    pub(crate) fn change<T: Send + 'static>(
        &self,
        plan: impl FnOnce(&Model) -> Result<(T, Plan), ChangeError> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, ChangeError>>, ChangeError> {
        let (done, answer) = oneshot::channel();
        let works = Arc::clone(&self.works);
        let job = move |desk: &Desk| {
            let changed = desk.change(plan);
            let _ = done.send(changed.and_then(|(answer, plan)| {
                works.carry_out(&plan)?;
                Ok(answer)
            }));
        };
        match self.catalog.run(job) {
            Ok(()) => Ok(answer),
            Err(NotTaken::Busy) => Err(ChangeError::Busy),
            Err(NotTaken::Closed) => Err(ChangeError::Closed),
        }
    }

    /// Queues the opening of a partition that its shard does not serve: it could not be opened, or
    /// not be recovered.
    pub(crate) fn open_failed(
        &self,
        id: PartitionId,
    ) -> Result<oneshot::Receiver<Result<OpenReport, ReopenError>>, ReopenError> {
        let (done, answer) = oneshot::channel();
        let works = Arc::clone(&self.works);
        let job = move |desk: &Desk| drop(done.send(open_failed(desk, &works, id)));
        match self.catalog.run(job) {
            Ok(()) => Ok(answer),
            Err(NotTaken::Busy) => Err(Unavailable::Busy.into()),
            Err(NotTaken::Closed) => Err(Unavailable::Closed.into()),
        }
    }

    /// Asks the shards that own partitions of `scope` what those hold.
    pub(crate) fn ask_figures(
        &self,
        scope: Scope,
    ) -> Vec<Call<Vec<(PartitionId, Figures)>, ControlError>> {
        let shards = match scope {
            Scope::Partition(id) => self.shards.owner(id)..self.shards.owner(id) + 1,
            _ => 0..self.shards.count(),
        };
        shards.map(|shard| self.shards.figures(shard, scope)).collect()
    }

    /// Asks every shard how it is, and each of its partitions where these are wanted, too.
    pub(crate) fn ask_stats(&self, partitions: bool) -> Vec<AskedShard> {
        let ask = |(shard, door): (usize, &Door)| {
            let (done, report) = oneshot::channel();
            let look = move |context: ShardContext| drop(done.send(context.report()));
            // Refused or dropped, it shows as an answer that never comes.
            let _ = door.enter(Box::new(|context| Box::pin(async move { look(context) })));
            let stats = match partitions {
                true => self.shards.stats(shard),
                false => self.shards.totals(shard),
            };
            AskedShard { stats, report }
        };
        self.doors.iter().enumerate().map(ask).collect()
    }

    pub(crate) fn stats(&self, answers: Vec<(ShardStats, ShardReport)>) -> EngineStats {
        let (mut shards, mut memory, mut latencies, mut io) = (vec![], vec![], vec![], vec![]);
        for (stats, report) in answers {
            shards.push(stats);
            memory.push(report.memory);
            latencies.push(report.latencies);
            io.push(report.io);
        }
        let (clock_failures, clock_failure) = self.clock.failures();
        let (panics, panic) = self.panics.told();
        EngineStats {
            shards,
            memory,
            latencies,
            io,
            direct_io: self.direct_io,
            runtime: self.runtime,
            clock_failures,
            clock_failure,
            panics,
            panic,
        }
    }
}

fn open_failed(desk: &Desk, works: &Works, id: PartitionId) -> Result<OpenReport, ReopenError> {
    let entry = desk.model().entry(id);
    let entry = entry.ok_or(Unavailable::UnknownPartition(id))?;
    let opened = works.open_all(vec![entry]).pop().map(|(_, result)| result);
    opened.expect("one entry has one answer").map_err(ReopenError::Partition)
}
