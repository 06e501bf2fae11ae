//! `show` as it was typed, and what `follow` shares with it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::SelectArgs;
use crate::rows::Shape;

/// Print batches, or messages, of segment files. Everything printed was verified.
///
/// A range of offsets is looked up in the index, and so is a range of times where an engine's
/// manifest says that times only rise. What an index says is held against the log first: one that
/// is missing or wrong costs time, it never hides anything. Without --messages a batch is printed
/// when one of its messages is selected.
///
/// Example: corelog-dump show --messages --offset 1200..1300 --payload text streams/0/topics/0/partitions/0
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Segment files (or directories that hold them).
    #[arg(required = true, value_name = "FILE")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    /// Stop after N lines.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Pass over the first N lines.
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true)]
    pub(crate) skip: u64,
    /// Begin with the last, and go back.
    #[arg(long)]
    pub(crate) reverse: bool,
}

/// What a line looks like.
#[derive(Debug, Args)]
pub(crate) struct RowArgs {
    /// One line for each message instead of each batch.
    #[arg(long)]
    pub(crate) messages: bool,
    /// One JSON object on each line.
    #[arg(long)]
    pub(crate) ndjson: bool,
    /// Print payloads: text, hex, base64 or none.
    #[arg(long, value_enum, value_name = "AS", default_value = "none", hide_default_value = true)]
    #[arg(hide_possible_values = true, requires = "messages")]
    pub(crate) payload: Payload,
}

impl RowArgs {
    /// The shape of a line.
    pub(crate) fn shape(&self) -> Shape {
        Shape { messages: self.messages, ndjson: self.ndjson, payload: self.payload }
    }
}

/// How payloads are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Payload {
    /// As UTF-8; what is none becomes U+FFFD, and control characters are escaped.
    Text,
    /// Two digits a byte.
    Hex,
    /// RFC 4648, with padding.
    Base64,
    /// Only their length.
    None,
}
