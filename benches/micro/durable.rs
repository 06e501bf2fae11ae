//! Durable append of small batches: one producer, 64 on one partition, 64 on a partition each, beside
//! the raw ring's synced writes; and what the two ways of syncing cost.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelog::{Ack, Limits, PartitionId, ShardContext, TopicConfig};
use corelog_bench::ceiling::{CeilingError, Layout, Many, Method};
use corelog_bench::latency::Latency;
use corelog_bench::micro::{
    self, Awaited, BenchAlloc, Cpu, Failed, OneShard, Options, Ratio, Row, Run, Sample, Table,
    Unit, partition,
};

#[global_allocator]
static ALLOCATOR: BenchAlloc = BenchAlloc;

/// Payload bytes of the one message in a batch.
const PAYLOAD_BYTES: usize = 100;
/// Producers of the crowded rows.
const PRODUCERS: u32 = 64;

/// How long the shard of the spinning rows looks out for work.
const SPIN: Duration = Duration::from_micros(100);

/// Every append synced through its handle. One producer has partition 0, many have partition 1.
const SYNCED: u32 = 0;
/// `Ack::Durable` asked of a topic without `enforce_fsync`: write, then fdatasync. Partitions as there.
const PLAIN: u32 = 1;
/// As `SYNCED`, with a partition for each of many producers.
const SPREAD: u32 = 2;

fn main() -> ExitCode {
    micro::main::<Options>("durable", env!("CARGO_TARGET_TMPDIR"), measure)
}

/// The shortest phase; also the longest that a quick run goes on.
const TIME_MIN: Duration = Duration::from_millis(20);

fn measure(run: &Run<'_>, _: &Options) -> Result<Vec<Table>, Failed> {
    let engine = OneShard::open(&run.fresh_dir(0)?, Limits::default(), &run.interrupt)?;
    for (topic, partitions, enforce_fsync) in
        [(SYNCED, 2, true), (PLAIN, 2, false), (SPREAD, PRODUCERS, true)]
    {
        engine.topic(topic, TopicConfig { partitions, enforce_fsync, ..TopicConfig::default() })?;
    }
    let batch = micro::batches(1, PAYLOAD_BYTES)?.remove(0);
    let warm_up = Bench { run, engine: &engine, batch, time: TIME_MIN };
    // The first appends open files and write the first blocks.
    for topic in [SYNCED, PLAIN, SPREAD] {
        warm_up.on_shard(topic, 1)?;
        warm_up.on_shard(topic, PRODUCERS)?;
    }
    let bench = Bench { time: run.pick(Duration::from_millis(500), TIME_MIN), ..warm_up };
    let mut table = Table::new("durable append, one 100-byte message a batch");
    let mut ways = Table::new("O_DSYNC writes beside write + fdatasync: the same appends");
    for round in run.rounds() {
        let alone = bench.one_producer(round, &mut table)?;
        bench.spinning(round, &mut table)?;
        let crowd = bench.many_producers(round, &alone, &mut table)?;
        bench.other_way(&alone, &crowd, &mut ways)?;
    }
    engine.close()?;
    Ok(vec![table, ways])
}

struct Bench<'a> {
    run: &'a Run<'a>,
    engine: &'a OneShard,
    batch: Bytes,
    time: Duration,
}

/// Durable appends for a while.
struct Phase {
    latency: Latency,
    per_s: f64,
    /// Bytes written, zeros included, over bytes appended, since the engine was opened: zeros are
    /// written in large steps.
    amplification: f64,
    cpu: Cpu,
}

