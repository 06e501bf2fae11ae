//! An open file of the simulated disk, and the checks of what its caller promised.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use super::content::InFlight;
use super::disk::SimDisk;
use super::fault::errno;
use super::names::Ino;
use super::state::{Ending, Verdict};
use super::submit::{Request, whole};
use crate::aligned::AlignedBytes;
use crate::{BLOCK, Buf, File, IoError, IoOp};

/// An open file of a [`SimDisk`]. Breaking the contract of [`File`] (a misaligned position, two
/// writes in flight on one block, a write through a read-only handle, a close with operations in
/// flight) panics and is reported at the end of the run.
pub struct SimFile {
    disk: SimDisk,
    handle: u64,
    path: Rc<Path>,
    closed: Cell<bool>,
}

impl SimFile {
    pub(super) fn new(disk: SimDisk, handle: u64, path: Rc<Path>) -> Self {
        SimFile { disk, handle, path, closed: Cell::new(false) }
    }

    fn request(&self, op: IoOp, at: Option<u64>, len: usize) -> Request<'_> {
        Request { op, path: &self.path, to: None, at, len, handle: Some(self.handle) }
    }

    fn violation(&self, what: &str) -> ! {
        self.disk.violation(format!("{}: {what}", self.path.display()))
    }

    /// The file behind the handle; `None` after a power cut or kill.
    fn ino(&self) -> Option<Ino> {
        self.disk.inner.state.borrow().handles.get(&self.handle).map(|h| h.ino)
    }

    fn stale(&self, op: IoOp) -> IoError {
        IoError::new(op, &self.path, super::state::stale())
    }

    fn check_aligned(&self, what: &str, at: u64, len: usize) {
        if !at.is_multiple_of(BLOCK as u64) || !len.is_multiple_of(BLOCK) {
            self.violation(&format!(
                "{what} of {len} bytes at {at}: both must be multiples of {BLOCK}"
            ));
        }
        if at.checked_add(len as u64).is_none_or(|end| end > i64::MAX as u64) {
            self.violation(&format!("{what} of {len} bytes at {at}: beyond any file"));
        }
    }

    fn check_writable(&self, what: &str) {
        let writable =
            self.disk.inner.state.borrow().handles.get(&self.handle).is_none_or(|h| h.write);
        if !writable {
            self.violation(&format!("{what} through a handle that was opened for reading"));
        }
    }

    fn check_no_overlap(&self, ino: Ino, at: u64, len: usize) {
        let state = self.disk.inner.state.borrow();
        let other = state.tree.content(ino).overlapping(at, len).map(|w| (w.at, w.bytes.len()));
        drop(state);
        if let Some((other_at, other_len)) = other {
            self.violation(&format!(
                "write of {len} bytes at {at} while one of {other_len} bytes at {other_at} is in \
                 flight: two writes in flight must not touch one block"
            ));
        }
    }
}

impl File for SimFile {
    type Bytes = AlignedBytes;

    async fn read_at(&self, at: u64, len: usize) -> Result<AlignedBytes, IoError> {
        self.check_aligned("read", at, len);
        if len == 0 {
            self.violation("read of 0 bytes");
        }
        let Some(ino) = self.ino() else { return Err(self.stale(IoOp::Read).at(at)) };
        let reads = self.disk.inner.reads.clone();
        let effect = whole(move |state, ending: Ending| {
            let mut buf = reads.alloc(len).expect("reads have no limit");
            let mut rng = state.rng.fork();
            let count = state.tree.content(ino).read(at, len, &mut rng, buf.as_mut());
            if ending.verdict == Verdict::FlipRead && count != 0 {
                buf.as_mut()[rng.index(count)] ^= 1 << rng.below(8);
            }
            let mut bytes = buf.freeze(len);
            bytes.truncate(count);
            Ok(bytes)
        });
        let answer = self.disk.submit(&self.request(IoOp::Read, Some(at), len), effect);
        answer.await.map_err(|e| IoError::new(IoOp::Read, &self.path, e).at(at))
    }

