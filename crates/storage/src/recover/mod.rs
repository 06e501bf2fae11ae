//! Opening a partition: what is there, how far it can be trusted, and what is done about it.
//!
//! | found | meaning | done |
//! | --- | --- | --- |
//! | files below the manifest's first offset | a trim that was cut off | remove them, never serve them |
//! | nothing | a new partition | create it |
//! | a log, the mark, only batches behind it | a stop without a close | keep all of it |
//! | damage above the mark | an interrupted write | keep the longest prefix, cut the rest, also files behind; whole batches in it go to quarantine first |
//! | damage below the mark | corruption | leave it, name it; go on in a new segment behind everything that verifies |
//! | a log without a manifest | the reference server's | cut an incomplete last batch only; other damage is corruption |
//! | a manifest without its log | files are missing | name it; go on in a new segment at the mark |
//!
//! Every step is idempotent and leaves a state that the next attempt reads the same way: cuts are
//! synced before the mark moves, and the mark is the last thing that changes.

mod create;
mod quarantine;
mod report;
mod resync;
mod rewrite;
mod survey;
mod verdict;
mod walk;

pub use report::{OpenDamage, OpenReport};

use std::path::PathBuf;
use std::rc::Rc;

use corelog_format::Mark;
use corelog_io::{BLOCK, Clock, Disk, File, Platform, align_down};

use crate::index::SparseIndex;
use crate::marker::Marker;
use crate::marks::Marks;
use crate::partition::{FileOf, Opened};
use crate::segments::{Segment, Segments, log_path};
use crate::{LogConfig, OpenError, Place, Shared};
use survey::Survey;
use verdict::Verdict;

pub(crate) async fn open<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    config: &LogConfig,
) -> Result<(Opened<P>, OpenReport), OpenError> {
    let disk = shared.platform().disk();
    let survey = Survey::take(disk, place).await?;
    if survey.is_new() {
        return create::create(shared, place, config).await;
    }
    let mut report = OpenReport { ignored: survey.ignored.clone(), ..OpenReport::default() };
    if survey.manifest_damaged {
        report.damage.push(OpenDamage::Manifest);
    }
    report.adopted = survey.marker.is_none();
    report.left = remove_leftovers(disk, place, &survey.leftovers).await?;
    let now_us = shared.platform().clock().now_us();
    let walked = walk::walk(disk, place, config, &survey, now_us, &mut report).await?;
    act(shared, place, config, survey, walked, report).await
}

/// Removes what a trim did not come to remove; says what is there still. It is not served either
/// way, so a file that cannot be removed is no reason not to open.
async fn remove_leftovers<D: Disk>(
    disk: &D,
    place: &Place,
    leftovers: &[PathBuf],
) -> Result<Vec<PathBuf>, OpenError> {
    let mut left = Vec::new();
    for path in leftovers {
        if disk.remove(path).await.is_err_and(|error| !error.is_not_found()) {
            left.push(path.clone());
        }
    }
    if left.len() < leftovers.len() {
        disk.sync_dir(&place.dir).await?;
    }
    Ok(left)
}

/// Carries out the verdict: cut, move away, begin a new segment; then makes it durable.
async fn act<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    config: &LogConfig,
    survey: Survey,
    walked: walk::Walked<FileOf<P>>,
    mut report: OpenReport,
) -> Result<(Opened<P>, OpenReport), OpenError> {
    let disk = shared.platform().disk();
    let walk::Walked { mut end, mut index, mut file, verdict, mut segments } = walked;
    // Damage below the mark: nothing is written into files that are left as they are.
    let is_new_segment = matches!(verdict, Verdict::NewSegment { .. });
    match verdict {
        Verdict::Whole => {}
        Verdict::Cut { behind } => {
            if let Some(file) = &file {
                let range = end.position..file.len().await?;
                quarantine::rescue_tail(shared, place, end, file, range, &mut report).await?;
            }
            for segment in behind {
                quarantine::move_away(disk, place, segment, &mut report).await?;
            }
        }
        Verdict::NewSegment { at } => {
            if segments.last() == Some(&at) {
                // A file of that name that holds no batch: kept aside, never written over.
                segments.pop();
                drop(file.take());
                quarantine::move_away(disk, place, at, &mut report).await?;
            }
            (index, file) = (SparseIndex::default(), None);
            end = Mark { segment: at, position: 0, next_offset: at, ..end };
        }
    }
    let above_mark = survey.mark().is_some_and(|mark| end.segment > mark.segment);
    if above_mark && end.position == 0 && file.take().is_some() {
        // The sync of its name may have failed: only a new name is covered by a new sync.
        segments.retain(|segment| *segment != end.segment);
        disk.remove(&log_path(&place.dir, end.segment)).await?;
    }
    let file = match file {
        Some(file) => file,
        None => {
            segments.push(end.segment);
            Rc::new(create::segment(disk, place, end.segment, config).await?)
        }
    };
    if let (Some(mark), false) = (survey.mark(), is_new_segment) {
        let range = (mark, end);
        rewrite::above_mark(shared, place, config, range, &segments, &file, &mut report).await?;
    }
    // What was accepted is made durable before anyone sees it, and before the mark says so.
    if file.len().await? != end.position {
        file.set_len(end.position).await?;
    }
    file.sync().await?;
    disk.sync_dir(&place.dir).await?;
    let last_block = last_block(file.as_ref(), end.position).await?;
    let start = survey.first_offset().max(segments[0]);
    let mut marker = match survey.marker {
        Some(marker) => marker,
        None => Marker::new(&place.dir, place.incarnation, start, end),
    };
    marker.store(shared, end).await?;
    disk.sync_dir(&place.dir).await?;
    let segments = Segments::new(segments.into_iter().map(Segment::new).collect());
    let marks = Marks::new(marker);
    Ok((Opened { segments, index, file, start, end, last_block, marks }, report))
}

/// The bytes of the block that holds `end`, up to `end`.
async fn last_block<F: File>(file: &F, end: u64) -> Result<Vec<u8>, OpenError> {
    let kept = (end - align_down(end)) as usize;
    if kept == 0 {
        return Ok(Vec::new());
    }
    let bytes = file.read_at(align_down(end), BLOCK).await?;
    // The walk has just read them: a file that is shorter now is changed by someone else.
    assert!(bytes.as_ref().len() >= kept, "the log's last block was read a moment ago");
    Ok(bytes.as_ref()[..kept].to_vec())
}
