//! `ls` as it was typed.

use std::path::PathBuf;

use clap::Args;

/// List segments: offsets, times, sizes, counts, index state. Reads headers only.
///
/// Example: corelog-dump ls /var/lib/corelog
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Data directories, topics, partitions or .log files.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}
