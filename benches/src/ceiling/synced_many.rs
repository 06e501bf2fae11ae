//! Small synced writes, many in flight: the ceiling of durable appends to many partitions.
//!
//! One ring, one synced write a slot at any time. Whether the slots share a file or have one
//! each is the file system's business to make fast or slow, so both are measured, and the better one
//! is the ceiling.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use super::buffers::Slots;
use super::ring::{Ring, Sync};
use super::synced::Method;
use super::{Ceiling, CeilingError, Step, file};
use crate::latency::Latency;
use crate::rng::Rng;

/// Bytes a slot goes round in, about.
const BYTES_EACH: u64 = 512 << 10;

/// Blocks a slot goes round in.
const BLOCKS_EACH_MIN: u64 = 8;
const BLOCKS_EACH_MAX: u64 = 128;

/// Where the slots write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Each slot has a file.
    Files,
    /// Each slot has a region of the one file.
    Regions,
}

impl Layout {
    /// The word for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Files => "a file each",
            Layout::Regions => "one file",
        }
    }

    fn files(self, depth: usize) -> usize {
        match self {
            Layout::Files => depth,
            Layout::Regions => 1,
        }
    }
}

/// What is asked of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Many {
    /// Where the slots write.
    pub layout: Layout,
    /// How each write becomes durable.
    pub method: Method,
    /// Bytes of one write, a positive multiple of 4096.
    pub block: usize,
    /// Writes in flight, at least 1.
    pub depth: usize,
}

/// What it did.
#[derive(Debug, Clone, Default)]
pub struct ManySynced {
    /// Synced writes that ended, a second.
    pub per_s: f64,
    /// From sending one until it was durable.
    pub latency: Latency,
}

/// Synced writes, `many.depth` in flight for `time`.
pub(super) fn measure(
    ceiling: &Ceiling,
    many: Many,
    time: Duration,
) -> Result<ManySynced, CeilingError> {
    let path = ceiling.synced_path();
    let mut ring = prepare(ceiling, many)?;
    let failed = |position, error| CeilingError::new(Step::Write { position }, &path, error);
    let start = Instant::now();
    let mut slots = vec![Slot { turn: 0, sent: start, halves: 0 }; many.depth];
    for (number, slot) in slots.iter_mut().enumerate() {
        slot.send(&mut ring, number, many);
    }
    let mut latency = Latency::default();
    while ring.in_flight() > 0 {
        ring.submit(1).map_err(|error| failed(0, error))?;
        let more = start.elapsed() < time;
        while let Some(done) = ring.ended() {
            let slot = &mut slots[done.slot];
            let moved =
                done.result.map_err(|error| failed(many.position(done.slot, slot.turn), error))?;
            assert!(
                done.is_sync || moved as usize == many.block,
                "a file system writes whole blocks"
            );
            slot.halves -= 1;
            if slot.halves > 0 {
                continue;
            }
            latency.record(slot.sent.elapsed());
            slot.turn += 1;
            if more {
                slot.send(&mut ring, done.slot, many);
            }
        }
        ceiling.check_interrupt(&path)?;
    }
    Ok(ManySynced { per_s: latency.count() as f64 / start.elapsed().as_secs_f64(), latency })
}

/// A slot's write that is in flight.
#[derive(Debug, Clone, Copy)]
struct Slot {
    turn: u64,
    sent: Instant,
    /// Completions that have to come: a linked sync is one of its own.
    halves: u32,
}

impl Slot {
    fn send(&mut self, ring: &mut Ring, number: usize, many: Many) {
        self.sent = Instant::now();
        self.halves = match many.method {
            Method::Dsync => 1,
            Method::LinkedFdatasync => 2,
        };
        ring.write(number, many.position(number, self.turn), many.method.sync());
    }
}

impl Many {
    /// Blocks a slot goes round in: enough that no block is written again at once, and not more of
    /// large ones than a disk has room for.
    fn blocks_each(self) -> u64 {
        (BYTES_EACH / self.block as u64).clamp(BLOCKS_EACH_MIN, BLOCKS_EACH_MAX)
    }

