//! Poll of the memory tail: 64 KiB that nobody copies, a second and a core.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use corelog::{Ack, Limits, Poll, Records, TopicConfig};
use corelog_bench::micro::{
    self, Awaited, BenchAlloc, Cpu, Failed, OneShard, Options, Row, Run, Sample, Table, Unit,
    partition,
};
use corelog_bench::outstanding::Outstanding;

#[global_allocator]
static ALLOCATOR: BenchAlloc = BenchAlloc;

/// Most bytes of a poll; a batch of 15 messages of 4 KiB is a little less.
const POLL_BYTES: usize = 64 << 10;
const MESSAGES: u32 = 15;
/// Batches in the tail that are polled in turns: 4 MiB, far below what is kept in memory.
const TURNS: u64 = 64;
/// Polls that another thread has outstanding.
const OUTSTANDING: usize = 32;

fn main() -> ExitCode {
    micro::main::<Options>("memory", env!("CARGO_TARGET_TMPDIR"), measure)
}

fn measure(run: &Run<'_>, _: &Options) -> Result<Vec<Table>, Failed> {
    let engine = OneShard::open(&run.fresh_dir(0)?, Limits::default(), &run.interrupt)?;
    engine.topic(0, TopicConfig::default())?;
    let batch = micro::batches(MESSAGES, 4 << 10)?.remove(0);
    for _ in 0..TURNS {
        run.interrupt.awaited(engine.client().append(
            partition(0, 0),
            batch.clone(),
            Ack::Written,
        ))??;
    }
    let time = run.pick(Duration::from_millis(500), Duration::from_millis(20));
    let mut table = Table::new("poll of the memory tail, 64 KiB, no copy");
    for _ in run.rounds() {
        let mut add = |what, reach, (per_s, cpu): (f64, Cpu)| {
            table.row(what, |row: Row| row.unit(Unit::PerS).reach(reach)).add(Sample {
                engine: per_s,
                beside: None,
                cpu: Some(cpu),
            });
        };
        add("on the shard", "500,000 /s", on_shard(&engine, time)?);
        add("from another thread, 1 at a time", "", from_thread(run, &engine, time, 1)?);
        let many = from_thread(run, &engine, time, OUTSTANDING)?;
        add("from another thread, 32 outstanding", "", many);
    }
    let (read, copied) = (engine.stats(partition(0, 0))?.disk_read_bytes, engine.copied()?);
    if read > 0 || copied > 0 {
        return Err(
            format!("{read} bytes from the disk, {copied} copies for want of leases").into()
        );
    }
    engine.close()?;
    Ok(vec![table])
}

/// The `number`-th poll.
fn poll(number: u64) -> Poll {
    Poll::offset(number % TURNS * u64::from(MESSAGES)).max_bytes(POLL_BYTES)
}

/// What was asked for.
fn check(records: &Records) -> Result<(), Failed> {
    match records.messages() {
        MESSAGES => Ok(()),
        other => Err(format!("{other} messages instead of {MESSAGES}").into()),
    }
}

/// One poll after the other, on the shard. Looks up now and then, as code on a shard must.
fn on_shard(engine: &OneShard, time: Duration) -> Result<(f64, Cpu), Failed> {
    engine.metered(|| {
        engine.on_shard(move |shard| async move {
            let start = Instant::now();
            let mut polls = 0;
            while start.elapsed() < time {
                for _ in 0..64 {
                    let records = shard.poll(partition(0, 0), poll(polls)).await?;
                    check(&records)?;
                    polls += 1;
                }
                shard.yield_now().await;
            }
            Ok(polls as f64 / start.elapsed().as_secs_f64())
        })
    })
}

/// `outstanding` polls at a time from this thread.
fn from_thread(
    run: &Run<'_>,
    engine: &OneShard,
    time: Duration,
    outstanding: usize,
) -> Result<(f64, Cpu), Failed> {
    engine.metered(|| {
        let mut calls = Outstanding::on_this_thread();
        let (start, mut begun, mut polls) = (Instant::now(), 0, 0);
        while start.elapsed() < time {
            while calls.in_flight() < outstanding {
                let call = engine.client().poll(partition(0, 0), poll(begun));
                begun += 1;
                if let Some((records, _)) = calls.push(Instant::now(), call) {
                    drop(records?);
                    polls += 1;
                }
            }
            if let Some((records, _)) = calls.wait_any(&run.interrupt).map_err(|_| "stopped")? {
                let records = records?;
                check(&records)?;
                polls += 1;
            }
        }
        let per_s = polls as f64 / start.elapsed().as_secs_f64();
        while calls.wait_any(&run.interrupt).map_err(|_| "stopped")?.is_some() {}
        Ok(per_s)
    })
}
