//! The device's ceiling: what a raw ring does on the same disk in the same run, no engine code.
//!
//! O_DIRECT, a registered file and registered buffers on 2 MiB pages, the completion path the
//! kernel offers cheapest. Files are laid out as the engine's: fresh, allocated, not yet written.
//! Every call measures once and touches its files only; the caller interleaves the calls with the
//! engine's phases, so that a device that drifts drifts for both.

mod buffers;
mod file;
mod probe;
mod ring;
mod sequential;
pub(crate) mod sweep;
mod synced;
mod synced_many;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::interrupt::Interrupt;
use crate::live::Live;

pub use buffers::Pages;
pub(crate) use buffers::{BLOCK_BYTES, Slots};
pub(crate) use probe::{Abilities, abilities};
pub use ring::Granted;
pub(crate) use ring::Ring;
pub use synced::{Method, Synced};
pub use synced_many::{Layout, Many, ManySynced};

/// How a sequential phase asks the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of one request, a positive multiple of 4096, at most 1 GiB.
    pub block: usize,
    /// Requests in flight on each ring, at least 1.
    pub depth: usize,
    /// Rings, each on a thread and a file of its own; the engine's counterpart is its shards.
    pub rings: usize,
}

/// One sequential phase, measured.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// Bytes moved by all rings.
    pub bytes: u64,
    /// From the first ring's first request to the last ring's last completion.
    pub elapsed: Duration,
    /// What the kernel granted the rings.
    pub granted: Granted,
}

/// The probe, in a directory of its own.
#[derive(Debug)]
pub struct Ceiling {
    dir: PathBuf,
    interrupt: Interrupt,
    live: Live,
}

impl Ceiling {
    /// A probe that keeps its files in `dir`, which exists.
    pub fn new(dir: PathBuf, interrupt: Interrupt) -> Ceiling {
        Ceiling { dir, interrupt, live: Live::default() }
    }

    /// The same, telling `live` of each block that the sequential phases move.
    pub(crate) fn telling(self, live: &Live) -> Ceiling {
        Ceiling { live: live.clone(), ..self }
    }

    /// Sequential write of `bytes` (rounded up to whole requests) to fresh, allocated files.
    /// Written, not durable: the engine's `Ack::Written` promises the same. Synced off the clock.
    pub fn write_once(&self, bytes: u64, shape: Shape) -> Result<Measured, CeilingError> {
        sequential::write(self, bytes, shape)
    }

    /// Cold sequential read of what `write_once` with the same arguments wrote.
    /// O_DIRECT, so no page cache of this machine answers; each request's first bytes are checked.
    pub fn read_once(&self, bytes: u64, shape: Shape) -> Result<Measured, CeilingError> {
        sequential::read(self, bytes, shape, shape.depth)
    }

    /// `read_once` into buffers of `memory` bytes a ring that take turns, the one that was filled
    /// longest ago next: what the device gives to a reader that keeps so much of what it has read.
    /// Never fewer buffers than are in flight.
    pub fn read_round(
        &self,
        bytes: u64,
        shape: Shape,
        memory: usize,
    ) -> Result<Measured, CeilingError> {
        sequential::read(self, bytes, shape, (memory / shape.block).max(shape.depth))
    }

    /// `write_once` beside a cold sequential read of files that were written before: the figures of
    /// both while they share the device.
    pub fn mixed_once(
        &self,
        bytes: u64,
        shape: Shape,
    ) -> Result<(Measured, Measured), CeilingError> {
        sequential::mixed(self, bytes, shape)
    }

    /// Small synced writes, one at a time, to blocks already written: latencies of both methods.
    /// Stops at `samples` a method, or once `budget` has passed.
    pub fn synced_once(&self, samples: u32, budget: Duration) -> Result<Synced, CeilingError> {
        synced::measure(self, samples, budget)
    }

    /// Small synced writes, many in flight for `time`, to blocks already written.
    pub fn synced_many(&self, many: Many, time: Duration) -> Result<ManySynced, CeilingError> {
        synced_many::measure(self, many, time)
    }

    /// Removes the sequential phases' files, which are large.
    pub fn remove_files(&self, rings: usize) -> Result<(), CeilingError> {
        (0..rings).try_for_each(|ring| {
            file::remove(&self.sequential_path(ring))?;
            file::remove(&self.beside_path(ring))
        })
    }

    fn sequential_path(&self, ring: usize) -> PathBuf {
        self.dir.join(format!("sequential-{ring}"))
    }

    /// The file that is read while the other one is written.
    fn beside_path(&self, ring: usize) -> PathBuf {
        self.dir.join(format!("beside-{ring}"))
    }

    fn synced_path(&self) -> PathBuf {
        self.dir.join("synced")
    }

    fn check_interrupt(&self, path: &Path) -> Result<(), CeilingError> {
        if self.interrupt.is_raised() {
            let source = io::Error::from(io::ErrorKind::Interrupted);
            return Err(CeilingError::new(Step::Interrupted, path, source));
        }
        Ok(())
    }
}

/// What the probe was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Opening a file with O_DIRECT.
    OpenDirect,
    /// Allocating a file.
    Allocate,
    /// Mapping the buffers.
    Map,
    /// Setting up the ring.
    Ring,
    /// Writing.
    Write {
        /// Where in the file.
        position: u64,
    },
    /// Reading.
    Read {
        /// Where in the file.
        position: u64,
    },
    /// Syncing a file.
    Sync,
    /// Removing a file.
    Remove,
    /// The user asked to stop; not a fault.
    Interrupted,
}

/// The probe could not measure.
#[derive(Debug)]
pub struct CeilingError {
    /// What failed.
    pub step: Step,
    /// At which file.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl CeilingError {
    fn new(step: Step, path: &Path, source: io::Error) -> CeilingError {
        CeilingError { step, path: path.to_owned(), source }
    }
}

impl fmt::Display for CeilingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CeilingError { step, path, source } = self;
        let path = path.display();
        match step {
            Step::OpenDirect => write!(
                f,
                "opening {path} with O_DIRECT: {source}; choose a directory on a file system that \
                 supports it (--dir)"
            ),
            Step::Allocate => write!(f, "allocating {path}: {source}"),
            Step::Map => write!(f, "mapping buffers for {path}: {source}"),
            Step::Ring => write!(f, "{source} (for {path})"),
            Step::Write { position } => write!(f, "writing {path} at {position}: {source}"),
            Step::Read { position } => write!(f, "reading {path} at {position}: {source}"),
            Step::Sync => write!(f, "syncing {path}: {source}"),
            Step::Remove => write!(f, "removing {path}: {source}"),
            Step::Interrupted => write!(f, "stopped by the user"),
        }
    }
}

impl std::error::Error for CeilingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