    async fn write_at(&self, bytes: AlignedBytes, at: u64) -> Result<(), IoError> {
        let len = bytes.as_ref().len();
        self.check_aligned("write", at, len);
        self.check_writable("write");
        let Some(ino) = self.ino() else { return Err(self.stale(IoOp::Write).at(at)) };
        self.check_no_overlap(ino, at, len);
        let dsync = self.disk.inner.state.borrow().handles[&self.handle].dsync;
        let answer = self.disk.submit_with(
            &self.request(IoOp::Write, Some(at), len),
            |state, op| {
                if len != 0 {
                    let bytes = Rc::from(bytes.as_ref());
                    state.tree.content_mut(ino).in_flight.push(InFlight { op, at, bytes });
                }
            },
            {
                // Held until the write has ended: the device reads from this memory.
                let held = bytes.clone();
                let path = Rc::clone(&self.path);
                move |state, ending| {
                    state.note_harm(&path, at, len, ending.verdict);
                    let ended = state.end_write(ino, dsync, ending);
                    drop(held);
                    ended
                }
            },
        );
        answer.await.map_err(|e| IoError::new(IoOp::Write, &self.path, e).at(at))
    }

    async fn sync(&self) -> Result<(), IoError> {
        let Some(ino) = self.ino() else { return Err(self.stale(IoOp::Sync)) };
        let request = self.request(IoOp::Sync, None, 0);
        let answer = self.disk.submit(&request, move |state, ending| state.end_sync(ino, ending));
        answer.await.map_err(|e| IoError::new(IoOp::Sync, &self.path, e))
    }

    async fn allocate(&self, len: u64) -> Result<(), IoError> {
        self.check_writable("allocate");
        let Some(ino) = self.ino() else { return Err(self.stale(IoOp::Allocate)) };
        let effect = whole(move |state, _| {
            let needs = state.tree.content(ino).allocation_needs(len);
            let used = state.used.saturating_add(needs);
            if used > state.limits.capacity {
                return Err(std::io::Error::from_raw_os_error(errno::ENOSPC));
            }
            state.used = used;
            let now = state.tick();
            state.tree.content_mut(ino).allocate(len, now);
            Ok(())
        });
        let answer = self.disk.submit(&self.request(IoOp::Allocate, Some(len), 0), effect);
        answer.await.map_err(|e| IoError::new(IoOp::Allocate, &self.path, e).at(len))
    }

    async fn set_len(&self, len: u64) -> Result<(), IoError> {
        self.check_writable("set length");
        let Some(ino) = self.ino() else { return Err(self.stale(IoOp::SetLen)) };
        let cut_off = {
            let state = self.disk.inner.state.borrow();
            let content = state.tree.content(ino);
            let cuts = len < content.len();
            cuts.then(|| content.reaching_beyond(len).map(|w| w.at)).flatten()
        };
        if let Some(at) = cut_off {
            self.violation(&format!(
                "cut to {len} bytes while a write at {at} that reaches beyond is in flight"
            ));
        }
        let effect = whole(move |state, _| {
            let now = state.tick();
            let content = state.tree.content_mut(ino);
            let before = content.space();
            content.set_len(len, now);
            state.used = state.used + content.space() - before;
            Ok(())
        });
        let answer = self.disk.submit(&self.request(IoOp::SetLen, Some(len), 0), effect);
        answer.await.map_err(|e| IoError::new(IoOp::SetLen, &self.path, e).at(len))
    }

    async fn len(&self) -> Result<u64, IoError> {
        let Some(ino) = self.ino() else { return Err(self.stale(IoOp::SetLen)) };
        let effect = whole(move |state, _| Ok(state.tree.content(ino).len()));
        let answer = self.disk.submit(&self.request(IoOp::SetLen, None, 0), effect);
        answer.await.map_err(|e| IoError::new(IoOp::SetLen, &self.path, e))
    }

    async fn close(self) -> Result<(), IoError> {
        let in_flight = {
            let mut state = self.disk.inner.state.borrow_mut();
            let Some(handle) = state.handles.get_mut(&self.handle) else {
                drop(state);
                return Err(self.stale(IoOp::Close));
            };
            handle.closed = true;
            handle.in_flight
        };
        self.closed.set(true);
        if in_flight != 0 {
            self.violation(&format!(
                "closed with {in_flight} operations in flight: await every read and write first"
            ));
        }
        let effect = whole(move |_, _| Ok(()));
        let answer = self.disk.submit(&self.request(IoOp::Close, None, 0), effect);
        answer.await.map_err(|e| IoError::new(IoOp::Close, &self.path, e))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if self.closed.get() {
            return;
        }
        // Never a panic in a destructor: if the disk is borrowed we are unwinding out of it.
        if let Ok(mut state) = self.disk.inner.state.try_borrow_mut() {
            if let Some(handle) = state.handles.get_mut(&self.handle) {
                handle.closed = true;
            }
            state.release_if_done(self.handle);
        }
    }
}
