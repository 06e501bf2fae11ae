//! What is to be done about a partition: a function of what stands in its files, which changes none.
//!
//! Each file is one or more runs of batches whose offsets follow one another. A file that is one run
//! from its start on, with nothing or zeros behind, stays. Of any other each run becomes a segment,
//! named by its first offset: what a segment's name and its neighbours promise then holds again, and
//! what is missing is missing between segments, where every reader looks for it.

use std::ops::Range;
use std::path::PathBuf;

use corelog_format::{BatchHeader, Manifest, Mark, segment_file_name};

use crate::discover::{Partition, Segment};
use crate::durable::Durable;
use crate::failure::{Failure, Shown};
use crate::index_check::{IndexCheck, IndexState};
use crate::partition_report::Offsets;
use crate::source::{Access, Source};
use crate::verify;
use crate::walk::{Event, Flow, Known, Verdict, walk};

/// A file of more pieces is left to a person.
const RUNS_MAX: usize = 10_000;

/// Batches in one file whose offsets follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// Where they stand in the file.
    pub(crate) range: Range<u64>,
    /// Their offsets.
    pub(crate) offsets: Range<u64>,
    pub(crate) batches: u64,
    pub(crate) last_timestamp: u64,
}

/// What stands in one file.
#[derive(Debug)]
struct Survey {
    verdict: Verdict,
    runs: Vec<Run>,
    /// More runs than anybody wants.
    too_many: bool,
    len: u64,
    index: IndexState,
    /// End of the last batch whose time is not later than that of the one before.
    time_back_to: Option<u64>,
    /// A batch ends where the manifest's mark stands, with the mark's offset.
    mark_fits: bool,
    /// The first damage, for people.
    why: Option<String>,
    unreadable: bool,
    /// It holds batches of this other partition.
    foreign: Option<u64>,
}

/// What is done to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replace {
    /// The file.
    pub(crate) path: PathBuf,
    /// The first offset that its name states.
    pub(crate) named: u64,
    /// Its length.
    pub(crate) len: u64,
    /// What is kept of it, each as a segment of its own.
    pub(crate) runs: Vec<Run>,
    /// The first damage, for people.
    pub(crate) why: String,
}

impl Replace {
    /// Whether only a tail is taken off.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(&self.runs[..], [run] if run.range.start == 0 && run.offsets.start == self.named)
    }
}

/// What is to be done about a partition.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Files that are replaced, ascending by name.
    pub(crate) replace: Vec<Replace>,
    /// Logs that stay and get a new index, by first offset.
    pub(crate) reindex: Vec<u64>,
    /// An empty segment to go on in, so that no offset is given a second time.
    pub(crate) begin: Option<u64>,
    /// The manifest with its mark where the log now ends.
    pub(crate) manifest: Option<Manifest>,
    /// Offsets that no batch holds afterwards although later ones do.
    pub(crate) lost: Vec<Offsets>,
    /// What is not as it should be and stays so, for people.
    pub(crate) left: Vec<String>,
}

impl Plan {
    /// True where there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        let Plan { replace, reindex, begin, manifest, .. } = self;
        replace.is_empty() && reindex.is_empty() && begin.is_none() && manifest.is_none()
    }
}

/// A segment as it will be.
struct After {
    offsets: Range<u64>,
    len: u64,
    last_timestamp: u64,
}

