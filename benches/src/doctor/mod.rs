//! `doctor`: whether this machine and this directory are fit, and what to do where they are not.
//!
//! Facts first (`machine`, and a `trial` on the disk itself), then judgements: a pure function of
//! the facts, so that tests can inject any machine.

mod checks;
mod trial;

use std::io::{self, Write};
use std::path::Path;
use std::process;

use serde_json::{Value, json};

use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::place::{Place, PlaceError};
use crate::report::SCHEMA;

use checks::checks;
use trial::Trial;

/// Everything that is judged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    machine: Machine,
    trial: Trial,
}

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// As it should be.
    Fit,
    /// The kernel does not say.
    Unknown,
    /// It works, but figures or throughput suffer.
    Poor,
    /// The engine cannot work like this.
    Unfit,
}

impl Standing {
    fn word(self) -> &'static str {
        match self {
            Standing::Fit => "ok",
            Standing::Unknown => "unknown",
            Standing::Poor => "poor",
            Standing::Unfit => "UNFIT",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) standing: Standing,
    /// What was found.
    pub(crate) found: String,
    /// What to do about it; None where nothing is to be done.
    pub(crate) advice: Option<String>,
}

/// What the doctor says.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    dir: String,
    checks: Vec<Check>,
    machine: Machine,
}

/// Looks at the machine, and tries out a directory of its own in `dir`, which must exist. Nothing
/// stays there.
pub(crate) fn examine(dir: &Path, interrupt: &Interrupt) -> Result<Diagnosis, PlaceError> {
    let own = dir.join(format!("corelog-doctor-{}", process::id()));
    let place = Place::take(Some(&own), false)?;
    let machine = Machine::look(place.path());
    let trial = Trial::run(&place, interrupt);
    let facts = Facts { machine, trial };
    let checks = checks(&facts);
    Ok(Diagnosis { dir: dir.display().to_string(), checks, machine: facts.machine })
}

impl Diagnosis {
    /// False where the engine cannot work, or could not be tried.
    pub(crate) fn is_fit(&self) -> bool {
        self.checks.iter().all(|check| check.standing != Standing::Unfit)
    }

    /// One screen for people: a line for each thing, and below it what to do.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for Check { name, standing, found, advice } in &self.checks {
            writeln!(out, "{:<8} {name:<20} {found}", standing.word())?;
            if let Some(advice) = advice {
                writeln!(out, "{:<8} {:<20} -> {advice}", "", "")?;
            }
        }
        let count = |standing| self.checks.iter().filter(|one| one.standing == standing).count();
        let verdict = match (count(Standing::Unfit), count(Standing::Poor)) {
            (0, 0) => "fit".to_owned(),
            (0, poor) => format!("fit, with {poor} of {} things poor", self.checks.len()),
            (unfit, _) => format!("NOT fit: {unfit} of {} things", self.checks.len()),
        };
        writeln!(out, "\n{} is {verdict}.", self.dir)
    }

    /// The same for scripts.
    pub(crate) fn to_json(&self) -> Value {
        let check = |check: &Check| {
            json!({
                "name": check.name,
                "standing": check.standing.word().to_lowercase(),
                "found": check.found,
                "advice": check.advice,
            })
        };
        json!({
            "schema": SCHEMA,
            "dir": self.dir,
            "fit": self.is_fit(),
            "checks": self.checks.iter().map(check).collect::<Vec<_>>(),
            "machine": self.machine.to_json(),
        })
    }
}

#[cfg(test)]
mod tests;
