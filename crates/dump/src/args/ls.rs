//! `ls` as it was typed.

use std::path::PathBuf;

use clap::Args;

/// List segments: offsets, times, sizes, counts, index state. Reads headers only.
///
/// A segment is sealed when a later one stands beside it, else active; with a star when a process
/// holds it.
///
/// Example: corelog-dump ls /var/lib/corelog
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Data directories, topics, partitions or .log files.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// One JSON document instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
}
