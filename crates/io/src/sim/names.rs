//! Changes of directory entries that no sync has made durable yet.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use super::versions::Order;

/// A file, directory or symbolic link, whatever its names are.
pub(super) type Ino = u64;

/// The entries of one directory.
pub(super) type Entries = BTreeMap<OsString, Ino>;

/// One entry made to lead somewhere, or nowhere.
#[derive(Clone)]
pub(super) struct Effect {
    pub(super) dir: Ino,
    name: OsString,
    target: Option<Ino>,
    synced: bool,
}

impl Effect {
    pub(super) fn new(dir: Ino, name: &OsStr, target: Option<Ino>) -> Self {
        Effect { dir, name: name.to_owned(), target, synced: false }
    }

    pub(super) fn names(&self, dir: Ino, name: &OsStr) -> bool {
        self.dir == dir && self.name == name
    }

    pub(super) fn apply(&self, entries: &mut Entries) {
        match self.target {
            Some(ino) => entries.insert(self.name.clone(), ino),
            None => entries.remove(&self.name),
        };
    }
}

/// A creation or removal (one effect) or a rename (two): kept whole or not at all.
#[derive(Clone)]
struct NameChange {
    effects: Vec<Effect>,
    landed: Order,
    /// A sync of its directory failed: no later one makes it durable.
    doubtful: bool,
}

/// The changes that wait, oldest first.
#[derive(Clone, Default)]
pub(super) struct NameChanges {
    list: Vec<NameChange>,
}

impl NameChanges {
    pub(super) fn push(&mut self, effects: Vec<Effect>, landed: Order) {
        self.list.push(NameChange { effects, landed, doubtful: false });
    }

    /// The nodes that a waiting change leads to.
    pub(super) fn targets(&self) -> impl Iterator<Item = Ino> {
        self.list.iter().flat_map(|c| &c.effects).filter_map(|e| e.target)
    }

    /// A sync of `dir` that began at `begun` succeeded: what is durable with it, in order.
    pub(super) fn synced_before(&mut self, dir: Ino, begun: Order) -> Vec<Effect> {
        for change in self.list.iter_mut().filter(|c| c.landed < begun && !c.doubtful) {
            for effect in change.effects.iter_mut().filter(|e| e.dir == dir) {
                effect.synced = true;
            }
        }
        self.keep(|effects| effects.iter().all(|e| e.synced))
    }

    /// A sync of `dir` that began at `begun` failed.
    pub(super) fn doubt_before(&mut self, dir: Ino, begun: Order) {
        for change in self.list.iter_mut().filter(|c| c.landed < begun) {
            change.doubtful |= change.effects.iter().any(|e| e.dir == dir);
        }
    }

    /// Takes out the changes that `kept` names, and before each of them the older changes of the
    /// same names: the order of one name is never turned round. Answers their effects in order.
    pub(super) fn keep(&mut self, mut kept: impl FnMut(&[Effect]) -> bool) -> Vec<Effect> {
        let mut names: BTreeSet<(Ino, OsString)> = BTreeSet::new();
        let mut rest = Vec::new();
        let mut done = Vec::new();
        for change in std::mem::take(&mut self.list).into_iter().rev() {
            let drawn = kept(&change.effects);
            if drawn || change.effects.iter().any(|e| names.contains(&(e.dir, e.name.clone()))) {
                names.extend(change.effects.iter().map(|e| (e.dir, e.name.clone())));
                done.push(change);
            } else {
                rest.push(change);
            }
        }
        rest.reverse();
        self.list = rest;
        done.into_iter().rev().flat_map(|change| change.effects).collect()
    }
}
