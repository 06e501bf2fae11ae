//! What happens to files behind the program's back: rot, and index files that lie.
//!
//! An index is a hint: whatever it says, nothing may change, so the oracle is not told. Of the log
//! and what a lying write left in it, it is.

use std::collections::BTreeSet;
use std::path::PathBuf;

use corelog_format::{FileKind, IndexEntry, Manifest, Mark, SLOT_LEN, parse_file_name};
use corelog_io::sim::Rng;
use corelog_storage::MANIFEST_FILE;

use crate::opening::dir_of;
use crate::probes::Probe;
use crate::world::World;

/// First offsets of a partition's files of one kind.
fn files(world: &World, partition: usize, kind: FileKind) -> Vec<(u64, PathBuf)> {
    let dir = dir_of(partition);
    let of_partition = world
        .sim
        .disk()
        .files()
        .into_iter()
        .filter(|path| path.parent().is_some_and(|parent| parent == dir));
    let named = of_partition.filter_map(|path| {
        let (first, found) = parse_file_name(path.file_name()?.to_str()?)?;
        (found == kind).then_some((first, path))
    });
    named.collect()
}

/// First offsets and lengths of a partition's segments.
pub(crate) fn segments(world: &World, partition: usize) -> Vec<(u64, u64)> {
    let logs = files(world, partition, FileKind::Log).into_iter();
    let len = |path: PathBuf| world.sim.disk().contents(path).map_or(0, |bytes| bytes.len());
    logs.map(|(first, path)| (first, len(path) as u64)).collect()
}

/// Tells the oracle which segments there are, and what lying writes have left.
pub(crate) fn look(world: &World) {
    for partition in 0..world.parts.len() {
        let logs = files(world, partition, FileKind::Log);
        if logs.len() > 1 {
            world.hit(Probe::Rolled);
        }
        let segments: BTreeSet<u64> = logs.into_iter().map(|(first, _)| first).collect();
        world.parts[partition].oracle.borrow_mut().segments_are(segments);
    }
    for harm in world.sim.disk().take_harm() {
        world.hit(Probe::WriteLied);
        let name = harm.path.file_name().and_then(|name| name.to_str());
        let Some((segment, FileKind::Log)) = name.and_then(parse_file_name) else { continue };
        let Some(partition) =
            (0..world.parts.len()).find(|partition| harm.path.starts_with(dir_of(*partition)))
        else {
            continue;
        };
        let bytes = harm.at..harm.at + harm.len as u64;
        world.note(&format!("p{partition} a write lied about bytes {bytes:?} of {segment}"));
        world.parts[partition].oracle.borrow_mut().harmed(segment, bytes);
    }
}

/// The durable mark as the manifest has it.
pub(crate) fn mark(world: &World, partition: usize) -> Option<Mark> {
    let bytes = world.sim.disk().contents(dir_of(partition).join(MANIFEST_FILE)).ok()?;
    let (a, b) = bytes.split_at_checked(SLOT_LEN)?;
    Some(Manifest::pick(a, b).ok()??.0.mark)
}

/// Turns over a bit of a log file, anywhere in it.
pub(crate) fn rot(world: &World, partition: usize, rng: &mut Rng) {
    look(world);
    let logs = files(world, partition, FileKind::Log);
    if logs.is_empty() || !world.params.partition(partition).config.verify_reads {
        return;
    }
    let (segment, path) = &logs[rng.index(logs.len())];
    let len = world.sim.disk().contents(path).map_or(0, |bytes| bytes.len() as u64);
    if len == 0 {
        return;
    }
    let (byte, bit) = (rng.below(len), rng.below(8) as u8);
    if world.sim.disk().flip_bit(path, byte, bit).is_ok() {
        world.note(&format!("p{partition} bit {bit} of byte {byte} of segment {segment} flips"));
        world.hit(Probe::Rotted);
        let part = &world.parts[partition];
        let mut oracle = part.oracle.borrow_mut();
        oracle.harmed(*segment, byte..byte + 1);
        if part.opening.get() {
            oracle.rots_while_opening(mark(world, partition).unwrap_or_default());
        }
    }
}

/// Between two lives: index files come to say anything.
pub(crate) fn bend_indexes(world: &World, rng: &mut Rng) {
    look(world);
    for partition in 0..world.parts.len() {
        let logs = files(world, partition, FileKind::Log);
        let last = logs.last().map(|(segment, _)| *segment);
        for (segment, log) in logs {
            // The last one matters most: recovery looks into it.
            if Some(segment) == last || rng.chance(1, 2) {
                bend(world, partition, segment, &log.with_extension("index"), rng);
            }
        }
    }
}

fn bend(world: &World, partition: usize, segment: u64, path: &std::path::Path, rng: &mut Rng) {
    let disk = world.sim.disk();
    let before = disk.contents(path).unwrap_or_default();
    let known = world.parts[partition].oracle.borrow().index_of(segment);
    let how = if rng.chance(1, 2) { 4 } else { rng.below(6) };
    let after = match how {
        0 => {
            let _ = disk.delete(path);
            world.note(&format!("p{partition} the index of {segment} is gone"));
            return;
        }
        1 => before[..rng.index(before.len() + 1)].to_vec(),
        2 => {
            let mut after = before;
            if !after.is_empty() {
                let at = rng.index(after.len());
                after[at] ^= 1 << rng.below(8);
            }
            after
        }
        3 => (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect(),
        // What a killed process may leave: entries of everything that was ever in the segment,
        // written or not.
        4 => entries(&known, 0),
        // All entries are true but for a shift.
        _ => entries(&known, rng.between(1, 300)),
    };
    world.note(&format!(
        "p{partition} the index of {segment} is bent ({how}), {} bytes",
        after.len()
    ));
    world.hit(Probe::IndexLied);
    disk.put(path, &after).expect("a file beside the log");
}

fn entries(known: &[(u64, u64, u64)], shift: u64) -> Vec<u8> {
    let entry = |&(base_offset, base_timestamp, position): &(u64, u64, u64)| {
        IndexEntry { base_offset, base_timestamp, position: position + shift }.encode()
    };
    known.iter().flat_map(entry).collect()
}
