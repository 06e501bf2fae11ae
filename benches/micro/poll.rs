//! Cold sequential poll: a partition is read from its beginning to its end, every checksum verified,
//! beside what the raw ring reads from a file of the same size at the same request size and depth.
//! The last row is the ring itself, going round in as much memory as a shard's cache has.
//!
//! The engine is opened anew each time, so that nothing is in its memory.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use corelog::{Ack, Limits, Poll, TopicConfig};
use corelog_bench::ceiling::Shape;
use corelog_bench::micro::{
    self, Awaited, BenchAlloc, Cpu, Failed, HasOptions, OneShard, Options, Ratio, Row, Run, Sample,
    Table, Unit, partition,
};
use corelog_bench::stats::mb_per_s;

#[global_allocator]
static ALLOCATOR: BenchAlloc = BenchAlloc;

#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    common: Options,

    /// MiB in the partition
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    mib: u64,

    /// KiB of one of the ceiling's reads
    #[arg(long, value_name = "N", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(4..=1 << 20))]
    ceiling_kib: u32,

    /// Reads that the ceiling has in flight
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    ceiling_depth: u16,
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
    micro::main("poll", env!("CARGO_TARGET_TMPDIR"), measure)
}

/// Where the consumer runs, and how much it asks for.
#[derive(Clone, Copy)]
struct Consumer {
    what: &'static str,
    reach: &'static str,
    on_shard: bool,
    poll_bytes: usize,
}

const CONSUMERS: [Consumer; 3] = [
    Consumer {
        what: "1 consumer on another thread, 1 MiB a poll",
        reach: "88 %",
        on_shard: false,
        poll_bytes: 1 << 20,
    },
    Consumer {
        what: "1 consumer on another thread, 4 MiB a poll",
        reach: "",
        on_shard: false,
        poll_bytes: 4 << 20,
    },
    Consumer {
        what: "1 consumer on the shard, 1 MiB a poll",
        reach: "",
        on_shard: true,
        poll_bytes: 1 << 20,
    },
];

fn measure(run: &Run<'_>, args: &Args) -> Result<Vec<Table>, Failed> {
    let bytes = run.pick(args.mib << 20, 4 << 20);
    let shape = Shape {
        block: (args.ceiling_kib as usize).next_multiple_of(4) << 10,
        depth: usize::from(args.ceiling_depth),
        rings: 1,
    };
    let end = fill(run, bytes)?;
    run.ceiling.write_once(bytes, shape)?;
    let title = format!(
        "cold sequential poll, verified (ring: reads of {} KiB, {} in flight)",
        shape.block >> 10,
        shape.depth
    );
    let mut table = Table::new(title);
    for round in run.rounds() {
        for consumer in CONSUMERS {
            let (read, (polled, cpu)) = run.pair(
                round,
                || Ok(run.ceiling.read_once(bytes, shape)?),
                || consume(run, consumer, end),
            )?;
            let new = |row: Row| {
                row.unit(Unit::MbPerS).beside("ring's reads", Ratio::Percent).reach(consumer.reach)
            };
            table.row(consumer.what, new).add(Sample {
                engine: polled,
                beside: Some(mb_per_s(read.bytes, read.elapsed)),
                cpu: Some(cpu),
            });
        }
    }
    for round in run.rounds() {
        let memory = Limits::default().cache_bytes;
        let (few, many) = run.pair(
            round,
            || Ok(run.ceiling.read_once(bytes, shape)?),
            || Ok(run.ceiling.read_round(bytes, shape, memory)?),
        )?;
        let what = format!("no engine: the ring, going round in {} MiB of buffers", memory >> 20);
        let new = |row: Row| row.unit(Unit::MbPerS).beside("ring's reads", Ratio::Percent);
        table.row(&what, new).add(Sample {
            engine: mb_per_s(many.bytes, many.elapsed),
            beside: Some(mb_per_s(few.bytes, few.elapsed)),
            cpu: None,
        });
    }
    Ok(vec![table])
}

/// Appends `bytes` to the partition; answers the end offset.
fn fill(run: &Run<'_>, bytes: u64) -> Result<u64, Failed> {
    let batches = micro::batches(1000, run.pick(1000, 100))?;
    let engine = OneShard::open(&run.fresh_dir(0)?, Limits::default(), &run.interrupt)?;
    engine.topic(0, TopicConfig::default())?;
    let count = bytes.div_ceil(batches[0].len() as u64);
    for number in 0..count {
        let batch = batches[number as usize % batches.len()].clone();
        let ack = if number + 1 == count { Ack::Durable } else { Ack::Appended };
        run.interrupt.awaited(engine.client().append(partition(0, 0), batch, ack))??;
    }
    engine.close()?;
    Ok(count * 1000)
}

/// Reads up to offset `end`, on an engine that has nothing in memory.
fn consume(run: &Run<'_>, consumer: Consumer, end: u64) -> Result<(f64, Cpu), Failed> {
    let engine = OneShard::open(&run.place.round_dir(0), Limits::default(), &run.interrupt)?;
    let poll = move |offset| Poll::offset(offset).max_bytes(consumer.poll_bytes);
    let ((bytes, elapsed), cpu) = engine.metered(|| {
        let start = Instant::now();
        let bytes = if consumer.on_shard {
            engine.on_shard(move |shard| async move {
                let (mut offset, mut bytes) = (0, 0);
                while offset < end {
                    let records = shard.poll(partition(0, 0), poll(offset)).await?;
                    bytes += records.len() as u64;
                    offset = advanced(offset, records.next_offset())?;
                }
                Ok(bytes)
            })?
        } else {
            // The next poll is on its way while this one's records are looked at, as a consumer
            // that works on them would do it.
            let client = engine.client();
            let mut bytes = 0;
            let mut offset = 0;
            let mut call = client.poll(partition(0, 0), poll(offset));
            loop {
                let records = run.interrupt.awaited(call)??;
                bytes += records.len() as u64;
                offset = advanced(offset, records.next_offset())?;
                if offset >= end {
                    break bytes;
                }
                call = client.poll(partition(0, 0), poll(offset));
            }
        };
        Ok((bytes, start.elapsed()))
    })?;
    engine.close()?;
    Ok((mb_per_s(bytes, elapsed), cpu))
}

fn advanced(from: u64, to: u64) -> Result<u64, Failed> {
    if to > from { Ok(to) } else { Err(format!("nothing to read at offset {from}").into()) }
}
