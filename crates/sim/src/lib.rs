//! The simulator: storage and shard, unchanged, in a world that is a function of a seed.
#![forbid(unsafe_code)]

mod actors;
mod allowed;
mod batches;
mod campaign;
mod door;
mod history;
mod mischief;
mod opening;
mod oracle;
mod params;
mod probes;
mod run;
mod world;

pub use campaign::{Campaign, Outcome};
pub use probes::{Probe, Probes};
pub use run::{Failure, Report, run};
