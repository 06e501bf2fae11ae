//! 10,000 partitions in a process that may have 4,096 files open: to create, to open after a clean
//! close and after SIGKILL, to keep while nothing happens, and to append to, beside 8 partitions.
//!
//! Each engine runs in a process of its own, with the shards and limits that it has by default.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Parser, ValueEnum};
use corelog::calls::Call;
use corelog::error::Unavailable;
use corelog::{Ack, Client, TopicConfig};
use corelog_bench::micro::{
    self, BenchAlloc, Failed, HasOptions, Options, Ratio, Row, Run, Sample, Table, Unit, child,
    partition, process,
};

#[global_allocator]
static ALLOCATOR: BenchAlloc = BenchAlloc;

/// Files that the measured process may have open.
const DESCRIPTORS: u64 = 4096;
/// Partitions that the others are compared with; they are a topic of their own.
const FEW: u32 = 8;
/// Partitions that one request creates.
const A_REQUEST: u32 = 1000;
/// Batches of one message of 1 KB that a partition gets when it is filled.
const BATCHES: u32 = 10;
/// Messages of a large batch, 1 KB each.
const LARGE: u32 = 100;
/// Messages of a batch of the append benchmark, 1 KB each.
const STANDARD: u32 = 1000;
/// Partitions that get one of those in a pair: those that gave up their handles longest ago.
const VISITED: u32 = 2000;
/// Calls that the producer has outstanding, and their bytes.
const OUTSTANDING: usize = 512;
const OUTSTANDING_BYTES: usize = 64 << 20;

#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    common: Options,

    /// Partitions
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    partitions: u32,

    /// Only these rows of the appends to all beside the appends to 8; all of them by default
    #[arg(long, value_name = "ROW", value_delimiter = ',',
          value_parser = ["append", "scattered", "large", "standard"])]
    rows: Vec<String>,

    /// Neither kills nor recovers
    #[arg(long)]
    no_kill: bool,

    /// The measured process: opens this directory and does what --step says
    #[arg(long, hide = true)]
    open: Option<PathBuf>,

    /// What the measured process does
    #[arg(long, hide = true, value_enum, default_value_t = Step::Create)]
    step: Step,
}

/// A measured process, from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Creates the partitions and appends to all of them; closes.
    Create,
    /// Opens them, idles, appends; closes.
    Append,
    /// Opens them and appends ten batches to each; is killed when all are answered as written.
    Kill,
    /// Opens them after that, idles; closes.
    Recover,
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
    let args = Args::try_parse();
    if let Ok(args @ Args { open: Some(_), .. }) = &args {
        let what = format!("{} partitions, {:?}", args.partitions, args.open);
        return child::be_measured(&args.common, what, || be_measured(args));
    }
    micro::main("partitions", env!("CARGO_TARGET_TMPDIR"), measure)
}

fn measure(run: &Run<'_>, args: &Args) -> Result<Vec<Table>, Failed> {
    let partitions = run.pick(args.partitions, 40);
    let mut table = Table::new(format!(
        "{partitions} partitions of {BATCHES} batches of 1 KB, at most {DESCRIPTORS} open files"
    ));
    for _ in run.rounds() {
        let dir = run.fresh_dir(0)?;
        let steps = [Step::Create, Step::Append, Step::Kill, Step::Recover];
        for step in &steps[..if args.no_kill { 2 } else { 4 }] {
            run.place.settle()?;
            tell(&mut table, &observe(run, args, &dir, *step, partitions)?);
        }
        run.place.remove_round(0)?;
    }
    Ok(vec![table])
}

/// Puts what a process told into its rows: each row's figure, and what stands beside it.
fn tell(table: &mut Table, told: &child::Told) {
    let find = |name: &str| told.iter().find(|(told, _)| told == name).map(|(_, value)| *value);
    for (name, unit, what, reach) in ROWS {
        let Some(engine) = find(name) else { continue };
        let beside = find(&format!("{name}_of_few"));
        let new = |row: Row| {
            let row = row.unit(unit).reach(reach);
            if beside.is_some() { row.beside("8 partitions", Ratio::Percent) } else { row }
        };
        table.row(what, new).add(Sample { engine, beside, cpu: None });
    }
}