/// Looks at every file of the partition and decides. Where the locks are held by us `access` says so.
pub(crate) fn plan(
    partition: &Partition,
    durable: &Durable,
    access: Access,
) -> Result<Plan, Failure> {
    let mut files = Vec::new();
    for segment in &partition.segments {
        let Some(named) = segment.named_offset else { continue };
        files.push((segment, named, survey(partition, segment, (durable, access), &[])?));
    }
    let mut taken: Vec<Range<u64>> = files
        .iter()
        .filter(|(.., survey)| survey.is_whole())
        .flat_map(|(.., survey)| survey.runs.iter().map(|run| run.offsets.clone()))
        .collect();
    let (mut plan, mut after) = (Plan::default(), Vec::new());
    let mut mark_fits = durable.mark().is_none_or(|mark| mark.position == 0);
    let mut time_back_to = None;
    for (segment, named, mut survey) in files {
        if !survey.is_whole() && survey.runs.iter().any(|run| overlaps(&taken, &run.offsets)) {
            survey = self::survey(partition, segment, (durable, access), &taken)?;
        }
        mark_fits |= survey.mark_fits;
        time_back_to = time_back_to.max(survey.time_back_to);
        if survey.is_left(&mut plan, segment) || survey.is_whole() {
            let useless = survey.index != IndexState::Ok && !survey.runs.is_empty();
            if useless {
                plan.reindex.push(named);
            }
            let run = survey.runs.first().map(|run| (run.offsets.start, run.last_timestamp));
            let end = survey.runs.last().map_or(named, |run| run.offsets.end);
            let len = survey.runs.last().map_or(0, |run| run.range.end);
            let (start, last_timestamp) = run.unwrap_or((named, 0));
            after.push(After { offsets: start..end, len, last_timestamp });
            continue;
        }
        taken.extend(survey.runs.iter().map(|run| run.offsets.clone()));
        after.extend(survey.runs.iter().map(|run| After {
            offsets: run.offsets.clone(),
            len: run.range.end - run.range.start,
            last_timestamp: run.last_timestamp,
        }));
        plan.replace.push(Replace {
            path: segment.path.clone(),
            named,
            len: survey.len,
            runs: survey.runs,
            why: survey.why.unwrap_or_else(|| "its batches are not its own".to_string()),
        });
    }
    plan.leave_what_would_take_anothers_place();
    after.sort_by_key(|after| after.offsets.start);
    if let (Some(begins), Some(first)) = (durable.first_retained(), after.first())
        && begins < first.offsets.start
    {
        plan.lost.push(Offsets { from: begins, to: Some(first.offsets.start) });
    }
    plan.remains(&after);
    if let Some(manifest) = durable.manifest() {
        plan.mark(manifest, &after, mark_fits, time_back_to);
    }
    Ok(plan)
}

impl Survey {
    /// One run from the start on, with nothing but zeros behind it; or nothing at all.
    fn is_whole(&self) -> bool {
        self.verdict == Verdict::Clean
    }

    /// Whether it has to stay although it is not whole; says why.
    fn is_left(&self, plan: &mut Plan, segment: &Segment) -> bool {
        let why = if self.unreadable {
            "some of it cannot be read, and may be the next time".to_string()
        } else if self.too_many {
            "it is in more than 10,000 pieces: extract what you need".to_string()
        } else if let Some(foreign) = self.foreign {
            format!("its batches are those of partition {foreign}: it stands in the wrong place")
        } else {
            return false;
        };
        plan.left.push(format!("{}: left as it is: {why}", Shown(&segment.path)));
        true
    }

    /// One more batch; `taken` are offsets that stand elsewhere already.
    fn batch(&mut self, at: u64, header: &BatchHeader, mark: Option<Mark>, taken: &[Range<u64>]) {
        let offsets = header.base_offset..header.end_offset().unwrap_or(u64::MAX);
        if overlaps(taken, &offsets) {
            return;
        }
        let end = at + header.batch_length;
        let last_timestamp = header.base_timestamp;
        let is_full = self.runs.len() == RUNS_MAX;
        match self.runs.last_mut() {
            Some(run) if run.range.end == at && run.offsets.end == offsets.start => {
                (run.range.end, run.offsets.end) = (end, offsets.end);
                run.last_timestamp = run.last_timestamp.max(last_timestamp);
                run.batches += 1;
            }
            _ if is_full => self.too_many = true,
            _ => {
                let range = at..end;
                self.runs.push(Run { range, offsets, batches: 1, last_timestamp });
            }
        }
        let is_first = self.runs.len() == 1 && self.runs[0].range.start == 0;
        if let Some(mark) = mark.filter(|_| is_first) {
            let run = &self.runs[0];
            self.mark_fits |= (run.range.end, run.offsets.end) == (mark.position, mark.next_offset);
        }
    }
}

