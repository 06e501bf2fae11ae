//! Sequential write and read at a block size and depth: rings that are never empty.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::buffers::Slots;
use super::ring::{Granted, Ring, Sync};
use super::{Ceiling, CeilingError, Measured, Shape, Step, file};
use crate::rng::Rng;

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Write,
    Read,
}

pub(super) fn write(ceiling: &Ceiling, bytes: u64, shape: Shape) -> Result<Measured, CeilingError> {
    let jobs = jobs(shape, Way::Write, |ring| ceiling.sequential_path(ring));
    let measured = measured(bytes, shape, &run(ceiling, bytes, shape, &jobs)?);
    // Off the clock: the next phase must not wait for what the device still holds back.
    sync(&jobs)?;
    Ok(measured)
}

pub(super) fn read(
    ceiling: &Ceiling,
    bytes: u64,
    shape: Shape,
    slots: usize,
) -> Result<Measured, CeilingError> {
    let mut jobs = jobs(shape, Way::Read, |ring| ceiling.sequential_path(ring));
    jobs.iter_mut().for_each(|job| job.slots = slots);
    Ok(measured(bytes, shape, &run(ceiling, bytes, shape, &jobs)?))
}

/// Writes files beside those that are read meanwhile: the write's figure, and the read's.
pub(super) fn mixed(
    ceiling: &Ceiling,
    bytes: u64,
    shape: Shape,
) -> Result<(Measured, Measured), CeilingError> {
    let old = jobs(shape, Way::Write, |ring| ceiling.beside_path(ring));
    run(ceiling, bytes, shape, &old)?;
    sync(&old)?;
    let mut both = jobs(shape, Way::Write, |ring| ceiling.sequential_path(ring));
    both.extend(jobs(shape, Way::Read, |ring| ceiling.beside_path(ring)));
    let spans = run(ceiling, bytes, shape, &both)?;
    let (wrote, read) = spans.split_at(shape.rings);
    Ok((measured(bytes, shape, wrote), measured(bytes, shape, read)))
}

/// What a ring does.
struct Job {
    path: PathBuf,
    way: Way,
    /// Buffers that take turns; more than are in flight make a ring that goes round in them.
    slots: usize,
}

fn jobs(shape: Shape, way: Way, path: impl Fn(usize) -> PathBuf) -> Vec<Job> {
    (0..shape.rings).map(|ring| Job { path: path(ring), way, slots: shape.depth }).collect()
}

fn sync(jobs: &[Job]) -> Result<(), CeilingError> {
    jobs.iter().try_for_each(|Job { path, .. }| {
        let synced = file::reopen(path)?.sync_all();
        synced.map_err(|error| CeilingError::new(Step::Sync, path, error))
    })
}

/// What one ring did.
struct Span {
    start: Instant,
    end: Instant,
    granted: Granted,
}

/// Does all jobs at once, a thread and a ring each; their spans are in the order of the jobs.
fn run(
    ceiling: &Ceiling,
    bytes: u64,
    shape: Shape,
    jobs: &[Job],
) -> Result<Vec<Span>, CeilingError> {
    assert!(bytes > 0 && shape.depth > 0 && shape.rings > 0);
    let blocks = blocks_each(bytes, shape);
    let barrier = Barrier::new(jobs.len());
    let spans: Vec<Result<Span, CeilingError>> = thread::scope(|scope| {
        let barrier = &barrier;
        let one = |(number, job)| {
            scope.spawn(move || one_ring(ceiling, number, blocks, shape, job, barrier))
        };
        let threads: Vec<_> = jobs.iter().enumerate().map(one).collect();
        threads.into_iter().map(|one| one.join().expect("a probe thread panicked")).collect()
    });
    spans.into_iter().collect()
}

fn blocks_each(bytes: u64, shape: Shape) -> u64 {
    bytes.div_ceil(shape.rings as u64).div_ceil(shape.block as u64)
}

/// The figure of rings that moved `bytes` together.
fn measured(bytes: u64, shape: Shape, spans: &[Span]) -> Measured {
    let start = spans.iter().map(|span| span.start).min().expect("at least one ring");
    let end = spans.iter().map(|span| span.end).max().expect("at least one ring");
    Measured {
        bytes: blocks_each(bytes, shape) * shape.block as u64 * shape.rings as u64,
        elapsed: end.duration_since(start).max(Duration::from_nanos(1)),
        granted: spans[0].granted,
    }
}

