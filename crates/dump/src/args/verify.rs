//! `verify` as it was typed.

use std::path::PathBuf;

use clap::Args;

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
}
