//! `repair` and `index`: the only commands that change files, and only with `--apply`.
//!
//! | step | file |
//! | --- | --- |
//! | files that were named one by one must be all of their log | `alone` |
//! | nobody else may be at work | `lock` |
//! | every file is walked, and what is to be done is decided | `plan` |
//! | it is done, safely | `apply`, `files` |
//! | and told | here |
//!
//! `docs/inspector.md` says what a repair means for offsets, the durable mark, the engine and the
//! reference server.

mod alone;
mod apply;
mod files;
mod lock;
mod plan;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use corelog_format::{index_file_name, segment_file_name};

use crate::discover::Partition;
use crate::durable::{Doubt, Durable};
use crate::failure::{Failure, Shown};
use crate::index_check::IndexState;
use crate::json::{List, Object, Out};
use crate::partition_report::Offsets;
use crate::session::Session;
use crate::source::Access;
use crate::verify;
use files::Place;
use lock::Taken;
use plan::Plan;

/// How a command that may change files is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    /// Change files. Otherwise only say what would be done.
    pub(crate) apply: bool,
    /// One JSON document instead of text.
    pub(crate) json: bool,
}

/// What was planned for a partition and done about it.
#[derive(Debug)]
struct Done {
    dir: PathBuf,
    plan: Plan,
    /// Copies in quarantine; `None` where nothing was changed.
    kept: Option<Vec<PathBuf>>,
}

/// Repairs partitions, or says what that would be.
pub(crate) fn run(
    session: &mut Session,
    partitions: &[Partition],
    how: How,
) -> Result<(), Failure> {
    let mut documents = Documents::begin(session, how, "partitions")?;
    for partition in partitions {
        let partition = match alone::whole(partition) {
            Ok(Ok(partition)) => partition,
            Ok(Err(why)) => {
                session.refuse(why)?;
                continue;
            }
            Err(failure) => {
                session.fail(failure)?;
                continue;
            }
        };
        match one(&partition, how.apply) {
            Ok(Outcome::Done(done)) => {
                if !done.plan.is_empty() && done.kept.is_none() {
                    session.damage();
                }
                documents.push(session, |out| done.json(out), &*done)?;
            }
            Ok(Outcome::Held(path)) => refuse(session, &path)?,
            Err(failure) => session.fail(failure)?,
        }
    }
    documents.end(session)
}

fn refuse(session: &mut Session, path: &Path) -> Result<(), Failure> {
    let path = Shown(path);
    session.refuse(format_args!(
        "{path}: held by another process; close the engine that has it open and try again"
    ))
}

/// What became of a partition.
enum Outcome {
    Done(Box<Done>),
    /// Another process holds this file.
    Held(PathBuf),
}

/// Plans and, where asked to, applies. The locks are held from before the first look.
fn one(partition: &Partition, apply: bool) -> Result<Outcome, Failure> {
    let _locks = match locks(partition, apply)? {
        Ok(locks) => locks,
        Err(path) => return Ok(Outcome::Held(path)),
    };
    let durable = match Durable::read(&partition.dir)? {
        (_, Some(Doubt::UnknownVersion(why))) => {
            return Err(Failure::not_ours(&partition.dir.join("manifest"), why));
        }
        (durable, _) => durable,
    };
    let access = Access { ours: apply, ..Access::default() };
    let plan = plan::plan(partition, &durable, access)?;
    let kept = match apply && !plan.is_empty() {
        true => Some(apply::apply(partition, &plan, &mut |_| Ok(()))?),
        false => None,
    };
    Ok(Outcome::Done(Box::new(Done { dir: partition.dir.clone(), plan, kept })))
}

/// The locks for a change, nothing for a plan; else the file that another process holds.
fn locks(
    partition: &Partition,
    apply: bool,
) -> Result<Result<Option<lock::Locks>, PathBuf>, Failure> {
    if !apply {
        return Ok(lock::holder(partition).map_or(Ok(None), Err));
    }
    Ok(match lock::take(partition)? {
        Taken::Ours(locks) => Ok(Some(locks)),
        Taken::Others(path) => Err(path),
    })
}

