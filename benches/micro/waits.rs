//! Polls that wait for messages: what a thousand of them cost while none come, and how they are woken.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use corelog::calls::Call;
use corelog::error::PollError;
use corelog::{Ack, Client, Poll, Records, TopicConfig};
use corelog_bench::micro::{
    self, BenchAlloc, Failed, Options, Ratio, Row, Run, Sample, Table, Unit, partition, process,
};

#[global_allocator]
static ALLOCATOR: BenchAlloc = BenchAlloc;

/// Polls that wait.
const POLLS: u32 = 1000;
/// Longer than the benchmark takes.
const WAIT: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    micro::main::<Options>("waits", env!("CARGO_TARGET_TMPDIR"), measure)
}

fn measure(run: &Run<'_>, _: &Options) -> Result<Vec<Table>, Failed> {
    let polls = run.pick(POLLS, 20);
    let window = run.pick(Duration::from_secs(2), Duration::from_millis(20));
    let batch = micro::batches(1, 1000)?.remove(0);
    let mut table = Table::new(format!("{polls} polls that wait"));
    let engine = micro::engine(&run.fresh_dir(0)?).open()?;
    let client = engine.client();
    let catalog = client.catalog();
    catalog.create_stream("bench").wait()?;
    catalog
        .create_topic(0, "each", TopicConfig { partitions: polls, ..TopicConfig::default() })
        .wait()?;
    catalog.create_topic(0, "one", TopicConfig::default()).wait()?;
    let mut end = [0, 0];
    for _ in run.rounds() {
        for (topic, over, what) in [(0, polls, "one a partition"), (1, 1, "all on one partition")] {
            let without = idle(window);
            let calls = wait_all(&client, topic, over, polls, end[topic as usize])?;
            let with = idle(window);
            let new = |row: Row| row.unit(Unit::Number).beside("% with none", Ratio::None);
            let name = format!("{what}: CPU while nothing comes, % of one core");
            let sample = Sample { engine: with, beside: Some(without), cpu: None };
            table.row(&name, new).add(sample);
            let (took, cpu) = wake_all(&client, topic, over, calls, &batch)?;
            end[topic as usize] += 1;
            let sample = |engine| Sample { engine, beside: None, cpu: None };
            let name = format!("{what}: from the first append to the last answer");
            table.row(&name, |row: Row| row.unit(Unit::Ms)).add(sample(took));
            let name = format!("{what}: process CPU for it, a poll");
            table.row(&name, |row: Row| row.unit(Unit::Us)).add(sample(cpu / f64::from(polls)));
        }
    }
    engine.close_blocking()?;
    Ok(vec![table])
}

/// CPU of the process while nothing is asked of it, % of one core.
fn idle(window: Duration) -> f64 {
    thread::sleep(window / 10);
    let before = process::cpu_time();
    thread::sleep(window);
    (process::cpu_time() - before).as_secs_f64() / window.as_secs_f64() * 100.0
}

type Waiting = Vec<Call<Records, PollError>>;

/// Asks for what comes behind offset `end`, `polls` times, over the partitions in turn.
fn wait_all(
    client: &Client,
    topic: u32,
    over: u32,
    polls: u32,
    end: u64,
) -> Result<Waiting, Failed> {
    let ask = |number| {
        let poll = Poll::offset(end).max_wait(WAIT);
        client.poll(partition(topic, number % over), poll)
    };
    let calls: Waiting = (0..polls).map(ask).collect();
    match calls.iter().find_map(Call::refusal) {
        Some(error) => Err(format!("a poll was refused: {error}").into()),
        None => Ok(calls),
    }
}

/// Appends one batch to each partition and waits for all polls: milliseconds, and microseconds of
/// CPU.
fn wake_all(
    client: &Client,
    topic: u32,
    over: u32,
    calls: Waiting,
    batch: &Bytes,
) -> Result<(f64, f64), Failed> {
    let (start, cpu) = (Instant::now(), process::cpu_time());
    let append = |number| client.append(partition(topic, number), batch.clone(), Ack::Appended);
    let appends: Vec<_> = (0..over).map(append).collect();
    for call in calls {
        let records = call.wait()?;
        if records.messages() != 1 {
            return Err(format!("{} messages instead of one", records.messages()).into());
        }
    }
    let (took, cpu) = (start.elapsed(), process::cpu_time() - cpu);
    for append in appends {
        append.wait()?;
    }
    Ok((took.as_secs_f64() * 1e3, cpu.as_secs_f64() * 1e6))
}
