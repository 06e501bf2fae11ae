//! The command line as it was typed: plain data, nothing looked up, nothing opened. One file for
//! each command; this one has what they share.

mod about;
mod decode;
mod diff;
mod extract;
mod follow;
mod hex;
mod ls;
mod repair;
mod select;
mod show;
mod stats;
mod verify;

pub(crate) use about::{CompletionsArgs, ManArgs, Output, SchemaArgs};
pub(crate) use decode::{DecodeArgs, WireType};
pub(crate) use diff::DiffArgs;
pub(crate) use extract::{ExtractArgs, Format, Framing};
pub(crate) use follow::FollowArgs;
pub(crate) use hex::HexArgs;
pub(crate) use ls::LsArgs;
pub(crate) use repair::{IndexArgs, IndexCommand, RepairArgs};
pub(crate) use select::SelectArgs;
pub(crate) use show::{Payload, ShowArgs};
pub(crate) use stats::StatsArgs;
pub(crate) use verify::{VerifyArgs, jobs};

use clap::{Parser, Subcommand};

use crate::style::When;

/// Looks inside Corelog and Iggy segment files. Changes nothing without --apply.
#[derive(Debug, Parser)]
#[command(name = "corelog-dump", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Read files with pread instead of mapping them (files that an engine holds always are).
    #[arg(long, global = true)]
    pub(crate) no_mmap: bool,
    /// Read every file with O_DIRECT and leave the page cache as it is (files that an engine holds
    /// always are).
    #[arg(long, global = true)]
    pub(crate) direct: bool,
    /// Colours: auto (where standard output is a terminal and NO_COLOR is not set), always, never.
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub(crate) color: When,
}

const EXIT_CODES: &str = "Exit codes: 0 clean, 1 damage, 2 usage or I/O error, 3 repair \
refused. Data goes to standard output, messages to standard error.";

/// What to do. Each command's help stands on its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ls(LsArgs),
    Show(ShowArgs),
    Follow(FollowArgs),
    Hex(HexArgs),
    Stats(StatsArgs),
    Diff(DiffArgs),
    Extract(ExtractArgs),
    Verify(VerifyArgs),
    Index(IndexArgs),
    Repair(RepairArgs),
    Decode(DecodeArgs),
    Schema(SchemaArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        super::Args::command().debug_assert();
    }
}
