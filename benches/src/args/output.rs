//! The flags that say in which further forms a run's results are written.

use std::path::PathBuf;

use clap::Args;

/// Files for tools and browsers, beside `--json`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OutputArgs {
    /// Write the latency histograms to FILE, as an HdrHistogram log (V2)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) hdr: Option<PathBuf>,

    /// Write the time series to FILE, as CSV
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) csv: Option<PathBuf>,

    /// Write a report for browsers to FILE, one page that needs no network
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) html: Option<PathBuf>,
}
