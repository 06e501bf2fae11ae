//! An open file: reads and writes through the runtime, everything that may block on a file thread.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::rc::Rc;

use corelog_io::task::then;
use corelog_io::{BLOCK, File, IoError, IoOp, Open, Spawn};
use rustix::fs::FlockOperation;

use super::budget::Charge;
use super::buffer::RealBytes;
use super::disk::{Phase, ShardIo};
use super::fd;
use super::fileops::{self, retry};
use super::handle::Handle;
use super::inflight::{Flight, InFlight};
use super::spawn::contained;
use super::transfer::{Whole, read_all, write_all};
use crate::observe::Operation;

/// A file of the real disk. See [`File`] for what its operations promise.
///
/// Every read and write is a task that owns the file and the buffer ([`Runtime::detached`]): a future
/// that is dropped loses the answer, never the operation. On glommio it is a task of the executor
/// from the start, so that glommio's future is polled from one place only: it keeps a clone of the
/// waker for EACH poll and panics at 32,767.
///
/// [`Runtime::detached`]: super::choice::Runtime::detached
pub(crate) struct RealFile {
    file: Rc<OpenFile>,
}

/// What all operations on a file share; the last one closes it.
struct OpenFile {
    /// Taken out only to be closed.
    handle: Option<Handle>,
    path: Rc<Path>,
    how: Open,
    /// What it was at the opening, until anything was done.
    len: Cell<Option<u64>>,
    shard: Rc<ShardIo>,
    flights: InFlight,
}

/// What an operation holds while it runs. The order of the fields is the order of the drops: the
/// file before the count that says it is free.
pub(super) struct Running {
    file: Rc<OpenFile>,
    _of_file: Flight,
    _of_shard: Flight,
}

impl RealFile {
    /// A file of `len` bytes.
    pub(super) fn new(
        shard: Rc<ShardIo>,
        path: &Path,
        handle: Handle,
        how: Open,
        len: u64,
    ) -> RealFile {
        let (flights, len) = (InFlight::default(), Cell::new(Some(len)));
        let file = OpenFile { handle: Some(handle), path: path.into(), how, len, shard, flights };
        RealFile { file: Rc::new(file) }
    }

    fn running(&self) -> io::Result<Running> {
        self.file.len.set(None);
        let file = Rc::clone(&self.file);
        let (of_file, of_shard) = (file.flights.begin(), file.shard.begin()?);
        Ok(Running { file, _of_file: of_file, _of_shard: of_shard })
    }

    fn error(&self, op: IoOp, source: io::Error) -> IoError {
        IoError::new(op, &self.file.path, source)
    }

    async fn on_file_thread<T: Send + 'static>(
        &self,
        op: IoOp,
        job: impl FnOnce(BorrowedFd<'_>) -> io::Result<T> + Send + 'static,
    ) -> Result<T, IoError> {
        let failed = |source| self.error(op, source);
        let running = self.running().map_err(failed)?;
        let operation = running.timed(op, None);
        let done = fd::with_fd(running, job).await;
        operation.ended(done.is_err());
        done.map_err(failed)
    }
}

impl OpenFile {
    fn handle(&self) -> &Handle {
        self.handle.as_ref().expect("only the last owner takes it")
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        if self.shard.phase.get() == Phase::Left {
            // The executor has left its loop: dropped, the handle closes itself; glommio does it when
            // it is run once more.
            return;
        }
        let (runtime, shard) = (self.shard.runtime, Rc::clone(&self.shard));
        let (how, flight) = (self.how, shard.flights.begin());
        let closing = async move {
            // A dropped handle has nobody to tell.
            let _ = retire(&shard, handle, how).await;
            drop(flight);
        };
        runtime.queue(then(contained(closing), drop));
    }
}

/// Closes a file that has no I/O on its way.
///
/// The last reference to an open file description is dropped on a file thread, unless
/// [`near`](super::near) says that it need not be: it may free the blocks of a removed file, which
/// takes milliseconds for a long one. The lock is released by hand before, as io_uring may keep a
/// reference to the description for a moment after an operation was answered, and whoever opens the
/// file next must find it free.
async fn retire(shard: &ShardIo, handle: Handle, how: Open) -> io::Result<()> {
    if how.short && !how.lock {
        return handle.close().await;
    }
    let near = shard.near.borrow().clone();
    if near.is_some_and(|near| near.can_close(handle.as_fd())) {
        if how.lock {
            unlock(handle.as_fd());
        }
        return handle.close().await;
    }
    // No descriptor left for the twin: close on this thread, the lock goes with the description.
    let twin = handle.as_fd().try_clone_to_owned().ok();
    let closed = handle.close().await;
    if let Some(twin) = twin {
        shard
            .ops
            .run(move || {
                if how.lock {
                    unlock(twin.as_fd());
                }
                drop(twin);
            })
            .await?;
    }
    closed
}

/// Fails only where there was no lock; closing ends it in any case.
fn unlock(fd: BorrowedFd<'_>) {
    let _ = rustix::fs::flock(fd, FlockOperation::Unlock);
}

impl File for RealFile {
    type Bytes = RealBytes;

    async fn read_at(&self, at: u64, len: usize) -> Result<RealBytes, IoError> {
        let failed = |source| self.error(IoOp::Read, source).at(at);
        check_blocks(at, len).map_err(failed)?;
        let charge = self.file.shard.read_charge(len).await.map_err(failed)?;
        let running = self.running().map_err(failed)?;
        let operation = running.timed(IoOp::Read, Some(at));
        let read = async move {
            let read = running.read(at, len, charge).await;
            operation.ended(read.is_err());
            read
        };
        self.file.shard.runtime.detached(read).await.map_err(failed)
    }

