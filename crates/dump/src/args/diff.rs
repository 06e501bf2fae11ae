//! `diff` as it was typed.

use std::path::PathBuf;

use clap::Args;

/// Compare two segments, or two partitions, byte by byte, and name the first difference.
///
/// Partitions are compared as what their segments hold one after the other, wherever those begin
/// and end. Zeros behind the last batch do not count. Exit code 1 when they differ.
///
/// Example: corelog-dump diff a/streams/0/topics/0/partitions/0 b/streams/0/topics/0/partitions/0
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A segment file or the directory of a partition.
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// Another.
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// One JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}
