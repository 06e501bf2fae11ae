//! Walks the log's end: from the last index entry at or below the mark, across segments.

use std::ops::Range;
use std::rc::Rc;

use corelog_format::{Expect, FormatError, FormatErrorKind, IndexEntry, Mark};
use corelog_io::{Disk, File, Open};

use super::resync::{self, Later, Reached, Search, Searched};
use super::survey::Survey;
use super::table::{Behind, Facts, Row, Stop, Verdict, decide};
use super::{OpenDamage, OpenReport};
use crate::canary::{self, Canary};
use crate::index::{self, SparseIndex};
use crate::read::{Damage, ReadFault, Walker};
use crate::segments::{index_path, log_path};
use crate::{LogConfig, OpenError, Place};

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// Where the log ends and what is to be done about it.
pub(super) struct Walked<F> {
    /// End of the last batch that continues the log.
    pub(super) end: Mark,
    /// Index of the segment that `end` stands in.
    pub(super) index: SparseIndex,
    /// That segment's file, locked; `None` where it is missing.
    pub(super) file: Option<Rc<F>>,
    /// How long it is.
    pub(super) len: u64,
    /// The row that applies.
    pub(super) row: &'static Row,
    /// Segments up to the one of `end`, ascending; without it where it is missing.
    pub(super) kept: Vec<u64>,
    /// What was walked and is in doubt, file by file: no sync is known to have covered it.
    pub(super) above: Vec<Above>,
    /// What stands behind `end` in its file.
    pub(super) rest: Searched,
    /// Files behind that do not continue the log, ascending.
    pub(super) behind: Vec<Later>,
    /// How far the mark and what was walked reach.
    pub(super) known: Reached,
    /// How far what verifies behind reaches, and what may stand where nobody could look.
    pub(super) found: Reached,
}

/// Batches of one segment that no sync is known to have covered.
#[derive(Debug, Clone)]
pub(super) struct Above {
    pub(super) segment: u64,
    /// Offset of the first one.
    pub(super) next_offset: u64,
    /// Where they stand in the file; empty where there are none.
    pub(super) range: Range<u64>,
    /// How long the file is.
    pub(super) len: u64,
}

/// How the walk over a file ended.
#[derive(Debug, Clone, Copy)]
struct Halt {
    stop: Stop,
    below_mark: bool,
    /// What is wrong; `None` at the end and where bytes could not be read.
    why: Option<FormatError>,
}

impl Halt {
    fn end() -> Self {
        Halt { stop: Stop::End, below_mark: false, why: None }
    }

    /// What the scan says about a place with `left` bytes of file.
    fn damage(below_mark: bool, why: FormatError, left: u64) -> Self {
        let stop = match why.kind {
            // The file, or what is not zero in it, ends below the mark.
            FormatErrorKind::Truncated { have: 0, .. }
                if below_mark && why.field == "batch_header" =>
            {
                Stop::End
            }
            // Lengths inside of a batch may be wrong in the same way: then the file has more.
            FormatErrorKind::Truncated { have, .. } if have == left => Stop::Incomplete,
            _ => Stop::Damage,
        };
        Halt { stop, below_mark, why: Some(why) }
    }
}

/// One segment's part of the walk.
struct Part<F> {
    file: Rc<F>,
    len: u64,
    index: SparseIndex,
    end: Mark,
    halt: Halt,
}

/// The walk's way through the files.
struct Way<F> {
    end: Mark,
    last: Option<Part<F>>,
    halt: Halt,
    kept: Vec<u64>,
    above: Vec<Above>,
    behind: Vec<Later>,
}

pub(super) async fn walk<D: Disk>(
    disk: &D,
    place: &Place,
    config: &LogConfig,
    survey: &Survey,
    report: &mut OpenReport,
) -> Result<Walked<D::File>, OpenError> {
    let way = files(disk, place, config, survey, report).await?;
    let rest = rest(place, survey, &way, report).await?;
    let known = survey.mark().map_or_else(Reached::default, Reached::at).and(Reached::at(way.end));
    let found = found(&way, rest);
    let row = decide(facts(survey, &way, rest));
    note(row, &way, rest, report);
    let (index, file, len) = match way.last {
        Some(part) => (part.index, Some(part.file), part.len),
        None => (SparseIndex::default(), None, 0),
    };
    let Way { end, kept, above, behind, .. } = way;
    Ok(Walked { end, index, file, len, row, kept, above, rest, behind, known, found })
}