/// Walks one file. The mark makes no difference to what stands in it.
fn survey(
    partition: &Partition,
    segment: &Segment,
    (durable, access): (&Durable, Access),
    taken: &[Range<u64>],
) -> Result<Survey, Failure> {
    let mut index = IndexCheck::open(&segment.path, segment.links, access);
    let mut source = Source::open_whole(&segment.path, segment.links, access)?;
    let mut survey = Survey {
        verdict: Verdict::Clean,
        runs: Vec::new(),
        too_many: false,
        len: source.len(),
        index: IndexState::Missing,
        time_back_to: None,
        mark_fits: false,
        why: None,
        unreadable: false,
        foreign: None,
    };
    let mark = durable.mark().filter(|mark| Some(mark.segment) == segment.named_offset);
    let known = Known {
        durable_to: 0,
        time_rises_from: u64::MAX,
        ..verify::known(partition, segment, durable)
    };
    let walked = walk(&mut source, known, &mut |event| {
        match event {
            Event::Batch { at, batch, findings } => {
                let header = batch.header();
                index.batch(at, header);
                survey.batch(at, header, mark, taken);
                if partition.id.is_some_and(|id| id != header.partition_id) {
                    survey.foreign = Some(header.partition_id);
                }
                if findings.time_went_back {
                    survey.time_back_to = header.end_offset();
                }
            }
            Event::Damage { at, why, .. } => {
                index.damage(at);
                survey.why.get_or_insert_with(|| format!("damage at {at}: {why}"));
            }
        }
        Ok(Flow::Continue)
    })?;
    survey.index = index.finish(walked.end).0;
    survey.unreadable = !source.unreadable().is_empty();
    survey.verdict = if survey.unreadable { Verdict::Corrupt } else { walked.verdict };
    Ok(survey)
}

impl Plan {
    /// A file whose batches belong under the name of another damaged file stays: the other would be
    /// written over before it was read, and an end between the two would leave one of them nowhere.
    fn leave_what_would_take_anothers_place(&mut self) {
        let names: Vec<u64> = self.replace.iter().map(|replace| replace.named).collect();
        let takes_a_place = |replace: &Replace| {
            let mut starts = replace.runs.iter().map(|run| run.offsets.start);
            starts.any(|start| start != replace.named && names.contains(&start))
        };
        let stays: Vec<Replace>;
        (stays, self.replace) =
            std::mem::take(&mut self.replace).into_iter().partition(takes_a_place);
        self.left.extend(stays.iter().map(|replace| {
            let path = Shown(&replace.path);
            format!(
                "{path}: left as it is: its batches belong under the name of another damaged file; \
                 move one of the two out of the directory and run again"
            )
        }));
    }

    /// Offsets that are missing between segments, or held by two, afterwards.
    fn remains(&mut self, after: &[After]) {
        for pair in after.windows(2) {
            let (end, start) = (pair[0].offsets.end, pair[1].offsets.start);
            if end < start {
                self.lost.push(Offsets { from: end, to: Some(start) });
            } else if end > start {
                self.left.push(format!("offsets {start} to {} stand in two files", end - 1));
            }
        }
    }

