//! Looks inside segment files of Corelog and of the reference server: the program `corelog-dump`,
//! and its verdicts for whoever compares them with an engine's.
//!
//! Read in this order: `args` (what was typed), `job` (what it means), then one file for each
//! command: `ls`, `show`, `follow`, `hex` (with `annotate`), `stats`, `diff`, `extract`, `verify`
//! (with `segment_report`, `partition_report`, `report` and `chain`), `repair`, `about`, `decode`.
//! Below them: `discover` (paths to segments), `select` and
//! `ranges` (what is wanted), `visit` (every batch that may be), `seek` (where to begin) and
//! `reverse`; `walk` and `resync` (batches, and past damage to more batches), `headers`,
//! `index_check`, `durable` (the manifest's mark); `rows`, `render`, `units`, `time`, `style`,
//! `base64` and `json` (values), `source`, `map`, `signals` and `live` (bytes), `progress`,
//! `parallel`. All knowledge of bytes is corelog-format's. Nothing here writes to a file that it
//! reads but `repair`, and that only where it was asked to.

mod about;
mod annotate;
mod args;
mod base64;
mod chain;
mod decode;
mod diff;
mod discover;
mod durable;
mod extract;
mod failure;
mod follow;
mod headers;
mod hex;
mod index_build;
mod index_check;
mod index_show;
mod job;
mod json;
mod live;
mod ls;
mod map;
mod parallel;
mod partition_report;
mod progress;
mod ranges;
mod records;
mod render;
mod repair;
mod report;
mod resync;
mod reverse;
mod rows;
mod seek;
mod segment_report;
mod select;
mod session;
mod show;
mod signals;
mod source;
mod stats;
mod style;
#[cfg(test)]
mod testing;
mod time;
mod units;
mod upkeep;
mod verdicts;
mod verify;
mod visit;
mod walk;

pub use repair::{Repair, repair};
pub use verdicts::{FileVerdict, Verdicts, verdicts};
pub use walk::Verdict;

use std::process::ExitCode;

use clap::Parser;

/// The program: what was asked for on the command line.
pub fn main() -> ExitCode {
    // Usage errors end here, with exit code 2; --help and --version with 0.
    let job = job::Job::resolve(args::Args::parse());
    session::Session::new(job.access, job.style).run(|session| job.run(session))
}
