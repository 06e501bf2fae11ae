//! The segments of a whole partition held against each other and against the manifest: what no
//! single file can tell.

use std::path::Path;

use corelog_format::{Manifest, segment_file_name};

use crate::durable::Durable;
use crate::report::{Fault, Finding, Report, Said};
use crate::walk::Verdict;

/// Judges the reports of one whole partition, in order of first offset, by what their neighbours
/// say.
///
/// - A torn tail is at the tail of the partition: damage with a later segment's batches behind it
///   is corruption.
/// - Segments follow one another without gap or overlap, as far as batches reach.
/// - The segment that the log begins with, as the manifest says, exists, and the one that the durable
///   mark stands in.
/// - Where the mark stands at the start of a segment the batches before it reach up to there.
pub(crate) fn hold_together(reports: &mut Vec<Report>, dir: &Path, durable: &Durable) {
    let last_with_data = reports.iter().rposition(|report| report.batches > 0).unwrap_or(0);
    for at in 0..last_with_data {
        let begins = reports[at + 1].named_offset;
        let report = &mut reports[at];
        if report.verdict == Verdict::Clean && report.next_offset() != begins {
            report.faults.push(broken_chain(report, begins));
            report.verdict = Verdict::Corrupt;
        }
        if report.verdict == Verdict::TornTail {
            report.verdict = Verdict::Corrupt;
        }
    }
    ends_before_the_mark(reports, last_with_data, dir, durable);
    if let Some(first_retained) = durable.first_retained() {
        for report in reports.iter_mut() {
            if report.last_offset.is_some_and(|last| last < first_retained) {
                let detail =
                    format!("all of it is below the first retained offset, {first_retained}");
                report.findings.push(Finding { what: "not_retained", place: None, detail });
            }
        }
    }
    // The log's first segment, unless an earlier one is still there, and the mark's.
    let begins = reports.iter().filter_map(|report| report.named_offset).min();
    let first = durable.first_retained().filter(|first| begins.is_none_or(|at| at > *first));
    let marked = durable.marked_segment().filter(|marked| Some(*marked) != first);
    for offset in first.into_iter().chain(marked) {
        let path = dir.join(segment_file_name(offset));
        if !is_file(&path) && !reports.iter().any(|r| r.named_offset == Some(offset)) {
            reports.push(lost_segment(&path, offset));
        }
    }
}

/// The next segment begins elsewhere than this one ends.
fn broken_chain(report: &Report, begins: Option<u64>) -> Fault {
    let (ends, say) =
        (report.next_offset(), |n: Option<u64>| n.map_or(Said::Nothing, Said::Number));
    let (expected, found) = (say(ends), say(begins));
    let detail = match (ends, begins) {
        (Some(ends), Some(begins)) => {
            format!("the next segment begins with offset {begins}, this one ends before {ends}")
        }
        _ => "the next segment cannot follow this one".to_string(),
    };
    let position = report.bytes - report.zero_tail;
    let (offset, field, resumes) = (ends, "next_segment", None);
    Fault { position, offset, field, expected, found, detail, resumes }
}

/// The mark stands at the start of a segment, and the last batches, which the report with this number
/// is on, end before that, though nothing of them is damaged.
fn ends_before_the_mark(reports: &mut [Report], number: usize, dir: &Path, durable: &Durable) {
    let Some(Manifest { first_offset, mark, .. }) = durable.manifest() else { return };
    let is_listed = |first| reports.iter().any(|report| report.named_offset == Some(first));
    let Some(report) = reports.get(number) else { return };
    let ends = if report.batches > 0 { report.next_offset() } else { Some(*first_offset) };
    let Some(ends) = ends.filter(|ends| mark.position == 0 && *ends < mark.segment) else { return };
    // A log that has rolled since the listing goes on in a file that was not looked at.
    let goes_on = !is_listed(ends) && is_file(&dir.join(segment_file_name(ends)));
    if report.verdict == Verdict::Corrupt || goes_on {
        return;
    }
    let begins = mark.segment;
    let report = &mut reports[number];
    report.verdict = Verdict::Corrupt;
    report.faults.push(Fault {
        position: report.bytes - report.zero_tail,
        offset: Some(ends),
        field: "next_segment",
        expected: Said::Number(begins),
        found: Said::Number(ends),
        detail: format!("the log ends before {ends}, and all before {begins} was durable"),
        resumes: None,
    });
}

/// Looked for on the disk, not in the list: it may have been created since the listing.
fn is_file(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|about| about.is_file())
}

/// The manifest says that a segment is part of the log, and it is not there.
fn lost_segment(path: &Path, offset: u64) -> Report {
    let mut report = Report::new(path, Some(offset));
    report.verdict = Verdict::Corrupt;
    report.faults.push(Fault {
        position: 0,
        offset: Some(offset),
        field: "segment",
        expected: Said::Words("present".to_string()),
        found: Said::Words("missing".to_string()),
        detail: "the manifest says that it is part of the log, but there is no such file"
            .to_string(),
        resumes: None,
    });
    report
}
