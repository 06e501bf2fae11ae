//! The process that opens an engine on what a power cut has left, and judges it.
//!
//! It says on its standard output what it knows, whenever it knows more: everything that is there
//! after the opening, what it is about to append, what was answered. Each time the whole, as a
//! ledger, and then the line `known`: the next power cut is judged by that.

use std::fs;
use std::path::Path;

use super::plan::Plan;
use crate::history::{Broken, Crash, History};
use crate::judge::{Checks, Verdict, judge_aloud};
use crate::ledger::{Event, Ledger};

/// Ends what was known at one moment.
pub const KNOWN: &str = "known";

/// Judges the data directory `dir` by the ledger in the file `ledger`.
///
/// # Errors
/// The first broken promise, in words.
pub fn verify(plan: &Plan, dir: &Path, ledger: &Path) -> Result<Verdict, String> {
    let text = fs::read_to_string(ledger).map_err(|error| error.to_string())?;
    let ledger = Ledger::parse(&text).map_err(|error| error.to_string())?;
    hold(plan, dir, &ledger).map_err(|broken| broken.to_string())
}

fn hold(plan: &Plan, dir: &Path, ledger: &Ledger) -> Result<Verdict, Broken> {
    let mut history = History::new(plan.content, "see below");
    for (id, enforce_fsync) in plan.partitions() {
        history.add_partition(id, enforce_fsync);
    }
    history.record(ledger)?;
    history.crashed(Crash::PowerCut);
    let created = ledger.entries.iter().any(|entry| entry.event == Event::Opened);
    let checks = Checks { shards: plan.shards, append: true, reopen: true };
    let verdict = judge_aloud(&mut history, dir, checks, &mut |history| say(history, created))?;
    // It appended to every partition that the engine knows.
    if created
        && let Some(id) = plan.partitions().map(|(id, _)| id).find(|id| history.known_end(*id) == 0)
    {
        let broken =
            history.broken("every partition whose creation was answered", "an unknown one");
        return Err(Broken { partition: Some(id), ..broken });
    }
    Ok(verdict)
}

fn say(history: &History, created: bool) {
    if created {
        Event::Opened.print();
    }
    for event in history.retold() {
        event.print();
    }
    println!("{KNOWN}");
}
