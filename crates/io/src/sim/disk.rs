//! The simulated disk: the operations of [`Disk`].

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::Rng;
use super::clock::SimClock;
use super::content::Content;
use super::executor::Executor;
use super::fault::errno;
use super::file::SimFile;
use super::state::{DiskState, Ending, Handle, Verdict, stale};
use super::submit::{Request, whole};
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
    pub(super) clock: SimClock,
    pub(super) state: RefCell<DiskState>,
    pub(super) buffers: BufPool,
    pub(super) reads: BufPool,
}

fn os_error<T>(errno: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(errno))
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
        self.whole(Request::on_path(IoOp::List, dir), move |state, _| {
            let dir = state.tree.find_dir(&path)?;
            let mut names = state.tree.list(dir)?;
            // In no order: whoever needs one must sort.
            for last in (1..names.len()).rev() {
                names.swap(last, state.rng.index(last + 1));
            }
            Ok(names)
        })
        .await
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
        let is_full = {
            let state = self.inner.state.borrow();
            state.handles.len() >= state.limits.open_files
        };
        if is_full {
            // A directory has to be opened to be synced.
            let source = std::io::Error::from_raw_os_error(errno::EMFILE);
            return Err(IoError::new(IoOp::Open, path, source));
        }
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

    async fn remove_dir(&self, dir: &Path) -> Result<(), IoError> {
        let gone = dir.to_path_buf();
        self.whole(Request::on_path(IoOp::Remove, dir), move |state, _| {
            let ino = state.tree.find_dir(&gone)?;
            if !state.tree.list(ino)?.is_empty() {
                return os_error(errno::ENOTEMPTY);
            }
            let (parent, name) = state.tree.parent(&gone)?;
            let now = state.tick();
            state.tree.unlink(parent, name, now);
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