/// Searches the file that the walk stopped in for what stands behind.
async fn rest<F: File>(
    place: &Place,
    survey: &Survey,
    way: &Way<F>,
    report: &mut OpenReport,
) -> Result<Searched, OpenError> {
    let is_whole = way.halt.stop == Stop::End && !way.halt.below_mark;
    let Some(part) = way.last.as_ref().filter(|_| !is_whole) else {
        return Ok(Searched::default());
    };
    let Mark { segment, position, next_offset, .. } = way.end;
    // Below the mark no offset is unknown.
    let mark = survey.mark().filter(|mark| mark.segment == segment && mark.position > position);
    let known = mark.map_or((position, next_offset), |mark| (mark.position, mark.next_offset));
    let range = position..part.len;
    let (file, partition_id) = (Rc::clone(&part.file), place.partition_id);
    let search = Search { file, partition_id, next_offset, range, known };
    search.run(&mut report.bytes_read).await
}

/// Walks file by file, as long as each continues the one before. A blank file that does not was
/// made ahead of need: it is stepped over.
async fn files<D: Disk>(
    disk: &D,
    place: &Place,
    config: &LogConfig,
    survey: &Survey,
    report: &mut OpenReport,
) -> Result<Way<D::File>, OpenError> {
    let logs = &survey.logs;
    let origin = origin(survey);
    let first = logs.partition_point(|segment| *segment < origin.segment);
    let (kept, above, behind) = (logs[..first].to_vec(), Vec::new(), Vec::new());
    let mut way = Way { end: origin, last: None, halt: Halt::end(), kept, above, behind };
    if logs.get(first) != Some(&origin.segment) {
        // An empty segment that the mark points to holds nothing that was synced.
        way.halt = Halt { stop: Stop::Missing, below_mark: origin.position > 0, why: None };
    }
    for segment in &logs[first..] {
        let goes_on = way.halt.stop == Stop::End && !way.halt.below_mark;
        let continues = way.last.is_none() || *segment == way.end.next_offset;
        if !(goes_on && continues && way.behind.iter().all(Later::is_blank)) {
            way.behind.push(resync::later(disk, place, *segment, &mut report.bytes_read).await?);
            continue;
        }
        let part = one(disk, place, config, survey, *segment, way.end, report).await?;
        (way.end, way.halt) = (part.end, part.halt);
        way.kept.push(*segment);
        if let Some((from, next_offset)) = survey.in_doubt(*segment) {
            let range = from..way.end.position.max(from);
            way.above.push(Above { segment: *segment, next_offset, range, len: part.len });
        }
        way.last = Some(part);
    }
    Ok(way)
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

/// How far what stands behind the place where the walk stopped reaches, the names of files included.
fn found<F>(way: &Way<F>, rest: Searched) -> Reached {
    let rest = rest.reached.unwrap_or_default();
    way.behind.iter().fold(rest, |reached, later| reached.and(later.reached()))
}

fn facts<F>(survey: &Survey, way: &Way<F>, rest: Searched) -> Facts {
    let later = |is: fn(&Later) -> bool| way.behind.iter().any(is);
    let stop = if rest.unreadable.is_some() || later(|l| l.searched.unreadable.is_some()) {
        Stop::Unreadable
    } else {
        way.halt.stop
    };
    let behind = if rest.reached.is_some() || later(|l| !l.is_blank()) {
        Behind::Bytes
    } else if way.behind.is_empty() {
        Behind::Nothing
    } else {
        Behind::Blank
    };
    Facts { stop, place: survey.against(way.halt.below_mark), behind }
}

/// Names what is left in place although it is no part of a whole log.
fn note<F>(row: &'static Row, way: &Way<F>, rest: Searched, report: &mut OpenReport) {
    (report.row, report.why) = (row.name, row.why);
    if row.verdict != Verdict::NewSegment {
        return;
    }
    let Mark { segment, position, next_offset, .. } = way.end;
    let unreadable = |segment, position| OpenDamage::Unreadable { segment, position };
    report.damage.push(match (way.halt.stop, way.halt.why) {
        (Stop::Missing, _) => OpenDamage::MissingSegment { offset: segment },
        (Stop::Unreadable, _) => unreadable(segment, position),
        (_, Some(why)) => OpenDamage::Corrupt { segment, position, why },
        (_, None) => OpenDamage::MissingSegment { offset: next_offset },
    });
    if way.halt.stop != Stop::Unreadable {
        report.damage.extend(rest.unreadable.map(|position| unreadable(segment, position)));
    }
    for later in &way.behind {
        let at = later.searched.unreadable;
        report.damage.extend(at.map(|position| unreadable(later.segment, position)));
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
    let dsync = config.enforce_fsync;
    let how = Open { write: true, dsync, lock: true, ..Open::default() };
    let file = Rc::new(disk.open(&log_path(&place.dir, segment), how).await?);
    let len = file.len().await?;
    let mark = survey.mark().filter(|mark| mark.segment == segment);
    let durable_to = mark.map_or(0, |mark| mark.position);
    let path = index_path(&place.dir, segment);
    let opened = disk.open(&path, index::OPEN).await;
    let mut index = index::load(opened, config.index_step).await.unwrap_or_default();
    // What is in doubt is walked as a whole. Otherwise the last entry's neighbourhood is the anchor.
    let in_doubt = survey.in_doubt(segment).filter(|_| !canary::is(Canary::TrustedIndex));
    let trusted = in_doubt.map_or(len, |(from, _)| from);
    index.cut(trusted.saturating_add(1));
    let mut lies = 1;
    loop {
        let anchor = index.at_position(trusted).filter(|entry| entry.position > 0);
        let from = start(segment, before, anchor, mark);
        let expect = expect(place, survey, from);
        let (start, read) = (from.position, READ_BYTES);
        let mut walker = Walker::new(Rc::clone(&file), start, len, durable_to, expect, read);
        let walked = batches(&mut walker, len, config, mark, from, &mut index, report).await;
        report.bytes_read += walker.bytes_read;
        let (end, halt) = walked?;
        if anchor.is_some() && end.position == from.position {
            // Nothing there has verified, so the entry must not be believed: it lies, its batch is
            // damaged, or was never written. An earlier place tells which. Each time twice as many
            // are given up: an index that lies all over costs a few reads.
            index.forget_last(lies);
            lies *= 2;
            continue;
        }
        return Ok(Part { file, len, index, end, halt });
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
    len: u64,
    config: &LogConfig,
    mark: Option<Mark>,
    from: Mark,
    index: &mut SparseIndex,
    report: &mut OpenReport,
) -> Result<(Mark, Halt), OpenError> {
    let mut end = from;
    // The file may end before the place that an index names.
    let left = |end: &Mark| len.saturating_sub(end.position);
    loop {
        let found = match walker.next().await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok((end, Halt::end())),
            Err(ReadFault::Io(error)) if error.is_unreadable() => {
                let below_mark = mark.is_some_and(|mark| end.position < mark.position);
                return Ok((end, Halt { stop: Stop::Unreadable, below_mark, why: None }));
            }
            Err(ReadFault::Io(error)) => return Err(error.into()),
            Err(ReadFault::Damage(Damage { why, below_mark, .. })) => {
                return Ok((end, Halt::damage(below_mark, why, left(&end))));
            }
        };
        let header = found.header;
        if let Some(mark) = mark {
            if found.at >= mark.position && found.findings.time_went_back {
                let why = time_went_back(found.at, end.last_timestamp, header.base_timestamp);
                return Ok((end, Halt::damage(false, why, left(&end))));
            }
            if found.at < mark.position && walker.position() > mark.position {
                let why = off_the_mark(found.at, mark.position);
                return Ok((end, Halt::damage(true, why, left(&end))));
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

fn time_went_back(at: u64, before: u64, found: u64) -> FormatError {
    let kind = FormatErrorKind::Mismatch { expected: before.saturating_add(1), found };
    FormatError::new(at, "base_timestamp", kind)
}

fn off_the_mark(at: u64, mark: u64) -> FormatError {
    FormatError::new(at, "batch_length", FormatErrorKind::Mismatch { expected: mark, found: at })
}
