//! `follow`: what comes into a partition, as it comes, over rolls to the next segment.
//!
//! The tail of a live log is in motion: a batch may be there in part, and a later write may land
//! before an earlier one. So nothing is wrong with what does not verify yet, unless it stays so:
//! then it is damage, and what verifies behind it is looked for.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use corelog_format::{BATCH_HEADER_LEN, BatchHeader, Expect, Scan, Step, first_nonzero};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::discover::{self, Partition, Segment};
use crate::durable::Durable;
use crate::failure::{Failure, Shown};
use crate::resync::{self, Anchor, Effort, Next};
use crate::seek::Index;
use crate::select::Selection;
use crate::session::Session;
use crate::show::Rows;
use crate::signals;
use crate::source::{Access, Source};
use crate::visit::At;
use crate::walk::{Event, Flow, Known, Start, walk_from};

/// How often is looked whether something came.
const INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// What does not verify for so long is damage: no write is under way for a second.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// With the first message that is there.
    Start,
    /// Behind the last one.
    End,
    /// With this offset.
    Offset(u64),
}

impl From {
    /// `start`, `end` or an offset.
    pub(crate) fn parse(text: &str) -> Result<From, String> {
        match text {
            "start" => Ok(From::Start),
            "end" => Ok(From::End),
            text => text
                .parse()
                .map(From::Offset)
                .map_err(|_| format!("\"{text}\": give start, end or an offset")),
        }
    }
}

/// Prints until a signal, a closed output, or the limit of `rows`.
pub(crate) fn run(
    session: &mut Session,
    dir: &Path,
    from: From,
    mut rows: Rows,
) -> Result<(), Failure> {
    signals::notice_end();
    if let From::Offset(offset) = from {
        rows.selection.offsets.start = rows.selection.offsets.start.max(offset);
    }
    let Some(mut tail) = Tail::open(session, dir, from, &rows.selection)? else { return Ok(()) };
    let mut stuck_since: Option<Instant> = None;
    loop {
        let mut moved = false;
        while calm(tail.next_batch(session, &mut rows))? {
            moved = true;
            if rows.limit == 0 || signals::asked_to_end() {
                return Ok(());
            }
        }
        session.out.flush()?;
        if signals::asked_to_end() {
            return Ok(());
        }
        let stuck = *stuck_since.get_or_insert_with(Instant::now);
        let patience_ended = !moved && stuck.elapsed() >= PATIENCE;
        if moved {
            stuck_since = None;
        }
        if calm(tail.roll(session, patience_ended))? {
            stuck_since = None;
            continue;
        }
        if patience_ended {
            stuck_since = None;
            if calm(tail.step_over(session))? {
                continue;
            }
        }
        wait()?;
        tail.source.refresh()?;
    }
}

/// Waits until it is time to look again. Ends at once, as a write would, where nobody reads the
/// output any more: a partition to which nothing comes is not followed for ever.
fn wait() -> Result<(), Failure> {
    let out = std::io::stdout();
    // Nothing is asked for: only what is told unasked ends the wait, an error or a hang-up.
    let mut watched = [PollFd::new(&out, PollFlags::empty())];
    match poll(&mut watched, Some(&INTERVAL)) {
        Ok(0) | Err(Errno::INTR) => Ok(()),
        Ok(_) => Err(Failure::Stream(ErrorKind::BrokenPipe.into())),
        Err(errno) => Err(Failure::Stream(errno.into())),
    }
}

/// A segment is cut to its length when it is sealed, perhaps while it is read: look again.
fn calm(result: Result<bool, Failure>) -> Result<bool, Failure> {
    match result {
        Err(Failure::Shrank { .. }) => Ok(false),
        result => result,
    }
}

/// The end of the partition, as far as it was printed.
struct Tail {
    partition: Partition,
    segment: Segment,
    source: Source,
    here: Start,
    /// Why what stands at `here` is no batch, when that was looked at last.
    why: String,
}

impl Tail {
    /// Goes to where it begins; `None` where that failed and was said.
    fn open(
        session: &mut Session,
        dir: &Path,
        from: From,
        selection: &Selection,
    ) -> Result<Option<Tail>, Failure> {
        let found = discover::discover(&[dir.to_path_buf()]);
        if let Some(failure) = found.failures.into_iter().next() {
            session.fail(failure)?;
            return Ok(None);
        }
        let mut partitions = found.partitions;
        let (Some(partition), 0) = (partitions.pop(), partitions.len()) else {
            return Err(Failure::not_ours(dir, "not one partition: name one to follow"));
        };
        let segments = &partition.segments;
        let begins = |s: &Segment| s.named_offset.is_none_or(|at| at <= selection.offsets.start);
        let segment = match from {
            From::Start => segments.first(),
            From::End => segments.last(),
            From::Offset(_) => segments.iter().rev().find(|s| begins(s)).or(segments.first()),
        };
        let Some(segment) = segment.cloned() else {
            return Err(Failure::not_ours(dir, "no segment is there yet"));
        };
        let mut source = open(session, &segment)?;
        let known = known(&partition, &segment);
        let mut here = Start::first(known);
        let mut index = Index::open(&segment.path, segment.links, reading(session));
        match (from, &mut index) {
            (From::Start, _) => {}
            (From::Offset(_), None) => {}
            (From::Offset(_), Some(index)) => {
                here = index.before(&mut source, known, selection, false)?.unwrap_or(here);
            }
            (From::End, index) => {
                if let Some(index) = index {
                    let end = source.len();
                    here = index.at_most(&mut source, known, end, u64::MAX)?.unwrap_or(here);
                }
                here = end_of(&mut source, known, here)?;
            }
        }
        Ok(Some(Tail { partition, segment, source, here, why: String::new() }))
    }

