//! Carries out what the table says, in an order that a crash may end anywhere.
//!
//! What was accepted is made durable; what a cut would lose is kept aside, durably; then the files
//! change, and are synced; the mark moves last. Where there is no space to keep aside what a cut
//! would lose, or for a new segment, nothing is cut: the partition opens for reading.

use std::rc::Rc;

use corelog_format::Mark;
use corelog_io::{BLOCK, Clock, Disk, File, IoError, Platform, align_down};

use super::resync::Later;
use super::survey::Survey;
use super::table::Verdict;
use super::walk::Walked;
use super::{OpenReport, create, quarantine, rewrite};
use crate::index::SparseIndex;
use crate::marker::Marker;
use crate::marks::Marks;
use crate::partition::{FileOf, Opened};
use crate::segments::{Segment, Segments, log_path};
use crate::{LogConfig, OpenError, Place, Shared};

/// Where the log goes on.
struct End<F> {
    mark: Mark,
    index: SparseIndex,
    file: Option<Rc<F>>,
    /// How long that is.
    len: u64,
    /// Segments that stay, ascending, with or without the one of `mark`.
    segments: Vec<u64>,
    /// The mark may move here before the segment is there: nothing stands in its place.
    is_free: bool,
    /// The segment's name is durable: the mark may move without a sync of the directory.
    is_named: bool,
}

pub(super) async fn act<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    config: &LogConfig,
    survey: Survey,
    mut walked: Walked<FileOf<P>>,
    mut report: OpenReport,
) -> Result<(Opened<P>, OpenReport), OpenError> {
    let len = rewrite::in_doubt(shared, place, &survey, &walked, &mut report).await?;
    let mut end = End {
        mark: walked.end,
        index: walked.index.clone(),
        file: walked.file.clone(),
        len,
        segments: walked.kept.clone(),
        is_free: false,
        is_named: survey.is_named(walked.end.segment),
    };
    let done = match walked.row.verdict {
        Verdict::NewSegment => {
            behind(shared, place, config, &mut walked, &mut end, &mut report).await
        }
        _ => here(shared, place, config, &survey, &mut walked, &mut end, &mut report).await,
    };
    drop(walked);
    let fault = match done {
        Ok(()) => None,
        Err(OpenError::Io(error)) if error.is_full() => Some(error),
        Err(error) => return Err(error),
    };
    let opened = finish(shared, place, survey, end, fault, &mut report).await?;
    Ok((opened, report))
}

/// The log goes on where the walk stopped: everything behind is cut or taken away.
async fn here<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    config: &LogConfig,
    survey: &Survey,
    walked: &mut Walked<FileOf<P>>,
    end: &mut End<FileOf<P>>,
    report: &mut OpenReport,
) -> Result<(), OpenError> {
    let disk = shared.platform().disk();
    if let (Some(file), Verdict::Cut) = (&end.file, walked.row.verdict) {
        quarantine::rescue_tail(shared, place, end.mark, file, walked.rest, report).await?;
    }
    for later in &walked.behind {
        quarantine::move_away(disk, place, later, report).await?;
    }
    // Without the manifest the name alone says where the log goes on, if no file stands before it.
    let may_go = match survey.mark() {
        Some(mark) => end.mark.segment > mark.segment,
        None => survey.manifest_damaged && end.segments.len() > 1,
    };
    if may_go && end.mark.position == 0 {
        // The sync of its name may have failed: only a new name is covered by a new sync.
        drop(walked.file.take());
        if let Some(file) = end.file.take().and_then(Rc::into_inner) {
            file.close().await?;
            disk.remove(&log_path(&place.dir, end.mark.segment)).await?;
        }
    }
    if end.file.is_none() {
        let file = create::segment(disk, place, end.mark.segment, config).await?;
        (end.file, end.len) = (Some(Rc::new(file)), 0);
    }
    Ok(())
}

