//! Carries a plan out, in an order that a crash may end anywhere: what is kept of a file is written
//! aside and checked, the original is linked into quarantine, new names come first and the old name
//! last, the index behind its log, the manifest last of all. Run again it goes on where it stopped.

use std::path::{Path, PathBuf};

use corelog_format::{FileKind, Manifest, SLOT_LEN, Slot, index_file_name, segment_file_name};

use super::files::Place;
use super::plan::{Plan, Replace, Run};
use crate::discover::Partition;
use crate::failure::Failure;
use crate::index_build;
use crate::source::{Access, Links, Source};
use crate::walk::{Flow, Known, Verdict, walk};

/// Called behind each step that a crash could end; an error ends it there, as a crash would.
pub(crate) type Step<'a> = &'a mut dyn FnMut(&str) -> Result<(), Failure>;

/// Changes the files. Gives the copies in quarantine.
pub(crate) fn apply(
    partition: &Partition,
    plan: &Plan,
    step: Step<'_>,
) -> Result<Vec<PathBuf>, Failure> {
    let place = Place::prepare(&partition.dir)?;
    step("the quarantine is there")?;
    let mut kept = Vec::new();
    for replaced in &plan.replace {
        replace(&place, partition, replaced, &mut kept, step)?;
    }
    let runs = plan.replace.iter().flat_map(|replace| &replace.runs);
    for log in runs.map(|run| run.offsets.start).chain(plan.reindex.iter().copied()) {
        kept.extend(reindex(&place, partition, log)?);
        step("an index is there")?;
    }
    if let Some(begin) = plan.begin {
        let name = segment_file_name(begin);
        let empty = place.write(&name, &[])?;
        kept.extend(place.keep(&name)?);
        place.install(&empty, &name)?;
        step("the empty segment is there")?;
    }
    if let Some(manifest) = &plan.manifest {
        store(&place, manifest)?;
        step("the mark has moved")?;
    }
    Ok(kept)
}

fn replace(
    place: &Place,
    partition: &Partition,
    replaced: &Replace,
    kept: &mut Vec<PathBuf>,
    step: Step<'_>,
) -> Result<(), Failure> {
    let original = segment_file_name(replaced.named);
    let mut finished: Vec<(String, PathBuf)> = Vec::new();
    for run in &replaced.runs {
        let name = segment_file_name(run.offsets.start);
        let copy = place.copy(&name, &replaced.path, &run.range)?;
        check(&copy, partition, run)?;
        finished.push((name, copy));
        step("a copy of what is kept is there")?;
    }
    kept.extend(place.keep(&original)?);
    step("the original is in quarantine")?;
    // The old name last: until then all that is kept still stands behind it, and a second attempt
    // finds what the first one has put beside it.
    finished.sort_by_key(|(name, _)| *name == original);
    for (name, copy) in &finished {
        if *name != original {
            kept.extend(place.keep(name)?);
        }
        place.install(copy, name)?;
        step("a segment is in its place")?;
    }
    if finished.last().is_none_or(|(name, _)| *name != original) {
        // First what would lie about a later file of this name: behind the log nobody would look.
        let index = index_file_name(replaced.named);
        kept.extend(place.keep(&index)?);
        place.remove(&index)?;
        step("the original's index is gone")?;
        place.remove(&original)?;
        step("the original is gone from its place")?;
    }
    Ok(())
}

/// The copy is what the plan has seen: reading it again must give the same batches.
fn check(copy: &Path, partition: &Partition, run: &Run) -> Result<(), Failure> {
    let mut source = Source::open_whole(copy, Links::Refuse, Access::default())?;
    let known = known(partition, run.offsets.start);
    let mut batches = 0;
    let walked = walk(&mut source, known, &mut |_| {
        batches += 1;
        Ok(Flow::Continue)
    })?;
    if walked.verdict == Verdict::Clean && batches == run.batches {
        return Ok(());
    }
    let why = "the copy does not hold what was read a moment ago; nothing was changed, try again";
    Err(Failure::not_ours(copy, why))
}

fn known(partition: &Partition, first_offset: u64) -> Known {
    Known {
        partition_id: partition.id,
        first_offset: Some(first_offset),
        durable_to: 0,
        time_rises_from: u64::MAX,
    }
}

/// Makes the index of the log that begins with this offset anew; the old one goes to quarantine.
pub(crate) fn reindex(
    place: &Place,
    partition: &Partition,
    log: u64,
) -> Result<Option<PathBuf>, Failure> {
    let path = place.path(&segment_file_name(log));
    let index = index_build::of_log(&path, known(partition, log))?;
    let name = index_file_name(log);
    debug_assert!(matches!(corelog_format::parse_file_name(&name), Some((_, FileKind::Index))));
    let written = place.write(&name, &index.bytes())?;
    let kept = place.keep(&name)?;
    place.install(&written, &name)?;
    Ok(kept)
}

/// Writes the manifest to the slot that does not count, so that a torn write leaves the other.
fn store(place: &Place, manifest: &Manifest) -> Result<(), Failure> {
    let path = place.path("manifest");
    let bytes = std::fs::read(&path).map_err(Failure::io(&path, "read"))?;
    let (a, b) = bytes.split_at(bytes.len().min(SLOT_LEN));
    let slot = match Manifest::pick(a, &b[..b.len().min(SLOT_LEN)]) {
        Ok(Some((_, slot))) => slot.other(),
        _ => Slot::A,
    };
    place.overwrite("manifest", slot.position(), &manifest.encode())
}
