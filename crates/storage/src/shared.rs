//! What the partitions of one shard share: the platform, the cache of buffers, the open handles and
//! the loaded indexes of segments. All of it bounded by limits that are fixed at open.

mod by_life;
mod cache;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::time::Duration;

use corelog_io::{BLOCK, Clock, Disk, File, IoError, IoOp, Open, Platform, Spawn, align_up};

use crate::actives::Actives;
use crate::index::SparseIndex;
use crate::memory::Memory;
use crate::read::Window;
use crate::room::Room;
use crate::stats::{Counters, Tally};
use crate::{Counts, Observer, SharedLimits};
use by_life::ByLife;
use cache::Cache;

/// How often, and how far apart, a buffer is asked for that something waits for: one second.
const ALLOC_TRIES: u32 = 1000;
const ALLOC_PAUSE: Duration = Duration::from_millis(1);

/// Handles that are closed where descriptors have run out: a file needs two while it is opened.
const HANDLES_BACK: usize = 4;

type Bytes<P> = <<P as Platform>::Disk as Disk>::Bytes;
type FileOf<P> = <<P as Platform>::Disk as Disk>::File;
type MemoryOf<P> = RefCell<Memory<Bytes<P>>>;

/// One a shard; cheap to clone.
pub struct Shared<P: Platform> {
    inner: Rc<Inner<P>>,
    /// Of the partition that this handle is for.
    pub(crate) observer: Option<Rc<dyn Observer>>,
}

impl<P: Platform> Clone for Shared<P> {
    fn clone(&self) -> Self {
        Shared { inner: Rc::clone(&self.inner), observer: self.observer.clone() }
    }
}

struct Inner<P: Platform> {
    platform: P,
    limits: SharedLimits,
    cache: RefCell<Cache<Bytes<P>>>,
    handles: RefCell<ByLife<FileOf<P>>>,
    actives: Rc<Actives>,
    indexes: RefCell<ByLife<SparseIndex>>,
    /// Bytes that polls in progress hold.
    held: Cell<usize>,
    /// Lives that have begun and not ended, and the first segment of each that is not trimmed.
    alive: RefCell<HashMap<u64, u64>>,
    lives: Cell<u64>,
    /// Held by whoever makes an index again: one at a time.
    reindex: RefCell<Weak<()>>,
    room: Room,
    /// A block kept for whoever cannot do without one: readers may hold all the others.
    spare: RefCell<Option<<P::Disk as Disk>::Buf>>,
    /// The highest time that was stamped in a partition that had a fault or was closed.
    stamped_us: Cell<u64>,
    /// What all partitions have counted since the shard began.
    counters: Rc<Counters>,
    /// Partitions that have a fault now.
    poisoned: Cell<usize>,
}

/// One opening of one partition. Its handles, indexes and windows go with it.
pub(crate) struct Life<P: Platform> {
    shared: Shared<P>,
    number: u64,
    tally: Tally,
    poisoned: Cell<bool>,
}

impl<P: Platform> Shared<P> {
    /// What partitions on `platform` share within `limits`.
    pub fn new(platform: P, limits: SharedLimits) -> Self {
        let inner = Inner {
            cache: RefCell::new(Cache::new(limits.cache_bytes)),
            handles: RefCell::new(ByLife::new(limits.open_files)),
            actives: Actives::new(limits.active_files),
            indexes: RefCell::new(ByLife::new(limits.loaded_indexes)),
            held: Cell::new(0),
            alive: RefCell::default(),
            lives: Cell::new(0),
            reindex: RefCell::default(),
            room: Room::default(),
            spare: RefCell::default(),
            stamped_us: Cell::new(0),
            counters: Rc::default(),
            poisoned: Cell::new(0),
            platform,
            limits,
        };
        Shared { inner: Rc::new(inner), observer: None }
    }

    pub(crate) fn actives(&self) -> &Rc<Actives> {
        &self.inner.actives
    }

