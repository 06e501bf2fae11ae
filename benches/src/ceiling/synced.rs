//! Small synced writes, one at a time: the floor of a durable append's latency.
//!
//! Two ways to make 4 KiB durable: the write with RWF_DSYNC, and a write with fdatasync linked
//! behind it. Which is faster depends on the device (with FUA the first is one command), so both
//! are measured, in turns, and the better one is the ceiling.

use std::path::Path;
use std::time::{Duration, Instant};

use super::buffers::{BLOCK_BYTES, Slots};
use super::ring::{Ring, Sync};
use super::{Ceiling, CeilingError, Step, file};
use crate::latency::Latency;
use crate::rng::Rng;

/// Blocks of the file; writes go round in it.
const BLOCKS: u64 = 2048;

/// Samples of one method before the other has its turn, so that drift meets both.
const TURN: u32 = 25;

/// Samples a method gets whatever the budget.
const SAMPLES_MIN: u32 = 20;

/// How a small write is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// `RWF_DSYNC` on the write.
    Dsync,
    /// The write, and `fdatasync` linked behind it.
    LinkedFdatasync,
}

impl Method {
    /// The word for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Dsync => "RWF_DSYNC",
            Method::LinkedFdatasync => "write+fdatasync",
        }
    }

    pub(super) fn sync(self) -> Sync {
        match self {
            Method::Dsync => Sync::Dsync,
            Method::LinkedFdatasync => Sync::LinkedFdatasync,
        }
    }
}

/// Latencies from before the request is queued until its last completion was seen.
#[derive(Debug, Clone, Default)]
pub struct Synced {
    /// Of `RWF_DSYNC` writes.
    pub dsync: Latency,
    /// Of linked pairs.
    pub linked: Latency,
}

impl Synced {
    /// The method with the lower median, and its latencies.
    pub fn best(&self) -> (Method, &Latency) {
        if self.linked.percentile_us(50.0) < self.dsync.percentile_us(50.0) {
            (Method::LinkedFdatasync, &self.linked)
        } else {
            (Method::Dsync, &self.dsync)
        }
    }

    /// Adds another measurement's samples.
    pub fn merge(&mut self, other: &Synced) {
        self.dsync.merge(&other.dsync);
        self.linked.merge(&other.linked);
    }
}

pub(super) fn measure(
    ceiling: &Ceiling,
    samples: u32,
    budget: Duration,
) -> Result<Synced, CeilingError> {
    let path = ceiling.synced_path();
    let mut ring = prepare(&path)?;
    let mut synced = Synced::default();
    let begun = Instant::now();
    let mut block = 0;
    let mut taken = 0;
    while taken < samples && (taken < SAMPLES_MIN || begun.elapsed() < budget) {
        let turn = TURN.min(samples - taken);
        for method in [Method::Dsync, Method::LinkedFdatasync] {
            let into = match method {
                Method::Dsync => &mut synced.dsync,
                Method::LinkedFdatasync => &mut synced.linked,
            };
            for _ in 0..turn {
                let position = block % BLOCKS * BLOCK_BYTES as u64;
                block += 1;
                let start = Instant::now();
                one_write(&mut ring, position, method)
                    .map_err(|error| CeilingError::new(Step::Write { position }, &path, error))?;
                into.record(start.elapsed());
                ceiling.check_interrupt(&path)?;
            }
        }
        taken += turn;
    }
    Ok(synced)
}

/// The file with all blocks written and synced, made once a run, under a ring of depth 1.
fn prepare(path: &Path) -> Result<Ring, CeilingError> {
    let is_new = !path.exists();
    let file =
        if is_new { file::create(path, BLOCKS * BLOCK_BYTES as u64)? } else { file::reopen(path)? };
    let slots =
        Slots::new(1, BLOCK_BYTES).map_err(|error| CeilingError::new(Step::Map, path, error))?;
    let mut ring =
        Ring::new(file, slots).map_err(|error| CeilingError::new(Step::Ring, path, error))?;
    Rng::new(0).fill(ring.idle_slot(0));
    if is_new {
        for position in (0..BLOCKS).map(|block| block * BLOCK_BYTES as u64) {
            one_write_with(&mut ring, position, Sync::No)
                .map_err(|error| CeilingError::new(Step::Write { position }, path, error))?;
        }
        let synced = ring.files()[0].sync_all();
        synced.map_err(|error| CeilingError::new(Step::Sync, path, error))?;
    }
    Ok(ring)
}

fn one_write(ring: &mut Ring, position: u64, method: Method) -> std::io::Result<()> {
    one_write_with(ring, position, method.sync())
}

/// One request (or linked pair), alone on the ring, to its end.
fn one_write_with(ring: &mut Ring, position: u64, sync: Sync) -> std::io::Result<()> {
    ring.idle_slot(0)[..8].copy_from_slice(&position.to_le_bytes());
    ring.write(0, position, sync);
    ring.submit(ring.in_flight())?;
    while ring.in_flight() > 0 {
        match ring.ended() {
            None => ring.submit(1)?,
            Some(done) => {
                let moved = done.result?;
                if !done.is_sync && moved as usize != BLOCK_BYTES {
                    let what = format!("{moved} bytes of {BLOCK_BYTES} were written");
                    return Err(std::io::Error::other(what));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::interrupt::Interrupt;
    use crate::place::tests::test_dir;

    #[test]
    fn both_methods_are_sampled_and_write_their_blocks() {
        let dir = test_dir("synced");
        let ceiling = Ceiling::new(dir.ceiling_dir().unwrap(), Interrupt::default());
        for samples in [1, 30] {
            let synced = ceiling.synced_once(samples, Duration::from_secs(60)).unwrap();
            assert_eq!(synced.dsync.count(), u64::from(samples));
            assert_eq!(synced.linked.count(), u64::from(samples));
        }
        let bytes = fs::read(ceiling.synced_path()).unwrap();
        assert_eq!(bytes.len() as u64, BLOCKS * BLOCK_BYTES as u64);
        for (number, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            assert_eq!(block[..8], ((number * BLOCK_BYTES) as u64).to_le_bytes());
        }
    }

    #[test]
    fn a_spent_budget_still_leaves_enough_samples() {
        let dir = test_dir("synced-budget");
        let ceiling = Ceiling::new(dir.ceiling_dir().unwrap(), Interrupt::default());
        let synced = ceiling.synced_once(1_000_000, Duration::ZERO).unwrap();
        assert_eq!(synced.dsync.count(), u64::from(TURN));
    }

    #[test]
    fn the_best_method_is_the_one_with_the_lower_median() {
        let mut synced = Synced::default();
        for us in [100, 110, 120] {
            synced.dsync.record(Duration::from_micros(us));
            synced.linked.record(Duration::from_micros(us - 20));
        }
        assert_eq!(synced.best().0, Method::LinkedFdatasync);
        for _ in 0..4 {
            synced.dsync.record(Duration::from_micros(50));
        }
        assert_eq!(synced.best().0, Method::Dsync);
    }
}