impl Bench<'_> {
    /// One producer, on the shard and on another thread, beside one synced write at a time.
    fn one_producer(&self, round: u32, table: &mut Table) -> Result<Phase, Failed> {
        let ring = || Ok(self.run.ceiling.synced_once(u32::MAX, self.time)?);
        let (synced, alone) = self.run.pair(round, ring, || self.on_shard(SYNCED, 1))?;
        let (_, best) = synced.best();
        let new = |row: Row| row.unit(Unit::Us).beside("ring's best synced write", Ratio::Times);
        let mut add = |what, percent: f64, reach, phase: &Phase, best: &Latency| {
            table.row(what, |row| new(row).reach(reach)).add(Sample {
                engine: phase.latency.percentile_us(percent),
                beside: Some(best.percentile_us(percent)),
                cpu: Some(phase.cpu),
            });
        };
        add("1 producer on the shard, p50", 50.0, "1.35 x", &alone, best);
        add("1 producer on the shard, p99", 99.0, "", &alone, best);
        let (synced, client) = self.run.pair(round, ring, || self.on_client(SYNCED))?;
        let (_, best) = synced.best();
        add("1 producer on another thread, p50", 50.0, "", &client, best);
        Ok(alone)
    }

    /// One producer on a shard that spins, in an engine of its own.
    fn spinning(&self, round: u32, table: &mut Table) -> Result<(), Failed> {
        let dir = self.run.fresh_dir(1)?;
        let interrupt = &self.run.interrupt;
        let engine = OneShard::open_spinning(&dir, Limits::default(), SPIN, interrupt)?;
        let config = TopicConfig { enforce_fsync: true, ..TopicConfig::default() };
        engine.topic(SYNCED, config)?;
        let warm_up = Bench { engine: &engine, batch: self.batch.clone(), time: TIME_MIN, ..*self };
        warm_up.on_shard(SYNCED, 1)?;
        let bench = Bench { time: self.time, ..warm_up };
        let ring = || Ok(self.run.ceiling.synced_once(u32::MAX, self.time)?);
        let (synced, alone) = self.run.pair(round, ring, || bench.on_shard(SYNCED, 1))?;
        let (_, best) = synced.best();
        let new = |row: Row| row.unit(Unit::Us).beside("ring's best synced write", Ratio::Times);
        table.row("1 producer on the shard, which spins for 100 us, p50", new).add(Sample {
            engine: alone.latency.percentile_us(50.0),
            beside: Some(best.percentile_us(50.0)),
            cpu: Some(alone.cpu),
        });
        engine.close()
    }

    /// 64 producers, on one partition beside one producer, on 64 beside 64 synced writes.
    fn many_producers(
        &self,
        round: u32,
        alone: &Phase,
        table: &mut Table,
    ) -> Result<Phase, Failed> {
        self.run.place.settle()?;
        let crowd = self.on_shard(SYNCED, PRODUCERS)?;
        let new = |row: Row| row.unit(Unit::PerS).beside("1 producer", Ratio::Times).reach("20 x");
        table.row("64 producers on the shard, 1 partition", new).add(Sample {
            engine: crowd.per_s,
            beside: Some(alone.per_s),
            cpu: Some(crowd.cpu),
        });
        let many = |layout| {
            let (method, depth) = (Method::Dsync, PRODUCERS as usize);
            let many = Many { layout, method, block: 4096, depth };
            Ok::<_, CeilingError>(self.run.ceiling.synced_many(many, self.time)?.per_s)
        };
        let (best, spread) = self.run.pair(
            round,
            || Ok(many(Layout::Files)?.max(many(Layout::Regions)?)),
            || self.on_shard(SPREAD, PRODUCERS),
        )?;
        let beside = "ring, 64 synced writes in flight, the better of one file and 64";
        let new = |row: Row| row.unit(Unit::PerS).beside(beside, Ratio::Percent).reach("60 %");
        table.row("64 producers on the shard, 64 partitions", new).add(Sample {
            engine: spread.per_s,
            beside: Some(best),
            cpu: Some(spread.cpu),
        });
        Ok(crowd)
    }

    /// The same appends to a topic without `enforce_fsync`.
    fn other_way(&self, alone: &Phase, crowd: &Phase, table: &mut Table) -> Result<(), Failed> {
        self.run.place.settle()?;
        let plain_alone = self.on_shard(PLAIN, 1)?;
        self.run.place.settle()?;
        let plain_crowd = self.on_shard(PLAIN, PRODUCERS)?;
        let mut add = |what, unit, engine, beside| {
            let new = |row: Row| row.unit(unit).beside("write + fdatasync", Ratio::Times);
            table.row(what, new).add(Sample { engine, beside: Some(beside), cpu: None });
        };
        for (p50, p99, rate, written, dsync, plain) in [
            (
                "1 producer, p50",
                "1 producer, p99",
                "1 producer, rate",
                "1 producer, bytes written over appended",
                alone,
                &plain_alone,
            ),
            (
                "64 producers, p50",
                "64 producers, p99",
                "64 producers, rate",
                "64 producers, bytes written over appended",
                crowd,
                &plain_crowd,
            ),
        ] {
            let at = |percent| {
                (dsync.latency.percentile_us(percent), plain.latency.percentile_us(percent))
            };
            add(p50, Unit::Us, at(50.0).0, at(50.0).1);
            add(p99, Unit::Us, at(99.0).0, at(99.0).1);
            add(rate, Unit::PerS, dsync.per_s, plain.per_s);
            add(written, Unit::Number, dsync.amplification, plain.amplification);
        }
        Ok(())
    }

    /// Producers that run on the shard, each with one append at a time. On `SPREAD` each has a
    /// partition.
    fn on_shard(&self, topic: u32, producers: u32) -> Result<Phase, Failed> {
        let first = partition(topic, u32::from(topic != SPREAD && producers > 1));
        self.phase(first, |window| {
            let batch = self.batch.clone();
            self.engine.on_shard_each(producers, move |shard, number| {
                let to = if topic == SPREAD { partition(topic, number) } else { first };
                produce(shard, to, batch.clone(), window)
            })
        })
    }

    /// One producer on this thread.
    fn on_client(&self, topic: u32) -> Result<Phase, Failed> {
        let to = partition(topic, 0);
        self.phase(to, |window| {
            let mut made = Latency::default();
            while let Some(since) = window.next() {
                let call = self.engine.client().append(to, self.batch.clone(), Ack::Durable);
                self.run.interrupt.awaited(call)??;
                window.record(since, &mut made);
            }
            Ok(vec![made])
        })
    }

    /// What `producers` do meanwhile; the bytes are those of partition `of`.
    fn phase(
        &self,
        of: PartitionId,
        producers: impl FnOnce(Window) -> Result<Vec<Latency>, Failed>,
    ) -> Result<Phase, Failed> {
        let (made, cpu) = self.engine.metered(|| producers(Window::soon(self.time)))?;
        let stats = self.engine.stats(of)?;
        let mut latency = Latency::default();
        made.iter().for_each(|one| latency.merge(one));
        Ok(Phase {
            per_s: latency.count() as f64 / self.time.as_secs_f64(),
            latency,
            amplification: (stats.bytes_written + stats.bytes_zeroed) as f64
                / stats.bytes.max(1) as f64,
            cpu,
        })
    }
}

/// When appends count: all producers are there, and none has left.
#[derive(Clone, Copy)]
struct Window {
    start: Instant,
    end: Instant,
}

impl Window {
    fn soon(time: Duration) -> Window {
        let start = Instant::now() + Duration::from_millis(10);
        Window { start, end: start + time }
    }

    /// When the next append begins, None when there is to be none.
    fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        (now < self.end).then_some(now)
    }

    /// An append that began `since` and ended now.
    fn record(&self, since: Instant, made: &mut Latency) {
        let now = Instant::now();
        if (self.start..self.end).contains(&now) {
            made.record(now - since);
        }
    }
}

/// One durable append after the other, on the shard.
async fn produce(
    shard: ShardContext,
    to: PartitionId,
    batch: Bytes,
    window: Window,
) -> Result<Latency, Failed> {
    let mut made = Latency::default();
    while let Some(since) = window.next() {
        shard.append(to, batch.clone(), Ack::Durable).await?;
        window.record(since, &mut made);
    }
    Ok(made)
}
