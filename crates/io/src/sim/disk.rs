//! The simulated disk: the [`Disk`] operations, and how any operation is submitted and awaited.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::Rng;
use super::clock::SimClock;
use super::content::Content;
use super::executor::Executor;
use super::fault::{Effect, Fault, FaultId, errno};
use super::file::SimFile;
use super::state::{DiskState, Ending, Handle, Op, Verdict, stale};
use super::trace::Event;
use super::tree::Node;
use crate::aligned::{AlignedBuf, AlignedBytes, BufPool};
use crate::{BLOCK, Disk, IoError, IoOp, Open};

/// What a fresh buffer holds: whoever pads must zero, and whoever does not is caught.
const GARBAGE: u8 = 0xa5;

/// A disk in memory; see the [module](super) for what it promises and what it takes back. Clones
/// are one disk.
#[derive(Clone)]
pub struct SimDisk {
    pub(super) inner: Rc<Inner>,
}

pub(super) struct Inner {
    pub(super) executor: Rc<Executor>,
    clock: SimClock,
    pub(super) state: RefCell<DiskState>,
    buffers: BufPool,
    pub(super) reads: BufPool,
}

/// What is asked of the disk.
pub(super) struct Request<'a> {
    pub(super) op: IoOp,
    pub(super) path: &'a Path,
    /// The other path of a rename.
    pub(super) to: Option<&'a Path>,
    pub(super) at: Option<u64>,
    pub(super) len: usize,
    pub(super) handle: Option<u64>,
}

impl<'a> Request<'a> {
    fn on_path(op: IoOp, path: &'a Path) -> Self {
        Request { op, path, to: None, at: None, len: 0, handle: None }
    }
}

/// Where an answer waits for its future, or the future for its answer.
struct Slot<T> {
    answer: Cell<Option<io::Result<T>>>,
    waker: Cell<Option<Waker>>,
}

/// The future of an operation that was submitted. Dropping it does not stop the operation.
pub(super) struct Answer<T> {
    slot: Rc<Slot<T>>,
}

impl<T> Future for Answer<T> {
    type Output = io::Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        match self.slot.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.slot.waker.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl SimDisk {
    pub(super) fn new(executor: Rc<Executor>, clock: SimClock, rng: Rng) -> Self {
        SimDisk {
            inner: Rc::new(Inner {
                executor,
                clock,
                state: RefCell::new(DiskState::new(rng)),
                buffers: BufPool::new(usize::MAX),
                reads: BufPool::new(usize::MAX),
            }),
        }
    }

    /// Records a breach of the caller's contract and panics. Recorded, because the code under test
    /// may catch panics: [`Sim`](super::Sim) reports it at the end of the run all the same.
    pub(super) fn violation(&self, what: String) -> ! {
        if let Ok(mut state) = self.inner.state.try_borrow_mut() {
            state.violations.push(what.clone());
        }
        panic!("the caller broke the contract of the disk: {what}");
    }

    /// Submits an operation; `effect` runs when it ends.
    pub(super) fn submit<T: 'static>(
        &self,
        request: &Request<'_>,
        effect: impl FnOnce(&mut DiskState, Ending) -> io::Result<T> + 'static,
    ) -> Answer<T> {
        self.submit_with(request, |_, _| (), effect)
    }