impl Done {
    fn json(&self, out: Out<'_>) -> io::Result<()> {
        let mut object = Object::begin(out)?;
        object.text("path", &self.dir.to_string_lossy())?;
        write!(object.field("applied")?, "{}", self.kept.is_some())?;
        let mut actions = List::begin(object.field("actions")?)?;
        for replace in &self.plan.replace {
            let mut item = Object::begin(actions.item()?)?;
            let word = match (replace.is_cut(), replace.runs.is_empty()) {
                (true, _) => "cut",
                (_, true) => "quarantine",
                _ => "salvage",
            };
            item.text("action", word)?;
            item.text("path", &replace.path.to_string_lossy())?;
            item.text("why", &replace.why)?;
            item.number("bytes", replace.len)?;
            let mut segments = List::begin(item.field("segments")?)?;
            for run in &replace.runs {
                let mut kept = Object::begin(segments.item()?)?;
                kept.text("file", &segment_file_name(run.offsets.start))?;
                kept.number("from_position", run.range.start)?;
                kept.number("to_position", run.range.end)?;
                kept.number("batches", run.batches)?;
                kept.number("first_offset", run.offsets.start)?;
                kept.number("last_offset", run.offsets.end - 1)?;
                kept.end()?;
            }
            segments.end()?;
            item.end()?;
        }
        for log in &self.plan.reindex {
            let mut item = Object::begin(actions.item()?)?;
            item.text("action", "rebuild_index")?;
            item.text("path", &self.dir.join(index_file_name(*log)).to_string_lossy())?;
            item.end()?;
        }
        if let Some(begin) = self.plan.begin {
            let mut item = Object::begin(actions.item()?)?;
            item.text("action", "create_segment")?;
            item.text("path", &self.dir.join(segment_file_name(begin)).to_string_lossy())?;
            item.end()?;
        }
        if let Some(manifest) = &self.plan.manifest {
            let mut item = Object::begin(actions.item()?)?;
            item.text("action", "move_mark")?;
            item.text("path", &self.dir.join("manifest").to_string_lossy())?;
            item.number("segment", manifest.mark.segment)?;
            item.number("position", manifest.mark.position)?;
            item.number("next_offset", manifest.mark.next_offset)?;
            item.end()?;
        }
        actions.end()?;
        self.rest_json(&mut object)?;
        object.end()
    }

    /// What is lost, what stays as it is, and what is in quarantine.
    fn rest_json(&self, object: &mut Object<'_>) -> io::Result<()> {
        let mut lost = List::begin(object.field("lost")?)?;
        for Offsets { from, to } in &self.plan.lost {
            let mut item = Object::begin(lost.item()?)?;
            item.number("from", *from)?;
            item.maybe("to", *to)?;
            item.end()?;
        }
        lost.end()?;
        let mut left = List::begin(object.field("left")?)?;
        for line in &self.plan.left {
            crate::json::text(left.item()?, line)?;
        }
        left.end()?;
        let mut kept = List::begin(object.field("quarantined")?)?;
        for path in self.kept.iter().flatten() {
            crate::json::text(kept.item()?, &path.to_string_lossy())?;
        }
        kept.end()
    }
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dir = Shown(&self.dir);
        match (self.plan.is_empty(), &self.kept) {
            (true, _) => writeln!(f, "{dir}: nothing to repair")?,
            (_, None) => writeln!(f, "{dir}: would be repaired; --apply does it")?,
            (_, Some(_)) => writeln!(f, "{dir}: repaired")?,
        }
        for line in self.plan.lines() {
            writeln!(f, "    {line}")?;
        }
        for Offsets { from, to } in &self.plan.lost {
            match to {
                Some(to) => writeln!(f, "    offsets {from} to {} stay lost", to - 1)?,
                None => writeln!(f, "    offsets from {from} on stay lost")?,
            }
        }
        for line in &self.plan.left {
            writeln!(f, "    {line}")?;
        }
        for path in self.kept.iter().flatten() {
            writeln!(f, "    kept: {}", Shown(path))?;
        }
        Ok(())
    }
}

/// A repair as values, for whoever opens what it leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// There was something to do.
    pub needed: bool,
    /// Offsets that no batch holds afterwards: from, and up to where that is known.
    pub lost: Vec<(u64, Option<u64>)>,
    /// What is not as it should be and stays so, in words.
    pub left: Vec<String>,
    /// Copies in quarantine.
    pub quarantined: Vec<PathBuf>,
}

