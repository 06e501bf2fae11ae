//! Opening a partition of 1, 100 and 1,000 sealed segments: after a clean close and after SIGKILL, with
//! what the kernel knows about the files in memory (warm) and dropped (cold; needs root).
//!
//! Each opening is a process of its own, as after a crash. Beside it stands the least that any engine
//! must do: list the directory, and open and stat each log file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use corelog::{Ack, Limits, TopicConfig};
use corelog_bench::interrupt::Interrupt;
use corelog_bench::micro::{
    self, BenchAlloc, Failed, HasOptions, OneShard, Options, Ratio, Row, Run, Sample, Table, Unit,
    child, partition,
};

#[global_allocator]
static ALLOCATOR: BenchAlloc = BenchAlloc;

/// The smallest segment there is.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Where the kernel is told to forget.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    common: Options,

    /// The measured process: opens this directory, tells how long it took, and ends as --end says
    #[arg(long, hide = true)]
    open: Option<PathBuf>,

    /// How the measured process ends
    #[arg(long, hide = true, value_enum, default_value_t = End::Close)]
    end: End,

    /// Sealed segments that the measured process makes first
    #[arg(long, hide = true, default_value_t = 0)]
    make: u32,
}

/// How a process leaves the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum End {
    /// Closes the engine.
    Close,
    /// Is killed behind an append that was answered as written.
    Kill,
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
    if let Ok(Args { open: Some(dir), end, make, common }) = args {
        let what = format!("opening {}", dir.display());
        return child::be_measured(&common, what, || be_opened(&dir, end, make));
    }
    micro::main("opening", env!("CARGO_TARGET_TMPDIR"), measure)
}

/// The measured process. Tells how many milliseconds opening took.
fn be_opened(dir: &Path, end: End, make: u32) -> Result<(), Failed> {
    let start = Instant::now();
    let engine = OneShard::open(dir, Limits::default(), &Interrupt::default())?;
    child::say("opened", ms(start.elapsed()));
    if make > 0 {
        let config = TopicConfig { segment_bytes: SEGMENT_BYTES, ..TopicConfig::default() };
        engine.topic(0, config)?;
        // A little more than a segment: each batch is one.
        let batch = micro::batches(1024, 1024)?.remove(0);
        for _ in 0..make {
            engine.client().append_blocking(partition(0, 0), batch.clone(), Ack::Written)?;
        }
    }
    if engine.client().watermarks_blocking(partition(0, 0)).is_ok() {
        let small = micro::batches(1, 100)?.remove(0);
        engine.client().append_blocking(partition(0, 0), small, Ack::Written)?;
    }
    if end == End::Close {
        return engine.close();
    }
    child::await_kill()
}

fn measure(run: &Run<'_>, _: &Args) -> Result<Vec<Table>, Failed> {
    let sizes: &[u32] = run.pick(&[0, 1, 100, 1000], &[0, 1, 3]);
    for (number, size) in sizes.iter().enumerate() {
        let dir = run.fresh_dir(number as u32)?;
        open(run, &dir, End::Close, *size)?;
    }
    let mut table = Table::new("opening an engine with one partition of so many sealed segments");
    // A test must not take the caches from everybody else on the machine.
    let can_drop = !run.options.quick && drop_caches(run).is_ok();
    for _ in run.rounds() {
        for (number, size) in sizes.iter().enumerate() {
            let dir = run.place.round_dir(number as u32);
            for Step { after, is_cold, end } in STEPS {
                if is_cold && !can_drop {
                    open(run, &dir, end, 0)?;
                    continue;
                }
                temper(run, is_cold, *size, &dir)?;
                let floor = (*size > 0).then(|| list_and_stat(&dir)).transpose()?;
                temper(run, is_cold, *size, &dir)?;
                let opened = open(run, &dir, end, 0)?;
                let new = |row: Row| {
                    row.unit(Unit::Ms)
                        .beside("list, open and stat", Ratio::None)
                        .reach(if *size == 1000 { "1,000 ms" } else { "" })
                };
                let temperature = if is_cold { "cold" } else { "warm" };
                let what = match size {
                    0 => format!("no partition at all, after {after}, {temperature}"),
                    size => format!("{size} sealed, after {after}, {temperature}"),
                };
                let sample = Sample { engine: opened, beside: floor.map(ms), cpu: None };
                table.row(&what, new).add(sample);
            }
        }
    }
    if !can_drop && !run.options.quick {
        table.note(format!("nothing cold: writing {DROP_CACHES} was refused (it needs root)"));
    }
    Ok(vec![table])
}

/// One opening of a round: what was before it, and what it leaves to the next.
struct Step {
    after: &'static str,
    is_cold: bool,
    end: End,
}

const STEPS: [Step; 4] = [
    Step { after: "a clean close", is_cold: false, end: End::Close },
    Step { after: "a clean close", is_cold: true, end: End::Kill },
    Step { after: "SIGKILL", is_cold: false, end: End::Kill },
    Step { after: "SIGKILL", is_cold: true, end: End::Close },
];

/// Makes the kernel forget the files, or know them.
fn temper(run: &Run<'_>, is_cold: bool, size: u32, dir: &Path) -> Result<(), Failed> {
    if is_cold {
        drop_caches(run)?;
    } else if size > 0 {
        list_and_stat(dir)?;
    }
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Lets the kernel forget pages, dentries and inodes.
fn drop_caches(run: &Run<'_>) -> Result<(), Failed> {
    run.place.settle()?;
    Ok(fs::write(DROP_CACHES, "3")?)
}

/// Opens `dir` in a process of its own, which makes `make` segments and ends as `end` says: the
/// milliseconds that opening took.
fn open(run: &Run<'_>, dir: &Path, end: End, make: u32) -> Result<f64, Failed> {
    let mut program = child::program(run.options)?;
    program.arg("--open").arg(dir).arg("--make").arg(make.to_string());
    program.arg("--end").arg(if end == End::Kill { "kill" } else { "close" });
    let told = child::observe(program)?;
    let opened = told.into_iter().find(|(name, _)| name == "opened");
    Ok(opened.ok_or("the measured process said nothing")?.1)
}

/// The least that opening must do: read the directory, open and stat each log.
fn list_and_stat(dir: &Path) -> Result<Duration, Failed> {
    let partition = dir.join("streams/0/topics/0/partitions/0");
    let start = Instant::now();
    let mut logs = 0;
    for entry in fs::read_dir(&partition)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            fs::File::open(&path)?.metadata()?;
            logs += 1;
        }
    }
    let took = start.elapsed();
    if logs == 0 { Err(format!("no log in {}", partition.display()).into()) } else { Ok(took) }
}
