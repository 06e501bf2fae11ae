//! The flags of `verify`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Clone, Args)]
pub(crate) struct VerifyArgs {
    /// The --dir of a run with --keep
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Print nothing but errors: no progress, no text; results go to the file asked for
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Write the results as JSON to FILE, or with - to stdout instead of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Partitions that are read at once
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) readers: u32,
}