    pub(crate) fn room(&self) -> &Room {
        &self.inner.room
    }

    /// The platform.
    pub fn platform(&self) -> &P {
        &self.inner.platform
    }

    /// The limits.
    pub fn limits(&self) -> &SharedLimits {
        &self.inner.limits
    }

    /// Bytes of buffers that are kept for readers: written ones, and what was read and read ahead.
    pub fn cached_bytes(&self) -> usize {
        self.inner.cache.borrow().bytes()
    }

    /// Open handles of segments, for reading.
    pub fn open_handles(&self) -> usize {
        self.inner.handles.borrow().len()
    }

    /// Open handles of active segments, for writing.
    pub fn active_handles(&self) -> usize {
        self.inner.actives.len()
    }

    /// Loaded indexes of sealed segments.
    pub fn loaded_indexes(&self) -> usize {
        self.inner.indexes.borrow().len()
    }

    /// Partitions that are open, those with a fault included.
    pub fn open_partitions(&self) -> usize {
        self.inner.alive.borrow().len()
    }

    /// Partitions that take no appends since a fault.
    pub fn poisoned_partitions(&self) -> usize {
        self.inner.poisoned.get()
    }

    /// What all partitions have counted since the shard began, those that are closed included.
    pub fn counts(&self) -> Counts {
        self.inner.counters.read()
    }

    /// A buffer of `len` bytes; the cache makes room where the pool is empty. `None` where all of
    /// it is in use: try again when a write has come back.
    pub(crate) fn alloc(&self, len: usize) -> Option<<P::Disk as Disk>::Buf> {
        loop {
            if let Some(buf) = self.inner.platform.disk().alloc(len) {
                return Some(buf);
            }
            let evicted = self.inner.cache.borrow_mut().evict_chunk();
            evicted?.drop_bytes();
        }
    }

    /// Puts a written chunk of `memory` under the cache's budget. Chunks of one memory come in
    /// order.
    pub(crate) fn cache(&self, memory: &Rc<MemoryOf<P>>, number: u64, bytes: usize) {
        self.inner.cache.borrow_mut().push_chunk(memory, number, bytes);
        self.trim_cache();
    }

    /// A buffer of `len` bytes to write to `path`, waited for where writes in flight have them all;
    /// one block of them is kept for this.
    pub(crate) async fn alloc_soon(
        &self,
        len: usize,
        path: &Path,
    ) -> Result<<P::Disk as Disk>::Buf, IoError> {
        for _ in 0..ALLOC_TRIES {
            if let Some(buf) = self.alloc(len) {
                self.keep_spare();
                return Ok(buf);
            }
            let spare = self.inner.spare.borrow_mut().take_if(|_| len <= BLOCK);
            if let Some(spare) = spare {
                return Ok(spare);
            }
            self.inner.platform.clock().sleep(ALLOC_PAUSE).await;
        }
        Err(IoError::new(IoOp::Write, path, std::io::ErrorKind::WouldBlock.into()))
    }

