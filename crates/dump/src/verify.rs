//! `verify`: every checksum and every rule of each file, and one verdict for it.

use std::io::Write;
use std::path::Path;

use corelog_format::{BatchHeader, Findings};

use crate::chain;
use crate::discover::{Partition, Segment};
use crate::durable::{Doubt, Durable};
use crate::failure::{Failure, Shown};
use crate::index_check::IndexCheck;
use crate::report::{self, Fault, Finding, Report};
use crate::session::Session;
use crate::source::Source;
use crate::walk::{Event, Flow, Known, Verdict, walk};

/// Verifies the segments of all partitions. Memory grows with the number of segments in a
/// partition, not with their bytes.
pub(crate) fn run(
    session: &mut Session,
    partitions: &[Partition],
    as_json: bool,
) -> Result<(), Failure> {
    let mut separator = "\n";
    if as_json {
        write!(session.out, "{{\"schema\":1,\"files\":[")?;
    }
    for partition in partitions {
        for report in partition_reports(session, partition)? {
            if report.verdict != Verdict::Clean {
                session.damage();
            }
            if as_json {
                write!(session.out, "{separator}")?;
                separator = ",\n";
                report::json(&mut session.out, &report)?;
            } else {
                write!(session.out, "{report}")?;
            }
        }
    }
    if as_json {
        writeln!(session.out, "]}}")?;
    }
    Ok(())
}

/// The reports on the files of one partition, held against each other.
pub(crate) fn partition_reports(
    session: &mut Session,
    partition: &Partition,
) -> Result<Vec<Report>, Failure> {
    let durable = durable(session, &partition.dir)?;
    let mut reports = Vec::new();
    for segment in &partition.segments {
        match segment_report(session, partition, segment, &durable) {
            Ok(report) => reports.push(report),
            // Retention took it: as if it had been listed a moment later.
            Err(failure) if segment.vanished(&failure) => {
                session.say(format_args!("{}: gone since it was listed", Shown(&segment.path)))?;
            }
            Err(failure) => session.fail(failure)?,
        }
    }
    if partition.whole {
        chain::hold_together(&mut reports, &partition.dir, &durable);
    }
    Ok(reports)
}

/// Reads the partition's manifest and says what is wrong with it. A partition without one is fine:
/// the reference server writes none.
pub(crate) fn durable(session: &mut Session, dir: &Path) -> Result<Durable, Failure> {
    let path = dir.join("manifest");
    match Durable::read(dir) {
        Ok((durable, None)) => Ok(durable),
        Ok((durable, Some(Doubt::Damaged(why)))) => {
            let path = Shown(&path);
            session.say(format_args!(
                "{path}: {why}; nothing says what was durable, damage at a tail counts as torn"
            ))?;
            Ok(durable)
        }
        Ok((durable, Some(Doubt::UnknownVersion(why)))) => {
            session.fail(Failure::not_ours(&path, why))?;
            Ok(durable)
        }
        Err(failure) => {
            session.fail(failure)?;
            Ok(Durable::nothing())
        }
    }
}

/// What is known about a segment from its name, its place and the manifest.
pub(crate) fn known(partition: &Partition, segment: &Segment, durable: &Durable) -> Known {
    Known {
        partition_id: partition.id,
        first_offset: segment.named_offset,
        durable_to: durable.below(segment),
        time_rises_from: durable.ours_from(segment),
    }
}

fn segment_report(
    session: &mut Session,
    partition: &Partition,
    segment: &Segment,
    durable: &Durable,
) -> Result<Report, Failure> {
    let mut index = IndexCheck::open(&segment.path, segment.links, session.access);
    let mut source = Source::open(&segment.path, segment.links, session.access)?;
    let mut report = Report::new(&segment.path, segment.named_offset, source.len());
    let walked = walk(&mut source, known(partition, segment, durable), &mut |event| {
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
    report.index = state;
    report.verdict = walked.verdict;
    report.zero_tail = walked.zero_tail;
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
    Ok(report)
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
}
