//! Append: 1,000 messages of 1 KB a batch, verified at admission, answered when written, beside what
//! the raw ring writes at the same size and depth to a fresh, allocated file.
//!
//! `--sweep` looks for the best size and depth of the engine's writes instead.

use std::process::ExitCode;
use std::time::Instant;

use bytes::Bytes;
use clap::Parser;
use corelog::{Ack, Limits, TopicConfig};
use corelog_bench::ceiling::Shape;
use corelog_bench::interrupt::Interrupt;
use corelog_bench::micro::{
    self, BenchAlloc, Cpu, Failed, HasOptions, OneShard, Options, Ratio, Row, Run, Sample, Table,
    Unit, partition,
};
use corelog_bench::outstanding::Outstanding;
use corelog_bench::stats::mb_per_s;

#[global_allocator]
static ALLOCATOR: BenchAlloc = BenchAlloc;

#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    common: Options,

    /// MiB a phase appends
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    mib: u64,

    /// Appends a producer has outstanding
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    in_flight: u16,

    /// Try other sizes and depths of the engine's writes
    #[arg(long)]
    sweep: bool,
}

impl HasOptions for Args {
    fn options(&self) -> &Options {
        &self.common
    }

    fn options_mut(&mut self) -> &mut Options {
        &mut self.common
    }
}

fn main() -> ExitCode {
    micro::main("append", env!("CARGO_TARGET_TMPDIR"), measure)
}

/// One way to append.
#[derive(Clone, Copy)]
struct Way {
    what: &'static str,
    reach: &'static str,
    partitions: u32,
    write_bytes: usize,
    writes_in_flight: usize,
}

fn measure(run: &Run<'_>, args: &Args) -> Result<Vec<Table>, Failed> {
    let usual = Limits::default();
    let way = |what, reach, partitions| Way {
        what,
        reach,
        partitions,
        write_bytes: usual.single_write_bytes,
        writes_in_flight: usual.writes_in_flight,
    };
    let one = way("1 partition, 1 producer on another thread", "90 %", 1);
    let mut table = Table::new("append, 1,000 x 1 KB a batch, answered when written");
    if !args.sweep {
        let four = way("4 partitions, 1 producer on another thread", "", 4);
        for round in run.rounds() {
            for way in [one, four] {
                pair(run, args, round, way, way.what, &mut table)?;
            }
        }
        return Ok(vec![table]);
    }
    for round in run.rounds() {
        for kib in [128, 256, 512, 1024, 2048] {
            for writes_in_flight in [2, 4, 8, 16] {
                let way = Way { reach: "", write_bytes: kib << 10, writes_in_flight, ..one };
                let what = format!("writes of {kib} KiB, {writes_in_flight} in flight");
                pair(run, args, round, way, &what, &mut table)?;
            }
        }
    }
    Ok(vec![table])
}

/// The ceiling and the engine once.
fn pair(
    run: &Run<'_>,
    args: &Args,
    round: u32,
    way: Way,
    what: &str,
    table: &mut Table,
) -> Result<(), Failed> {
    let batches = micro::batches(1000, run.pick(1000, 100))?;
    let bytes = run.pick(args.mib << 20, 4 << 20);
    let count = bytes.div_ceil(batches[0].len() as u64);
    let shape = Shape { block: way.write_bytes, depth: way.writes_in_flight, rings: 1 };
    let (wrote, (appended, cpu)) = run.pair(
        round,
        || {
            let wrote = run.ceiling.write_once(bytes, shape)?;
            run.ceiling.remove_files(1)?;
            Ok(wrote)
        },
        || append(run, args, way, &batches, count),
    )?;
    let new =
        |row: Row| row.unit(Unit::MbPerS).beside("ring's writes", Ratio::Percent).reach(way.reach);
    table.row(what, new).add(Sample {
        engine: appended,
        beside: Some(mb_per_s(wrote.bytes, wrote.elapsed)),
        cpu: Some(cpu),
    });
    Ok(())
}

/// The engine on a fresh directory: MB/s from the first call to the last answer, after a warm-up.
fn append(
    run: &Run<'_>,
    args: &Args,
    way: Way,
    batches: &[Bytes],
    count: u64,
) -> Result<(f64, Cpu), Failed> {
    let limits = Limits {
        single_write_bytes: way.write_bytes,
        writes_in_flight: way.writes_in_flight,
        ..Limits::default()
    };
    let dir = run.fresh_dir(0)?;
    let engine = OneShard::open(&dir, limits, &run.interrupt)?;
    engine.topic(0, TopicConfig { partitions: way.partitions, ..TopicConfig::default() })?;
    // The files are open, buffers and code are warm.
    let warm_up = u64::from(way.partitions);
    produce(&engine, args, way.partitions, batches, warm_up, &run.interrupt)?;
    let (elapsed, cpu) = engine.metered(|| {
        let start = Instant::now();
        produce(&engine, args, way.partitions, batches, count, &run.interrupt)?;
        Ok(start.elapsed())
    })?;
    engine.close()?;
    run.place.remove_round(0)?;
    Ok((mb_per_s(count * batches[0].len() as u64, elapsed), cpu))
}

/// One producer: `count` batches over the partitions in turns.
fn produce(
    engine: &OneShard,
    args: &Args,
    partitions: u32,
    batches: &[Bytes],
    count: u64,
    interrupt: &Interrupt,
) -> Result<(), Failed> {
    let mut outstanding = Outstanding::on_this_thread();
    for number in 0..count {
        let to = partition(0, (number % u64::from(partitions)) as u32);
        let batch = batches[number as usize % batches.len()].clone();
        let call = engine.client().append(to, batch, Ack::Written);
        if let Some((ended, _)) = outstanding.push(Instant::now(), call) {
            ended?;
        }
        if outstanding.in_flight() >= usize::from(args.in_flight)
            && let Some((ended, _)) = outstanding.wait_any(interrupt).map_err(|_| "stopped")?
        {
            ended?;
        }
    }
    while let Some((ended, _)) = outstanding.wait_any(interrupt).map_err(|_| "stopped")? {
        ended?;
    }
    Ok(())
}
