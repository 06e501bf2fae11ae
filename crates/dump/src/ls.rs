//! `ls`: one line for each segment. Headers only; `verify` is what checks them.

use std::io::{self, Write};
use std::path::Path;

use corelog_format::{BatchHeader, FileKind, FormatError, parse_file_name};

use crate::discover::{Partition, Segment};
use crate::failure::{Failure, Shown};
use crate::headers::{Hopped, each_header};
use crate::index_check::{IndexCheck, IndexState};
use crate::json::{Object, Out};
use crate::session::Session;
use crate::source::Source;
use crate::style::{Colour, Style};
use crate::time::Utc;

/// The version of the document.
const SCHEMA: u64 = 1;

/// What the headers of one segment add up to.
#[derive(Debug)]
struct Listed<'a> {
    partition: &'a Partition,
    segment: &'a Segment,
    sealed: bool,
    held: bool,
    bytes: u64,
    batches: u64,
    messages: u64,
    first: Option<BatchHeader>,
    last: Option<BatchHeader>,
    index: IndexState,
    /// Where the headers end.
    end: u64,
    broken: Option<FormatError>,
}

/// Lists the segments of all partitions. Memory does not grow with their number.
pub(crate) fn run(
    session: &mut Session,
    partitions: &[Partition],
    json: bool,
) -> Result<(), Failure> {
    if json {
        write!(session.out, "{{\"schema\":{SCHEMA},\"segments\":[")?;
    } else if partitions.iter().any(|partition| !partition.segments.is_empty()) {
        title(&mut session.out, session.style)?;
    }
    let mut separator = "\n";
    for partition in partitions {
        for segment in &partition.segments {
            let listed = match look(session, partition, segment) {
                Ok(listed) => listed,
                Err(failure) => {
                    session.fail_of(segment, failure)?;
                    continue;
                }
            };
            if json {
                write!(session.out, "{separator}")?;
                separator = ",\n";
                listed.json(&mut session.out)?;
            } else {
                listed.line(&mut session.out, session.style)?;
            }
            if let Some(why) = listed.broken {
                session.damage();
                let (path, end) = (Shown(&segment.path), listed.end);
                session
                    .say(format_args!("{path}: not a batch at {end}: {why}; verify tells more"))?;
            }
        }
    }
    if json {
        writeln!(session.out, "\n]}}")?;
    }
    Ok(())
}

/// Looks at one segment.
fn look<'a>(
    session: &mut Session,
    partition: &'a Partition,
    segment: &'a Segment,
) -> Result<Listed<'a>, Failure> {
    let access = session.access;
    // Before the log: then it is not ahead of it merely because both grow.
    let mut index = Some(IndexCheck::open(&segment.path, segment.links, access));
    let mut source = Source::open(&segment.path, segment.links, access)?;
    let (listed, unreadable) = source.again_if_cut(|source| {
        let again = || IndexCheck::open(&segment.path, segment.links, access);
        count(source, partition, segment, index.take().unwrap_or_else(again))
    })?;
    if let Some(failure) = unreadable {
        session.say(failure)?;
    }
    Ok(listed)
}

/// What its headers add up to, and why its index could not be read, if that is so.
fn count<'a>(
    source: &mut Source,
    partition: &'a Partition,
    segment: &'a Segment,
    mut index: IndexCheck,
) -> Result<(Listed<'a>, Option<Failure>), Failure> {
    let mut listed = Listed {
        partition,
        segment,
        sealed: is_sealed(partition, segment),
        held: source.is_live(),
        bytes: 0,
        batches: 0,
        messages: 0,
        first: None,
        last: None,
        index: IndexState::Missing,
        end: 0,
        broken: None,
    };
    let Hopped { end, broken } = each_header(source, |at, header| {
        index.batch(at, header);
        listed.batches += 1;
        listed.messages += u64::from(header.message_count);
        listed.first.get_or_insert(*header);
        listed.last = Some(*header);
    })?;
    source.intact()?;
    let (index, unreadable) = index.finish(end);
    listed.bytes = source.len();
    (listed.index, listed.end, listed.broken) = (index, end, broken);
    Ok((listed, unreadable))
}