/// A row: what the measured process calls it, its unit, its name, what it is to reach.
const ROWS: [(&str, Unit, &str, &str); 15] = [
    ("create", Unit::Ms, "created, by requests of 1,000", ""),
    ("create_longest", Unit::Ms, "the longest of those requests", ""),
    ("close", Unit::Ms, "closed, appended to a moment ago", ""),
    ("open_clean", Unit::Ms, "opened after a clean close", "5,000 ms; 2,000 ms"),
    ("open_killed", Unit::Ms, "opened after SIGKILL", "5,000 ms; 2,000 ms"),
    ("resident_clean", Unit::Mib, "idle: resident memory", "512 MiB; 256 MiB"),
    ("resident_killed", Unit::Mib, "idle after a recovery: resident memory", "512 MiB; 256 MiB"),
    ("empty", Unit::Mib, "no partition at all: resident memory", ""),
    ("descriptors", Unit::Number, "idle: open files", "4,096"),
    ("idle_cpu", Unit::Number, "idle: CPU, % of one core", ""),
    ("first", Unit::PerS, "first batches of 1 KB, ten in a row to a partition", ""),
    ("append", Unit::PerS, "batches of 1 KB, ten in a row to a partition", "60 %; 80 %"),
    ("scattered", Unit::PerS, "batches of 1 KB, one to each partition in turn", "60 %; 80 %"),
    ("large", Unit::PerS, "batches of 100 x 1 KB, one to each partition in turn", "60 %; 80 %"),
    (
        "standard",
        Unit::PerS,
        "batches of 1,000 x 1 KB, one to each partition in turn",
        "60 %; 80 %",
    ),
];

