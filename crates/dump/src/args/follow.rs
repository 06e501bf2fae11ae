//! `follow` as it was typed.

use std::path::PathBuf;

use clap::Args;

use super::SelectArgs;
use super::show::RowArgs;
use crate::follow::From;

/// Print what comes into a partition, as it comes, until Ctrl-C (which is success).
///
/// Every batch is verified before it is printed. Files are read around the page cache, as their
/// engine writes them, and nothing is locked. What is printed has been written, but need not be
/// durable yet.
///
/// Example: corelog-dump follow --messages --payload text --from 1200 streams/0/topics/0/partitions/0
#[derive(Debug, Args)]
pub(crate) struct FollowArgs {
    /// The directory of a partition.
    #[arg(required = true, value_name = "PARTITION")]
    pub(crate) path: PathBuf,
    /// Where to begin: start, end, or an offset.
    #[arg(long, value_name = "WHERE", default_value = "end", value_parser = From::parse)]
    pub(crate) from: From,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    /// Stop after N lines.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}
