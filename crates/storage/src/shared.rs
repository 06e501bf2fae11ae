//! What the partitions of one shard share: the platform, the cache of dispatched buffers, and the
//! open handles of sealed segments. All of it bounded by limits that are fixed at open.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::Duration;

use corelog_io::{BLOCK, Clock, Disk, IoError, IoOp, Open, Platform, align_up};

use crate::SharedLimits;
use crate::memory::Memory;

/// How often, and how far apart, a buffer is asked for that something waits for: one second.
const ALLOC_TRIES: u32 = 1000;
const ALLOC_PAUSE: Duration = Duration::from_millis(1);

type Bytes<P> = <<P as Platform>::Disk as Disk>::Bytes;
type FileOf<P> = <<P as Platform>::Disk as Disk>::File;
type MemoryOf<P> = RefCell<Memory<Bytes<P>>>;

/// One a shard; cheap to clone.
pub struct Shared<P: Platform> {
    inner: Rc<Inner<P>>,
}

impl<P: Platform> Clone for Shared<P> {
    fn clone(&self) -> Self {
        Shared { inner: Rc::clone(&self.inner) }
    }
}

struct Inner<P: Platform> {
    platform: P,
    limits: SharedLimits,
    cached_bytes: Cell<usize>,
    cached: RefCell<VecDeque<Cached<P>>>,
    handles: RefCell<Handles<FileOf<P>>>,
    /// Held by whoever makes an index again: one at a time.
    reindex: RefCell<Weak<()>>,
}

struct Cached<P: Platform> {
    memory: Weak<MemoryOf<P>>,
    number: u64,
    bytes: usize,
}

/// Handles by the life of the partition that reads and the segment's first offset, not by path: a
/// path can come to name another file when a partition of the same id begins anew.
struct Handles<F> {
    files: HashMap<(u64, u64), (Rc<F>, u64)>,
    clock: u64,
    /// Lives that have begun and not ended, and the first segment of each that may be kept open.
    alive: HashMap<u64, u64>,
    lives: u64,
}

/// One opening of one partition. Its handles go with it.
pub(crate) struct Life<P: Platform> {
    shared: Shared<P>,
    number: u64,
}

impl<P: Platform> Shared<P> {
    /// What partitions on `platform` share within `limits`.
    pub fn new(platform: P, limits: SharedLimits) -> Self {
        let handles = Handles { files: HashMap::new(), clock: 0, alive: HashMap::new(), lives: 0 };
        let handles = RefCell::new(handles);
        let (cached_bytes, cached) = (Cell::new(0), RefCell::default());
        let reindex = RefCell::default();
        Shared {
            inner: Rc::new(Inner { platform, limits, cached_bytes, cached, handles, reindex }),
        }
    }

    /// The platform.
    pub fn platform(&self) -> &P {
        &self.inner.platform
    }

    /// The limits.
    pub fn limits(&self) -> &SharedLimits {
        &self.inner.limits
    }

    /// Bytes of written buffers that are kept for readers.
    pub fn cached_bytes(&self) -> usize {
        self.inner.cached_bytes.get()
    }

    /// Open handles of sealed segments.
    pub fn open_handles(&self) -> usize {
        self.inner.handles.borrow().files.len()
    }

    /// A buffer of `len` bytes; the cache makes room where the pool is empty. `None` where all of
    /// it is in use: try again when a write has come back.
    pub(crate) fn alloc(&self, len: usize) -> Option<<P::Disk as Disk>::Buf> {
        loop {
            if let Some(buf) = self.inner.platform.disk().alloc(len) {
                return Some(buf);
            }
            if !self.evict_oldest() {
                return None;
            }
        }
    }

    /// Puts a written chunk of `memory` under the cache's budget. Chunks of one memory come in
    /// order.
    pub(crate) fn cache(&self, memory: &Rc<MemoryOf<P>>, number: u64, bytes: usize) {
        let inner = &self.inner;
        inner.cached_bytes.set(inner.cached_bytes.get() + bytes);
        let memory = Rc::downgrade(memory);
        inner.cached.borrow_mut().push_back(Cached { memory, number, bytes });
        while inner.cached_bytes.get() > inner.limits.cache_bytes && self.evict_oldest() {}
    }