/// The log goes on behind every offset that may be taken; nothing but blank files goes away.
async fn behind<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    config: &LogConfig,
    walked: &mut Walked<FileOf<P>>,
    end: &mut End<FileOf<P>>,
    report: &mut OpenReport,
) -> Result<(), OpenError> {
    let disk = shared.platform().disk();
    let at = walked.known.and(walked.found).next_offset;
    // What stays behind the damage is older than what will be appended. What nobody could look at may be
    // as young as the clock, and a lookup by time that passed it over would miss it without a word. A
    // time above the clock's ceiling is none of ours: a payload that looks like a batch must not hold up
    // the stamps. Up to the ceiling it may be: the clock may have gone back since.
    let clock = shared.platform().clock();
    let youngest = walked.found.last_timestamp.max(clock.now_us()).min(clock.ceiling_us());
    let last_timestamp = walked.known.last_timestamp.max(youngest);
    end.mark = Mark { segment: at, position: 0, next_offset: at, last_timestamp };
    (end.index, end.file, end.len) = (SparseIndex::default(), None, 0);
    let later = walked.behind.iter();
    let stays = |later: &&Later| !later.is_blank() && later.segment != at;
    end.segments.extend(later.filter(stays).map(|later| later.segment));
    // A file of that name that holds no batch: kept aside, never written over.
    end.segments.retain(|segment| *segment != at);
    for later in walked.behind.iter().filter(|later| !stays(later)) {
        quarantine::move_away(disk, place, later, report).await?;
    }
    let walked_file = walked.file.take().and_then(Rc::into_inner);
    if let (Some(file), true) = (walked_file, walked.end.segment == at) {
        // Its lock goes with the handle.
        file.close().await?;
        let later = Later { segment: at, searched: walked.rest };
        quarantine::move_away(disk, place, &later, report).await?;
    }
    (end.is_free, end.is_named) = (true, false);
    end.file = Some(Rc::new(create::segment(disk, place, at, config).await?));
    Ok(())
}

/// Makes everything durable that has changed, then moves the mark. After a fault only what is
/// there is served.
async fn finish<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    survey: Survey,
    end: End<FileOf<P>>,
    fault: Option<IoError>,
    report: &mut OpenReport,
) -> Result<Opened<P>, OpenError> {
    let disk = shared.platform().disk();
    let End { mark, index, file, len, mut segments, is_free, is_named } = end;
    if segments.last() != Some(&mark.segment) {
        // Where its file could not be created: nothing in it is read or written.
        segments.push(mark.segment);
    }
    report.read_only = fault.is_some();
    let mut last_block = Vec::new();
    if let Some(file) = &file {
        if fault.is_none() && len != mark.position {
            file.set_len(mark.position).await?;
            file.sync().await?;
        }
        last_block = self::last_block(file.as_ref(), mark.position).await?;
    }
    // Without a manifest the first file says where the log begins; with one, a file that is missing
    // in front is missed.
    let start = survey.start().unwrap_or(segments[0]);
    let marker = match survey.marker {
        Some(mut marker) => {
            // Without its file as well (which needs space, and the mark none): polls name this end,
            // and whoever has gone there must not find new messages below.
            if (fault.is_none() || is_free) && marker.mark() != mark {
                if !is_named {
                    disk.sync_dir(&place.dir).await?;
                }
                // The mark lags until the next sync tries again: that is always allowed.
                let _ = marker.store(shared, mark).await;
            }
            marker
        }
        None => {
            // Of what is there nothing says that it is ours.
            let (incarnation, adopted_end) = (place.incarnation, mark.next_offset);
            let mut marker = Marker::new(&place.dir, incarnation, start, adopted_end, mark);
            if fault.is_none() {
                disk.sync_dir(&place.dir).await?;
                marker.store(shared, mark).await?;
                if survey.manifest_damaged {
                    // The other slot, too: what was lost must not come back.
                    marker.store(shared, mark).await?;
                }
                disk.sync_dir(&place.dir).await?;
            }
            marker
        }
    };
    let segments = Segments::new(segments.into_iter().map(Segment::new).collect());
    let (adopted_end, marks) = (marker.adopted_end(), Marks::new(marker));
    let (end, listed) = (mark, survey.listed);
    Ok(Opened { segments, index, file, start, end, last_block, marks, listed, adopted_end, fault })
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