fn one_ring(
    ceiling: &Ceiling,
    number: usize,
    blocks: u64,
    shape: Shape,
    job: &Job,
    barrier: &Barrier,
) -> Result<Span, CeilingError> {
    pin(number);
    let ready = prepare(job, blocks, shape);
    // All rings pass, also one that failed to prepare: the others must not wait for ever.
    barrier.wait();
    let mut probe = Probe { ceiling, job, ring: ready?, block: shape.block as u64 };
    let start = Instant::now();
    probe.move_all(blocks, shape.depth)?;
    Ok(Span { start, end: Instant::now(), granted: probe.ring.granted() })
}

/// Everything that costs time and is not the device's: file, memory, contents, ring.
fn prepare(job: &Job, blocks: u64, shape: Shape) -> Result<Ring, CeilingError> {
    let path = &job.path;
    let bytes = blocks * shape.block as u64;
    let file = match job.way {
        Way::Write => file::create(path, bytes)?,
        Way::Read => file::reopen(path)?,
    };
    let count = job.slots.min(usize::try_from(blocks).unwrap_or(usize::MAX));
    let slots = Slots::new(count, shape.block)
        .map_err(|error| CeilingError::new(Step::Map, path, error))?;
    let mut ring =
        Ring::new(file, slots).map_err(|error| CeilingError::new(Step::Ring, path, error))?;
    // Random contents, as the engine's: a device that compresses must not be flattered.
    for slot in 0..count {
        Rng::new(slot as u64).fill(ring.idle_slot(slot));
    }
    Ok(ring)
}

struct Probe<'a> {
    ceiling: &'a Ceiling,
    job: &'a Job,
    ring: Ring,
    block: u64,
}

