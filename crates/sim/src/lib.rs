//! The simulator: `storage` and `shard`, unchanged, in a world that is a function of a seed.
//!
//! Read the files in this order:
//!
//! | question | file |
//! | --- | --- |
//! | how a run is drawn from its seed | `params`, `batches` |
//! | what its course is: lives, and how each ends | `run` |
//! | who acts in a life | `actors`: producers, readers, operators, and one who does wrong |
//! | what happens to files between lives | `mischief` |
//! | how partitions are opened and emptied, and reached by every way in | `opening`, `purge`, `door`, `stored` |
//! | what is demanded | `oracle`; `idle`: of a quiet engine; `allowed`: no error without a cause |
//! | what must have been reached, or the runs prove little | `probes` |
//! | what a failure shows | `history` |
//! | many seeds at a time | `campaign`, and the program `corelog-sim` |
//!
//! ```
//! let report = corelog_sim::run(7, 60).unwrap_or_else(|failure| panic!("{failure}"));
//! assert_eq!(corelog_sim::run(7, 60).unwrap().hash, report.hash);
//! ```
#![forbid(unsafe_code)]

mod actors;
mod allowed;
mod batches;
mod campaign;
mod door;
mod history;
mod idle;
mod mischief;
mod opening;
mod oracle;
mod params;
mod probes;
mod purge;
mod run;
mod stored;
mod world;

pub use campaign::{Campaign, Outcome};
pub use probes::{Probe, Probes};
pub use run::{Failure, Report, run};