/// Whether a later segment stands beside this one. Files named one by one are not all of their
/// directory, so it is looked at.
fn is_sealed(partition: &Partition, segment: &Segment) -> bool {
    let Some(own) = segment.named_offset else { return false };
    let later = |offset: Option<u64>| offset.is_some_and(|offset| offset > own);
    if partition.segments.iter().any(|other| later(other.named_offset)) {
        return true;
    }
    !partition.whole && names(&partition.dir).any(|name| later(Some(name)))
}

/// The first offsets that the names of segments in `dir` state.
fn names(dir: &Path) -> impl Iterator<Item = u64> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().filter_map(|entry| {
        match entry.file_name().to_str().and_then(parse_file_name) {
            Some((offset, FileKind::Log)) => Some(offset),
            _ => None,
        }
    })
}

fn title(out: Out<'_>, style: Style) -> io::Result<()> {
    let columns = format!(
        "{:>20} {:>20} {:<27} {:<27} {:>12} {:>9} {:>12} {:<7} {:<14} {:<7} FILE",
        "BASE",
        "LAST",
        "FIRST TIME",
        "LAST TIME",
        "BYTES",
        "BATCHES",
        "MESSAGES",
        "INDEX",
        "TAIL",
        "STATE"
    );
    writeln!(out, "{}", style.paint(Colour::Title, columns))
}

impl Listed<'_> {
    /// An empty segment still says where it begins, by its name.
    fn base(&self) -> Option<u64> {
        self.first.map(|header| header.base_offset).or(self.segment.named_offset)
    }

    fn last_offset(&self) -> Option<u64> {
        self.last.and_then(|header| header.end_offset()).map(|end| end - 1)
    }

    fn state(&self) -> &'static str {
        if self.sealed { "sealed" } else { "active" }
    }

    fn line(&self, out: Out<'_>, style: Style) -> io::Result<()> {
        let tail = match &self.broken {
            Some(_) => format!("broken@{}", self.end),
            None if self.end < self.bytes => format!("{} zeros", self.bytes - self.end),
            None => "-".to_string(),
        };
        let bad = |is: bool| if is { Colour::Bad } else { Colour::Dim };
        writeln!(
            out,
            "{:>20} {:>20} {:<27} {:<27} {:>12} {:>9} {:>12} {:<7} {:<14} {:<7} {}",
            or_dash(self.base()),
            or_dash(self.last_offset()),
            or_dash(self.first.map(|header| Utc(header.base_timestamp))),
            or_dash(self.last.map(|header| Utc(header.base_timestamp))),
            self.bytes,
            self.batches,
            self.messages,
            style.paint(bad(self.index == IndexState::Bad), self.index.word()),
            style.paint(bad(self.broken.is_some()), tail),
            format!("{}{}", self.state(), if self.held { "*" } else { "" }),
            Shown(&self.segment.path),
        )
    }

    fn json(&self, out: Out<'_>) -> io::Result<()> {
        let mut object = Object::begin(out)?;
        object.text("path", &self.segment.path.to_string_lossy())?;
        object.maybe("partition_id", self.partition.id)?;
        object.maybe("base_offset", self.base())?;
        object.maybe("last_offset", self.last_offset())?;
        object.maybe("first_timestamp", self.first.map(|header| header.base_timestamp))?;
        object.maybe("last_timestamp", self.last.map(|header| header.base_timestamp))?;
        object.number("bytes", self.bytes)?;
        object.number("batches", self.batches)?;
        object.number("messages", self.messages)?;
        object.text("state", self.state())?;
        object.flag("held", self.held)?;
        object.text("index", self.index.word())?;
        let zeros = if self.broken.is_some() { 0 } else { self.bytes - self.end };
        object.number("zero_tail", zeros)?;
        let out = object.field("broken")?;
        match &self.broken {
            None => out.write_all(b"null")?,
            Some(why) => {
                let mut broken = Object::begin(out)?;
                broken.number("position", self.end)?;
                broken.text("field", why.field)?;
                broken.text("detail", &why.to_string())?;
                broken.end()?;
            }
        }
        object.end()
    }
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_string(), |value| value.to_string())
}
