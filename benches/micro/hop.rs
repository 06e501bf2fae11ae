//! A request that crosses from one shard to another and its answer back, with both shards asleep and
//! with both busy with the appends of their own partitions.
//!
//! The request asks for watermarks: the owner answers it from its head, so that what is measured is
//! the way. Two shards on two CPUs; this thread only waits.

use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelog::{Ack, PartitionId, ShardContext, TopicConfig};
use corelog_bench::latency::Latency;
use corelog_bench::micro::{
    self, Awaited, BenchAlloc, Failed, Options, Row, Run, Sample, Table, Unit, partition,
};

#[global_allocator]
static ALLOCATOR: BenchAlloc = BenchAlloc;

/// Producers on each busy shard, one append at a time each.
const PRODUCERS: usize = 8;

fn main() -> ExitCode {
    micro::main::<Options>("hop", env!("CARGO_TARGET_TMPDIR"), measure)
}

/// What the shards do beside the hop.
#[derive(Clone, Copy)]
struct Way {
    what: &'static str,
    reach: &'static str,
    /// When the appends of each shard are answered; `None` where there are none.
    busy: Option<Ack>,
    spin: Duration,
}

const WAYS: [Way; 4] = [
    Way { what: "both asleep", reach: "", busy: None, spin: Duration::ZERO },
    Way {
        what: "both asleep, spinning for 200 us before",
        reach: "",
        busy: None,
        spin: Duration::from_micros(200),
    },
    Way {
        what: "both busy, appends answered when written",
        reach: "20 us; 10 us",
        busy: Some(Ack::Written),
        spin: Duration::ZERO,
    },
    Way {
        what: "both busy, appends answered at once",
        reach: "20 us; 10 us",
        busy: Some(Ack::Appended),
        spin: Duration::ZERO,
    },
];

fn measure(run: &Run<'_>, _: &Options) -> Result<Vec<Table>, Failed> {
    let mut table = Table::new("a request to another shard and its answer");
    for _ in run.rounds() {
        for way in WAYS {
            let Hops { p50, p99, appends } = hops(run, way)?;
            let new = |row: Row| row.unit(Unit::Us).reach(way.reach);
            let sample = |engine| Sample { engine, beside: None, cpu: None };
            table.row(&format!("{}, p50", way.what), new).add(sample(p50));
            let new = |row: Row| row.unit(Unit::Us);
            table.row(&format!("{}, p99", way.what), new).add(sample(p99));
            if way.busy.is_some() {
                let new = |row: Row| row.unit(Unit::PerS);
                let what = format!("{}: appends of both beside it", way.what);
                table.row(&what, new).add(sample(appends));
            }
        }
    }
    Ok(vec![table])
}

struct Hops {
    p50: f64,
    p99: f64,
    appends: f64,
}

/// Hops for a while, from shard 0 to shard 1.
fn hops(run: &Run<'_>, way: Way) -> Result<Hops, Failed> {
    let engine = micro::engine(&run.fresh_dir(0)?).shards(2).spin(way.spin).open()?;
    let catalog = engine.client().catalog();
    catalog.create_stream("bench").wait()?;
    // Neighbours have owners in turn, so each shard gets the same number.
    let config = TopicConfig { partitions: 2 * PRODUCERS as u32, ..TopicConfig::default() };
    catalog.create_topic(0, "busy", config).wait()?;
    let (over, appends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    if let Some(ack) = way.busy {
        let batch = micro::batches(1, 1000)?.remove(0);
        for shard in 0..2 {
            let (over, appends, batch) = (Arc::clone(&over), Arc::clone(&appends), batch.clone());
            let begun = engine.run_on_shard(shard, move |shard| async move {
                keep_busy(&shard, ack, &batch, &over, &appends);
            });
            run.interrupt.awaited(begun)??;
        }
    }
    let time = run.pick(Duration::from_millis(1000), Duration::from_millis(20));
    let hopping = engine.run_on_shard(0, move |shard| hop(shard, time));
    let latency = run.interrupt.awaited(hopping)??;
    over.store(true, Ordering::Relaxed);
    let (latency, took) = latency?;
    engine.close_blocking()?;
    let appends = appends.load(Ordering::Relaxed) as f64 / took.as_secs_f64();
    Ok(Hops { p50: latency.percentile_us(50.0), p99: latency.percentile_us(99.0), appends })
}

/// The partitions of the topic that `shard` owns, or does not.
fn partitions(shard: &ShardContext, own: bool) -> impl Iterator<Item = PartitionId> {
    let all = (0..2 * PRODUCERS as u32).map(|number| partition(0, number));
    all.filter(move |id| shard.owns(*id) == own)
}

/// Starts this shard's producers, each on a partition of its own.
fn keep_busy(
    shard: &ShardContext,
    ack: Ack,
    batch: &Bytes,
    over: &Arc<AtomicBool>,
    appends: &Arc<AtomicU64>,
) {
    for to in partitions(shard, true) {
        let (producer, batch) = (shard.clone(), batch.clone());
        let (over, appends) = (Arc::clone(over), Arc::clone(appends));
        shard.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                if producer.append(to, batch.clone(), ack).await.is_err() {
                    return;
                }
                appends.fetch_add(1, Ordering::Relaxed);
                producer.yield_now().await;
            }
        });
    }
}

/// One hop after the other, and how long each took.
async fn hop(shard: ShardContext, time: Duration) -> Result<(Latency, Duration), Failed> {
    let others = Rc::new(partitions(&shard, false).collect::<Vec<_>>());
    let mut latency = Latency::default();
    // The producers are under way, code is warm.
    for to in others.iter().cycle().take(200) {
        shard.watermarks(*to).await?;
    }
    let start = Instant::now();
    for to in others.iter().cycle() {
        let begun = Instant::now();
        shard.watermarks(*to).await?;
        latency.record(begun.elapsed());
        if start.elapsed() >= time {
            break;
        }
        shard.yield_now().await;
    }
    Ok((latency, start.elapsed()))
}
