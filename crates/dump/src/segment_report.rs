//! What `verify` finds in one file: its batches and faults, what stands behind them, and what was
//! not looked at.

use corelog_format::{BatchHeader, Findings};

use crate::discover::{Partition, Segment};
use crate::durable::Durable;
use crate::failure::Failure;
use crate::index_check::{IndexCheck, IndexState};
use crate::partition_report::Offsets;
use crate::report::{Fault, Finding, Report, Unchecked};
use crate::source::{Access, Source};
use crate::walk::{Event, Flow, Known, Level, Verdict, walk_at};

/// Offsets that damage took and are listed of one file.
const LOST_MAX: usize = 1_000;

/// What is known about a segment from its name, its place and the manifest.
pub(crate) fn known(partition: &Partition, segment: &Segment, durable: &Durable) -> Known {
    Known {
        partition_id: partition.id,
        first_offset: segment.named_offset,
        durable_to: durable.below(segment),
        time_rises_from: durable.ours_from(segment),
    }
}

/// Walks one file.
pub(crate) fn segment_report(
    access: Access,
    partition: &Partition,
    segment: &Segment,
    durable: &Durable,
    level: Level,
) -> Result<Report, Failure> {
    // Before the log: then it is not ahead of it merely because both grow.
    let mut index = Some(IndexCheck::open(&segment.path, segment.links, access));
    let mut source = Source::open_whole(&segment.path, segment.links, access)?;
    let known = known(partition, segment, durable);
    source.again_if_cut(|source| {
        let again = || IndexCheck::open(&segment.path, segment.links, access);
        report_of(source, segment, index.take().unwrap_or_else(again), known, level)
    })
}

fn report_of(
    source: &mut Source,
    segment: &Segment,
    mut index: IndexCheck,
    known: Known,
    level: Level,
) -> Result<Report, Failure> {
    let mut report = Report::new(&segment.path, segment.named_offset);
    report.level = level;
    let walked = walk_at(source, known, level, &mut |event| {
        match event {
            Event::Batch { at, batch, findings } => {
                index.batch(at, batch.header());
                report.batch(at, batch.header(), findings);
            }
            Event::Damage { at, offset, why } => {
                index.damage(at);
                report.faults.push(Fault::of_format(at, offset, &why));
            }
        }
        Ok(Flow::Continue)
    })?;
    let (state, unreadable) = index.finish(walked.end);
    report.bytes = source.len();
    report.index = state;
    report.verdict = walked.verdict;
    report.zero_tail = walked.zero_tail;
    report.last_lost();
    if let Some(failure) = unreadable {
        report.note("index_unreadable", failure.to_string());
    }
    if let Some(from) = walked.unchecked_from {
        let detail = format!("gave up looking for batches at {from}: too many bytes look like one");
        report.note("unchecked", detail);
    }
    if source.is_live() {
        let detail = "a process holds this file: its tail may be in motion";
        report.note("held", detail.to_string());
    }
    report.not_checked = unchecked(source, known, &report, walked.unchecked_from);
    report.unreadable(source);
    Ok(report)
}

/// What the verdict says nothing about.
fn unchecked(
    source: &Source,
    known: Known,
    report: &Report,
    gave_up_at: Option<u64>,
) -> Vec<Unchecked> {
    let mut list = Vec::new();
    let mut add = |what, range, detail: &str| {
        list.push(Unchecked { what, range, detail: detail.to_string() });
    };
    match report.level {
        Level::Layout => add("checksums", None, "no checksum, at level layout"),
        Level::Batch => add("frame_checksums", None, "the frames' checksums, at level batch"),
        Level::Full => {}
    }
    if report.index == IndexState::Missing {
        add("index", None, "the index: there is none");
    }
    if known.partition_id.is_none() {
        add("partition_id", None, "whose partition it is: its place does not say");
    }
    if known.first_offset.is_none() {
        add("first_offset", None, "where it begins: its name does not say");
    }
    for lost in source.unreadable() {
        let end = lost.end.min(source.len());
        add("bytes", Some((lost.start, end)), "the device does not give these bytes back");
    }
    if let Some(from) = gave_up_at {
        let range = Some((from, source.len()));
        add("bytes", range, "the search behind damage gave up: too many bytes look like a batch");
    }
    list
}

impl Report {
    fn note(&mut self, what: &'static str, detail: String) {
        self.findings.push(Finding { what, place: None, detail });
    }

    fn batch(&mut self, at: u64, header: &BatchHeader, findings: Findings) {
        self.batches += 1;
        self.messages += u64::from(header.message_count);
        self.first_offset.get_or_insert(header.base_offset);
        self.last_offset = header.end_offset().map(|end| end - 1);
        self.resumes((at, header.base_offset));
        let Findings { deltas_not_index, time_went_back, user_headers_malformed } = findings;
        let odd = [
            (deltas_not_index, "deltas_not_index", "offset deltas are not 0, 1, 2, .."),
            (time_went_back, "time_went_back", "base timestamp is not later than the one before"),
            (user_headers_malformed, "user_headers_malformed", "user headers break the structure"),
        ];
        for (_, what, detail) in odd.into_iter().filter(|(is, ..)| *is) {
            let place = Some((at, header.base_offset));
            self.findings.push(Finding { what, place, detail: detail.to_string() });
        }
    }

    /// A batch behind damage: the damage ends before it.
    fn resumes(&mut self, place: (u64, u64)) {
        let mut lost = None;
        if let Some(fault) = self.faults.kept_mut().last_mut().filter(|f| f.resumes.is_none()) {
            fault.resumes = Some(place);
            lost = fault.offset.filter(|from| *from < place.1);
        }
        if let Some(from) = lost.filter(|_| self.lost.len() < LOST_MAX) {
            self.lost.push(Offsets { from, to: Some(place.1) });
        }
    }

    /// Damage that no batch follows takes what its mark, if it has one, says was there: how much,
    /// nobody knows.
    fn last_lost(&mut self) {
        let last = self.faults.kept().last().filter(|fault| fault.resumes.is_none());
        if let (Some(from), Verdict::Corrupt) = (last.and_then(|f| f.offset), self.verdict) {
            self.lost.push(Offsets { from, to: None });
        }
    }

    /// What the device did not give back may be whole batches: that is no torn tail.
    fn unreadable(&mut self, source: &Source) {
        self.unreadable_bytes = source.unreadable().iter().map(|lost| lost.end - lost.start).sum();
        if self.unreadable_bytes > 0 {
            self.verdict = Verdict::Corrupt;
        }
    }
}
