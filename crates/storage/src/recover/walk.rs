//! Walks the log's end: from the last index entry at or below the mark, across segments.

use std::rc::Rc;

use corelog_format::{Expect, IndexEntry, Mark};
use corelog_io::{Disk, File, Open};

use super::resync::Reached;
use super::verdict::{Facts, Stop, Verdict, decide};
use super::{OpenDamage, OpenReport, Survey, resync};
use crate::index::{self, SparseIndex};
use crate::read::{Damage, ReadFault, Walker};
use crate::segments::{index_path, log_path};
use crate::{LogConfig, OpenError, Place};

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;
/// No index of a segment is longer than this.
const INDEX_BYTES_MAX: u64 = 96 << 20;

/// Where the log ends and what is to be done about it.
pub(super) struct Walked<F> {
    /// End of the last batch that continues the log.
    pub(super) end: Mark,
    /// Index of the segment that `end` stands in.
    pub(super) index: SparseIndex,
    /// That segment's file, locked; `None` where it is missing.
    pub(super) file: Option<Rc<F>>,
    pub(super) verdict: Verdict,
    /// Segments that stay, ascending.
    pub(super) segments: Vec<u64>,
}

/// One segment's part of the walk.
struct Part<F> {
    file: Rc<F>,
    index: SparseIndex,
    end: Mark,
    stop: Stop,
}

pub(super) async fn walk<D: Disk>(
    disk: &D,
    place: &Place,
    config: &LogConfig,
    survey: &Survey,
    now_us: u64,
    report: &mut OpenReport,
) -> Result<Walked<D::File>, OpenError> {
    let logs = &survey.logs;
    let origin = origin(survey);
    let first = logs.partition_point(|segment| *segment < origin.segment);
    let mut end = origin;
    let mut last: Option<Part<D::File>> = None;
    let mut stop = missing(survey, origin, report);
    let mut place_of_stop = first;
    for (at, segment) in logs.iter().enumerate().skip(first) {
        if stop != Stop::End {
            break;
        }
        if at > first && *segment != end.next_offset {
            let below_mark = survey.mark().is_some_and(|mark| mark.next_offset > end.next_offset);
            stop = Stop::Gap { below_mark };
            break;
        }
        let part = one(disk, place, config, survey, *segment, end, report).await?;
        (end, stop, place_of_stop) = (part.end, part.stop, at + 1);
        last = Some(part);
    }
    let kept = match stop {
        Stop::End => logs.len(),
        _ => place_of_stop.min(logs.len()),
    };
    let behind = logs[kept..].to_vec();
    let highest = match stop {
        Stop::End => Reached::at(end),
        _ => {
            let from = last.as_ref().map(|part| (part.end, Rc::clone(&part.file)));
            resync::highest(disk, place, survey, from, &behind, report).await?
        }
    };
    let has_mark = survey.marker.is_some();
    let followed = highest.next_offset > end.next_offset;
    let verdict = decide(Facts { stop, has_mark, behind, followed, highest: highest.next_offset });
    note(&verdict, stop, end, report);
    if matches!(verdict, Verdict::NewSegment { .. }) {
        // What stays behind the damage is older than what will be appended. A time above the clock
        // is none of ours: a payload that looks like a batch must not hold up the stamps.
        let known = survey.mark().map_or(0, |mark| mark.last_timestamp);
        let seen = highest.last_timestamp.min(now_us);
        end.last_timestamp = end.last_timestamp.max(known).max(seen);
    }
    let mut segments = match verdict {
        Verdict::NewSegment { .. } => logs.clone(),
        Verdict::Whole | Verdict::Cut { .. } => logs[..kept].to_vec(),
    };
    let (index, file) = match last {
        Some(part) => (part.index, Some(part.file)),
        None => (SparseIndex::default(), None),
    };
    if file.is_none() {
        segments.retain(|segment| *segment != end.segment);
    }
    Ok(Walked { end, index, file, verdict, segments })
}

/// Where the walk begins: at the mark; without one, at the start of the last segment that may hold
/// something.
fn origin(survey: &Survey) -> Mark {
    survey.mark().unwrap_or_else(|| {
        let segment = survey.logs.last().copied().unwrap_or(0);
        // The reference server leaves an empty segment behind a full one: begin one earlier, for
        // the time of the last batch.
        let before = survey.logs.len().checked_sub(2).map(|at| survey.logs[at]);
        let segment = before.unwrap_or(segment);
        Mark { segment, position: 0, next_offset: segment, last_timestamp: 0 }
    })
}

/// The file that the mark stands in is not there.
fn missing(survey: &Survey, origin: Mark, report: &mut OpenReport) -> Stop {
    if survey.logs.contains(&origin.segment) {
        return Stop::End;
    }
    // An empty segment that the mark points to holds nothing that could be missing.
    if origin.next_offset > survey.first_offset() {
        report.damage.push(OpenDamage::MissingSegment { offset: origin.segment });
    }
    Stop::Gap { below_mark: true }
}

fn note(verdict: &Verdict, stop: Stop, end: Mark, report: &mut OpenReport) {
    if !matches!(verdict, Verdict::NewSegment { .. }) {
        return;
    }
    match stop {
        Stop::Damage { why, .. } => {
            let (segment, position) = (end.segment, end.position);
            report.damage.push(OpenDamage::Corrupt { segment, position, why });
        }
        Stop::Gap { .. } => {
            let is_named = |d: &OpenDamage| matches!(d, OpenDamage::MissingSegment { .. });
            if !report.damage.iter().any(is_named) {
                report.damage.push(OpenDamage::MissingSegment { offset: end.next_offset });
            }
        }
        Stop::End => {}
    }
}

