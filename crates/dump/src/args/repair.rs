//! `repair` and `index` as they were typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Repair damaged partitions and files: say what would be done, and with --apply do it.
///
/// A torn tail is cut, readable batches around damage become segments of their own, an index that
/// is of no use is made anew. The original always goes to the quarantine directory beside it first.
/// Refused (exit code 3) while an engine has the data directory or a segment open, and for a single
/// file that stands beside a manifest or other segments: what is right for it depends on them.
/// Without --apply the exit code says whether there is anything to do: 0 no, 1 yes.
///
/// Example: corelog-dump repair /var/lib/corelog/streams/0/topics/1/partitions/2
#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// Data directories, topics or partitions; or .log files that are all of their log.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Change the files.
    #[arg(long)]
    pub(crate) apply: bool,
    /// One JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check the indexes of logs, make those anew that are of no use, or print what is in them.
///
/// Example: corelog-dump index check /var/lib/corelog
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    pub(crate) command: IndexCommand,
}

/// What to do with indexes.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Say of each index whether it is true. Exit code 1 where one is not, or is missing.
    ///
    /// Example: corelog-dump index check --json /var/lib/corelog
    Check(IndexCheckArgs),
    /// Make indexes anew that are missing, stale or bad; with --apply only, else say which.
    ///
    /// Example: corelog-dump index rebuild --apply /var/lib/corelog/streams/0/topics/1/partitions/2
    Rebuild(IndexRebuildArgs),
    /// Print the entries as they stand, true or not: where a batch begins, its offset and its time.
    ///
    /// Example: corelog-dump index show /var/lib/corelog/streams/0/topics/1/partitions/2
    Show(IndexShowArgs),
}

/// `index show`.
#[derive(Debug, Args)]
pub(crate) struct IndexShowArgs {
    /// Data directories, topics, partitions or .log files.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// A JSON object on each line instead of text.
    #[arg(long)]
    pub(crate) ndjson: bool,
}

/// `index check`.
#[derive(Debug, Args)]
pub(crate) struct IndexCheckArgs {
    /// Data directories, topics, partitions or .log files.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// One JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `index rebuild`.
#[derive(Debug, Args)]
pub(crate) struct IndexRebuildArgs {
    /// Data directories, topics, partitions or .log files.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Change the files.
    #[arg(long)]
    pub(crate) apply: bool,
    /// One JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}
