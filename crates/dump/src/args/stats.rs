//! `stats` as it was typed.

use std::path::PathBuf;

use clap::Args;

use super::SelectArgs;

/// Draw how large batches and messages are, how far apart, how long under way, and how many bytes
/// a second came.
///
/// The delay of a message is from the producer's time to the server's; clocks that disagree make
/// some negative, which are counted apart. Percentiles are exact to an eighth.
///
/// Example: corelog-dump stats --time -1h.. --svg hour.svg streams/0/topics/0
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Data directories, topics, partitions or .log files.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Write the drawings to this file, which must not exist yet.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// One JSON document instead of drawings.
    #[arg(long)]
    pub(crate) json: bool,
}