/// Walks one segment from the mark on, or from its start where it lies above.
async fn one<D: Disk>(
    disk: &D,
    place: &Place,
    config: &LogConfig,
    survey: &Survey,
    segment: u64,
    before: Mark,
    report: &mut OpenReport,
) -> Result<Part<D::File>, OpenError> {
    let how = Open { write: true, dsync: config.enforce_fsync, lock: true, create_new: false };
    let file = Rc::new(disk.open(&log_path(&place.dir, segment), how).await?);
    let len = file.len().await?;
    let mark = survey.mark().filter(|mark| mark.segment == segment);
    let durable_to = mark.map_or(0, |mark| mark.position);
    let path = index_path(&place.dir, segment);
    let mut index = index::load(disk, &path, INDEX_BYTES_MAX).await.unwrap_or_default();
    // Without a mark the whole of the last entry's neighbourhood is the anchor.
    let trusted = if survey.marker.is_some() { durable_to } else { len };
    index.cut(trusted.saturating_add(1));
    loop {
        let anchor = index.at_position(trusted).filter(|entry| entry.position > 0);
        let from = start(segment, before, anchor, mark);
        let expect = expect(place, survey, from);
        let (start, read) = (from.position, READ_BYTES);
        let mut walker = Walker::new(Rc::clone(&file), start, len, durable_to, expect, read);
        let walked = batches(&mut walker, config, mark, from, &mut index, report).await;
        report.bytes_read += walker.bytes_read;
        let (end, stop) = walked?;
        let met_nothing = end.position == from.position;
        if let (Some(entry), true) = (anchor, met_nothing) {
            // Nothing there has verified, so the entry must not be believed: it lies, its batch is
            // damaged, or was never written. An earlier place tells which.
            index.cut(entry.position);
            continue;
        }
        return Ok(Part { file, index, end, stop });
    }
}

/// The mark of the first batch that is walked.
fn start(segment: u64, before: Mark, anchor: Option<IndexEntry>, mark: Option<Mark>) -> Mark {
    match anchor {
        Some(entry) => Mark {
            segment,
            position: entry.position,
            next_offset: entry.base_offset,
            last_timestamp: 0,
        },
        None => Mark {
            segment,
            position: 0,
            next_offset: segment,
            last_timestamp: match mark {
                Some(mark) if mark.position > 0 => 0,
                Some(mark) => mark.last_timestamp,
                None => before.last_timestamp,
            },
        },
    }
}

fn expect(place: &Place, survey: &Survey, from: Mark) -> Expect {
    let after = (from.last_timestamp > 0).then_some(from.last_timestamp);
    Expect {
        partition_id: Some(u64::from(place.partition_id)),
        next_offset: Some(from.next_offset),
        after_timestamp: after,
        // Below the mark there may be adopted batches; above it `batches` looks itself.
        time_may_go_back: survey.marker.is_none() || from.position > 0 || after.is_none(),
    }
}

/// Walks to the end or to what does not continue the log.
async fn batches<F: File>(
    walker: &mut Walker<F>,
    config: &LogConfig,
    mark: Option<Mark>,
    from: Mark,
    index: &mut SparseIndex,
    report: &mut OpenReport,
) -> Result<(Mark, Stop), OpenError> {
    let mut end = from;
    loop {
        let found = match walker.next().await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok((end, Stop::End)),
            Err(ReadFault::Io(error)) => return Err(error.into()),
            Err(ReadFault::Damage(Damage { why, below_mark, .. })) => {
                return Ok((end, Stop::Damage { below_mark, why }));
            }
        };
        let header = found.header;
        if let Some(mark) = mark {
            if found.at >= mark.position && found.findings.time_went_back {
                let why = time_went_back(found.at, end.last_timestamp, header.base_timestamp);
                return Ok((end, Stop::Damage { below_mark: false, why }));
            }
            if found.at < mark.position && walker.position() > mark.position {
                let why = off_the_mark(found.at, mark.position);
                return Ok((end, Stop::Damage { below_mark: true, why }));
            }
        }
        let above = mark.is_none_or(|mark| found.at >= mark.position);
        report.recovered_batches += u64::from(above);
        let entry = IndexEntry {
            base_offset: header.base_offset,
            base_timestamp: header.base_timestamp,
            position: found.at,
        };
        index.note(entry, config.index_step);
        end = Mark {
            segment: end.segment,
            position: walker.position(),
            next_offset: header.end_offset().expect("the scan checked the offset's range"),
            last_timestamp: header.base_timestamp,
        };
    }
}

fn time_went_back(at: u64, before: u64, found: u64) -> corelog_format::FormatError {
    let kind =
        corelog_format::FormatErrorKind::Mismatch { expected: before.saturating_add(1), found };
    corelog_format::FormatError::new(at, "base_timestamp", kind)
}

fn off_the_mark(at: u64, mark: u64) -> corelog_format::FormatError {
    let kind = corelog_format::FormatErrorKind::Mismatch { expected: mark, found: at };
    corelog_format::FormatError::new(at, "batch_length", kind)
}
