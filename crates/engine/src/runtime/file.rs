//! An open file: reads and writes through glommio, everything that may block on a file thread.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;

use corelog_io::{BLOCK, File, IoError, IoOp, Open, Spawn};
use glommio::io::{DmaBuffer, DmaFile, ReadResult};
use rustix::fs::FlockOperation;

use super::budget::Charge;
use super::buffer::RealBytes;
use super::disk::{Phase, ShardIo};
use super::fileops::{self, retry};
use super::glommio::error::os_error;
use super::glommio::fd;
use super::glommio::spawn::{apart, contained};
use super::inflight::{Flight, InFlight};
use super::transfer::{Whole, read_all, write_all};
use crate::observe::Operation;

/// A file of the real disk. See [`File`] for what its operations promise.
///
/// Every read and write runs in a task of its own, detached, that owns the file and the buffer: a
/// future that is dropped loses the answer, never the operation. It also polls glommio's future from
/// one place only, which keeps a clone of the waker for EACH poll and panics at 32,767.
pub(crate) struct RealFile {
    file: Rc<OpenFile>,
}

/// What all operations on a file share; the last one closes it.
struct OpenFile {
    /// Taken out only to be closed.
    dma: Option<DmaFile>,
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
    /// A file of `len` bytes over an open descriptor's glommio twin.
    pub(super) fn new(
        shard: Rc<ShardIo>,
        path: &Path,
        dma: DmaFile,
        how: Open,
        len: u64,
    ) -> RealFile {
        let (flights, len) = (InFlight::default(), Cell::new(Some(len)));
        let file = OpenFile { dma: Some(dma), path: path.into(), how, len, shard, flights };
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

    /// Runs `task` detached, to its end, whether or not the answer is waited for. It begins at once.
    /// Only for tasks that no other thread wakes, see [`apart`].
    async fn detached<T: 'static>(
        task: impl Future<Output = io::Result<T>> + 'static,
    ) -> io::Result<T> {
        match glommio::spawn_local(contained(task)).detach().await {
            Some(Ok(answer)) => answer,
            Some(Err(panic)) => Err(io::Error::other(panic)),
            None => Err(io::Error::other("the shard has ended")),
        }
    }

    async fn on_file_thread<T: Send + 'static>(
        &self,
        op: IoOp,
        job: impl FnOnce(BorrowedFd<'_>) -> io::Result<T> + Send + 'static,
    ) -> Result<T, IoError> {
        let failed = |source| self.error(op, source);
        let running = self.running().map_err(failed)?;
        let (shard, operation) = (Rc::clone(&self.file.shard), running.timed(op, None));
        let done = fd::with_fd(&shard.ops, running, job).await;
        operation.ended(done.is_err());
        done.map_err(failed)
    }
}

impl OpenFile {
    fn dma(&self) -> &DmaFile {
        self.dma.as_ref().expect("only the last owner takes it")
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let Some(dma) = self.dma.take() else { return };
        if self.shard.phase.get() == Phase::Left {
            // The executor has left its loop: glommio closes the number when it is run once more.
            return;
        }
        let shard = Rc::clone(&self.shard);
        let (how, flight) = (self.how, shard.flights.begin());
        let closing = async move {
            // A dropped handle has nobody to tell.
            let _ = retire(&shard, dma, how).await;
            drop(flight);
        };
        glommio::spawn_local(contained(closing)).detach();
    }
}

/// Closes a file that has no I/O on its way.
///
/// The last reference to an open file description is dropped on a file thread: it may free the
/// blocks of a removed file, which takes milliseconds for a long one. The lock is released by hand
/// before, as io_uring may keep a reference to the description for a moment after an operation was
/// answered, and whoever opens the file next must find it free.
async fn retire(shard: &ShardIo, dma: DmaFile, how: Open) -> io::Result<()> {
    if how.short && !how.lock {
        return dma.close().await.map_err(os_error);
    }
    // No descriptor left for the twin: close on this thread, the lock goes with the description.
    let twin = fd::duplicate(&dma).ok();
    let closed = dma.close().await.map_err(os_error);
    if let Some(twin) = twin {
        shard
            .ops
            .run(move || {
                if how.lock {
                    // Fails only where there was no lock; closing ends it in any case.
                    let _ = rustix::fs::flock(&twin, FlockOperation::Unlock);
                }
                drop(twin);
            })
            .await?;
    }
    closed
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
        Self::detached(read).await.map_err(failed)
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
        Self::detached(write).await.map_err(failed)
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
            let synced = running.file.dma().fdatasync().await.map_err(os_error);
            operation.ended(synced.is_err());
            synced
        };
        Self::detached(sync).await.map_err(failed)
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
        let dma = file.dma.take().expect("only the last owner takes it");
        let shard = Rc::clone(&file.shard);
        let (how, flight) = (file.how, shard.flights.begin());
        let closing = async move {
            let closed = retire(&shard, dma, how).await;
            drop(flight);
            closed
        };
        apart(closing).await.flatten().map_err(failed)
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
    pub(super) fn dma(&self) -> &DmaFile {
        self.file.dma()
    }

    async fn read(&self, at: u64, len: usize, charge: Charge) -> io::Result<RealBytes> {
        // Only the aligned call: `read_at` answers bytes beyond the end of the file.
        let once =
            async |at, len| self.dma().read_at_aligned(at, len).await.map(Piece).map_err(os_error);
        Ok(match read_all(at, len, once).await? {
            Whole::One(Piece(read)) => RealBytes::from_read(read, charge),
            Whole::Joined(bytes) => RealBytes::copied(&bytes, charge),
        })
    }

    async fn write(&self, bytes: RealBytes, at: u64) -> io::Result<()> {
        let all = bytes.as_ref();
        let once = async |done: usize| {
            // glommio writes whole buffers, so a rest needs one of its own, and so does what a read
            // brought. It is not counted against the budget: waiting for room here could wait for
            // this very write.
            let data = match bytes.writable() {
                Some(data) if done == 0 => data,
                _ => copied(&all[done..]),
            };
            self.dma().write_rc_at(data, at + done as u64).await.map_err(os_error)
        };
        write_all(all.len(), once).await
    }
}

/// What a call of glommio's brought, as bytes.
struct Piece(ReadResult);

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A glommio buffer with a copy of `bytes`.
fn copied(bytes: &[u8]) -> Rc<DmaBuffer> {
    let mut data = glommio::allocate_dma_buffer(bytes.len());
    data.as_bytes_mut().copy_from_slice(bytes);
    Rc::new(data)
}
