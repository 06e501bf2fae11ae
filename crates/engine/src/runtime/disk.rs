//! The real disk of a shard: opening files, directories, and the buffers its files use.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::future::{Future, poll_fn};
use std::io;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use corelog_io::task::then;
use corelog_io::{Disk, IoError, IoOp, Open};

use super::budget::{Budget, Charge};
use super::buffer::{Boxes, RealBuf, RealBytes};
use super::choice::Runtime;
use super::file::RealFile;
use super::file_threads::FileOps;
use super::fileops;
use super::handle::Adopter;
use super::inflight::{Flight, InFlight};
use super::lease::Leases;
use super::near::Near;
use super::spawn::contained;
use crate::observe::{Meter, Operation};

/// How often a shard that waits for buffers looks whether leases came back: a lease comes back
/// from any thread without waking anybody.
const RECLAIM_EVERY: Duration = Duration::from_micros(500);

/// The disk as one shard sees it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RealDisk {
    io: Rc<ShardIo>,
}

/// What a shard's files share.
pub(super) struct ShardIo {
    pub(super) runtime: Runtime,
    pub(super) ops: FileOps,
    pub(super) flights: InFlight,
    pub(super) phase: Cell<Phase>,
    pub(super) leases: Leases<RealBytes>,
    write_budget: Budget,
    pub(super) boxes: Boxes,
    read_budget: Budget,
    /// True while a task looks for leases that came back.
    reclaiming: Cell<bool>,
    /// O_DIRECT handles, or buffered ones.
    direct: bool,
    /// Taken at the end, as `adopter` is: it has a descriptor.
    pub(super) near: RefCell<Option<Arc<Near>>>,
    /// Taken at the end, to be closed: what a partition that failed has left may keep `self` alive.
    pub(super) adopter: RefCell<Option<Adopter>>,
    pub(super) meter: Rc<Meter>,
    /// Reads that found no buffer free.
    read_waits: Cell<u64>,
}

/// Where the shard is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// All operations run.
    Open,
    /// What is in flight ends, nothing new begins: a buffer that the kernel still fills when the
    /// executor is dropped would be freed under it. Files can be closed.
    Ending,
    /// The executor has left its loop, nothing can be spawned.
    Left,
}

/// Limits of a shard's memory, fixed at open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryLimits {
    /// Buffers that [`Disk::alloc`] gives out, frozen ones included.
    pub(crate) write_bytes: usize,
    /// Buffers that reads fill.
    pub(crate) read_bytes: usize,
    /// Leases out at one time.
    pub(crate) lease_slots: usize,
    /// Bytes of buffers that leases hold; a buffer lent twice counts once.
    pub(crate) lease_bytes: usize,
}

/// What a shard's buffers are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Bytes of buffers with data on its way to the disk or kept for readers.
    pub write_bytes: usize,
    /// Bytes that they may be.
    pub write_bytes_max: usize,
    /// Bytes of buffers that reads fill or have filled.
    pub read_bytes: usize,
    /// Bytes that they may be.
    pub read_bytes_max: usize,
    /// Reads that had to wait for a buffer.
    pub read_waits: u64,
    /// Views that left the shard and did not come back yet.
    pub leases: usize,
    /// Bytes of the buffers that they pin.
    pub lease_bytes: usize,
    /// How often bytes were copied out because the limits on leases were reached.
    pub copied: u64,
}

impl ShardIo {
    pub(super) fn new(
        runtime: Runtime,
        ops: FileOps,
        adopter: Adopter,
        (direct, near): (bool, Option<Arc<Near>>),
        limits: MemoryLimits,
        meter: Rc<Meter>,
    ) -> ShardIo {
        ShardIo {
            runtime,
            ops,
            flights: InFlight::default(),
            phase: Cell::new(Phase::Open),
            leases: Leases::new(limits.lease_slots, limits.lease_bytes),
            write_budget: Budget::new(limits.write_bytes),
            boxes: Boxes::new(runtime),
            read_budget: Budget::new(limits.read_bytes),
            reclaiming: Cell::new(false),
            direct,
            near: RefCell::new(near),
            adopter: RefCell::new(Some(adopter)),
            meter,
            read_waits: Cell::new(0),
        }
    }

