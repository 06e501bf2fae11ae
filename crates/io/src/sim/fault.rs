//! Faults on demand: which operation, on which path, from when to when, and what goes wrong.

use std::ops::Range;
use std::time::Duration;

use super::submit::Request;
use crate::IoOp;

/// Error numbers that tests name (Linux values; [`std::io::Error::raw_os_error`] tells them).
pub mod errno {
    /// No such file or directory.
    pub const ENOENT: i32 = 2;
    /// Input/output error.
    pub const EIO: i32 = 5;
    /// Try again: a lock that another handle has.
    pub const EAGAIN: i32 = 11;
    /// Permission denied.
    pub const EACCES: i32 = 13;
    /// File exists.
    pub const EEXIST: i32 = 17;
    /// Not a directory.
    pub const ENOTDIR: i32 = 20;
    /// Is a directory.
    pub const EISDIR: i32 = 21;
    /// Invalid argument.
    pub const EINVAL: i32 = 22;
    /// Too many open files.
    pub const EMFILE: i32 = 24;
    /// No space left on device.
    pub const ENOSPC: i32 = 28;
    /// Read-only file system.
    pub const EROFS: i32 = 30;
    /// Directory not empty.
    pub const ENOTEMPTY: i32 = 39;
    /// Too many symbolic links.
    pub const ELOOP: i32 = 40;
    /// A handle from before a power cut or kill.
    pub const ESTALE: i32 = 116;
    /// Disk quota exceeded.
    pub const EDQUOT: i32 = 122;
}

/// What a fault does to the operations it meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Effect {
    Fail(i32),
    Delay(Duration),
    Stall,
    Halt,
    Panic,
    LoseWrite,
    MisdirectWrite(i64),
    FlipRead,
}

/// One thing that goes wrong. Built from one of the constructors and narrowed:
///
/// ```
/// use corelog_io::IoOp;
/// use corelog_io::sim::{Fault, errno};
///
/// // The third sync of an index file, and every one after it, fails.
/// let fault = Fault::fail(errno::EIO).of(IoOp::Sync).on(".index").from_nth(3).for_ever();
/// # let _ = fault;
/// ```
///
/// Without narrowing a fault meets the next operation of any kind on any path, once.
#[derive(Debug, Clone)]
pub struct Fault {
    effect: Effect,
    op: Option<IoOp>,
    path: Option<String>,
    bytes: Option<Range<u64>>,
    skip: u64,
    times: u64,
}

impl Fault {
    fn new(effect: Effect) -> Self {
        Fault { effect, op: None, path: None, bytes: None, skip: 0, times: 1 }
    }

    /// The operation answers with this error number. A failed write leaves a seeded part of its
    /// sectors behind; a failed sync leaves what it should have covered in doubt for good (see
    /// the [module](super) text); everything else that fails changes nothing.
    pub fn fail(errno: i32) -> Self {
        Fault::new(Effect::Fail(errno))
    }

    /// The operation takes this much longer.
    pub fn delay(by: Duration) -> Self {
        Fault::new(Effect::Delay(by))
    }

    /// The operation does not return until the fault is lifted.
    pub fn stall() -> Self {
        Fault::new(Effect::Stall)
    }

    /// The run ends when the operation begins, with the operation in flight
    /// ([`Sim::run_until_halt`](super::Sim::run_until_halt)): a crash at this very place.
    pub fn halt() -> Self {
        Fault::new(Effect::Halt)
    }

    /// The operation ends as it would, and the task that awaits its answer panics there, as at an
    /// assertion of its own.
    pub fn panic() -> Self {
        Fault::new(Effect::Panic)
    }

    /// A write answers Ok and changes nothing. Meets only writes.
    pub fn lose_write() -> Self {
        Fault::new(Effect::LoseWrite).of(IoOp::Write)
    }

    /// A write answers Ok and lands this many blocks away, in the same file (not below its start), as far
    /// as there is space: where there is none it is lost.
    /// Meets only writes.
    pub fn misdirect_write(by_blocks: i64) -> Self {
        Fault::new(Effect::MisdirectWrite(by_blocks)).of(IoOp::Write)
    }

    /// A read answers with one seeded bit turned over; the file is as it was. Meets only reads.
    pub fn flip_read() -> Self {
        Fault::new(Effect::FlipRead).of(IoOp::Read)
    }

    /// Only operations of this kind.
    #[must_use]
    pub fn of(mut self, op: IoOp) -> Self {
        self.op = Some(op);
        self
    }

    /// Only operations on paths that contain this text (for a rename: either path).
    #[must_use]
    pub fn on(mut self, path_part: impl Into<String>) -> Self {
        self.path = Some(path_part.into());
        self
    }

    /// Only reads and writes that touch these bytes of a file: a bad sector.
    #[must_use]
    pub fn over(mut self, bytes: Range<u64>) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Lets the first `nth - 1` operations that fit pass; 1 is the next one.
    #[must_use]
    pub fn from_nth(mut self, nth: u64) -> Self {
        self.skip = nth.saturating_sub(1);
        self
    }

    /// Meets this many operations (1 unless told).
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Meets every operation that fits until it is lifted.
    #[must_use]
    pub fn for_ever(self) -> Self {
        self.times(u64::MAX)
    }

    fn fits(&self, asked: &Request<'_>) -> bool {
        let (op, path, other) = (asked.op, asked.path, asked.to);
        let contains = |part: &str| {
            [Some(path), other].into_iter().flatten().any(|p| p.to_string_lossy().contains(part))
        };
        let touches = |bytes: &Range<u64>| {
            let at = asked.at.unwrap_or(u64::MAX);
            at < bytes.end && bytes.start < at.saturating_add(asked.len as u64)
        };
        self.op.is_none_or(|wanted| wanted == op)
            && self.path.as_deref().is_none_or(contains)
            && self.bytes.as_ref().is_none_or(touches)
    }
}

/// Names a fault in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(u64);

struct InForce {
    id: FaultId,
    fault: Fault,
    lifted: bool,
    hits: u64,
}

/// The faults in force. More than one may meet an operation.
#[derive(Default)]
pub(super) struct Faults {
    list: Vec<InForce>,
}

impl Faults {
    pub(super) fn inject(&mut self, fault: Fault) -> FaultId {
        let id = FaultId(self.list.len() as u64);
        self.list.push(InForce { id, fault, lifted: false, hits: 0 });
        id
    }

    pub(super) fn lift(&mut self, id: FaultId) {
        for in_force in self.list.iter_mut().filter(|f| f.id == id) {
            in_force.lifted = true;
        }
    }

    pub(super) fn lift_all(&mut self) {
        for in_force in &mut self.list {
            in_force.lifted = true;
        }
    }

    /// How many operations the fault has met.
    pub(super) fn hits(&self, id: FaultId) -> u64 {
        self.list.iter().find(|f| f.id == id).map_or(0, |f| f.hits)
    }

    /// What goes wrong with this operation; counts down.
    pub(super) fn meet(&mut self, asked: &Request<'_>) -> Vec<(FaultId, Effect)> {
        let mut met = Vec::new();
        for in_force in self.list.iter_mut().filter(|f| !f.lifted) {
            if !in_force.fault.fits(asked) {
                continue;
            }
            if in_force.fault.skip > 0 {
                in_force.fault.skip -= 1;
            } else if in_force.hits < in_force.fault.times {
                in_force.hits += 1;
                met.push((in_force.id, in_force.fault.effect.clone()));
            }
        }
        met
    }
}