    /// Prints the batch that stands here, if it is there, and goes behind it.
    fn next_batch(&mut self, session: &mut Session, rows: &mut Rows) -> Result<bool, Failure> {
        let (at, len) = (self.here.at, self.source.len());
        let expect = Expect {
            partition_id: self.here.partition_id,
            next_offset: self.here.next_offset,
            after_timestamp: None,
            time_may_go_back: true,
        };
        let mut need = BATCH_HEADER_LEN as u64;
        for _ in 0..2 {
            let window = self.source.window(at, need)?;
            if window.len() < BATCH_HEADER_LEN
                || first_nonzero(&window[..BATCH_HEADER_LEN]).is_none()
            {
                self.why.clear();
                return Ok(false);
            }
            match Scan::new(at, len, 0, expect).next(window) {
                Step::NeedBytes { len } => need = len,
                Step::Batch { batch, .. } => {
                    let header = *batch.header();
                    if rows.selection.may_be_in(&header) {
                        let place = At { segment: &self.segment, position: at };
                        rows.print(session, place, &batch)?;
                    }
                    self.here = Start::behind(at, &header);
                    return Ok(true);
                }
                Step::Torn { why, .. } | Step::Corrupt { why, .. } => {
                    self.why = why.to_string();
                    return Ok(false);
                }
                Step::End { .. } => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Goes on with another segment, if this one ends here: where the log goes on in the next, and
    /// where retention or a purge took this one away. What is left in this one keeps us here until
    /// `patience_ended`.
    fn roll(&mut self, session: &mut Session, patience_ended: bool) -> Result<bool, Failure> {
        let found = discover::discover(std::slice::from_ref(&self.partition.dir));
        let Some(partition) = found.partitions.into_iter().next() else { return Ok(false) };
        // Under the same name it may be another file: a purge begins anew.
        let is_there = partition.segments.iter().any(|segment| segment.path == self.segment.path)
            && self.source.is_at(&self.segment.path);
        let own = self.segment.named_offset;
        let later = partition.segments.iter().find(|segment| segment.named_offset > own);
        let next = match later {
            Some(next) => next,
            None if is_there => return Ok(false),
            None => match partition.segments.last() {
                Some(next) => next,
                None => return Ok(false),
            },
        };
        // Its end is known now: once more, in case the last batch came just before.
        self.source.refresh()?;
        let (at, expected) = (self.here.at, self.here.next_offset);
        if is_there
            && !patience_ended
            && (!self.source.zeros_to_end(at)? || next.named_offset != expected)
        {
            return Ok(false);
        }
        if is_there && !self.source.zeros_to_end(at)? && self.step_over(session)? {
            return Ok(true);
        }
        let next = next.clone();
        match (expected, next.named_offset) {
            (Some(expected), Some(begins)) if expected < begins => {
                let why = if is_there { "are not in the log" } else { "were removed meanwhile" };
                if is_there {
                    session.damage();
                }
                session.say(format_args!("offsets {expected} to {} {why}", begins - 1))?;
            }
            (Some(expected), Some(begins)) if expected > begins => {
                session.say(format_args!("the log was emptied: it begins again with {begins}"))?;
            }
            _ => {}
        }
        self.source = match open(session, &next) {
            Ok(source) => source,
            Err(failure) if failure.is_not_found() => return Ok(false),
            Err(failure) => return Err(failure),
        };
        self.here = Start::first(known(&partition, &next));
        (self.partition, self.segment) = (partition, next);
        Ok(true)
    }

    /// Looks for a batch behind what does not verify here, and goes there.
    fn step_over(&mut self, session: &mut Session) -> Result<bool, Failure> {
        let at = self.here.at;
        if self.why.is_empty() {
            return Ok(false);
        }
        let anchor = match (self.here.partition_id, self.here.next_offset) {
            (Some(partition_id), Some(next_offset)) => Some(Anchor { partition_id, next_offset }),
            _ => None,
        };
        let mut effort = Effort::of_file(self.source.len());
        let Next::At(next) = resync::find(&mut self.source, at, anchor, &mut effort)? else {
            return Ok(false);
        };
        session.damage();
        let (path, why) = (Shown(&self.segment.path), &self.why);
        session.say(format_args!("{path}: damage at {at}: {why}; going on at {next}"))?;
        self.here = Start { at: next, next_offset: None, ..self.here };
        self.why.clear();
        Ok(true)
    }
}

/// Everything is read, never mapped: it grows.
fn reading(session: &Session) -> Access {
    Access { map: false, progress: false, ..session.access }
}

fn open(session: &Session, segment: &Segment) -> Result<Source, Failure> {
    let source = Source::open(&segment.path, segment.links, reading(session))?;
    // Its engine may lock it only a moment later.
    source.around_cache();
    Ok(source)
}

fn known(partition: &Partition, segment: &Segment) -> Known {
    let nothing = Durable::nothing();
    crate::verify::known(partition, segment, &nothing)
}

/// Where the batches end that are there now.
fn end_of(source: &mut Source, known: Known, from: Start) -> Result<Start, Failure> {
    let mut here = from;
    walk_from(source, known, from, &mut |event| match event {
        Event::Batch { at, batch, .. } => {
            let header: &BatchHeader = batch.header();
            here = Start::behind(at, header);
            Ok(Flow::Continue)
        }
        // What is behind it is looked at as what comes.
        Event::Damage { .. } => Ok(Flow::Continue),
    })?;
    Ok(here)
}
