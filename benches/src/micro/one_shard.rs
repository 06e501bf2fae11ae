//! The engine under measurement: one shard, its client, and work that runs on the shard itself.

use std::future::Future;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use corelog::machine::Runtime;
use corelog::stats::PartitionStats;
use corelog::{Client, Engine, EngineBuilder, Limits, PartitionId, ShardContext, TopicConfig};

use super::Failed;
use super::cpu::{self, Begun, Cpu};
use crate::interrupt::Interrupt;
use crate::outstanding::Outstanding;

/// The stream of all topics.
const STREAM: u32 = 0;

/// Partition `partition` of topic `topic`.
pub fn partition(topic: u32, partition: u32) -> PartitionId {
    PartitionId::new(STREAM, topic, partition)
}

/// What the engines of this process run on; the default until it is chosen.
static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// All engines from here on run on `runtime`.
pub(super) fn run_on(runtime: Runtime) {
    // A process has one: the second choice of a test that measures twice is the first.
    let _ = RUNTIME.set(runtime);
}

/// An engine on the runtime of the flags.
pub fn engine(dir: &Path) -> EngineBuilder {
    Engine::builder(dir).runtime(RUNTIME.get().copied().unwrap_or_default())
}

/// An open engine of one shard.
pub struct OneShard {
    engine: Engine,
    client: Client,
    interrupt: Interrupt,
}

impl OneShard {
    /// Opens the data directory `dir`.
    pub fn open(dir: &Path, limits: Limits, interrupt: &Interrupt) -> Result<OneShard, Failed> {
        Self::open_spinning(dir, limits, Duration::ZERO, interrupt)
    }

    /// As [`OneShard::open`], with a shard that looks out for work for `spin` before it sleeps.
    pub fn open_spinning(
        dir: &Path,
        limits: Limits,
        spin: Duration,
        interrupt: &Interrupt,
    ) -> Result<OneShard, Failed> {
        let engine = engine(dir).shards(1).limits(limits).spin(spin).open()?;
        let client = engine.client();
        Ok(OneShard { engine, client, interrupt: interrupt.clone() })
    }

    /// The client of all other threads.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Creates topic `topic`; topics are created in the order of their numbers.
    pub fn topic(&self, topic: u32, config: TopicConfig) -> Result<(), Failed> {
        let catalog = self.client.catalog();
        if topic == 0 {
            catalog.create_stream("bench").wait()?;
        }
        let (_, id) = catalog.create_topic(STREAM, &topic.to_string(), config).wait()?;
        assert_eq!(id, topic, "topics are created in the order of their numbers");
        Ok(())
    }

    /// Runs `code` on the shard to its end.
    pub fn on_shard<T, F>(
        &self,
        code: impl FnOnce(ShardContext) -> F + Send + 'static,
    ) -> Result<T, Failed>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failed>> + 'static,
    {
        self.interrupt.awaited(self.engine.run_on_shard(0, code))??
    }

    /// Runs `count` jobs side by side on the shard, each made by `code` from its number.
    pub fn on_shard_each<T, F>(
        &self,
        count: u32,
        code: impl Fn(ShardContext, u32) -> F + Clone + Send + 'static,
    ) -> Result<Vec<T>, Failed>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failed>> + 'static,
    {
        let mut jobs = Outstanding::on_this_thread();
        for number in 0..count {
            let code = code.clone();
            let job = self.engine.run_on_shard(0, move |shard| code(shard, number));
            assert!(jobs.push(Instant::now(), job).is_none_or(|(ended, _)| ended.is_err()));
        }
        let mut results = Vec::new();
        while let Some((ended, _)) = jobs.wait_any(&self.interrupt).map_err(|_| "stopped")? {
            results.push(ended??);
        }
        // A job that was refused at once is not among them.
        if results.len() != count as usize {
            return Err(format!("{} of {count} jobs ran on the shard", results.len()).into());
        }
        Ok(results)
    }

    /// Runs `phase`, and says what it cost.
    pub fn metered<T>(
        &self,
        phase: impl FnOnce() -> Result<T, Failed>,
    ) -> Result<(T, Cpu), Failed> {
        let begin = self.clocks()?;
        let result = phase()?;
        let end = self.clocks()?;
        Ok((result, begin.until(&end)))
    }

    fn clocks(&self) -> Result<Begun, Failed> {
        let shard = self.on_shard(|_| async { Ok(cpu::of_thread()) })?;
        Ok(Begun::now(shard))
    }

    /// Counters of one partition.
    pub fn stats(&self, partition: PartitionId) -> Result<PartitionStats, Failed> {
        let stats = self.client.stats_blocking()?;
        let mut all = stats.shards.iter().flat_map(|shard| &shard.partitions);
        let found = all.find(|(id, _)| *id == partition).map(|(_, stats)| *stats);
        found.ok_or_else(|| format!("{partition} is not open").into())
    }

    /// How often bytes were copied out for want of leases.
    pub fn copied(&self) -> Result<u64, Failed> {
        let stats = self.client.stats_blocking()?;
        Ok(stats.memory.iter().map(|memory| memory.copied).sum())
    }

    /// Ends it cleanly.
    pub fn close(self) -> Result<(), Failed> {
        Ok(self.engine.close_blocking()?)
    }
}

/// Waiting for one future on a plain thread.
pub trait Awaited {
    /// The future's output, unless the user stops the wait.
    fn awaited<F: Future>(&self, future: F) -> Result<F::Output, Failed>;
}

impl Awaited for Interrupt {
    fn awaited<F: Future>(&self, future: F) -> Result<F::Output, Failed> {
        let mut alone = Outstanding::on_this_thread();
        if let Some((output, _)) = alone.push(Instant::now(), future) {
            return Ok(output);
        }
        let ended = alone.wait_any(self).map_err(|_| "stopped")?;
        Ok(ended.expect("one is in flight").0)
    }
}
