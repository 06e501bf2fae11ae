//! What `corelog-bench` and the benchmarks in `benches/micro` are made of. Not a library for others.
//!
//! A run of the binary, in the order of its files: `command`, `args` and `place` (what and where),
//! `plan` and `content` (who appends which bytes), `run` (rounds), `phases` beside `ceiling` (engine
//! and raw ring in turns), `check` (every byte that comes back), `report` (what it says). `subject`
//! is the seam to the engine.
//!
//! The micro benchmarks measure one thing each, with [`micro`], on the same ceiling and contents.

mod account;
mod args;
pub mod ceiling;
mod check;
mod command;
pub mod content;
mod crash;
mod engine_load;
pub mod interrupt;
mod kept;
pub mod latency;
mod machine;
pub mod micro;
pub mod outstanding;
mod pairs;
mod phases;
pub mod place;
mod plan;
mod report;
mod results;
mod rng;
mod run;
mod run_error;
mod size;
pub mod stats;
mod subject;
pub mod timeline;
mod usage;

pub use command::main;
