//! The command line, a file a command. Scripts rely on these names; what the flags contradict is
//! refused here.

mod ceiling;
mod compare;
mod crash;
mod log;
mod output;
mod percentiles;
mod place;
mod run;
mod units;
mod verify;

use clap::{Parser, Subcommand};

pub(crate) use self::ceiling::CeilingArgs;
pub(crate) use self::compare::{CompareArgs, DoctorArgs, Files, MovedArgs, ReportArgs, SchemaArgs};
pub(crate) use self::crash::CrashArgs;
pub(crate) use self::output::OutputArgs;
pub(crate) use self::percentiles::Percentiles;
pub(crate) use self::place::PlaceArgs;
pub(crate) use self::run::RunArgs;
pub(crate) use self::verify::VerifyArgs;
use crate::ceiling::BLOCK_BYTES;
use crate::crash::ChildArgs;
use crate::size::Size;

/// Measures Corelog beside the ceiling of the disk it runs on, in one run.
#[derive(Debug, Parser)]
#[command(name = "corelog-bench", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Appends, polls back and checks every byte, beside what a raw ring does on the same disk
    ///
    /// Exit status: 0 measured, 1 bytes that came back differ, 2 usage or I/O error, 130 stopped.
    Run(Box<RunArgs>),
    /// Measures the disk alone: a raw ring by block size and depth, and small synced writes
    Ceiling(CeilingArgs),
    /// Kills processes that append, one after the other, and checks that what they were answered
    /// for is there
    ///
    /// Exit status: as that of run; 1 when something is missing or differs.
    Crash(CrashArgs),
    /// Reads back what a run with --keep left, without the engine: every byte, and both layers of
    /// checksums
    ///
    /// Exit status: as that of run; 1 when something is missing or differs.
    Verify(VerifyArgs),
    /// The process that `crash` and `run recovery` kill
    #[command(name = APPEND_UNTIL_KILLED, hide = true)]
    AppendUntilKilled(ChildArgs),
    /// Says what changed from one result to another, and what is only noise
    ///
    /// Exit status: 0 compared, 1 a --fail-if holds, 2 usage, or a figure that --fail-if names is
    /// not there.
    Compare(CompareArgs),
    /// Says which rows of the benchmarks in benches/micro are not what they were
    ///
    /// Exit status: 0 none is worse, 1 one is worse or gone, 2 usage, or no results.
    Moved(MovedArgs),
    /// Says whether this machine and a directory are fit, and what to do where they are not
    ///
    /// Exit status: 0 fit (things may be poor), 1 the engine cannot work here, 2 usage or I/O
    /// error.
    Doctor(DoctorArgs),
    /// Makes the page for browsers from a result
    Report(ReportArgs),
    /// Prints the JSON Schema of what a command writes with --json
    Schema(SchemaArgs),
}

/// The name of the hidden command.
pub(crate) const APPEND_UNTIL_KILLED: &str = "append-until-killed";

/// A block size in bytes that O_DIRECT takes.
fn check_block(flag: &str, block: Size) -> Result<usize, String> {
    let is_fit = (1..=1 << 30).contains(&block.0) && block.0.is_multiple_of(BLOCK_BYTES as u64);
    if is_fit {
        return Ok(block.0 as usize);
    }
    Err(format!(
        "{flag} {}: a block is a multiple of {BLOCK_BYTES} (O_DIRECT), at most 1GiB",
        block.0
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_heading_is_for_its_own_flags() {
        for (command, flags) in [("run", 9), ("crash", 9)] {
            let mut cli = Cli::command();
            let command = cli.find_subcommand_mut(command).unwrap();
            let headed = |arg: &&clap::Arg| arg.get_help_heading() == Some("Options of the topic");
            let named: Vec<_> =
                command.get_arguments().filter(headed).map(clap::Arg::get_id).collect();
            assert_eq!(named.len(), flags, "{named:?}");
        }
    }
}
