//! `ls`: one line for each segment. Headers only; `verify` is what checks them.

use std::io::Write;

use corelog_format::BatchHeader;

use crate::discover::{Partition, Segment};
use crate::failure::{Failure, Shown};
use crate::headers::{Hopped, each_header};
use crate::index_check::IndexCheck;
use crate::session::Session;
use crate::source::Source;
use crate::time::Utc;

/// What the headers of one segment add up to.
#[derive(Debug, Default)]
struct Sums {
    batches: u64,
    messages: u64,
    first: Option<BatchHeader>,
    last: Option<BatchHeader>,
}

/// Lists the segments of all partitions.
pub(crate) fn run(session: &mut Session, partitions: &[Partition]) -> Result<(), Failure> {
    if partitions.iter().all(|partition| partition.segments.is_empty()) {
        return Ok(());
    }
    writeln!(
        session.out,
        "{:>20} {:>20} {:<27} {:<27} {:>12} {:>9} {:>12} {:<7} {:<14} FILE",
        "BASE", "LAST", "FIRST TIME", "LAST TIME", "BYTES", "BATCHES", "MESSAGES", "INDEX", "TAIL"
    )?;
    for segment in partitions.iter().flat_map(|partition| &partition.segments) {
        match line(session, segment) {
            Err(failure) if segment.vanished(&failure) => {
                session.say(format_args!("{}: gone since it was listed", Shown(&segment.path)))?;
            }
            Err(failure) => session.fail(failure)?,
            Ok(()) => {}
        }
    }
    Ok(())
}

fn line(session: &mut Session, segment: &Segment) -> Result<(), Failure> {
    let mut index = IndexCheck::open(&segment.path, segment.links, session.access);
    let mut source = Source::open(&segment.path, segment.links, session.access)?;
    let mut sums = Sums::default();
    let Hopped { end, broken } = each_header(&mut source, |at, header| {
        index.batch(at, header);
        sums.batches += 1;
        sums.messages += u64::from(header.message_count);
        sums.first.get_or_insert(*header);
        sums.last = Some(*header);
    })?;
    let (index, unreadable) = index.finish(end);
    let tail = match &broken {
        Some(_) => format!("broken@{end}"),
        None if end < source.len() => format!("{} zeros", source.len() - end),
        None => "-".to_string(),
    };
    // An empty segment still says where it begins, by its name.
    let base = sums.first.map(|header| header.base_offset).or(segment.named_offset);
    let last = sums.last.and_then(|h| h.end_offset()).map(|end| end - 1);
    writeln!(
        session.out,
        "{:>20} {:>20} {:<27} {:<27} {:>12} {:>9} {:>12} {:<7} {:<14} {}",
        or_dash(base),
        or_dash(last),
        or_dash(sums.first.map(|header| Utc(header.base_timestamp))),
        or_dash(sums.last.map(|header| Utc(header.base_timestamp))),
        source.len(),
        sums.batches,
        sums.messages,
        index.word(),
        tail,
        Shown(&segment.path),
    )?;
    if let Some(why) = broken {
        session.damage();
        let path = Shown(&segment.path);
        session.say(format_args!("{path}: not a batch at {end}: {why}; verify tells more"))?;
    }
    match unreadable {
        Some(failure) => session.say(failure),
        None => Ok(()),
    }
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_string(), |value| value.to_string())
}