    /// Submits an operation after `prepare` has put it in place under its id.
    pub(super) fn submit_with<T: 'static>(
        &self,
        request: &Request<'_>,
        prepare: impl FnOnce(&mut DiskState, u64),
        effect: impl FnOnce(&mut DiskState, Ending) -> io::Result<T> + 'static,
    ) -> Answer<T> {
        let slot = Rc::new(Slot { answer: Cell::new(None), waker: Cell::new(None) });
        let answer = Answer { slot: Rc::clone(&slot) };
        let mut state = self.inner.state.borrow_mut();
        let state = &mut *state;
        if let Some(handle) = request.handle {
            let Some(handle) = state.handles.get_mut(&handle) else {
                slot.answer.set(Some(Err(stale())));
                return answer;
            };
            handle.in_flight += 1;
        }
        let id = state.new_id();
        let begun = state.tick();
        let dsync = request.handle.is_some_and(|h| state.handles[&h].dsync);
        let place = (request.at.unwrap_or(0), request.len);
        let traced = state.trace.begin(request.op, request.path, request.to, place, dsync, begun);
        let mut delay_us = state.draw_delay_us();
        let mut verdict = Verdict::Run;
        let mut stalled_by = Vec::new();
        for (fault, met) in state.faults.meet(request.op, request.path, request.to) {
            match met {
                Effect::Fail(errno) => verdict = Verdict::Fail(errno),
                Effect::LoseWrite => verdict = Verdict::LoseWrite,
                Effect::MisdirectWrite(by) => verdict = Verdict::MisdirectWrite(by),
                Effect::FlipRead => verdict = Verdict::FlipRead,
                Effect::Delay(by) => {
                    delay_us += u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
                }
                Effect::Stall => stalled_by.push(fault),
                Effect::Halt => self.inner.executor.halt(),
            }
        }
        prepare(state, id);
        let finish = move |state: &mut DiskState, ending: Ending| {
            let result = effect(state, ending);
            let errno = result.as_ref().err().and_then(io::Error::raw_os_error);
            slot.answer.set(Some(result));
            (slot.waker.take(), errno)
        };
        let event = stalled_by.is_empty().then(|| self.schedule(id, delay_us));
        let what = match request.at {
            Some(at) => format!("{:?} of {} at {at}", request.op, request.path.display()),
            None => format!("{:?} of {}", request.op, request.path.display()),
        };
        let (kind, handle, finish) = (request.op, request.handle, Box::new(finish));
        let op = Op { kind, begun, verdict, handle, event, stalled_by, traced, finish, what };
        state.ops.insert(id, op);
        answer
    }

    fn schedule(&self, id: u64, delay_us: u64) -> super::executor::EventKey {
        let disk = self.clone();
        self.inner.executor.after(
            delay_us,
            Box::new(move || {
                let waker = disk.inner.state.borrow_mut().end(id, None);
                // Outside the borrow: a waker is somebody else's code.
                if let Some(waker) = waker {
                    waker.wake();
                }
            }),
        )
    }

    /// Submits an operation that happens whole or not at all, and awaits it.
    async fn whole<T: 'static>(
        &self,
        request: Request<'_>,
        effect: impl FnOnce(&mut DiskState, Ending) -> io::Result<T> + 'static,
    ) -> Result<T, IoError> {
        let (op, path) = (request.op, request.path.to_path_buf());
        self.submit(&request, whole(effect)).await.map_err(|e| IoError::new(op, path, e))
    }

    /// Cuts the power: keeps what was synced and a part of the rest that is a function of the state
    /// and `seed`. Ends every task of the program under test, every handle and everything in
    /// flight; what waits for an answer gets ESTALE. The disk can be used again at once.
    pub fn power_cut(&self, seed: u64) {
        self.end_life(true, seed);
    }

    /// Kills the process: like [`SimDisk::power_cut`], but everything that returned stays (and
    /// stays un-synced, should a power cut follow), and of the writes in flight a seeded part.
    pub fn process_kill(&self, seed: u64) {
        self.end_life(false, seed);
    }

    fn end_life(&self, power: bool, seed: u64) {
        let (wakers, events) = self.inner.state.borrow_mut().end_life(power, &mut Rng::new(seed));
        for key in events {
            self.inner.executor.cancel(key);
        }
        self.inner.clock.end_life();
        self.inner.executor.end_life();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Puts a fault in force. Faults outlive power cuts and kills.
    pub fn inject(&self, fault: Fault) -> FaultId {
        self.inner.state.borrow_mut().faults.inject(fault)
    }

    /// Ends a fault; operations it stalled go on.
    pub fn lift(&self, fault: FaultId) {
        self.inner.state.borrow_mut().faults.lift(fault);
        self.resume(|by| by == fault);
    }

    /// Ends all faults.
    pub fn lift_all(&self) {
        self.inner.state.borrow_mut().faults.lift_all();
        self.resume(|_| true);
    }

    fn resume(&self, lifted: impl Fn(FaultId) -> bool) {
        let mut state = self.inner.state.borrow_mut();
        let mut freed = Vec::new();
        for (id, op) in &mut state.ops {
            op.stalled_by.retain(|by| !lifted(*by));
            if op.stalled_by.is_empty() && op.event.is_none() {
                op.event = Some(self.schedule(*id, 1));
                freed.push(*id);
            }
        }
    }

    /// How many operations a fault has met.
    pub fn hits(&self, fault: FaultId) -> u64 {
        self.inner.state.borrow().faults.hits(fault)
    }

    /// Limits the bytes that files may take; beyond it ENOSPC. `u64::MAX` is no limit.
    pub fn set_capacity(&self, bytes: u64) {
        self.inner.state.borrow_mut().limits.capacity = bytes;
    }

    /// Bytes that files take now, reserved ones included.
    pub fn used(&self) -> u64 {
        self.inner.state.borrow().used
    }

    /// Limits the files open at a time; beyond it EMFILE.
    pub fn set_open_files_max(&self, files: usize) {
        self.inner.state.borrow_mut().limits.open_files = files;
    }

    /// Files open now (dropped ones with operations in flight included).
    pub fn open_files(&self) -> usize {
        self.inner.state.borrow().handles.len()
    }

    /// The least and the most virtual time of an operation, in microseconds; one in 16 takes eight
    /// times as long. 10 to 400 unless set.
    pub fn set_delay_us(&self, delay: RangeInclusive<u64>) {
        self.inner.state.borrow_mut().limits.delay_us = delay.into_inner();
    }

    /// Buffers of [`Disk::alloc`]: set its limit to make `alloc` answer `None`.
    pub fn buffers(&self) -> &BufPool {
        &self.inner.buffers
    }

    /// Bytes of reads that are still held by who read them. Reads are never refused.
    pub fn read_bytes_held(&self) -> usize {
        self.inner.reads.used()
    }

    /// How many operations of this kind began.
    pub fn count(&self, op: IoOp) -> u64 {
        self.inner.state.borrow().trace.begun(op)
    }

    /// How many operations of this kind answered with an error.
    pub fn failures(&self, op: IoOp) -> u64 {
        self.inner.state.borrow().trace.failed(op)
    }

    /// Bytes asked for by operations of this kind.
    pub fn bytes(&self, op: IoOp) -> u64 {
        self.inner.state.borrow().trace.bytes(op)
    }

    /// The operations since the trace was last cleared (the last 65,536 of them), oldest first.
    pub fn trace(&self) -> Vec<Event> {
        self.inner.state.borrow().trace.events()
    }

    /// Forgets the trace; counts go on.
    pub fn clear_trace(&self) {
        self.inner.state.borrow_mut().trace.clear();
    }

    /// Breaches of the caller's contract so far, and forgets them: for tests that provoke one.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.state.borrow_mut().violations)
    }

    pub(super) fn describe(&self) -> String {
        self.inner.state.borrow().describe()
    }
}

