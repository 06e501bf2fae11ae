//! The simulated world: disk, clock and tasks in memory, on one thread, all of it a function of a
//! seed.
//!
//! ```
//! use corelog_io::{Buf, Disk, File, Open, Platform, sim};
//! use std::path::Path;
//!
//! let sim = sim::Sim::new(7);
//! let disk = sim.disk().clone();
//! sim.run(async {
//!     let log = disk.open(Path::new("/0.log"), Open { create_new: true, ..Open::default() });
//!     let log = log.await.unwrap();
//!     let mut buf = disk.alloc(4096).unwrap();
//!     buf.as_mut().fill(1);
//!     log.write_at(buf.freeze(4096), 0).await.unwrap();
//!     log.sync().await.unwrap();
//!     disk.sync_dir(Path::new("/")).await.unwrap();
//! });
//! disk.power_cut(1); // Any seed: everything was synced.
//! assert_eq!(disk.contents("/0.log").unwrap(), vec![1; 4096]);
//! ```
//!
//! [`run`] is the short form for a test that needs no second act. A run ends with a panic where a
//! spawned task panicked, where the caller of the disk broke its contract (even if that panic was
//! caught), and where nothing can run any more; the last one lists what waits. Everything happens on
//! the thread that calls `run`: a wake from another thread is not waited for.
//!
//! Crashes: [`SimDisk::power_cut`] and [`SimDisk::process_kill`] at any place in a test,
//! [`Fault::halt`] with [`Sim::run_until_halt`] at an operation or after so many polls, and
//! [`SimDisk::image_of_power_cut`] to look at many cuts of one run. Everything else that goes wrong
//! is a [`Fault`], a limit of the disk, or damage done to its files behind the program's back.
//!
//! # What the disk promises
//!
//! This is the model that design sections 5, 7 and 8 are tested against. Bytes, lengths and names
//! each have a state that readers see and one that is durable.
//!
//! | what | durable when | until then a power cut leaves |
//! | --- | --- | --- |
//! | a plain write | a sync that began after the write returned has returned Ok | each sector old or new, or as any write in between left it |
//! | a write through an O_DSYNC handle | it returned: its own blocks and the length that reaches them, no other write's (a device with FUA) | as above while in flight |
//! | a length (`set_len`, `allocate`, a write past the end) | as a plain write | the first so many of the waiting changes: a journal keeps their order |
//! | a name (create, remove, rename) | a `sync_dir` of the holding directory that began after it has returned Ok; a rename wants both directories | each kept or not; changes of one name keep their order; a rename is whole or nothing |
//!
//! - A sector is old or new, never a mixture (design section 8). A cut tears writes at 512 bytes
//!   or at 4 KiB, drawn for each file, and is drawn for each file to keep nothing, all or some.
//! - A sync of a file does not make its name durable: a new file whose directory was not synced may
//!   vanish with everything in it.
//! - Bytes that a durable length reaches and no kept write filled read as zeros.
//! - After a FAILED sync whatever it should have covered stays in doubt: readers see it, a later
//!   sync does not make it durable, a power cut may take it. Only writing the block again and
//!   syncing that does. The same for names after a failed `sync_dir`.
//! - A failed write leaves each of its sectors old or new. What is read after it, a later sync does
//!   make durable.
//! - Operations take seeded virtual time, so writes in flight end in any order. A reader of blocks
//!   under a write in flight sees each sector old or new. A dropped future's operation still ends.
//! - At [`SimDisk::power_cut`] and [`SimDisk::process_kill`] writes in flight land in part, other
//!   operations in flight happened or did not. Tasks of the program under test end, handles and
//!   locks are gone; a kill keeps all that returned, still un-synced.
//! - Fresh buffers hold garbage.

mod clock;
mod content;
mod control;
mod cut;
mod damage;
mod disk;
mod effects;
mod executor;
mod fault;
mod file;
mod image;
mod names;
mod rng;
mod state;
mod submit;
mod task;
mod trace;
mod tree;
mod versions;

use std::future::Future;
use std::rc::Rc;

pub use clock::{SimClock, SimSpawn};
pub use disk::SimDisk;
pub use fault::{Fault, FaultId, errno};
pub use file::SimFile;
pub use image::Image;
pub use rng::Rng;
pub use state::Harm;
pub use task::TaskPanic;
pub use trace::Event;

use crate::Platform;
use executor::{Executor, Stopped};

/// Polls after which a run counts as endless, unless told otherwise.
const STEPS_MAX: u64 = 50_000_000;

/// Disk, clock and tasks of one simulation, as the code under test gets them.
#[derive(Clone)]
pub struct SimPlatform {
    disk: SimDisk,
    clock: SimClock,
    spawn: SimSpawn,
}

