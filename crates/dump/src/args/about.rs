//! `schema`, `completions` and `man` as they were typed.

use clap::{Args, ValueEnum};
use clap_complete::Shell;

/// Print the JSON Schema of a command's output.
///
/// Example: corelog-dump schema verify
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The output.
    #[arg(value_name = "OUTPUT")]
    pub(crate) output: Output,
}

/// Outputs that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// `verify --json`.
    Verify,
    /// `repair --json`, with and without --apply.
    Repair,
    /// `index check --json` and `index rebuild --json`.
    Index,
    /// A line of `index show --ndjson`.
    IndexEntry,
    /// `ls --json`.
    Ls,
    /// `stats --json`.
    Stats,
    /// `hex --json`.
    Hex,
    /// `diff --json`.
    Diff,
    /// A line of `show --ndjson`.
    ShowBatch,
    /// A line of `show --messages --ndjson`.
    ShowMessage,
    /// A line of `follow --ndjson`.
    FollowBatch,
    /// A line of `follow --messages --ndjson`.
    FollowMessage,
    /// A line of `extract --format ndjson`.
    Extract,
    /// `decode`: a line, or the value.
    Decode,
}

/// Print a completion script for a shell.
///
/// Example: corelog-dump completions bash > /usr/share/bash-completion/completions/corelog-dump
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Print the manual page, of the program or of one command.
///
/// Example: corelog-dump man verify | man -l -
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command; its words one after the other.
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