    /// Where `slot` writes its `turn`-th block.
    fn position(self, slot: usize, turn: u64) -> u64 {
        let region = match self.layout {
            Layout::Files => 0,
            Layout::Regions => slot as u64 * self.blocks_each(),
        };
        (region + turn % self.blocks_each()) * self.block as u64
    }

    /// Bytes of all its files together.
    pub(crate) fn bytes(self) -> u64 {
        self.blocks_each() * self.block as u64 * self.depth as u64
    }
}

/// The files with all blocks written and synced, made once a run.
fn prepare(ceiling: &Ceiling, many: Many) -> Result<Ring, CeilingError> {
    let Many { layout, block, depth, .. } = many;
    let count = layout.files(depth);
    let bytes = many.bytes() / count as u64;
    let path =
        |number: usize| ceiling.synced_path().with_extension(format!("{block}-{count}-{number}"));
    let files: Vec<File> = (0..count)
        .map(|number| {
            let path = path(number);
            match path.metadata() {
                Ok(found) if found.len() == bytes => file::reopen(&path),
                _ => file::create(&path, bytes),
            }
        })
        .collect::<Result<_, _>>()?;
    let first = path(0);
    let slots =
        Slots::new(depth, block).map_err(|error| CeilingError::new(Step::Map, &first, error))?;
    let mut ring = Ring::over_files(files, slots)
        .map_err(|error| CeilingError::new(Step::Ring, &first, error))?;
    for slot in 0..depth {
        Rng::new(slot as u64).fill(ring.idle_slot(slot));
    }
    for turn in 0..many.blocks_each() {
        write_all(&mut ring, many, turn, &first)?;
    }
    for (number, file) in ring.files().iter().enumerate() {
        let synced = file.sync_all();
        synced.map_err(|error| CeilingError::new(Step::Sync, &path(number), error))?;
    }
    Ok(ring)
}

/// Each slot's block of this turn, not synced.
fn write_all(ring: &mut Ring, many: Many, turn: u64, path: &Path) -> Result<(), CeilingError> {
    let failed = |error| CeilingError::new(Step::Write { position: 0 }, path, error);
    for slot in 0..ring.slots() {
        ring.write(slot, many.position(slot, turn), Sync::No);
    }
    while ring.in_flight() > 0 {
        ring.submit(1).map_err(failed)?;
        while let Some(done) = ring.ended() {
            done.result.map_err(failed)?;
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
    fn each_slot_writes_its_own_blocks_in_either_layout_by_either_method() {
        let dir = test_dir("synced-many");
        let ceiling = Ceiling::new(dir.ceiling_dir().unwrap(), Interrupt::default());
        for block in [4096, 3 * 4096] {
            for layout in [Layout::Files, Layout::Regions] {
                for method in [Method::Dsync, Method::LinkedFdatasync] {
                    let many = Many { layout, method, block, depth: 3 };
                    let synced = ceiling.synced_many(many, Duration::from_millis(20)).unwrap();
                    assert!(synced.per_s > 0.0 && synced.latency.count() >= 3);
                    check_blocks(&ceiling, many);
                }
            }
        }
    }

    /// Each slot's own bytes stand in its own blocks.
    fn check_blocks(ceiling: &Ceiling, many: Many) {
        let Many { layout, block, depth, .. } = many;
        let each = many.bytes() as usize / depth;
        let files = layout.files(depth);
        let path = |number: usize| {
            ceiling.synced_path().with_extension(format!("{block}-{files}-{number}"))
        };
        let all: Vec<u8> = (0..files).flat_map(|number| fs::read(path(number)).unwrap()).collect();
        assert_eq!(all.len(), depth * each);
        let mut expected = vec![0; block];
        for (slot, bytes) in all.chunks(each).enumerate() {
            Rng::new(slot as u64).fill(&mut expected);
            assert!(bytes.chunks(block).all(|found| found == expected), "slot {slot}");
        }
    }

    #[test]
    fn large_blocks_take_no_more_room_than_small_ones_need() {
        let many =
            |block, depth| Many { layout: Layout::Files, method: Method::Dsync, block, depth };
        assert_eq!(many(4096, 64).bytes(), 64 * 128 * 4096);
        assert_eq!(many(1 << 20, 2).bytes(), (2 * 8) << 20);
    }
}
