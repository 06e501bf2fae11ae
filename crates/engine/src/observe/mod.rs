//! What operators see: how long things take, and what happens that they have to know.
//!
//! | file | holds |
//! | --- | --- |
//! | `latency` | durations in histograms of fixed size, by what took them |
//! | `meter` | one shard's: its histograms, the file operations that are under way |
//! | `watcher` | what a shard and its partitions tell, given to the meter and to the events |
//! | `events` | every event that goes to `tracing`, and how many of them |
//!
//! The tables of all of it stand in `docs/operations.md`; tests hold them against this folder.

mod events;
mod latency;
mod meter;
mod watcher;

use std::sync::LazyLock;
use std::time::Instant;

pub(crate) use events::Events;
pub use latency::{Latencies, Latency, Timed};
pub use meter::IoStats;
pub(crate) use meter::{Meter, Operation};
pub(crate) use watcher::Watcher;

/// Nanoseconds since this process first asked. Some 25 ns; no system call where the kernel's clock is
/// the processor's.
pub(crate) fn ticks() -> u64 {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    // One more, as 0 stands for "not timed".
    u64::try_from(BEGIN.elapsed().as_nanos()).unwrap_or(u64::MAX).saturating_add(1)
}