    /// Keeps a block apart while there is one.
    fn keep_spare(&self) {
        let mut spare = self.inner.spare.borrow_mut();
        if spare.is_none() {
            *spare = self.inner.platform.disk().alloc(BLOCK);
        }
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

    /// Opens a file. Where no descriptor is left, handles that are only kept are closed for it.
    pub(crate) async fn open(&self, path: &Path, how: Open) -> Result<FileOf<P>, IoError> {
        let disk = self.inner.platform.disk();
        match disk.open(path, how).await {
            Err(error) if self.gave_back(&error).await => disk.open(path, how).await,
            opened => opened,
        }
    }

    /// Closes handles that nobody uses now where `error` says that no descriptor is left. True
    /// where there are some again: what failed is worth another try.
    pub(crate) async fn gave_back(&self, error: &IoError) -> bool {
        if !error.is_out_of_files() {
            return false;
        }
        let mut closed = false;
        for _ in 0..HANDLES_BACK {
            let idle = self.inner.handles.borrow_mut().take_idle();
            let Some(idle) = idle else { break };
            // Of a file that was only read: its close has nothing to say, and frees the number
            // whatever it answers.
            let _ = idle.close().await;
            closed = true;
        }
        closed || self.inner.actives.park_one().await
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

    /// Gives up what is over the budget. Bytes are dropped outside of the borrow: giving memory
    /// back may run code that comes here.
    fn trim_cache(&self) {
        loop {
            let Some(evicted) = self.inner.cache.borrow_mut().evict_excess() else { return };
            evicted.drop_bytes();
        }
    }

    /// Gives up all windows; those that are being read end first.
    fn drop_windows(&self) {
        loop {
            let evicted = self.inner.cache.borrow_mut().windows.evict();
            if evicted.is_none() {
                return;
            }
        }
    }

    /// A partition has a fault, or is closed, and had stamped up to `time_us`: what it loses of that is
    /// in no log, and in this process no new clock begins above it.
    pub(crate) fn lost_time(&self, time_us: u64) {
        self.inner.stamped_us.set(self.inner.stamped_us.get().max(time_us));
    }

    /// A partition that is opened stamps above this.
    pub(crate) fn stamped_us(&self) -> u64 {
        self.inner.stamped_us.get()
    }

    /// A partition is opened.
    pub(crate) fn begin_life(&self) -> Life<P> {
        let tally = Tally::beside(&self.inner.counters);
        let number = self.inner.lives.get() + 1;
        self.inner.lives.set(number);
        self.inner.alive.borrow_mut().insert(number, 0);
        self.keep_spare();
        Life { shared: self.clone(), number, tally, poisoned: Cell::new(false) }
    }

    /// Nothing is held by a poll that begins.
    pub(crate) fn hold(&self) -> Held<P> {
        Held { shared: self.clone(), bytes: 0 }
    }
}

/// Buffers that a poll in progress holds while it may wait for others.
pub(crate) struct Held<P: Platform> {
    shared: Shared<P>,
    bytes: usize,
}

impl<P: Platform> Held<P> {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        let held = &self.shared.inner.held;
        held.set(held.get() + bytes);
    }

    /// True where so much is held by polls that wait that one with something to serve ends rather
    /// than wait: buffers are finite, and all of them may be waiting for each other's.
    pub(crate) fn is_too_much(&self) -> bool {
        self.shared.inner.held.get() > self.shared.limits().held_bytes
    }
}

impl<P: Platform> Drop for Held<P> {
    fn drop(&mut self) {
        let held = &self.shared.inner.held;
        held.set(held.get() - self.bytes);
    }
}

impl<P: Platform> Life<P> {
    /// What the partition counts.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The partition has a fault, until its end.
    pub(crate) fn poisoned(&self) {
        if !self.poisoned.replace(true) {
            self.tally.add(|c| &c.faults, 1);
            self.shared.inner.poisoned.update(|count| count + 1);
        }
    }

    /// A handle for reading the segment at `path`: an open one, or a new one in place of the least
    /// recently used.
    pub(crate) async fn reader(&self, segment: u64, path: &Path) -> Result<Rc<FileOf<P>>, IoError> {
        let inner = &self.shared.inner;
        let key = (self.number, segment);
        if let Some(file) = inner.handles.borrow_mut().get(key) {
            return Ok(file);
        }
        let file = Rc::new(self.shared.open(path, Open::default()).await?);
        if self.keeps(segment) {
            inner.handles.borrow_mut().put(key, &file);
        }
        Ok(file)
    }

    /// The index of a sealed segment, where it is loaded.
    pub(crate) fn index(&self, segment: u64) -> Option<Rc<SparseIndex>> {
        self.shared.inner.indexes.borrow_mut().get((self.number, segment))
    }

