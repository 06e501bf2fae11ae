//! `verify`: every checksum and every rule of each file, and one verdict for it. Files are worked on
//! side by side; what is said about them comes in their order.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::chain;
use crate::discover::{Partition, Segment};
use crate::durable::{Doubt, Durable};
use crate::failure::{Failure, Shown};
use crate::parallel;
use crate::partition_report::{self, PartitionReport};
use crate::records;
use crate::report::{self, Report};
pub(crate) use crate::segment_report::known;
use crate::segment_report::segment_report;
use crate::session::Session;
use crate::source::Access;
use crate::walk::{Level, Verdict};

/// How to verify, and how to say it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    /// One JSON document instead of text.
    pub(crate) json: bool,
    /// How closely to look.
    pub(crate) level: Level,
    /// Files to work on at once.
    pub(crate) jobs: usize,
}

/// What there is to know of one partition before its files are read.
struct Work<'p> {
    partition: &'p Partition,
    /// The manifest, read by whoever comes first. It is read before the segments: the mark only
    /// moves forward, so a live partition's files are never shorter than a mark that was read first.
    durable: OnceLock<Manifested>,
}

type Manifested = Result<(Durable, Option<Doubt>), Failure>;

/// One part of the work.
enum Item<'w> {
    /// What stands beside the segments.
    Beside(&'w Work<'w>),
    Segment(&'w Work<'w>, &'w Segment),
}

/// What came of it.
enum Done<'w> {
    Beside(&'w Work<'w>, Box<PartitionReport>),
    Segment(&'w Segment, Result<Box<Report>, Failure>),
}

/// Verifies the segments of all partitions. Memory grows with the number of segments in a
/// partition, not with their bytes, and with the number of partitions where JSON is written.
pub(crate) fn run(
    session: &mut Session,
    partitions: &[Partition],
    how: How,
) -> Result<(), Failure> {
    let mut separator = "\n";
    let mut beside: Vec<u8> = Vec::new();
    let mut homes = BTreeSet::new();
    if how.json {
        write!(session.out, "{{\"schema\":1,\"files\":[")?;
    }
    let access = session.access;
    each_partition(session, access, partitions, how, &mut |session, reports, about| {
        homes.extend(about.data_dir());
        for report in &reports {
            if report.verdict != Verdict::Clean {
                session.damage();
            }
            if how.json {
                write!(session.out, "{separator}")?;
                separator = ",\n";
                report::json(&mut session.out, report)?;
            } else {
                write!(session.out, "{report}")?;
            }
        }
        if how.json {
            beside.extend_from_slice(if beside.is_empty() { b"\n" } else { b",\n" });
            partition_report::json(&mut beside, &about)?;
        } else {
            write!(session.out, "{about}")?;
        }
        Ok(())
    })?;
    let homes = homes.iter().filter_map(|path: &PathBuf| records::home(path));
    if how.json {
        write!(session.out, "],\n\"partitions\":[")?;
        session.out.write_all(&beside)?;
        write!(session.out, "],\n\"data\":[")?;
        for (number, home) in homes.enumerate() {
            write!(session.out, "{}", if number == 0 { "\n" } else { ",\n" })?;
            partition_report::home_json(&mut session.out, &home)?;
        }
        writeln!(session.out, "]}}")?;
    } else {
        for home in homes {
            write!(session.out, "{home}")?;
        }
    }
    Ok(())
}

/// The reports on the files of one partition, held against each other, and the one on the partition.
pub(crate) fn partition_reports(
    session: &mut Session,
    partition: &Partition,
) -> Result<(Vec<Report>, PartitionReport), Failure> {
    let how = How { json: false, level: Level::Full, jobs: 1 };
    let mut found = None;
    let access = session.access;
    let one = std::slice::from_ref(partition);
    each_partition(session, access, one, how, &mut |_, reports, about| {
        found = Some((reports, about));
        Ok(())
    })?;
    found.ok_or_else(|| Failure::not_ours(&partition.dir, "not looked at"))
}

/// What is done with the reports on a partition.
type Each<'a> =
    &'a mut dyn FnMut(&mut Session, Vec<Report>, PartitionReport) -> Result<(), Failure>;

