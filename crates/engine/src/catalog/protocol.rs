//! How the directories follow the catalog: pure functions from what changed, or from what an opening
//! finds, to steps. `works.rs` takes them, in order.
//!
//! The catalog commits before the first step, so a crash between any two leaves one of these:
//!
//! | left behind | the next opening |
//! | --- | --- |
//! | a row whose directory is not there | makes it, empty |
//! | a row whose directory is of an earlier life of the id | moves that to the trash, makes a new one |
//! | a directory without a row | moves it to the trash |
//! | something in the trash | removes it |
//!
//! Incarnations tell lives apart. Only directories of this catalog's own time are touched: after a
//! catalog was lost, or beside files that came from elsewhere, everything stays where it is.

use corelog_shard::PartitionId;

use super::plan::{Ended, Plan};
use super::{Entry, Model};

/// One thing to do. Each may be done again after a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The partition is no longer served, and its files are closed.
    Close(PartitionId),
    /// The directory goes to the trash, durably, where it is one of this life.
    MoveAway(Ended),
    /// The partition is served; its directory is made where there is none.
    Open(Entry),
}

/// What a change that is in the catalog now asks for. A life begins when the one before it is out
/// of the way.
pub(crate) fn after(plan: &Plan) -> Vec<Step> {
    let closes = plan.ended.iter().map(|ended| Step::Close(ended.id));
    let moves = plan.ended.iter().map(|ended| Step::MoveAway(*ended));
    let opens = plan.begun.iter().map(|entry| Step::Open(entry.clone()));
    closes.chain(moves).chain(opens).collect()
}

/// What an opening asks for where these directories were `found`: ids, and the lives that their
/// manifests name.
pub(crate) fn opening(
    model: &Model,
    found: impl IntoIterator<Item = (PartitionId, Option<u64>)>,
) -> Vec<Step> {
    let orphans = found.into_iter().filter_map(|(id, incarnation)| {
        let incarnation = incarnation.filter(|life| model.gave(*life))?;
        (!model.has(id)).then_some(Step::MoveAway(Ended { id, incarnation }))
    });
    let mut steps: Vec<_> = orphans.collect();
    steps.extend(model.entries().into_iter().map(Step::Open));
    steps
}

#[cfg(test)]
mod tests;