    /// Keeps the index of a sealed segment, in place of the least recently used one.
    pub(crate) fn keep_index(&self, segment: u64, index: &Rc<SparseIndex>) {
        if self.keeps(segment) {
            self.shared.inner.indexes.borrow_mut().put((self.number, segment), index);
        }
    }

    /// The window that holds `position`, being read or ready. It counts as used with `touch`.
    pub(crate) fn window(
        &self,
        segment: u64,
        position: u64,
        touch: bool,
    ) -> Option<Rc<Window<Bytes<P>>>> {
        let windows = &mut self.shared.inner.cache.borrow_mut().windows;
        let window = Rc::clone(windows.find(self.number, segment, position)?);
        if touch {
            windows.touch(self.number, segment, &window);
        }
        Some(window)
    }

    /// Begins to read `window` from `file`, for everyone who will want it. False where it is read
    /// `ahead` and there is no room for it among those that wait for their readers.
    ///
    /// The read is a task of its own: who asked for it may be gone before it ends.
    pub(crate) fn read(
        &self,
        segment: u64,
        window: &Rc<Window<Bytes<P>>>,
        file: &Rc<FileOf<P>>,
        ahead: bool,
    ) -> bool {
        if ahead && !(self.keeps(segment) && self.shared.inner.cache.borrow().has_room(window)) {
            return false;
        }
        if window.cost() > self.shared.limits().cache_bytes {
            // A long batch may need all the memory that reads have: the cache gives way.
            self.shared.drop_windows();
        } else if self.keeps(segment) {
            let mut cache = self.shared.inner.cache.borrow_mut();
            let before = cache.windows.insert(self.number, segment, window, !ahead);
            // Giving memory back may run code that comes here: see `trim_cache`.
            drop(cache);
            drop(before);
        }
        self.shared.trim_cache();
        let (window, file) = (Rc::clone(window), Rc::clone(file));
        let tally = self.tally.clone();
        self.shared.read_begun();
        self.shared.platform().spawn().spawn(async move {
            let len = window.read(file).await;
            tally.add(|c| &c.disk_reads, 1);
            tally.add(|c| &c.disk_read_bytes, len as u64);
        });
        true
    }

    /// Forgets a window whose bytes are of no use; the next one who wants them reads anew.
    pub(crate) fn forget(&self, segment: u64, window: &Rc<Window<Bytes<P>>>) {
        let mut cache = self.shared.inner.cache.borrow_mut();
        let kept = cache.windows.remove(self.number, segment, window);
        drop(cache);
        drop(kept);
    }

    /// Forgets handles, indexes and windows of segments below `first`, whose files are about to be
    /// removed: each file closes when its last read is done, and only then its space is free.
    pub(crate) fn trim(&self, first: u64) {
        if let Some(kept) = self.shared.inner.alive.borrow_mut().get_mut(&self.number) {
            *kept = first;
        }
        self.let_go(first);
    }

    /// Forgets everything; files close when their last read is done, and nothing new is kept.
    pub(crate) fn end(&self) {
        if self.shared.inner.alive.borrow_mut().remove(&self.number).is_some() {
            if self.poisoned.get() {
                self.shared.inner.poisoned.update(|count| count - 1);
            }
            self.let_go(u64::MAX);
        }
    }

    fn let_go(&self, first: u64) {
        let inner = &self.shared.inner;
        let stays = |(life, segment)| life != self.number || segment >= first;
        inner.handles.borrow_mut().retain(stays);
        inner.indexes.borrow_mut().retain(stays);
        let windows = inner.cache.borrow_mut().windows.trim(self.number, first);
        drop(windows);
    }

    fn keeps(&self, segment: u64) -> bool {
        self.shared.inner.alive.borrow().get(&self.number).is_some_and(|first| segment >= *first)
    }
}

impl<P: Platform> Drop for Life<P> {
    fn drop(&mut self) {
        self.end();
    }
}