    /// Counts an operation in, or refuses it where the shard is ending.
    pub(super) fn begin(&self) -> io::Result<Flight> {
        match self.phase.get() {
            Phase::Open => Ok(self.flights.begin()),
            Phase::Ending | Phase::Left => Err(io::Error::other("the shard is ending")),
        }
    }

    /// Room for a read of `len` bytes, waited for first come first served.
    pub(super) async fn read_charge(self: &Rc<Self>, len: usize) -> io::Result<Charge> {
        if let Some(charge) = self.read_budget.try_take(len) {
            return Ok(charge);
        }
        self.read_waits.set(self.read_waits.get() + 1);
        self.leases.reclaim();
        let mut taken = pin!(self.read_budget.take(len));
        let taken = poll_fn(|cx| {
            let taken = taken.as_mut().poll(cx);
            // Only now it stands in the queue: one who looks sooner may see nobody waiting, and go.
            // (A thread that stands still for a moment finds the look's timer due at once.)
            if taken.is_pending() {
                self.reclaim_while_waiting();
            }
            taken
        });
        taken.await.map_err(|over| io::Error::new(io::ErrorKind::InvalidInput, over))
    }

    /// An operation begins: it is timed until what this answers is dropped. While any is under way
    /// somebody looks for such that do not end.
    pub(super) fn timed(&self, op: IoOp, path: &Rc<Path>, position: Option<u64>) -> Operation {
        let operation = self.meter.begin(op, path, position);
        if !self.meter.is_over() && !self.meter.watched.replace(true) {
            let look = contained(look(self.runtime, Rc::clone(&self.meter)));
            self.runtime.queue(then(look, drop));
        }
        operation
    }

    fn reclaim_while_waiting(self: &Rc<Self>) {
        if self.reclaiming.replace(true) {
            return;
        }
        let this = Rc::clone(self);
        let flight = this.flights.begin();
        self.runtime.queue(async move {
            loop {
                this.runtime.sleep(RECLAIM_EVERY).await;
                this.leases.reclaim();
                if !this.read_budget.has_waiters() {
                    break;
                }
            }
            this.reclaiming.set(false);
            drop(flight);
        });
    }
}

/// Looks for operations that do not end while any is under way. Ends with the shard, which wakes it:
/// glommio leaks a task that sleeps when its executor goes, and this one holds the histograms.
async fn look(runtime: Runtime, meter: Rc<Meter>) {
    loop {
        let mut sleep = pin!(runtime.sleep(meter.look_every()));
        let slept_or_over = poll_fn(|cx| match meter.is_over() {
            true => Poll::Ready(()),
            false => sleep.as_mut().poll(cx),
        });
        slept_or_over.await;
        if meter.is_over() || !meter.look() {
            return meter.watched.set(false);
        }
    }
}

impl RealDisk {
    pub(super) fn new(io: Rc<ShardIo>) -> RealDisk {
        RealDisk { io }
    }

    /// The shard's times.
    pub(crate) fn meter(&self) -> &Rc<Meter> {
        &self.io.meter
    }

    /// Does `work`, timed.
    async fn timed<T>(
        &self,
        op: IoOp,
        path: &Path,
        work: impl Future<Output = Result<T, IoError>>,
    ) -> Result<T, IoError> {
        let operation = self.io.timed(op, &path.into(), None);
        let result = work.await;
        operation.ended(is_news(&result));
        result
    }

    /// Lends `range` of `bytes` to any thread, without a copy where the lease budget allows it.
    pub(crate) fn lend(&self, bytes: &RealBytes, range: std::ops::Range<usize>) -> bytes::Bytes {
        self.io.leases.lend(bytes, range)
    }

    /// True where files are opened with O_DIRECT, false where that was refused and buffered
    /// handles stand in.
    #[cfg(test)]
    pub(crate) fn is_direct(&self) -> bool {
        self.io.direct
    }

