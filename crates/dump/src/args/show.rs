//! `show` as it was typed.

use std::path::PathBuf;

use clap::Args;

/// Print every batch, or every message, of segment files. Everything printed was verified.
///
/// Example: corelog-dump show --messages --ndjson 00000000000000000000.log
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Segment files (or directories that hold them).
    #[arg(required = true, value_name = "FILE")]
    pub(crate) paths: Vec<PathBuf>,
    /// One line for each message instead of each batch.
    #[arg(long)]
    pub(crate) messages: bool,
    /// One JSON object on each line.
    #[arg(long)]
    pub(crate) ndjson: bool,
    /// Stop after N lines.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}
