//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::logs::Kind;
use crate::work::Class;

/// Other embedded logs and Corelog: the same bytes, the same promise, in turns.
#[derive(Debug, Parser)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measures and prints one Markdown table a class
    Run(RunArgs),
    /// One log, once, in a process of its own; prints JSON
    #[command(hide = true)]
    Child(ChildArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// Empty or absent directory on the disk in question; what is written there is removed
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Classes, all unless given
    #[arg(long = "class", value_name = "CLASS", value_delimiter = ',')]
    pub(crate) classes: Vec<Class>,

    /// Logs, all unless given
    #[arg(long = "log", value_name = "LOG", value_delimiter = ',')]
    pub(crate) logs: Vec<Kind>,

    /// Rounds, each every log once, the first one changing; figures are medians over them
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) rounds: u32,

    /// Batches of each log in a round, a thousandth of the class's: 1000 is all, less is a trial
    #[arg(long, value_name = "PERMILLE", default_value_t = 1000)]
    pub(crate) scale: u32,

    /// Where all rounds go as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ChildArgs {
    #[arg(long)]
    pub(crate) log: Kind,
    #[arg(long)]
    pub(crate) class: Class,
    #[arg(long)]
    pub(crate) dir: PathBuf,
    #[arg(long)]
    pub(crate) scale: u32,
    /// Leaves out reading back: only its own calls are then counted by who counts them.
    #[arg(long)]
    pub(crate) append_only: bool,
}
