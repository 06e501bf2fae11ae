//! The disk behind its handles: who has what open, what is in flight, and how an operation ends.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::task::Waker;

use super::Rng;
use super::executor::EventKey;
use super::fault::{FaultId, Faults, errno};
use super::names::Ino;
use super::trace::{EventAt, Trace};
use super::tree::{Node, Tree};
use super::versions::Order;
use crate::{BLOCK, IoOp};

/// How an operation in flight ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Run,
    Fail(i32),
    LoseWrite,
    MisdirectWrite(i64),
    FlipRead,
    /// The power went, or the process: nobody hears the answer. `landed` says whether an operation
    /// that has no parts happened.
    Ended {
        power: bool,
        landed: bool,
    },
}

/// What an operation knows about itself when it ends.
#[derive(Clone, Copy)]
pub(super) struct Ending {
    pub(super) id: u64,
    /// When it was submitted.
    pub(super) begun: Order,
    pub(super) verdict: Verdict,
}

/// What to do when an operation ends: change the disk, keep the answer, say whom to wake and which
/// error number was answered.
pub(super) type Finish = Box<dyn FnOnce(&mut DiskState, Ending) -> (Option<Waker>, Option<i32>)>;

/// An operation in flight.
pub(super) struct Op {
    pub(super) kind: IoOp,
    pub(super) begun: Order,
    pub(super) verdict: Verdict,
    pub(super) handle: Option<u64>,
    pub(super) event: Option<EventKey>,
    /// Faults that keep it from returning.
    pub(super) stalled_by: Vec<FaultId>,
    pub(super) traced: EventAt,
    pub(super) finish: Finish,
    pub(super) what: String,
}

/// An open file description.
pub(super) struct Handle {
    pub(super) ino: Ino,
    pub(super) write: bool,
    pub(super) dsync: bool,
    pub(super) in_flight: usize,
    pub(super) closed: bool,
}

/// Limits of the disk that tests set.
pub(super) struct Limits {
    pub(super) capacity: u64,
    pub(super) open_files: usize,
    /// Least and most virtual time of an operation.
    pub(super) delay_us: (u64, u64),
}

/// Bytes of a file that are not what a write said they are: it was lost or landed elsewhere, or
/// another one landed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Harm {
    /// The path the file was opened by.
    pub path: PathBuf,
    /// The first byte.
    pub at: u64,
    /// How many.
    pub len: usize,
}

pub(super) struct DiskState {
    pub(super) tree: Tree,
    pub(super) handles: BTreeMap<u64, Handle>,
    pub(super) locks: BTreeMap<Ino, u64>,
    pub(super) ops: BTreeMap<u64, Op>,
    /// Unlinked nodes that a handle or a power cut could still bring back.
    orphans: BTreeSet<Ino>,
    pub(super) faults: Faults,
    pub(super) trace: Trace,
    pub(super) rng: Rng,
    pub(super) limits: Limits,
    /// Bytes taken, of the capacity.
    pub(super) used: u64,
    pub(super) violations: Vec<String>,
    pub(super) harm: Vec<Harm>,
    order: Order,
    next_id: u64,
}

impl DiskState {
    pub(super) fn new(rng: Rng) -> Self {
        DiskState {
            tree: Tree::new(),
            handles: BTreeMap::new(),
            locks: BTreeMap::new(),
            ops: BTreeMap::new(),
            orphans: BTreeSet::new(),
            faults: Faults::default(),
            trace: Trace::default(),
            rng,
            limits: Limits { capacity: u64::MAX, open_files: usize::MAX, delay_us: (10, 400) },
            used: 0,
            violations: Vec::new(),
            harm: Vec::new(),
            order: 0,
            next_id: 1,
        }
    }