    /// Where the mark has to stand afterwards. It may not call durable what is gone, it must not
    /// leave a later segment that does not continue its own to the next opening (which would put it
    /// aside), and no offset may be given a second time.
    fn mark(
        &mut self,
        manifest: &Manifest,
        after: &[After],
        mark_fits: bool,
        time_back_to: Option<u64>,
    ) {
        let mark = manifest.mark;
        let at = after.partition_point(|after| after.offsets.start < mark.segment);
        let marked = after.get(at).filter(|after| after.offsets.start == mark.segment);
        let behind = &after[at + usize::from(marked.is_some())..];
        let mut next = marked.map_or(mark.segment, |after| after.offsets.end);
        let continues = behind.iter().all(|after| {
            let fits = after.offsets.start == next || after.len == 0;
            next = next.max(after.offsets.end);
            fits
        });
        let is_there = marked.is_some() || mark.position == 0;
        let in_time = time_back_to.is_none_or(|end| end <= mark.next_offset);
        // Where no batch is left, the log still begins where it did.
        let ends = after.iter().map(|after| after.offsets.end).max();
        let ends = ends.unwrap_or(manifest.first_offset);
        if mark_fits && is_there && continues && in_time {
            // A mark at the start of a segment that is not there, or not any more: it stays, and
            // the engine begins the segment anew, behind what is missing.
            if ends < mark.next_offset {
                self.lost.push(Offsets { from: ends, to: Some(mark.next_offset) });
            }
            return;
        }
        let last = after.iter().rfind(|after| after.len > 0);
        let end = last.map_or(0, |last| last.offsets.end);
        let next_offset = mark.next_offset.max(end);
        let named = after.iter().map(|after| after.offsets.start).max().unwrap_or(0);
        let next_offset = next_offset.max(named);
        let times = after.iter().map(|after| after.last_timestamp);
        let last_timestamp = times.max().unwrap_or(0).max(mark.last_timestamp);
        let (segment, position) = match last.filter(|last| last.offsets.end == next_offset) {
            Some(last) => (last.offsets.start, last.len),
            None => (next_offset, 0),
        };
        if position == 0 && !after.iter().any(|after| after.offsets.start == segment) {
            self.begin = Some(segment);
        }
        let adopted_end = manifest.adopted_end.max(time_back_to.unwrap_or(0));
        let mark = Mark { segment, position, next_offset, last_timestamp };
        let sequence = manifest.sequence + 1;
        self.manifest = Some(Manifest { sequence, adopted_end, mark, ..*manifest });
        let from = last.map_or(ends, |_| end);
        if from < next_offset {
            self.lost.push(Offsets { from, to: Some(next_offset) });
        }
    }

    /// What is done, step by step, for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for replace in &self.replace {
            let path = Shown(&replace.path);
            lines.push(format!("{path}: {}", replace.why));
            lines.push(format!(
                "{path}: the original goes to quarantine, all {} bytes",
                replace.len
            ));
            for run in &replace.runs {
                let (name, kept) = (segment_file_name(run.offsets.start), &run.range);
                let (from, to) = (run.offsets.start, run.offsets.end - 1);
                lines.push(format!(
                    "{path}: bytes {} to {} become {name}: {} batches, offsets {from} to {to}",
                    kept.start, kept.end, run.batches
                ));
            }
            if replace.runs.is_empty() {
                lines.push(format!("{path}: nothing of it can be read, nothing takes its place"));
            }
        }
        for log in &self.reindex {
            lines.push(format!("{}: its index is made anew", segment_file_name(*log)));
        }
        if let Some(begin) = self.begin {
            let name = segment_file_name(begin);
            lines.push(format!("{name}: created empty, so that no offset is given twice"));
        }
        if let Some(manifest) = &self.manifest {
            let Mark { segment, position, next_offset, .. } = manifest.mark;
            lines.push(format!(
                "manifest: its mark moves to {position} in {}, next offset {next_offset}",
                segment_file_name(segment)
            ));
        }
        lines
    }
}

fn overlaps(taken: &[Range<u64>], offsets: &Range<u64>) -> bool {
    taken.iter().any(|taken| taken.start < offsets.end && offsets.start < taken.end)
}