/// The measured process.
fn be_measured(args: &Args) -> Result<(), Failed> {
    let (step, partitions) = (args.step, args.partitions);
    let dir = args.open.as_deref().ok_or("no directory was named")?;
    process::limit_descriptors(DESCRIPTORS)?;
    let start = Instant::now();
    let engine = micro::engine(dir).open()?;
    let opened = start.elapsed();
    let batch = micro::batches(1, 1000)?.remove(0);
    match step {
        Step::Create => {
            idle()?;
            child::say("empty", mib(process::resident_bytes()?));
            create(&engine.client(), partitions)?;
            let (client, count) = (engine.client(), partitions * BATCHES);
            append(&client, FEW, 0..count, 1, &batch)?;
            child::say("first", append(&client, partitions, 0..count, BATCHES, &batch)?);
        }
        Step::Kill => {
            append(&engine.client(), partitions, 0..partitions * BATCHES, BATCHES, &batch)?;
            return child::await_kill();
        }
        Step::Append | Step::Recover => {
            let after = if step == Step::Append { "clean" } else { "killed" };
            let served = engine.opened().partitions;
            if served != (partitions + FEW) as usize {
                let not = &engine.opened().not_clean;
                let why = not.iter().find(|(_, result)| result.is_err());
                return Err(format!("{served} of {partitions} + {FEW} opened: {why:?}").into());
            }
            child::say(&format!("open_{after}"), ms(opened));
            let busy = idle()?;
            child::say(&format!("resident_{after}"), mib(process::resident_bytes()?));
            if step == Step::Append {
                child::say("idle_cpu", busy * 100.0);
                child::say("descriptors", process::open_descriptors()? as f64);
                compare(&engine.client(), partitions, &args.rows)?;
            }
        }
    }
    let start = Instant::now();
    engine.close_blocking()?;
    if step == Step::Create {
        child::say("close", ms(start.elapsed()));
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Does nothing for a while, and tells how much of a core the process used in the later half.
fn idle() -> Result<f64, Failed> {
    let half = Duration::from_millis(if cfg!(debug_assertions) { 50 } else { 1500 });
    thread::sleep(half);
    let before = process::cpu_time();
    thread::sleep(half);
    Ok((process::cpu_time() - before).as_secs_f64() / half.as_secs_f64())
}

/// Topic 0 with all partitions, a thousand a request, and topic 1 with the few.
fn create(client: &Client, partitions: u32) -> Result<(), Failed> {
    let catalog = client.catalog();
    catalog.create_stream("bench").wait()?;
    let (start, mut longest) = (Instant::now(), Duration::ZERO);
    let config = |partitions| TopicConfig { partitions, ..TopicConfig::default() };
    let first = partitions.min(A_REQUEST);
    let mut created = 0;
    while created < partitions {
        let begun = Instant::now();
        let count = (partitions - created).min(A_REQUEST);
        match created {
            0 => catalog.create_topic(0, "many", config(first)).wait()?,
            _ => catalog.add_partitions(0, 0, count).wait()?,
        };
        longest = longest.max(begun.elapsed());
        created += count;
    }
    child::say("create", ms(start.elapsed()));
    child::say("create_longest", ms(longest));
    catalog.create_topic(0, "few", config(FEW)).wait()?;
    Ok(())
}

/// Appends to all and to the few, in pairs of both orders: small batches, ten in a row to a
/// partition and one to each in turn, and large ones. Only `rows`, where some are named.
fn compare(client: &Client, partitions: u32, rows: &[String]) -> Result<(), Failed> {
    let small = partitions * BATCHES;
    let ways = [
        ("append", 1, BATCHES, small),
        ("scattered", 1, 1, small),
        ("large", LARGE, 1, partitions),
        ("standard", STANDARD, 1, partitions.min(VISITED)),
    ];
    // The opened ones' first appends allocate their segments, which is no part of any row.
    let first = micro::batches(1, 1000)?.remove(0);
    for over in [partitions, FEW] {
        append(client, over, 0..over, 1, &first)?;
    }
    let is_wanted = |name: &str| rows.is_empty() || rows.iter().any(|row| row == name);
    for (name, messages, run, count) in ways.into_iter().filter(|way| is_wanted(way.0)) {
        let batch = micro::batches(messages, 1000)?.remove(0);
        let mut rates = [0.0, 0.0];
        for pair in 0..2 {
            // The second time not the same partitions, where not all of them have their turn.
            let visits = pair as u32 * count..(pair as u32 + 1) * count;
            for side in [pair, 1 - pair] {
                let over = if side == 0 { partitions } else { FEW };
                rates[side] += append(client, over, visits.clone(), run, &batch)? / 2.0;
            }
        }
        child::say(name, rates[0]);
        child::say(&format!("{name}_of_few"), rates[1]);
    }
    Ok(())
}

/// Appends the batches `numbers` to the first `over` partitions in turn, `run` of them in a row to one,
/// and waits until all are written: batches a second.
fn append(
    client: &Client,
    over: u32,
    numbers: Range<u32>,
    run: u32,
    batch: &Bytes,
) -> Result<f64, Failed> {
    let topic = u32::from(over == FEW);
    let place = |number: u32| partition(topic, number % over);
    let (count, visits) = (numbers.end - numbers.start, numbers.start / run..numbers.end / run);
    let outstanding = (OUTSTANDING_BYTES / batch.len()).clamp(1, OUTSTANDING);
    let start = Instant::now();
    let mut calls = Calls { calls: VecDeque::new(), outstanding };
    for number in numbers {
        calls.add(client.append(place(number / run), batch.clone(), Ack::Appended))?;
    }
    calls.end()?;
    let mut flushes = Calls { calls: VecDeque::new(), outstanding: OUTSTANDING };
    for number in visits.take(over as usize) {
        flushes.add(client.flush(place(number), Ack::Written))?;
    }
    flushes.end()?;
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

/// Calls in flight, waited for in their order.
struct Calls<V, E> {
    calls: VecDeque<Call<V, E>>,
    outstanding: usize,
}

impl<V, E: From<Unavailable> + std::error::Error + Send + Sync + 'static> Calls<V, E> {
    /// Adds one; where there are enough, the oldest must have been answered well before.
    fn add(&mut self, call: Call<V, E>) -> Result<(), Failed> {
        self.calls.push_back(call);
        if self.calls.len() > self.outstanding
            && let Some(oldest) = self.calls.pop_front()
        {
            oldest.wait()?;
        }
        Ok(())
    }

    /// All must have been answered well.
    fn end(self) -> Result<(), Failed> {
        for call in self.calls {
            call.wait()?;
        }
        Ok(())
    }
}

/// Runs one measured process on `dir`: what it told.
fn observe(
    run: &Run<'_>,
    args: &Args,
    dir: &Path,
    step: Step,
    partitions: u32,
) -> Result<child::Told, Failed> {
    let value = step.to_possible_value().expect("no step is hidden");
    let mut program = child::program(run.options)?;
    program.arg("--open").arg(dir).arg("--step").arg(value.get_name());
    program.arg("--partitions").arg(partitions.to_string());
    if !args.rows.is_empty() {
        program.arg("--rows").arg(args.rows.join(","));
    }
    let told = child::observe(program)?;
    if told.is_empty() && step != Step::Kill {
        return Err("the measured process said nothing".into());
    }
    Ok(told)
}
