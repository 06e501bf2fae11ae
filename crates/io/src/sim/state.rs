//! The disk behind its handles: who has what open, what is in flight, and how an operation ends.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use super::Rng;
use super::content::Order;
use super::executor::EventKey;
use super::fault::{FaultId, Faults, errno};
use super::trace::{EventAt, Trace};
use super::tree::{Ino, Node, Tree};
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

    /// A name was taken from `ino`: without a handle its space is free.
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

    /// Counts the bytes taken afresh: names may have come back or gone.
    pub(super) fn recount(&mut self) {
        let mut counted = self.tree.linked();
        counted.extend(self.handles.values().map(|h| h.ino));
        self.used = counted
            .iter()
            .filter_map(|ino| match self.tree.node(*ino) {
                Some(Node::File(content)) => Some(content.space()),
                _ => None,
            })
            .sum();
        self.orphans.retain(|ino| !counted.contains(ino));
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

    /// A write ends: what reaches the file, and whether it counts as durable.
    pub(super) fn end_write(
        &mut self,
        ino: Ino,
        dsync: bool,
        ending: Ending,
    ) -> std::io::Result<()> {
        let now = self.tick();
        let Some(write) = self.tree.content_mut(ino).take_in_flight(ending.id) else {
            return Ok(()); // An empty write was never in flight.
        };
        let mut at = write.at;
        match ending.verdict {
            Verdict::LoseWrite => return Ok(()),
            Verdict::Fail(errno) => {
                self.land_some(ino, at, &write.bytes, now);
                return Err(std::io::Error::from_raw_os_error(errno));
            }
            Verdict::Ended { power: false, .. } => {
                self.land_some(ino, at, &write.bytes, now);
                return Err(stale());
            }
            // The cut that follows chooses among old and new, sector by sector.
            Verdict::Ended { power: true, .. } => {
                self.land_what_fits(ino, at, &write.bytes, now);
                return Err(stale());
            }
            Verdict::MisdirectWrite(by) => {
                at = at.saturating_add_signed(by.saturating_mul(BLOCK as i64));
            }
            Verdict::Run | Verdict::FlipRead => {}
        }
        let landed = self.land_what_fits(ino, at, &write.bytes, now);
        if landed < write.bytes.len() {
            return Err(std::io::Error::from_raw_os_error(errno::ENOSPC));
        }
        if dsync {
            self.tree.content_mut(ino).commit_write(at, write.bytes.len());
        }
        Ok(())
    }

    /// Lands the first blocks that there is space for; answers their bytes.
    fn land_what_fits(&mut self, ino: Ino, at: u64, bytes: &[u8], now: Order) -> usize {
        let first = at / BLOCK as u64;
        let mut fits = 0;
        while fits < bytes.len() {
            let block = first + (fits / BLOCK) as u64;
            if self.tree.content(ino).needs_space(block) {
                if self.used + BLOCK as u64 > self.limits.capacity {
                    break;
                }
                self.used += BLOCK as u64;
            }
            fits += BLOCK;
        }
        if fits != 0 {
            self.tree.content_mut(ino).land(at, &bytes[..fits], now);
        }
        fits
    }

    fn land_some(&mut self, ino: Ino, at: u64, bytes: &[u8], now: Order) {
        let mut rng = self.rng.fork();
        let content = self.tree.content_mut(ino);
        let before = content.space();
        content.land_some(at, bytes, now, &mut rng);
        self.used += content.space() - before;
    }

    /// A sync of a file ends.
    pub(super) fn end_sync(&mut self, ino: Ino, ending: Ending) -> std::io::Result<()> {
        let content = self.tree.content_mut(ino);
        match ending.verdict {
            Verdict::Fail(errno) => {
                content.doubt_before(ending.begun);
                Err(std::io::Error::from_raw_os_error(errno))
            }
            Verdict::Ended { landed, .. } => {
                if landed {
                    content.commit_before(ending.begun);
                }
                Err(stale())
            }
            _ => {
                content.commit_before(ending.begun);
                Ok(())
            }
        }
    }

    /// A sync of a directory ends.
    pub(super) fn end_sync_dir(&mut self, dir: Ino, ending: Ending) -> std::io::Result<()> {
        match ending.verdict {
            Verdict::Fail(errno) => {
                self.tree.doubt_before(dir, ending.begun);
                Err(std::io::Error::from_raw_os_error(errno))
            }
            Verdict::Ended { landed, .. } => {
                if landed {
                    self.tree.commit_before(dir, ending.begun);
                }
                Err(stale())
            }
            _ => {
                self.tree.commit_before(dir, ending.begun);
                self.collect();
                Ok(())
            }
        }
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