/// The effect of an operation that has no parts: on a fault nothing, at a power cut all or nothing.
pub(super) fn whole<T>(
    effect: impl FnOnce(&mut DiskState, Ending) -> io::Result<T>,
) -> impl FnOnce(&mut DiskState, Ending) -> io::Result<T> {
    move |state, ending| match ending.verdict {
        Verdict::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
        Verdict::Ended { landed, .. } => {
            if landed {
                // Nobody hears the answer.
                let _ = effect(state, ending);
            }
            Err(stale())
        }
        _ => effect(state, ending),
    }
}

fn os_error<T>(errno: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(errno))
}

impl Disk for SimDisk {
    type File = SimFile;
    type Buf = AlignedBuf;
    type Bytes = AlignedBytes;

    fn alloc(&self, len: usize) -> Option<AlignedBuf> {
        if len == 0 || !len.is_multiple_of(BLOCK) {
            self.violation(format!("alloc({len}): not a non-zero multiple of {BLOCK}"));
        }
        let mut buf = self.inner.buffers.alloc(len)?;
        buf.as_mut().fill(GARBAGE);
        Some(buf)
    }

    async fn open(&self, path: &Path, how: Open) -> Result<SimFile, IoError> {
        let disk = self.clone();
        let owned: Rc<Path> = Rc::from(path);
        // Gone where the future was dropped: then nobody could close the file.
        let awaited = Rc::new(());
        let asked = Rc::downgrade(&awaited);
        let effect = move |state: &mut DiskState, ending| {
            let handle = open(state, ending, &owned, how, asked.strong_count() != 0)?;
            Ok(handle.map(|handle| SimFile::new(disk, handle, owned)))
        };
        let answer = self.submit(&Request::on_path(IoOp::Open, path), whole(effect)).await;
        drop(awaited);
        match answer {
            Ok(Ok(file)) => Ok(file),
            Ok(Err(locked)) => Err(IoError::new(IoOp::Lock, path, locked)),
            Err(error) => Err(IoError::new(IoOp::Open, path, error)),
        }
    }

