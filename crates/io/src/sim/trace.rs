//! What was asked of the disk, in order, and how often: tests assert protocols with it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use super::versions::Order;
use crate::IoOp;

/// Events kept; older ones are forgotten (counts are not).
const EVENTS_MAX: usize = 1 << 16;

/// One operation on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What was asked.
    pub op: IoOp,
    /// The path it was asked of: for a file operation the path the file was opened by, for a
    /// rename the old one.
    pub path: PathBuf,
    /// The new path of a rename.
    pub to: Option<PathBuf>,
    /// Byte position, or the length asked for (allocate, set length); `None` where there is none, as
    /// for asking the length ([`IoOp::SetLen`], too).
    pub at: Option<u64>,
    /// Bytes; 0 where there are none.
    pub len: usize,
    /// True through an O_DSYNC handle.
    pub dsync: bool,
    /// Its place in the one order of beginnings and ends on this disk: a sync covers a write if
    /// `write.ended < Some(sync.begun)`.
    pub begun: u64,
    /// Where it returned in that order; `None` while in flight.
    pub ended: Option<u64>,
    /// The error number it returned; `None` for Ok and while in flight.
    pub errno: Option<i32>,
}

/// Events and counts of one disk.
#[derive(Default)]
pub(super) struct Trace {
    events: VecDeque<Event>,
    forgotten: u64,
    counts: [Count; KINDS],
}

#[derive(Default, Clone, Copy)]
struct Count {
    begun: u64,
    failed: u64,
    bytes: u64,
}

const KINDS: usize = IoOp::Remove as usize + 1;

/// Where an event stands; still right after older ones were forgotten.
#[derive(Clone, Copy)]
pub(super) struct EventAt(u64);

impl Trace {
    pub(super) fn begin(
        &mut self,
        op: IoOp,
        path: &Path,
        to: Option<&Path>,
        place: (Option<u64>, usize),
        dsync: bool,
        begun: Order,
    ) -> EventAt {
        let (at, len) = place;
        let count = &mut self.counts[op as usize];
        count.begun += 1;
        count.bytes += len as u64;
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
            self.forgotten += 1;
        }
        self.events.push_back(Event {
            op,
            path: path.to_path_buf(),
            to: to.map(Path::to_path_buf),
            at,
            len,
            dsync,
            begun,
            ended: None,
            errno: None,
        });
        EventAt(self.forgotten + self.events.len() as u64 - 1)
    }

    pub(super) fn end(&mut self, op: IoOp, at: EventAt, ended: Order, errno: Option<i32>) {
        if errno.is_some() {
            self.counts[op as usize].failed += 1;
        }
        if let Some(event) =
            at.0.checked_sub(self.forgotten).and_then(|i| self.events.get_mut(i as usize))
        {
            event.ended = Some(ended);
            event.errno = errno;
        }
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.events.iter().cloned().collect()
    }

    /// Forgets the events, not the counts.
    pub(super) fn clear(&mut self) {
        self.forgotten += self.events.len() as u64;
        self.events.clear();
    }

    pub(super) fn begun(&self, op: IoOp) -> u64 {
        self.counts[op as usize].begun
    }

    pub(super) fn failed(&self, op: IoOp) -> u64 {
        self.counts[op as usize].failed
    }

    pub(super) fn bytes(&self, op: IoOp) -> u64 {
        self.counts[op as usize].bytes
    }
}
