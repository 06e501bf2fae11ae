//! `verify` as it was typed.

use std::path::PathBuf;

use clap::Args;

use crate::walk::Level;

/// Check every checksum and every rule; one verdict for each file.
///
/// A file is clean, or it has a torn tail (damage with nothing readable after it, as a crash
/// leaves it), or it is corrupt (damage with readable batches after it, or below what the
/// partition's manifest knows to be durable).
///
/// Example: corelog-dump verify --json /var/lib/corelog | jq '.files[] | select(.verdict != "clean")'
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Data directories, topics, partitions or .log files.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// One JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// How closely to look.
    #[arg(long, value_enum, default_value_t = Level::Full)]
    pub(crate) level: Level,
    /// Files to work on at once; by default as many as there are CPUs.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,
}

/// How many files to work on at once.
pub(crate) fn jobs(asked: Option<std::num::NonZeroUsize>) -> usize {
    let cpus = || std::thread::available_parallelism().ok();
    asked.or_else(cpus).map_or(1, std::num::NonZeroUsize::get)
}
