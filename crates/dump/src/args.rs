//! The command line as it was typed: plain data, nothing looked up, nothing opened.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Looks inside Corelog and Iggy segment files. Never writes to them.
#[derive(Debug, Parser)]
#[command(name = "corelog-dump", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Read files with pread instead of mapping them (files that an engine holds always are).
    #[arg(long, global = true)]
    pub(crate) no_mmap: bool,
}

const EXIT_CODES: &str = "Exit codes: 0 clean, 1 damage, 2 usage or I/O error. Data goes to \
standard output, messages to standard error.";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List segments: offsets, times, sizes, counts, index state. Reads headers only.
    ///
    /// Example: corelog-dump ls /var/lib/corelog
    Ls {
        /// Data directories, topics, partitions or .log files.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
    },
    /// Print every batch, or every message, of segment files. Everything printed was verified.
    ///
    /// Example: corelog-dump show --messages --ndjson 00000000000000000000.log
    Show {
        /// Segment files (or directories that hold them).
        #[arg(required = true, value_name = "FILE")]
        paths: Vec<PathBuf>,
        /// One line for each message instead of each batch.
        #[arg(long)]
        messages: bool,
        /// One JSON object on each line.
        #[arg(long)]
        ndjson: bool,
        /// Stop after N lines.
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Check every checksum and every rule; one verdict for each file.
    ///
    /// A file is clean, or it has a torn tail (damage with nothing readable after it, as a crash
    /// leaves it), or it is corrupt (damage with readable batches after it, or below what the
    /// partition's manifest knows to be durable).
    ///
    /// Example: corelog-dump verify --json /var/lib/corelog | jq '.files[] | select(.verdict != "clean")'
    Verify {
        /// Data directories, topics, partitions or .log files.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// One JSON document instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Decode bytes of one wire type, given as hex.
    ///
    /// With HEX, prints the value. Without it, answers each line of standard input with one line
    /// of JSON; a blank line is zero bytes, and what is refused is answered {"error": ".."}.
    ///
    /// Example: corelog-dump decode identifier 010401000000
    Decode {
        /// The type.
        #[arg(value_name = "TYPE")]
        wire_type: WireType,
        /// The bytes.
        hex: Option<String>,
    },
}

/// The types that `decode` knows, by their names in the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum WireType {
    /// Length-prefixed UTF-8 name.
    Name,
    /// Numeric or string identifier.
    Identifier,
    /// Consumer or consumer group.
    Consumer,
    /// Five bytes, partition id or none.
    OptionalPartition,
    /// How a producer picks the partition.
    Partitioning,
    /// Where a poll starts.
    PollingStrategy,
    /// User headers of one message.
    UserHeaders,
    /// Options of a create or update request.
    OptionsBlock,
    /// A whole batch: header and frames.
    Batch,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        super::Args::command().debug_assert();
    }
}