    async fn write_at(&self, bytes: RealBytes, at: u64) -> Result<(), IoError> {
        let failed = |source| self.error(IoOp::Write, source).at(at);
        check_blocks(at, bytes.as_ref().len()).map_err(failed)?;
        let running = self.running().map_err(failed)?;
        let operation = running.timed(IoOp::Write, Some(at));
        let write = async move {
            let written = running.write(bytes, at).await;
            operation.ended(written.is_err());
            written
        };
        self.file.shard.runtime.detached(write).await.map_err(failed)
    }

    fn write_then<S: Spawn>(
        self: &Rc<Self>,
        spawn: &S,
        bytes: RealBytes,
        at: u64,
        then: impl FnOnce(Result<(), IoError>) + 'static,
    ) {
        let (file, path) = (Rc::clone(self), Rc::clone(&self.file.path));
        let failed = move |source| IoError::new(IoOp::Write, &path, source).at(at);
        let begun = check_blocks(at, bytes.as_ref().len()).and_then(|()| self.running());
        // The task has no handle, so nobody can drop it before its end: the write may be polled in
        // it, without a task of its own around it. A panic of glommio's must still be an answer: a
        // write that is never answered is waited for for ever.
        spawn.spawn(async move {
            let outcome = match begun {
                Ok(running) => {
                    let operation = running.timed(IoOp::Write, Some(at));
                    let write = contained(running.write(bytes, at)).await;
                    let outcome = write.unwrap_or_else(|panic| Err(io::Error::other(panic)));
                    operation.ended(outcome.is_err());
                    drop((running, file));
                    outcome
                }
                Err(error) => Err(error),
            };
            then(outcome.map_err(failed));
        });
    }

    async fn sync(&self) -> Result<(), IoError> {
        let failed = |source| self.error(IoOp::Sync, source);
        let running = self.running().map_err(failed)?;
        // Never repeated, not even for EINTR: the kernel reports a lost write once.
        let operation = running.timed(IoOp::Sync, None);
        let sync = async move {
            let synced = running.handle().fdatasync().await;
            operation.ended(synced.is_err());
            synced
        };
        self.file.shard.runtime.detached(sync).await.map_err(failed)
    }

    async fn allocate(&self, len: u64) -> Result<(), IoError> {
        self.on_file_thread(IoOp::Allocate, move |fd| fileops::allocate(fd, len)).await
    }

    async fn set_len(&self, len: u64) -> Result<(), IoError> {
        self.on_file_thread(IoOp::SetLen, move |fd| retry(|| rustix::fs::ftruncate(fd, len))).await
    }

    async fn len(&self) -> Result<u64, IoError> {
        // Asked right after the opening, as by everybody who opens many.
        if let Some(len) = self.file.len.take() {
            return Ok(len);
        }
        // fstat of the descriptor: glommio asks the path, which may be another file by now.
        self.on_file_thread(IoOp::SetLen, move |fd| {
            let stat = rustix::fs::fstat(fd)?;
            u64::try_from(stat.st_size).map_err(io::Error::other)
        })
        .await
    }

    async fn close(self) -> Result<(), IoError> {
        self.file.flights.idle().await;
        let path = Rc::clone(&self.file.path);
        let failed = |source| IoError::new(IoOp::Close, &path, source);
        let mut file = Rc::try_unwrap(self.file)
            .map_err(|_| failed(io::Error::other("an operation on it began while it closed")))?;
        let handle = file.handle.take().expect("only the last owner takes it");
        let shard = Rc::clone(&file.shard);
        let (runtime, how, flight) = (shard.runtime, file.how, shard.flights.begin());
        let closing = async move {
            let closed = retire(&shard, handle, how).await;
            drop(flight);
            closed
        };
        runtime.apart(closing).await.map_err(failed)
    }
}

/// O_DIRECT takes whole blocks; and a kernel that gets anything else says only "invalid argument".
fn check_blocks(at: u64, len: usize) -> io::Result<()> {
    if len == 0 || !len.is_multiple_of(BLOCK) || !at.is_multiple_of(BLOCK as u64) {
        let text = format!("{len} bytes at {at} are not whole blocks of {BLOCK}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    if at.checked_add(len as u64).is_none_or(|end| end > i64::MAX as u64) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "beyond the largest file"));
    }
    Ok(())
}

impl Running {
    /// The operation, timed until what this answers is dropped.
    fn timed(&self, op: IoOp, position: Option<u64>) -> Operation {
        self.file.shard.timed(op, &self.file.path, position)
    }

    /// The file; open as long as `self`.
    pub(super) fn handle(&self) -> &Handle {
        self.file.handle()
    }

    pub(super) fn shard(&self) -> &ShardIo {
        &self.file.shard
    }

    async fn read(&self, at: u64, len: usize, charge: Charge) -> io::Result<RealBytes> {
        let once = async |at, len| self.handle().read(at, len).await;
        Ok(match read_all(at, len, once).await? {
            Whole::One(piece) => self.shard().boxes.of_read(piece, charge),
            Whole::Joined(bytes) => self.shard().boxes.copy_of(&bytes, charge),
        })
    }

    async fn write(&self, bytes: RealBytes, at: u64) -> io::Result<()> {
        let once = async |done| self.handle().write(&bytes, done, at).await;
        write_all(bytes.as_ref().len(), once).await
    }
}
