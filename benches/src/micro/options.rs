//! The flags that all micro benchmarks have.

use std::path::PathBuf;

use clap::Parser;
use corelog::machine::Runtime;

/// Flags of a micro benchmark.
#[derive(Debug, Clone, Parser)]
pub struct Options {
    /// Rounds, each engine and ceiling once, in turns; figures are medians over them
    #[arg(long, value_name = "N", default_value_t = 15,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Only see whether everything works: one round, little data, figures that mean nothing
    #[arg(long)]
    pub quick: bool,

    /// Without the allocator that puts buffers on 2 MiB pages: the engine then moves them itself
    #[arg(long)]
    pub system_alloc: bool,

    /// What the engine runs on: glommio or ring
    #[arg(long, value_name = "NAME", default_value_t)]
    pub runtime: Runtime,

    /// Directory to work in: absent, empty, or left by an earlier run [default: below target/]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Write the results as JSON to FILE
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// How many rounds.
    pub fn rounds(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }

    /// Which allocator the process has, for reports.
    pub fn allocator(&self) -> &'static str {
        if self.system_alloc { "the system's allocator" } else { "HugePageAlloc" }
    }
}

/// Flags that hold the common ones.
pub trait HasOptions: Parser {
    /// The common ones.
    fn options(&self) -> &Options;

    /// The common ones, to change.
    fn options_mut(&mut self) -> &mut Options;

    /// The flags of this process. Under `cargo test`, which gives its own arguments or none, the
    /// benchmark is a quick one.
    fn read() -> Self {
        if cfg!(debug_assertions) || std::env::args_os().len() == 1 {
            let mut quick = Self::try_parse().unwrap_or_else(|_| Self::parse_from([""]));
            quick.options_mut().quick = true;
            return quick;
        }
        Self::parse()
    }
}

impl HasOptions for Options {
    fn options(&self) -> &Options {
        self
    }

    fn options_mut(&mut self) -> &mut Options {
        self
    }
}