impl Probe<'_> {
    /// Keeps `depth` requests in flight until `blocks` blocks have been moved.
    fn move_all(&mut self, blocks: u64, depth: usize) -> Result<(), CeilingError> {
        let mut positions = vec![0; self.ring.slots()];
        // The one that has been idle longest is next.
        let mut idle: VecDeque<usize> = (0..positions.len()).collect();
        let mut next = 0;
        loop {
            while next < blocks
                && self.ring.in_flight() < depth
                && let Some(slot) = idle.pop_front()
            {
                positions[slot] = next * self.block;
                next += 1;
                self.ask(slot, positions[slot]);
            }
            if self.ring.in_flight() == 0 {
                return Ok(());
            }
            let waited = self.ring.submit(1);
            waited.map_err(|error| self.failed(positions[0], error))?;
            while let Some(done) = self.ring.ended() {
                self.check(done.slot, positions[done.slot], done.result)?;
                self.ceiling.live.add(self.block, 0);
                idle.push_back(done.slot);
            }
            self.ceiling.check_interrupt(&self.job.path)?;
        }
    }

    fn ask(&mut self, slot: usize, position: u64) {
        match self.job.way {
            Way::Write => {
                stamp(self.ring.idle_slot(slot)).copy_from_slice(&position.to_le_bytes());
                self.ring.write(slot, position, Sync::No);
            }
            Way::Read => self.ring.read(slot, position),
        }
    }

    /// A whole block was moved and, read back, is the one that was written there.
    fn check(
        &mut self,
        slot: usize,
        position: u64,
        result: io::Result<u32>,
    ) -> Result<(), CeilingError> {
        let moved = result.map_err(|error| self.failed(position, error))?;
        if u64::from(moved) != self.block {
            let what = format!("{moved} bytes of {} were moved", self.block);
            return Err(self.failed(position, io::Error::other(what)));
        }
        if self.job.way == Way::Read && *stamp(self.ring.idle_slot(slot)) != position.to_le_bytes()
        {
            let what = "the block read back is not the block written there";
            return Err(self.failed(position, io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        Ok(())
    }

    fn failed(&self, position: u64, error: io::Error) -> CeilingError {
        let step = match self.job.way {
            Way::Write => Step::Write { position },
            Way::Read => Step::Read { position },
        };
        CeilingError::new(step, &self.job.path, error)
    }
}

/// The first eight bytes of a block: its position in the file.
fn stamp(block: &mut [u8]) -> &mut [u8; 8] {
    block.first_chunk_mut().expect("a block is at least 4096 bytes")
}

/// Pins this thread to the `index`-th CPU it may use, as the engine pins its shards; more rings
/// than CPUs share. A refusal is no error: the figure is then an unpinned thread's.
fn pin(index: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let Some(cpu) = cpus.get(index % cpus.len().max(1)) else { return };
    let mut one = CpuSet::new();
    one.set(*cpu);
    let _ = sched_setaffinity(None, &one);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::interrupt::Interrupt;
    use crate::place::tests::test_dir;

    const KIB: usize = 1024;

    #[test]
    fn what_was_written_is_read_back_at_every_shape() {
        let dir = test_dir("sequential");
        let ceiling = Ceiling::new(dir.ceiling_dir().unwrap(), Interrupt::default());
        for (bytes, block, depth, rings, moved) in [
            (1, 4 * KIB, 1, 1, 4096),
            (100_000, 4 * KIB, 7, 1, 102_400),
            (1 << 20, 64 * KIB, 4, 1, 1 << 20),
            (3 << 20, 1 << 20, 2, 2, 4 << 20),
            (10_000, 8 * KIB, 16, 3, 24_576),
        ] {
            let shape = Shape { block, depth, rings };
            let wrote = ceiling.write_once(bytes, shape).unwrap();
            let read = ceiling.read_once(bytes, shape).unwrap();
            assert_eq!((wrote.bytes, read.bytes), (moved, moved), "{bytes} bytes as {shape:?}");
            let round = ceiling.read_round(bytes, shape, 5 * block).unwrap();
            assert_eq!(round.bytes, moved, "{bytes} bytes as {shape:?}, round in five buffers");
            let each = moved / rings as u64;
            for ring in 0..rings {
                let bytes = fs::read(ceiling.sequential_path(ring)).unwrap();
                assert_eq!(bytes.len() as u64, each);
                for (number, chunk) in bytes.chunks(block).enumerate() {
                    assert_eq!(chunk[..8], ((number * block) as u64).to_le_bytes());
                    assert!(chunk[8..].chunks(512).all(|part| part.iter().any(|byte| *byte != 0)));
                }
            }
            ceiling.remove_files(rings).unwrap();
        }
        assert_eq!(fs::read_dir(dir.ceiling_dir().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn a_write_beside_a_read_does_both_whole() {
        let dir = test_dir("sequential-mixed");
        let ceiling = Ceiling::new(dir.ceiling_dir().unwrap(), Interrupt::default());
        let shape = Shape { block: 8 * KIB, depth: 3, rings: 2 };
        let (wrote, read) = ceiling.mixed_once(200_000, shape).unwrap();
        assert_eq!((wrote.bytes, read.bytes), (212_992, 212_992));
        // What was written meanwhile is what a sequential read finds.
        assert_eq!(ceiling.read_once(200_000, shape).unwrap().bytes, 212_992);
        ceiling.remove_files(2).unwrap();
        assert_eq!(fs::read_dir(dir.ceiling_dir().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn a_block_that_is_not_what_was_written_fails_the_read() {
        let dir = test_dir("sequential-damaged");
        let ceiling = Ceiling::new(dir.ceiling_dir().unwrap(), Interrupt::default());
        let shape = Shape { block: 4 * KIB, depth: 2, rings: 1 };
        ceiling.write_once(32 * 1024, shape).unwrap();
        let path = ceiling.sequential_path(0);
        let mut bytes = fs::read(&path).unwrap();
        bytes[3 * 4096] ^= 1;
        fs::write(&path, bytes).unwrap();
        let error = ceiling.read_once(32 * 1024, shape).unwrap_err();
        assert_eq!(error.step, Step::Read { position: 3 * 4096 });
    }

    #[test]
    fn a_short_file_fails_the_read_with_its_position() {
        let dir = test_dir("sequential-short");
        let ceiling = Ceiling::new(dir.ceiling_dir().unwrap(), Interrupt::default());
        let shape = Shape { block: 8 * KIB, depth: 1, rings: 1 };
        ceiling.write_once(64 * 1024, shape).unwrap();
        let file = fs::OpenOptions::new().write(true).open(ceiling.sequential_path(0)).unwrap();
        file.set_len(40 * 1024 + 512).unwrap();
        let error = ceiling.read_once(64 * 1024, shape).unwrap_err();
        assert_eq!(error.step, Step::Read { position: 40 * 1024 });
        assert!(error.to_string().contains("512 bytes of 8192"), "{error}");
    }

    #[test]
    fn an_interrupt_ends_a_phase() {
        let dir = test_dir("sequential-stopped");
        let interrupt = Interrupt::default();
        let ceiling = Ceiling::new(dir.ceiling_dir().unwrap(), interrupt.clone());
        interrupt.raise();
        let shape = Shape { block: 4 * KIB, depth: 1, rings: 2 };
        let error = ceiling.write_once(1 << 20, shape).unwrap_err();
        assert_eq!(error.step, Step::Interrupted);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let dir = test_dir("sequential-missing");
        let ceiling = Ceiling::new(dir.path().join("nowhere"), Interrupt::default());
        let shape = Shape { block: 4 * KIB, depth: 1, rings: 2 };
        let error = ceiling.write_once(4096, shape).unwrap_err();
        assert_eq!(error.step, Step::OpenDirect);
        assert!(error.to_string().contains("nowhere"), "{error}");
    }
}