    /// The next place in the order of everything that begins or returns.
    pub(super) fn tick(&mut self) -> Order {
        self.order += 1;
        self.order
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Keeps in mind what a write that lies leaves behind.
    pub(super) fn note_harm(&mut self, path: &Path, at: u64, len: usize, verdict: Verdict) {
        let mut harmed = |at| self.harm.push(Harm { path: path.to_path_buf(), at, len });
        match verdict {
            Verdict::LoseWrite => harmed(at),
            Verdict::MisdirectWrite(by) => {
                harmed(at);
                harmed(at.saturating_add_signed(by.saturating_mul(BLOCK as i64)));
            }
            _ => {}
        }
    }

    /// How long the next operation takes: now and then much longer than the others, so that
    /// completions overtake each other.
    pub(super) fn draw_delay_us(&mut self) -> u64 {
        let (least, most) = self.limits.delay_us;
        let delay = self.rng.between(least, most);
        if self.rng.chance(1, 16) { delay * 8 } else { delay }
    }

    /// Ends an operation: its effect, its trace, its handle.
    pub(super) fn end(&mut self, id: u64, verdict: Option<Verdict>) -> Option<Waker> {
        let op = self.ops.remove(&id)?;
        let verdict = verdict.unwrap_or(op.verdict);
        let (waker, errno) = (op.finish)(self, Ending { id, begun: op.begun, verdict });
        let ended = self.tick();
        self.trace.end(op.kind, op.traced, ended, errno);
        if let Some(handle) = op.handle {
            if let Some(handle) = self.handles.get_mut(&handle) {
                handle.in_flight -= 1;
            }
            self.release_if_done(handle);
        }
        waker
    }

    /// Gives a closed handle, its lock and its unlinked file back once nothing is in flight on it.
    pub(super) fn release_if_done(&mut self, id: u64) {
        if !self.handles.get(&id).is_some_and(|h| h.closed && h.in_flight == 0) {
            return;
        }
        let Some(handle) = self.handles.remove(&id) else { return };
        if self.locks.get(&handle.ino) == Some(&id) {
            self.locks.remove(&handle.ino);
        }
        self.free_if_unused(handle.ino);
    }

    /// The name of `ino` was taken away: without a handle its space is free.
    pub(super) fn unlinked(&mut self, ino: Ino) {
        self.orphans.insert(ino);
        self.free_if_unused(ino);
    }

    fn free_if_unused(&mut self, ino: Ino) {
        if self.orphans.contains(&ino)
            && !self.handles.values().any(|h| h.ino == ino)
            && let Some(Node::File(content)) = self.tree.node(ino)
        {
            self.used = self.used.saturating_sub(content.space());
        }
    }

    /// Forgets unlinked files that nothing can bring back.
    pub(super) fn collect(&mut self) {
        if self.orphans.is_empty() {
            return;
        }
        let open: BTreeSet<Ino> = self.handles.values().map(|h| h.ino).collect();
        self.tree.forget_unreachable(&open);
        let tree = &self.tree;
        self.orphans.retain(|ino| tree.node(*ino).is_some());
    }

    /// Bytes taken by the files that have a name.
    pub(super) fn named_bytes(&self) -> u64 {
        self.space_of(&self.tree.linked())
    }

    fn space_of(&self, nodes: &BTreeSet<Ino>) -> u64 {
        let space = |ino: &Ino| match self.tree.node(*ino) {
            Some(Node::File(content)) => Some(content.space()),
            _ => None,
        };
        nodes.iter().filter_map(space).sum()
    }

    /// Counts the bytes taken afresh: names may have come back or gone.
    pub(super) fn recount(&mut self) {
        let mut counted = self.tree.linked();
        self.orphans.retain(|ino| !counted.contains(ino));
        counted.extend(self.handles.values().map(|h| h.ino));
        self.used = self.space_of(&counted);
    }

    /// Ends everything in flight, every handle and every lock. With `power`, keeps what was synced
    /// and a part of the rest; without, everything that landed. A function of the state and `rng`.
    pub(super) fn end_life(&mut self, power: bool, rng: &mut Rng) -> (Vec<Waker>, Vec<EventKey>) {
        let mut wakers = Vec::new();
        let mut events = Vec::new();
        let mut in_flight: Vec<u64> = self.ops.keys().copied().collect();
        while !in_flight.is_empty() {
            let id = in_flight.swap_remove(rng.index(in_flight.len()));
            events.extend(self.ops.get(&id).and_then(|op| op.event));
            // What a write or a failed sync leaves is drawn from the cut's own seed.
            let own = std::mem::replace(&mut self.rng, rng.fork());
            wakers.extend(self.end(id, Some(Verdict::Ended { power, landed: rng.chance(1, 2) })));
            self.rng = own;
        }
        self.handles.clear();
        self.locks.clear();
        if power {
            self.tree.cut(rng);
        }
        self.collect();
        self.recount();
        (wakers, events)
    }

    /// The operations in flight, one a line, for the message of a run that cannot end.
    pub(super) fn describe(&self) -> String {
        self.ops
            .values()
            .map(|op| {
                let why = if op.stalled_by.is_empty() { "" } else { ", stalled by a fault" };
                format!("  in flight: {}{why}\n", op.what)
            })
            .collect()
    }
}

pub(super) fn stale() -> std::io::Error {
    std::io::Error::from_raw_os_error(errno::ESTALE)
}