    /// A buffer of `len` bytes to write to `path`, waited for where writes in flight have them all.
    pub(crate) async fn alloc_soon(
        &self,
        len: usize,
        path: &Path,
    ) -> Result<<P::Disk as Disk>::Buf, IoError> {
        for _ in 0..ALLOC_TRIES {
            if let Some(buf) = self.alloc(len) {
                return Ok(buf);
            }
            self.inner.platform.clock().sleep(ALLOC_PAUSE).await;
        }
        Err(IoError::new(IoOp::Write, path, std::io::ErrorKind::WouldBlock.into()))
    }

    /// A buffer of at most `len` bytes: as much of it as there is now, waited for only where there is
    /// not even a block. So a small pool, or one that many openings share, keeps nobody from opening.
    pub(crate) async fn alloc_up_to(
        &self,
        len: usize,
        path: &Path,
    ) -> Result<<P::Disk as Disk>::Buf, IoError> {
        let mut len = align_up(len as u64) as usize;
        while len > BLOCK {
            if let Some(buf) = self.alloc(len) {
                return Ok(buf);
            }
            len = align_up(len as u64 / 2) as usize;
        }
        self.alloc_soon(BLOCK, path).await
    }

    /// The turn to make an index again, until it is dropped; `None` where another has it.
    pub(crate) fn begin_reindex(&self) -> Option<Rc<()>> {
        let mut reindex = self.inner.reindex.borrow_mut();
        if reindex.strong_count() > 0 {
            return None;
        }
        let turn = Rc::new(());
        *reindex = Rc::downgrade(&turn);
        Some(turn)
    }

    fn evict_oldest(&self) -> bool {
        let Some(oldest) = self.inner.cached.borrow_mut().pop_front() else { return false };
        self.inner.cached_bytes.set(self.inner.cached_bytes.get() - oldest.bytes);
        if let Some(memory) = oldest.memory.upgrade() {
            memory.borrow_mut().evict(oldest.number);
        }
        true
    }

    /// A partition is opened.
    pub(crate) fn begin_life(&self) -> Life<P> {
        let mut handles = self.inner.handles.borrow_mut();
        handles.lives += 1;
        let number = handles.lives;
        handles.alive.insert(number, 0);
        Life { shared: self.clone(), number }
    }
}

impl<P: Platform> Life<P> {
    /// A handle for reading the segment at `path`: an open one, or a new one in place of the least
    /// recently used.
    pub(crate) async fn reader(&self, segment: u64, path: &Path) -> Result<Rc<FileOf<P>>, IoError> {
        let inner = &self.shared.inner;
        let key = (self.number, segment);
        if let Some(file) = inner.handles.borrow_mut().get(key) {
            return Ok(file);
        }
        let file = Rc::new(inner.platform.disk().open(path, Open::default()).await?);
        inner.handles.borrow_mut().put(key, &file, inner.limits.open_files);
        Ok(file)
    }

    /// Forgets the handles of segments below `first`, whose files are about to be removed: each
    /// closes when its last read is done, and only then its space is free.
    pub(crate) fn trim(&self, first: u64) {
        let mut handles = self.shared.inner.handles.borrow_mut();
        if let Some(kept) = handles.alive.get_mut(&self.number) {
            *kept = first;
        }
        handles.files.retain(|(life, segment), _| *life != self.number || *segment >= first);
    }

    /// Forgets the handles; they close when their last read is done, and no new one is kept.
    pub(crate) fn end(&self) {
        let mut handles = self.shared.inner.handles.borrow_mut();
        if handles.alive.remove(&self.number).is_some() {
            handles.files.retain(|(life, _), _| *life != self.number);
        }
    }
}

impl<P: Platform> Drop for Life<P> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<F> Handles<F> {
    fn get(&mut self, key: (u64, u64)) -> Option<Rc<F>> {
        self.clock += 1;
        let (file, used) = self.files.get_mut(&key)?;
        *used = self.clock;
        Some(Rc::clone(file))
    }

    fn put(&mut self, key: (u64, u64), file: &Rc<F>, limit: usize) {
        if self.alive.get(&key.0).is_none_or(|first| key.1 < *first) {
            return;
        }
        while self.files.len() >= limit.max(1) {
            let oldest = self.files.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(key, _)| *key) else { break };
            self.files.remove(&oldest);
        }
        self.clock += 1;
        self.files.insert(key, (Rc::clone(file), self.clock));
    }
}
