//! `extract` as it was typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Payload, SelectArgs};

/// Copy what is selected: whole batches as they are, messages as NDJSON, or payloads through a
/// command.
///
/// raw takes every batch that holds something selected, as it is: batches that follow one another
/// are a segment file again. With --pipe one process of the shell's COMMAND is fed with all
/// payloads, one after the other; its output is ours. A command that reads no further ends the
/// feeding; one that fails, or is killed, makes the exit code 2.
///
/// Example: corelog-dump extract --offset 1200..1300 --pipe 'jq .price' streams/0/topics/0/partitions/0
#[derive(Debug, Args)]
pub(crate) struct ExtractArgs {
    /// Segment files (or directories that hold them).
    #[arg(required = true, value_name = "FILE")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// raw (batches) or ndjson (messages).
    #[arg(long, value_enum, default_value = "raw", hide_possible_values = true)]
    pub(crate) format: Format,
    /// Where to: a file that must not exist yet, or a directory, in which raw batches get the name
    /// of a segment. Standard output without it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Payloads in NDJSON: text, hex, base64 or none.
    #[arg(long, value_enum, value_name = "AS", default_value = "base64")]
    #[arg(hide_possible_values = true)]
    pub(crate) payload: Payload,
    /// Feed the payloads of messages to this command of the shell.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["output", "format", "payload"])]
    pub(crate) pipe: Option<String>,
    /// What divides payloads for --pipe: line (each ends in a line feed) or length (before each its
    /// length, four bytes, little-endian).
    #[arg(
        long,
        value_enum,
        default_value = "line",
        hide_possible_values = true,
        requires = "pipe"
    )]
    pub(crate) framing: Framing,
}

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Batches as they stand in the segment.
    Raw,
    /// A line of JSON for each message.
    Ndjson,
}

/// What divides payloads on their way into a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Framing {
    /// A line feed behind each.
    Line,
    /// Four bytes of length before each.
    Length,
}