impl Platform for SimPlatform {
    type Disk = SimDisk;
    type Clock = SimClock;
    type Spawn = SimSpawn;

    fn disk(&self) -> &SimDisk {
        &self.disk
    }

    fn clock(&self) -> &SimClock {
        &self.clock
    }

    fn spawn(&self) -> &SimSpawn {
        &self.spawn
    }
}

/// A simulation: owns the tasks; its disk outlives runs, power cuts and kills.
pub struct Sim {
    executor: Rc<Executor>,
    platform: SimPlatform,
    seed: u64,
}

impl Sim {
    /// A simulation with an empty disk. The seed decides the order of ready tasks, how long each
    /// operation takes and what readers of blocks in flight see.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let executor = Executor::new(rng.fork(), STEPS_MAX);
        let clock = SimClock::new(Rc::clone(&executor));
        let disk = SimDisk::new(Rc::clone(&executor), clock.clone(), rng.fork());
        let spawn = SimSpawn::new(Rc::clone(&executor));
        Sim { executor, platform: SimPlatform { disk, clock, spawn }, seed }
    }

    /// What the code under test stands on.
    pub fn platform(&self) -> &SimPlatform {
        &self.platform
    }

    /// The disk.
    pub fn disk(&self) -> &SimDisk {
        &self.platform.disk
    }

    /// The clock.
    pub fn clock(&self) -> &SimClock {
        &self.platform.clock
    }

    /// Runs `future` to its end, with all spawned tasks beside it. Tasks that are not done stay for
    /// the next run.
    ///
    /// # Panics
    /// As the [module](self) says; the message names the seed.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        match self.executor.run(future) {
            Ok(value) => {
                self.check();
                value
            }
            Err(Stopped::Halted) => {
                panic!("seed {}: a halt in a run that must end: run_until_halt", self.seed)
            }
            Err(stopped) => self.stuck(&stopped),
        }
    }

    /// Runs `future` until it ends, or until a [`Fault::halt`] or `steps` more polls end the run:
    /// then `None`, with the future dropped and everything else as it stood, for
    /// [`SimDisk::power_cut`] or [`SimDisk::process_kill`].
    ///
    /// # Panics
    /// As [`Sim::run`].
    pub fn run_until_halt<T>(&self, steps: u64, future: impl Future<Output = T>) -> Option<T> {
        self.executor.set_steps_max(self.executor.steps().saturating_add(steps));
        let ended = self.executor.run(future);
        self.executor.set_steps_max(self.executor.steps().saturating_add(STEPS_MAX));
        match ended {
            Ok(value) => {
                self.check();
                Some(value)
            }
            Err(Stopped::Halted | Stopped::Endless) => {
                self.check();
                None
            }
            Err(stopped @ Stopped::Deadlock) => self.stuck(&stopped),
        }
    }

    /// Polls of tasks so far: the unit of [`Sim::run_until_halt`].
    pub fn steps(&self) -> u64 {
        self.executor.steps()
    }

    /// Panics of spawned tasks so far, and forgets them: for tests that provoke one.
    pub fn take_panics(&self) -> Vec<TaskPanic> {
        self.executor.take_panics()
    }

    fn stuck(&self, stopped: &Stopped) -> ! {
        let why = match stopped {
            Stopped::Deadlock => "deadlock: nothing can run, and no timer or I/O will end",
            Stopped::Endless | Stopped::Halted => "no end in sight: more polls than allowed",
        };
        panic!(
            "seed {}: {why}\n{}{}{}",
            self.seed,
            self.executor.describe(),
            self.disk().describe(),
            self.complaints().unwrap_or_default(),
        );
    }

    fn check(&self) {
        if let Some(complaints) = self.complaints() {
            panic!("seed {}:\n{complaints}", self.seed);
        }
    }

    fn complaints(&self) -> Option<String> {
        let mut lines = String::new();
        for broken in self.disk().take_violations() {
            lines += &format!("  the caller broke the contract of the disk: {broken}\n");
        }
        for panic in self.take_panics() {
            lines += &format!(
                "  the task spawned at {} panicked: {}\n",
                panic.spawned_at, panic.message
            );
        }
        (!lines.is_empty()).then_some(lines)
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        // Tasks hold the platform and the platform the executor: cut the circle.
        self.executor.clear();
    }
}

/// Runs `body` in a fresh simulation: the short form of [`Sim::run`].
///
/// # Panics
/// As [`Sim::run`].
pub fn run<T, F: Future<Output = T>>(seed: u64, body: impl FnOnce(SimPlatform) -> F) -> T {
    let sim = Sim::new(seed);
    sim.run(body(sim.platform().clone()))
}