/// Calls `each` with the reports on each partition, in order.
fn each_partition(
    session: &mut Session,
    access: Access,
    partitions: &[Partition],
    how: How,
    each: Each<'_>,
) -> Result<(), Failure> {
    let works: Vec<Work<'_>> =
        partitions.iter().map(|partition| Work { partition, durable: OnceLock::new() }).collect();
    let items: Vec<Item<'_>> = works
        .iter()
        .flat_map(|work| {
            let segments = work.partition.segments.iter();
            std::iter::once(Item::Beside(work)).chain(segments.map(|s| Item::Segment(work, s)))
        })
        .collect();
    let mut open: Option<Gathered<'_>> = None;
    parallel::in_order(
        how.jobs,
        &items,
        |item| done(item, access, how.level),
        |done| {
            match done {
                Done::Beside(work, about) => {
                    finish(session, open.take(), each)?;
                    open = Some(begin(session, work, *about)?);
                }
                Done::Segment(segment, result) => {
                    let reports = open.as_mut().map(|gathered| &mut gathered.reports);
                    segment_done(session, segment, result, reports)?;
                }
            }
            Ok(())
        },
    )?;
    finish(session, open.take(), each)
}

/// A partition whose files' reports come in.
struct Gathered<'w> {
    work: &'w Work<'w>,
    about: PartitionReport,
    reports: Vec<Report>,
}

/// Says what is wrong with a partition's manifest, and opens its list of reports.
fn begin<'w>(
    session: &mut Session,
    work: &'w Work<'w>,
    about: PartitionReport,
) -> Result<Gathered<'w>, Failure> {
    let path = work.partition.dir.join("manifest");
    match work.manifested() {
        Ok((_, None)) => {}
        Ok((_, Some(doubt))) => tell_doubt(session, &path, doubt)?,
        Err(failure) => session.fail(failure.again())?,
    }
    Ok(Gathered { work, about, reports: Vec::new() })
}

fn segment_done(
    session: &mut Session,
    segment: &Segment,
    result: Result<Box<Report>, Failure>,
    reports: Option<&mut Vec<Report>>,
) -> Result<(), Failure> {
    match result {
        Ok(report) => {
            if report.unreadable_bytes > 0 {
                let (path, bytes) = (&segment.path, report.unreadable_bytes);
                let why = format!("{bytes} bytes could not be read");
                session.fail(Failure::not_ours(path, why))?;
            }
            if let Some(reports) = reports {
                reports.push(*report);
            }
            Ok(())
        }
        Err(failure) => session.fail_of(segment, failure),
    }
}

/// All files of a partition are there: what they say together.
fn finish(
    session: &mut Session,
    gathered: Option<Gathered<'_>>,
    each: Each<'_>,
) -> Result<(), Failure> {
    let Some(Gathered { work, mut about, mut reports }) = gathered else { return Ok(()) };
    if work.partition.whole {
        chain::hold_together(&mut reports, &work.partition.dir, work.durable());
        about.conclude(&reports);
    }
    each(session, reports, about)
}

impl Work<'_> {
    fn manifested(&self) -> &Manifested {
        self.durable.get_or_init(|| Durable::read(&self.partition.dir))
    }

    fn durable(&self) -> &Durable {
        static NOTHING: Durable = Durable::nothing();
        self.manifested().as_ref().map_or(&NOTHING, |(durable, _)| durable)
    }
}

fn done<'w>(item: &Item<'w>, access: Access, level: Level) -> Done<'w> {
    match *item {
        Item::Beside(work) => {
            work.manifested();
            let Partition { dir, id, ignored, .. } = work.partition;
            let about = PartitionReport::take(dir.clone(), *id, ignored.clone());
            Done::Beside(work, Box::new(about))
        }
        Item::Segment(work, segment) => {
            let report = segment_report(access, work.partition, segment, work.durable(), level);
            Done::Segment(segment, report.map(Box::new))
        }
    }
}

/// Reads the partition's manifest and says what is wrong with it. A partition without one is fine:
/// the reference server writes none.
pub(crate) fn durable(session: &mut Session, dir: &Path) -> Result<Durable, Failure> {
    let path = dir.join("manifest");
    match Durable::read(dir) {
        Ok((durable, doubt)) => {
            if let Some(doubt) = doubt {
                tell_doubt(session, &path, &doubt)?;
            }
            Ok(durable)
        }
        Err(failure) => {
            session.fail(failure)?;
            Ok(Durable::nothing())
        }
    }
}

fn tell_doubt(session: &mut Session, path: &Path, doubt: &Doubt) -> Result<(), Failure> {
    match doubt {
        Doubt::Damaged(why) => {
            let path = Shown(path);
            session.say(format_args!(
                "{path}: {why}; nothing says what was durable, damage at a tail counts as torn"
            ))
        }
        Doubt::UnknownVersion(why) => session.fail(Failure::not_ours(path, why.clone())),
    }
}
