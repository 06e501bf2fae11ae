//! The flags that say where to work and where the results go.

use std::path::PathBuf;

use clap::Args;

/// Where to work; both commands have these.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlaceArgs {
    /// Directory to work in: absent, empty, or left by an earlier run [default: a fresh one in the
    /// working directory, removed afterwards]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Keep the files
    #[arg(long)]
    pub(crate) keep: bool,

    /// Print nothing but errors: no progress, no text; results go to the files asked for
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Write the results as JSON to FILE, or with - to stdout instead of the text
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