    async fn list(&self, dir: &Path) -> Result<Vec<(OsString, bool)>, IoError> {
        let path = dir.to_path_buf();
        let mut names = self
            .whole(Request::on_path(IoOp::List, dir), move |state, _| {
                let dir = state.tree.find_dir(&path)?;
                state.tree.list(dir).map(|names| (names, state.rng.fork()))
            })
            .await
            .map(|(mut names, mut rng)| {
                // In no order: whoever needs one must sort.
                for last in (1..names.len()).rev() {
                    names.swap(last, rng.index(last + 1));
                }
                names
            })?;
        names.shrink_to_fit();
        Ok(names)
    }

    async fn create_dir(&self, dir: &Path) -> Result<(), IoError> {
        let path = dir.to_path_buf();
        self.whole(Request::on_path(IoOp::CreateDir, dir), move |state, _| {
            if let Ok(ino) = state.tree.find(&path) {
                return match state.tree.node(ino) {
                    Some(Node::Dir { .. }) => Ok(()),
                    _ => os_error(errno::EEXIST),
                };
            }
            let (parent, name) = state.tree.parent(&path)?;
            let now = state.tick();
            state.tree.create(parent, name, Node::empty_dir(), now);
            Ok(())
        })
        .await
    }

    async fn sync_dir(&self, dir: &Path) -> Result<(), IoError> {
        let path = dir.to_path_buf();
        // The directory is what the path names now, whatever is renamed meanwhile.
        let found = self.inner.state.borrow().tree.find_dir(dir);
        let request = Request::on_path(IoOp::SyncDir, dir);
        self.submit(&request, move |state, ending| match found {
            Ok(dir) => state.end_sync_dir(dir, ending),
            Err(error) => Err(error),
        })
        .await
        .map_err(|e| IoError::new(IoOp::SyncDir, path, e))
    }

    async fn rename(&self, from: &Path, to: &Path) -> Result<(), IoError> {
        let (old, new): (PathBuf, PathBuf) = (from.into(), to.into());
        let request = Request { to: Some(to), ..Request::on_path(IoOp::Rename, from) };
        self.whole(request, move |state, _| {
            let now = state.tick();
            if let Some(replaced) = state.tree.rename(&old, &new, now)? {
                state.unlinked(replaced);
            }
            Ok(())
        })
        .await
    }

    async fn remove(&self, path: &Path) -> Result<(), IoError> {
        let gone = path.to_path_buf();
        self.whole(Request::on_path(IoOp::Remove, path), move |state, _| {
            let ino = state.tree.find(&gone)?;
            if matches!(state.tree.node(ino), Some(Node::Dir { .. })) {
                return os_error(errno::EISDIR);
            }
            let (dir, name) = state.tree.parent(&gone)?;
            let now = state.tick();
            if let Some(ino) = state.tree.unlink(dir, name, now) {
                state.unlinked(ino);
            }
            Ok(())
        })
        .await
    }
}

/// The effect of opening: a handle, or the error of the lock in an `Ok`.
fn open(
    state: &mut DiskState,
    ending: Ending,
    path: &Path,
    how: Open,
    awaited: bool,
) -> io::Result<Result<u64, io::Error>> {
    if state.handles.len() >= state.limits.open_files {
        return os_error(errno::EMFILE);
    }
    let (dir, name) = state.tree.parent(path)?;
    let ino = match (state.tree.child(dir, name), how.create_new) {
        (Some(_), true) => return os_error(errno::EEXIST),
        (None, false) => return os_error(errno::ENOENT),
        (Some(ino), false) => match state.tree.node(ino) {
            Some(Node::File(_)) => ino,
            Some(Node::Dir { .. }) => return os_error(errno::EISDIR),
            Some(Node::Link) | None => return os_error(errno::ELOOP),
        },
        (None, true) => {
            let now = state.tick();
            state.tree.create(dir, name, Node::File(Content::default()), now)
        }
    };
    if !awaited || matches!(ending.verdict, Verdict::Ended { .. }) {
        return Err(stale()); // The file may have been created; nobody is there to hold it.
    }
    if how.lock && state.locks.contains_key(&ino) {
        return Ok(Err(io::Error::from_raw_os_error(errno::EAGAIN)));
    }
    let id = state.new_id();
    if how.lock {
        state.locks.insert(ino, id);
    }
    let write = how.write || how.create_new;
    state.handles.insert(id, Handle { ino, write, dsync: how.dsync, in_flight: 0, closed: false });
    Ok(Ok(id))
}
