//! Small synced writes, many in flight: the ceiling of durable appends to many partitions.
//!
//! One ring, one `RWF_DSYNC` write a slot at any time. Whether the slots share a file or have one
//! each is the file system's business to make fast or slow, so both are measured, and the better one
//! is the ceiling.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use super::buffers::{BLOCK_BYTES, Slots};
use super::ring::{Ring, Sync};
use super::{Ceiling, CeilingError, Step, file};
use crate::rng::Rng;

/// Blocks a slot goes round in.
const BLOCKS_EACH: u64 = 128;

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

    /// Where `slot` writes its `turn`-th block.
    fn position(self, slot: usize, turn: u64) -> u64 {
        let region = match self {
            Layout::Files => 0,
            Layout::Regions => slot as u64 * BLOCKS_EACH,
        };
        (region + turn % BLOCKS_EACH) * BLOCK_BYTES as u64
    }
}

/// Synced writes that ended, a second.
pub(super) fn measure(
    ceiling: &Ceiling,
    layout: Layout,
    depth: usize,
    time: Duration,
) -> Result<f64, CeilingError> {
    let path = ceiling.synced_path();
    let mut ring = prepare(ceiling, layout, depth)?;
    let failed = |position, error| CeilingError::new(Step::Write { position }, &path, error);
    let mut turns = vec![0; depth];
    let start = Instant::now();
    for (slot, turn) in turns.iter().enumerate() {
        ring.write(slot, layout.position(slot, *turn), Sync::Dsync);
    }
    let mut ended = 0_u64;
    while ring.in_flight() > 0 {
        ring.submit(1).map_err(|error| failed(0, error))?;
        let more = start.elapsed() < time;
        while let Some(done) = ring.ended() {
            let turn = &mut turns[done.slot];
            let moved =
                done.result.map_err(|error| failed(layout.position(done.slot, *turn), error))?;
            assert_eq!(moved as usize, BLOCK_BYTES, "a file system writes whole blocks");
            ended += 1;
            *turn += 1;
            if more {
                ring.write(done.slot, layout.position(done.slot, *turn), Sync::Dsync);
            }
        }
        ceiling.check_interrupt(&path)?;
    }
    Ok(ended as f64 / start.elapsed().as_secs_f64())
}

/// The files with all blocks written and synced, made once a run.
fn prepare(ceiling: &Ceiling, layout: Layout, depth: usize) -> Result<Ring, CeilingError> {
    let count = layout.files(depth);
    let bytes = BLOCKS_EACH * BLOCK_BYTES as u64 * (depth / count) as u64;
    let path = |number: usize| ceiling.synced_path().with_extension(format!("{count}-{number}"));
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
    let slots = Slots::new(depth, BLOCK_BYTES)
        .map_err(|error| CeilingError::new(Step::Map, &first, error))?;
    let mut ring = Ring::over_files(files, slots)
        .map_err(|error| CeilingError::new(Step::Ring, &first, error))?;
    for slot in 0..depth {
        Rng::new(slot as u64).fill(ring.idle_slot(slot));
    }
    for turn in 0..BLOCKS_EACH {
        write_all(&mut ring, layout, turn, &first)?;
    }
    for (number, file) in ring.files().iter().enumerate() {
        let synced = file.sync_all();
        synced.map_err(|error| CeilingError::new(Step::Sync, &path(number), error))?;
    }
    Ok(ring)
}

/// Each slot's block of this turn, not synced.
fn write_all(ring: &mut Ring, layout: Layout, turn: u64, path: &Path) -> Result<(), CeilingError> {
    let failed = |error| CeilingError::new(Step::Write { position: 0 }, path, error);
    for slot in 0..ring.depth() {
        ring.write(slot, layout.position(slot, turn), Sync::No);
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
    fn each_slot_writes_its_own_blocks_in_either_layout() {
        let dir = test_dir("synced-many");
        let ceiling = Ceiling::new(dir.ceiling_dir().unwrap(), Interrupt::default());
        for layout in [Layout::Files, Layout::Regions] {
            let rate = ceiling.synced_many(layout, 3, Duration::from_millis(20)).unwrap();
            assert!(rate > 0.0);
        }
        let mut block = [0; BLOCK_BYTES];
        for slot in 0..3 {
            Rng::new(slot as u64).fill(&mut block);
            let own = fs::read(ceiling.synced_path().with_extension(format!("3-{slot}"))).unwrap();
            let all = fs::read(ceiling.synced_path().with_extension("1-0")).unwrap();
            let region = BLOCKS_EACH as usize * BLOCK_BYTES;
            assert_eq!((own.len(), all.len()), (region, 3 * region));
            assert!(own.chunks(BLOCK_BYTES).all(|chunk| chunk == block));
            assert!(all[slot * region..][..region].chunks(BLOCK_BYTES).all(|chunk| chunk == block));
        }
    }
}