/// Repairs the partition in `dir` as `corelog-dump repair` does; nothing is changed without `apply`.
///
/// # Errors
/// In words: another process holds one of its files, or one cannot be read or written.
pub fn repair(dir: &Path, apply: bool) -> Result<Repair, String> {
    let found = crate::discover::discover(&[dir.to_path_buf()]);
    let partition = match (&found.failures[..], &found.partitions[..]) {
        ([], [partition]) => partition,
        ([failure, ..], _) => return Err(failure.to_string()),
        _ => return Err(format!("{}: not one partition", Shown(dir))),
    };
    match one(partition, apply) {
        Ok(Outcome::Done(done)) => {
            let Done { plan, kept, .. } = *done;
            Ok(Repair {
                needed: !plan.is_empty(),
                lost: plan.lost.iter().map(|lost| (lost.from, lost.to)).collect(),
                left: plan.left,
                quarantined: kept.unwrap_or_default(),
            })
        }
        Ok(Outcome::Held(path)) => Err(format!("{}: held by another process", Shown(&path))),
        Err(failure) => Err(failure.to_string()),
    }
}

/// The list of one document, or lines of text.
struct Documents {
    json: bool,
    separator: &'static str,
}

impl Documents {
    fn begin(session: &mut Session, how: How, list: &str) -> Result<Documents, Failure> {
        if how.json {
            write!(session.out, "{{\"schema\":1,\"{list}\":[")?;
        }
        Ok(Documents { json: how.json, separator: "\n" })
    }

    fn push(
        &mut self,
        session: &mut Session,
        json: impl FnOnce(Out<'_>) -> io::Result<()>,
        text: &dyn std::fmt::Display,
    ) -> Result<(), Failure> {
        if self.json {
            write!(session.out, "{}", self.separator)?;
            self.separator = ",\n";
            json(&mut session.out)?;
        } else {
            write!(session.out, "{text}")?;
        }
        Ok(())
    }

    fn end(self, session: &mut Session) -> Result<(), Failure> {
        if self.json {
            writeln!(session.out, "]}}")?;
        }
        Ok(())
    }
}

/// `index check` and `index rebuild`: the index of each log, and with `rebuild` a new one where it
/// is of no use.
pub(crate) fn indexes(
    session: &mut Session,
    partitions: &[Partition],
    how: How,
    rebuild: bool,
) -> Result<(), Failure> {
    let mut documents = Documents::begin(session, how, "indexes")?;
    for partition in partitions {
        let locks = match rebuild {
            true => locks(partition, how.apply)?,
            false => Ok(None),
        };
        let _locks = match locks {
            Ok(locks) => locks,
            Err(path) => {
                refuse(session, &path)?;
                continue;
            }
        };
        let (reports, _) = verify::partition_reports(session, partition)?;
        for report in reports {
            let is_useful = match report.index {
                IndexState::Ok => true,
                IndexState::Missing => report.batches == 0,
                IndexState::Stale | IndexState::Bad => false,
            };
            let mut made = false;
            if let (false, true, Some(log)) = (is_useful, rebuild && how.apply, report.named_offset)
            {
                let place = Place::prepare(&partition.dir)?;
                apply::reindex(&place, partition, log)?;
                made = true;
            }
            if !is_useful && !made {
                session.damage();
            }
            if let (false, true, None) = (is_useful, rebuild, report.named_offset) {
                session.say(alone::unnamed(&report.path, report.first_offset))?;
            }
            let path = report.path.with_extension("index");
            let state = if made { "rebuilt" } else { report.index.word() };
            let json = |out: Out<'_>| {
                let mut object = Object::begin(out)?;
                object.text("path", &path.to_string_lossy())?;
                object.text("index", state)?;
                object.number("batches", report.batches)?;
                object.end()
            };
            let is_due = rebuild && !is_useful && !made && report.named_offset.is_some();
            let hint = if is_due { "; --apply makes it anew" } else { "" };
            documents.push(session, json, &format!("{state:<9} {}{hint}\n", Shown(&path)))?;
        }
    }
    documents.end(session)
}
