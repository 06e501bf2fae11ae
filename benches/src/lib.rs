//! What `corelog-bench` and the benchmarks in `benches/micro` are made of. Not a library for others.
//!
//! A run of the binary, in the order of its files: `command`, `args` and `place` (what and where),
//! `plan` and `content` (who appends which bytes), `run` (rounds), `phases` beside `ceiling` (engine
//! and raw ring in turns), `account` (what it cost), `check` (every byte that comes back), `report`
//! and `outputs` (what it says, and where). `subject` is the seam to the engine. `after` has the
//! commands that measure nothing: `compare`, `doctor`.
//!
//! The micro benchmarks measure one thing each, with [`micro`], on the same ceiling and contents.

mod account;
mod after;
mod args;
pub mod ceiling;
mod check;
mod command;
mod compare;
pub mod content;
mod crash;
mod descriptors;
mod doctor;
mod engine_load;
pub mod interrupt;
mod kept;
pub mod latency;
mod live;
mod machine;
pub mod micro;
mod outputs;
pub mod outstanding;
mod pairs;
mod phases;
pub mod place;
mod plan;
mod progress;
mod removal;
mod report;
mod results;
mod rng;
mod run;
mod run_error;
mod seconds;
mod shift;
mod size;
pub mod stats;
mod subject;

pub use command::main;
