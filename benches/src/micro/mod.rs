//! What the benchmarks in `benches/micro` share: options, rounds, an engine on one shard, the table.
//!
//! A benchmark is a function that fills a [`Table`], in rounds, engine and ceiling in turns:
//!
//! ```sh
//! cargo bench -p corelog-bench --bench durable -- --rounds 15
//! ```
//!
//! | file | holds |
//! | --- | --- |
//! | `options` | the flags that all have |
//! | `one_shard` | the engine under measurement, and work that runs on its shard |
//! | `cpu` | what a phase cost: the shard's thread and the whole process |
//! | `allocator` | the global allocator of the benchmarks: counts, and can do without huge pages |
//! | `child` | an engine in a process of its own, which tells what it measured |
//! | `process` | what the process holds: memory, descriptors |
//! | `blame` | whose code made an allocation |
//! | `table` | medians with intervals, as Markdown and as JSON |
//!
//! Without arguments, and whenever the code is not optimised, everything runs through once on little
//! data and the figures mean nothing: that is how `cargo test` keeps the benchmarks working.

mod allocator;
mod blame;
pub mod child;
mod cpu;
mod one_shard;
mod options;
pub mod process;
mod table;

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use corelog_format::BuildError;
use serde_json::json;

use crate::ceiling::Ceiling;
use crate::content::{BatchId, Content, Outbox};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::place::{Place, PlaceError};
use crate::progress::Progress;

pub use allocator::{BenchAlloc, counted, traced};
pub use blame::{Blamed, blame};
pub use cpu::Cpu;
pub use one_shard::{Awaited, OneShard, engine, partition};
pub use options::{HasOptions, Options};
pub use table::{Ratio, Row, Sample, Table, Unit};

/// Any failure of a benchmark; printed, never matched.
pub type Failed = Box<dyn Error + Send + Sync>;

/// What a benchmark runs with.
pub struct Run<'a> {
    /// The flags that all benchmarks have.
    pub options: &'a Options,
    /// Where its files go.
    pub place: Place,
    /// The raw ring, in the same place.
    pub ceiling: Ceiling,
    /// Raised by Ctrl-C.
    pub interrupt: Interrupt,
    name: &'static str,
}

/// The `main` of a benchmark: reads the flags, calls `bench`, prints its tables. `target` is where
/// the build keeps temporary files, which is on a real disk: `env!("CARGO_TARGET_TMPDIR")`.
pub fn main<O: HasOptions>(
    name: &'static str,
    target: &str,
    bench: impl FnOnce(&Run<'_>, &O) -> Result<Vec<Table>, Failed>,
) -> ExitCode {
    // What a test runner asks before it runs: there are no tests to name.
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let options = O::read();
    let default = Path::new(target).join(format!("micro-{name}"));
    let done = measure(name, &default, &options, bench);
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Obeys `--system-alloc` and `--runtime`.
fn obey(options: &Options) {
    if options.system_alloc {
        allocator::use_system_alone();
    }
    one_shard::run_on(options.runtime);
}

fn measure<O: HasOptions>(
    name: &'static str,
    default: &Path,
    all: &O,
    bench: impl FnOnce(&Run<'_>, &O) -> Result<Vec<Table>, Failed>,
) -> Result<(), Failed> {
    let options = all.options();
    obey(options);
    let interrupt = Interrupt::on_signals()?;
    let place = Place::take(Some(options.dir.as_deref().unwrap_or(default)), false)?;
    let machine = Machine::look(place.path());
    let ceiling = Ceiling::new(place.ceiling_dir()?, interrupt.clone());
    let run = Run { options, place, ceiling, interrupt, name };
    let tables = bench(&run, all)?;
    tell(&mut io::stdout().lock(), &run, &machine, &tables)?;
    if let Some(path) = &options.json {
        let json = json!({
            "schema": 1,
            "bench": name,
            "rounds": options.rounds(),
            "quick": options.quick,
            "allocator": options.allocator(),
            "runtime": options.runtime.name(),
            "machine": machine.to_json(),
            "tables": tables.iter().map(Table::to_json).collect::<Vec<_>>(),
        });
        fs::write(path, format!("{json:#}\n"))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

fn tell(out: &mut dyn Write, run: &Run<'_>, machine: &Machine, tables: &[Table]) -> io::Result<()> {
    let (rounds, runtime) = (run.options.rounds(), run.options.runtime);
    writeln!(out, "<!-- {}; on {runtime}; {rounds} rounds; {} -->", run.name, machine.line())?;
    if run.options.quick {
        writeln!(out, "\nA quick look whether everything works: the figures mean nothing.")?;
    }
    for table in tables {
        table.print(run.options.allocator(), out)?;
    }
    Ok(())
}

impl Run<'_> {
    /// The numbers of the rounds, each told on stderr as it begins.
    pub fn rounds(&self) -> impl Iterator<Item = u32> + use<> {
        let rounds = self.options.rounds();
        let progress = Progress::new("round", rounds, false);
        (0..rounds).inspect(move |round| progress.begin(*round))
    }

    /// `usual`, or `quick` where nothing is measured.
    pub fn pick<T>(&self, usual: T, quick: T) -> T {
        if self.options.quick { quick } else { usual }
    }

    /// The ceiling's phase and the engine's, neighbours in time, in an order that changes.
    pub fn pair<C, E>(
        &self,
        round: u32,
        ceiling: impl FnOnce() -> Result<C, Failed>,
        engine: impl FnOnce() -> Result<E, Failed>,
    ) -> Result<(C, E), Failed> {
        crate::pairs::pair(&self.place, round, ceiling, engine)
    }

    /// The data directory number `number`, emptied.
    pub fn fresh_dir(&self, number: u32) -> Result<PathBuf, PlaceError> {
        let path = self.place.round_dir(number);
        if path.exists() {
            self.place.remove_round(number)?;
        }
        Ok(path)
    }
}

/// Different batches of `messages` messages with `payload` random bytes each, ready to append.
pub fn batches(messages: u32, payload: usize) -> Result<Vec<Bytes>, BuildError> {
    const DIFFERENT: u32 = 4;
    let content = Content::new(1, messages, payload)?;
    let mut outbox = Outbox::new(&content);
    let id = |sequence| BatchId { round: 0, producer: 0, partition: 0, sequence };
    Ok((0..DIFFERENT).map(|sequence| outbox.batch(id(sequence))).collect())
}
