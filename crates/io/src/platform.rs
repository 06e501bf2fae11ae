//! Clock and spawn, and the bundle of all that a partition stands on.

use std::future::Future;
use std::time::Duration;

use crate::Disk;

/// Wall time and timers.
pub trait Clock: Clone + 'static {
    /// Microseconds since the Unix epoch. May repeat and may go back: stamping puts that right.
    fn now_us(&self) -> u64;

    /// The highest timestamp that may be stamped now: a durable promise that no lower clock will be
    /// used after a crash. Only ever grows while the engine is open.
    fn ceiling_us(&self) -> u64;

    /// Ends after at least `duration`. Cancel-safe.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static;
}

/// Tasks on this thread.
pub trait Spawn: Clone + 'static {
    /// Runs `task` to its end, detached. A panic in it must not end the thread.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);

    /// Lets other tasks and I/O run; a loop over many items calls it between slices.
    fn yield_now(&self) -> impl Future<Output = ()> + 'static;

    /// As [`Spawn::yield_now`], and ends only after the thread has turned to its I/O: what was
    /// asked for is with the kernel, what has ended is known. Costs a few system calls; for a task
    /// that has been busy for so long that the device may have run dry.
    fn turn_to_io(&self) -> impl Future<Output = ()> + 'static {
        self.yield_now()
    }

    /// A number that is the same at two times only if the thread has not turned to its I/O in
    /// between. An executor that does not count is taken for one that never has.
    fn turns(&self) -> u64 {
        0
    }
}

/// Everything a partition stands on. Cheap to clone; local to its thread.
pub trait Platform: Clone + 'static {
    /// The disk.
    type Disk: Disk;
    /// The clock.
    type Clock: Clock;
    /// The tasks.
    type Spawn: Spawn;

    /// The disk.
    fn disk(&self) -> &Self::Disk;
    /// The clock.
    fn clock(&self) -> &Self::Clock;
    /// The tasks.
    fn spawn(&self) -> &Self::Spawn;
}
