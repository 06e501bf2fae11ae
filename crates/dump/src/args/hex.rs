//! `hex` as it was typed.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

/// Print the bytes of a batch with the names of its fields, and mark those that break a rule.
///
/// --offset finds the message with this offset, --at the batch that holds this byte of the file.
/// The batch's header is shown with the frame that was asked for; of the others one line, unless
/// something is wrong with them. What does not verify is shown as far as it can be read as a batch.
/// Of an .index file or a manifest, --at shows the record that holds this byte.
///
/// Example: corelog-dump hex --offset 1207 streams/0/topics/0/partitions/0
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("place").args(["offset", "at"]).required(true))]
pub(crate) struct HexArgs {
    /// A segment file, or with --offset a partition.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) path: PathBuf,
    /// The message with this offset.
    #[arg(long, value_name = "N")]
    pub(crate) offset: Option<u64>,
    /// Whatever holds this byte of the file.
    #[arg(long, value_name = "POS")]
    pub(crate) at: Option<u64>,
    /// Every frame, and payloads to their end.
    #[arg(long)]
    pub(crate) all: bool,
    /// One JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}
