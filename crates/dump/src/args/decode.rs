//! `decode` as it was typed.

use clap::{Args, ValueEnum};

/// Decode bytes of one wire type, given as hex.
///
/// With HEX, prints the value. Without it, answers each line of standard input with one line
/// of JSON; a blank line is zero bytes, and what is refused is answered {"error": ".."}.
///
/// Example: corelog-dump decode identifier 010401000000
#[derive(Debug, Args)]
pub(crate) struct DecodeArgs {
    /// The type.
    #[arg(value_name = "TYPE")]
    pub(crate) wire_type: WireType,
    /// The bytes.
    pub(crate) hex: Option<String>,
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