    /// Takes back what other threads have let go of; returns how many leases that were.
    #[cfg(test)]
    pub(crate) fn reclaim(&self) -> usize {
        self.io.leases.reclaim()
    }

    /// Bytes held by buffers for writing, and by buffers of reads.
    #[cfg(test)]
    pub(crate) fn bytes_held(&self) -> (usize, usize) {
        (self.io.write_budget.used(), self.io.read_budget.used())
    }

    /// What the shard's buffers are used for now. Leases that came back are taken back first.
    pub(crate) fn memory(&self) -> MemoryUse {
        let leases = &self.io.leases;
        leases.reclaim();
        MemoryUse {
            write_bytes: self.io.write_budget.used(),
            write_bytes_max: self.io.write_budget.limit(),
            read_bytes: self.io.read_budget.used(),
            read_bytes_max: self.io.read_budget.limit(),
            read_waits: self.io.read_waits.get(),
            leases: leases.out(),
            lease_bytes: leases.bytes_out(),
            copied: leases.copied(),
        }
    }
}

impl Disk for RealDisk {
    type File = RealFile;
    type Buf = RealBuf;
    type Bytes = RealBytes;

    fn alloc(&self, len: usize) -> Option<RealBuf> {
        let io = &self.io;
        RealBuf::alloc(&io.write_budget, &io.boxes, len).or_else(|| {
            io.leases.reclaim();
            RealBuf::alloc(&io.write_budget, &io.boxes, len)
        })
    }

    async fn open(&self, path: &Path, how: Open) -> Result<RealFile, IoError> {
        let direct = self.io.direct;
        let open = move |path: &Path| fileops::open(path, how, direct);
        let opening = async {
            let near = self.io.near.borrow().clone();
            match near.and_then(|near| near.open(path, how)) {
                Some(opened) => opened,
                None => self.io.ops.run_or_refuse(IoOp::Open, path, open).await,
            }
        };
        let (fd, len) = self.timed(IoOp::Open, path, opening).await?;
        let failed = |source| IoError::new(IoOp::Open, path, source);
        let _opening = self.io.begin().map_err(failed)?;
        let handle = match &*self.io.adopter.borrow() {
            Some(adopter) => adopter.adopt(fd),
            None => Err(io::Error::other("the shard has ended")),
        };
        let handle = handle.map_err(failed)?;
        Ok(RealFile::new(Rc::clone(&self.io), path, handle, how, len))
    }

    async fn list(&self, dir: &Path) -> Result<Vec<(OsString, bool)>, IoError> {
        self.timed(IoOp::List, dir, self.io.ops.run_io(IoOp::List, dir, fileops::list)).await
    }

    async fn create_dir(&self, dir: &Path) -> Result<(), IoError> {
        let op = IoOp::CreateDir;
        self.timed(op, dir, self.io.ops.run_io(op, dir, fileops::create_dir)).await
    }

    async fn sync_dir(&self, dir: &Path) -> Result<(), IoError> {
        let op = IoOp::SyncDir;
        self.timed(op, dir, self.io.ops.run_io(op, dir, fileops::sync_dir)).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        let (op, to) = (IoOp::Rename, to.to_path_buf());
        let rename = move |from: &Path| fileops::rename(from, &to);
        self.timed(op, from, self.io.ops.run_io(op, from, rename)).await
    }

    async fn remove(&self, path: &Path) -> Result<(), IoError> {
        let op = IoOp::Remove;
        self.timed(op, path, self.io.ops.run_io(op, path, fileops::remove)).await
    }

    async fn remove_dir(&self, dir: &Path) -> Result<(), IoError> {
        let op = IoOp::Remove;
        self.timed(op, dir, self.io.ops.run_io(op, dir, fileops::remove_dir)).await
    }
}

/// An error, and none that is a plain answer: whoever opens a file that may not be there asks whether
/// it is.
pub(super) fn is_news<T>(result: &Result<T, IoError>) -> bool {
    let is_answer = |error: &IoError| {
        error.is_not_found() || error.source.kind() == io::ErrorKind::AlreadyExists
    };
    result.as_ref().is_err_and(|error| !is_answer(error))
}
