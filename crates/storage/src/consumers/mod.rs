//! What consumers and consumer groups have stored: one offset each, of the last message they are
//! done with.
//!
//! Offsets live in memory and follow to their file in groups, at once where somebody waits and
//! within a second otherwise: one task stores, what comes meanwhile goes with the next time. Every
//! store is durable when it has returned.
//!
//! An offset is never above the log's end. At an opening one that is, since a crash took what it
//! was stored for, is put down to the last message, durably, before anything is appended:
//! otherwise new messages would get offsets that count as consumed. Where the stored offsets cannot
//! be read at an opening, appends are refused until they are (`unread`).

mod error;
mod file;
mod unread;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use corelog_format::checksum::xxh32;
use corelog_format::{ConsumerKind, Identifier, OffsetEntry};
use corelog_io::{Clock, IoError, IoOp, Platform};

use crate::canary::{self, Canary};
use crate::partition::{Inner, Partition};
use crate::signal::{Promise, Signal, first_of};
use crate::{Ack, Answer};

pub use error::OffsetError;
pub(crate) use file::{CONSUMERS_FILE, CONSUMERS_TEMPORARY, REFERENCE_DIR};
pub(crate) use file::{Found, Listed, Table, load};
use unread::Unread;

/// A stored offset that nobody waits for is durable within this time.
const STORE_WITHIN: Duration = Duration::from_secs(1);

/// A consumer, or a consumer group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConsumerKey {
    /// Which of the two; their ids have nothing to do with each other.
    pub kind: ConsumerKind,
    /// A consumer's number, or the XXH32 (seed 0) of its name; a group's id.
    pub id: u32,
}

impl ConsumerKey {
    /// A consumer by its number, or by its name, which counts as its XXH32 (seed 0), as clients and
    /// the reference server have it: a number that is equal to it is the same consumer.
    pub fn consumer(id: Identifier<'_>) -> Self {
        let id = match id {
            Identifier::Numeric(id) => id,
            Identifier::String(name) => xxh32(name.as_str().as_bytes()),
        };
        ConsumerKey { kind: ConsumerKind::Consumer, id }
    }

    /// A consumer group by its id in the topic.
    pub const fn group(id: u32) -> Self {
        ConsumerKey { kind: ConsumerKind::ConsumerGroup, id }
    }

    fn sort(self) -> (u8, u32) {
        (self.kind.code(), self.id)
    }
}

/// The stored offsets of one partition.
pub(crate) struct Consumers {
    state: RefCell<State>,
    /// Raised when somebody waits for the next store.
    hurry: Rc<Signal>,
    /// Raised when no task stores any more.
    idle: Rc<Signal>,
}

struct State {
    offsets: BTreeMap<(u8, u32), (ConsumerKind, u64)>,
    /// The file; `None` while a task has it.
    table: Option<Table>,
    /// Why stored offsets cannot be used: nobody knows them.
    unread: Option<Unread>,
    /// Where the log ended when it was opened: what is above was stored for messages that are gone.
    end: u64,
    groups: Groups,
    /// Number of the last change, and of the last one that is durable.
    changed: u64,
    stored: u64,
    /// Number of the last change that the file has, durably or not.
    in_file: u64,
    /// The lowest offset that a crash leaves; `None` where it leaves none.
    lowest_stored: Option<u64>,
    waiting: Vec<(u64, Promise<Result<(), OffsetError>>)>,
    /// A task stores, or waits for its time.
    storing: bool,
    ended: bool,
}

impl Consumers {
    /// What was found at the opening of a log whose messages end at `end`, and whether it has to be
    /// stored before the log is used.
    pub(crate) fn new(found: Found, table: Table, end: u64) -> (Self, bool) {
        let mut state = State {
            offsets: BTreeMap::new(),
            table: Some(table),
            unread: None,
            end,
            groups: Groups::default(),
            changed: 0,
            stored: 0,
            in_file: 0,
            // Nobody knows.
            lowest_stored: Some(0),
            waiting: Vec::new(),
            storing: false,
            ended: false,
        };
        let must = state.take_over(found) == Some(true);
        let state = RefCell::new(state);
        (Consumers { state, hurry: Rc::default(), idle: Rc::default() }, must)
    }

    /// The lowest offset that is in force: what lies above it must not be deleted. 0 where nobody
    /// knows.
    pub(crate) fn lowest(&self) -> Option<u64> {
        let state = self.state.borrow();
        match state.unread {
            Some(_) => Some(0),
            None => state.offsets.values().map(|(_, offset)| *offset).min(),
        }
    }

    /// The lowest offset that is in force now, or would be again after a crash.
    pub(crate) fn lowest_for_good(&self) -> Option<u64> {
        let stored = self.state.borrow().lowest_stored;
        [self.lowest(), stored].into_iter().flatten().min()
    }

    pub(crate) fn get(&self, who: ConsumerKey) -> Result<Option<u64>, Arc<IoError>> {
        let state = self.state.borrow();
        match &state.unread {
            Some(unread) => Err(Arc::clone(&unread.why)),
            None => Ok(state.offsets.get(&who.sort()).map(|(_, offset)| *offset)),
        }
    }
}

/// What a partition knows of its topic's consumer groups, whose ids are never used again.
#[derive(Default)]
struct Groups {
    /// `None` until they are told.
    alive: Option<Arc<[u32]>>,
    /// A group with this id or a higher one may be there, without having been heard of so far.
    next: u32,
}

impl Groups {
    fn is_gone(&self, id: u32) -> bool {
        id < self.next && self.alive.as_ref().is_none_or(|alive| !alive.contains(&id))
    }
}

impl State {
    fn check(&self) -> Result<(), OffsetError> {
        if self.ended {
            return Err(OffsetError::Closed);
        }
        match &self.unread {
            Some(unread) => Err(OffsetError::Unreadable(Arc::clone(&unread.why))),
            None => Ok(()),
        }
    }

    /// Takes what was found, none of it above the end; says whether it has to be stored before
    /// anything is appended, or `None` where nobody knows what there is.
    fn take_over(&mut self, found: Found) -> Option<bool> {
        // What a killed process has stored last may not be durable yet.
        let settled = !matches!(found, Found::Stored(_));
        let (entries, mut must) = match found {
            Found::Nothing => {
                self.lowest_stored = None;
                (Vec::new(), false)
            }
            Found::Stored(entries) => (entries, false),
            Found::Adopted(entries) => (entries, true),
            Found::Unread(error) => {
                self.unread = Some(Unread { why: Arc::new(error), again: true });
                return None;
            }
            Found::Newer(error) => {
                self.unread = Some(Unread { why: Arc::new(error), again: false });
                return None;
            }
        };
        self.offsets.clear();
        for OffsetEntry { kind, id, offset } in entries {
            // In an empty log there is nothing that could have been consumed.
            if let Some(last) = self.end.checked_sub(1) {
                self.offsets.insert((kind.code(), id), (kind, offset.min(last)));
            }
            must |= offset >= self.end;
        }
        self.changed = self.stored + u64::from(must || !settled);
        self.in_file = if must { self.stored } else { self.changed };
        Some(must)
    }

    /// Forgets what groups have stored that are gone; true where there was something.
    fn drop_groups(&mut self) -> bool {
        let Some(alive) = self.groups.alive.clone() else { return false };
        let before = self.offsets.len();
        self.offsets
            .retain(|(_, id), (kind, _)| *kind == ConsumerKind::Consumer || alive.contains(id));
        let is_changed = self.offsets.len() < before;
        self.changed += u64::from(is_changed);
        is_changed
    }

    fn entries(&self) -> Vec<OffsetEntry> {
        let entry = |(key, (kind, offset)): (&(u8, u32), &(ConsumerKind, u64))| OffsetEntry {
            kind: *kind,
            id: key.1,
            offset: *offset,
        };
        self.offsets.iter().map(entry).collect()
    }
}

impl<P: Platform, A: Answer> Partition<P, A> {
    /// What `who` has stored; `None` where it has stored nothing.
    pub fn consumer_offset(&self, who: ConsumerKey) -> Result<Option<u64>, OffsetError> {
        let state = self.inner.consumers.state.borrow();
        state.check()?;
        Ok(state.offsets.get(&who.sort()).map(|(_, offset)| *offset))
    }

    /// Stores `offset`, that of the last message `who` is done with; it may go back. In force when
    /// this returns. Ends at once with [`Ack::Appended`]: it is durable within a second then; with
    /// the others when it is durable. Dropping the future does not take it back.
    ///
    /// # Errors
    /// An offset at or above the end of what polls see, and one more consumer than the shard allows,
    /// change nothing. After [`OffsetError::Io`] the offset is in force and not durable; it is tried
    /// again.
    pub fn store_offset(
        &self,
        who: ConsumerKey,
        offset: u64,
        ack: Ack,
    ) -> impl Future<Output = Result<(), OffsetError>> + use<P, A> {
        let changed = self.inner.put_offset(who, offset);
        self.inner.answer_offset(changed, ack)
    }

    /// Forgets what `who` has stored. As [`Partition::store_offset`].
    ///
    /// # Errors
    /// As there; [`OffsetError::NothingStored`] where there was nothing.
    pub fn delete_offset(
        &self,
        who: ConsumerKey,
        ack: Ack,
    ) -> impl Future<Output = Result<(), OffsetError>> + use<P, A> {
        let changed = {
            let mut state = self.inner.consumers.state.borrow_mut();
            state.check().and_then(|()| match state.offsets.remove(&who.sort()) {
                Some(_) => {
                    state.changed += 1;
                    Ok(state.changed)
                }
                None => Err(OffsetError::NothingStored),
            })
        };
        self.inner.answer_offset(changed, ack)
    }

    /// Forgets what consumer groups have stored that are none of `alive`: they are gone, and those
    /// with an id below `next` never come again, so nothing is stored for them any more. Durable
    /// within a second.
    pub fn keep_groups(&self, alive: &Arc<[u32]>, next: u32) {
        let is_changed = {
            let mut state = self.inner.consumers.state.borrow_mut();
            state.groups = Groups { alive: Some(Arc::clone(alive)), next };
            // What is not read yet is looked through when it is.
            state.check().is_ok() && state.drop_groups()
        };
        if is_changed {
            self.inner.store_offsets_soon();
        }
    }
}

impl<P: Platform, A: Answer> Inner<P, A> {
    /// As a poll with auto-commit does: never goes back, and nobody waits.
    pub(crate) fn commit_offset(self: &Rc<Self>, who: ConsumerKey, offset: u64) {
        let before = self.consumers.get(who);
        if before.is_ok_and(|before| before.is_none_or(|before| before < offset)) {
            // Too many consumers, or a log that closes: the next poll begins there again.
            if self.put_offset(who, offset).is_ok() {
                self.store_offsets_soon();
            }
        }
    }

    /// The number of the change.
    fn put_offset(&self, who: ConsumerKey, offset: u64) -> Result<u64, OffsetError> {
        let end = self.readable_end();
        let max = self.shared.limits().consumers;
        let mut state = self.consumers.state.borrow_mut();
        state.check()?;
        if offset >= end {
            return Err(OffsetError::OutOfRange { offset, last: end.checked_sub(1) });
        }
        let (key, count) = (who.sort(), state.offsets.len());
        if !state.offsets.contains_key(&key) {
            if who.kind == ConsumerKind::ConsumerGroup && state.groups.is_gone(who.id) {
                return Err(OffsetError::GroupIsGone { id: who.id });
            }
            if count >= max {
                return Err(OffsetError::TooMany { max });
            }
        }
        state.offsets.insert(key, (who.kind, offset));
        state.changed += 1;
        Ok(state.changed)
    }

    /// The answer to a change, when `ack` is reached.
    fn answer_offset(
        self: &Rc<Self>,
        changed: Result<u64, OffsetError>,
        ack: Ack,
    ) -> impl Future<Output = Result<(), OffsetError>> + use<P, A> {
        let waits = match changed {
            Err(error) => Err(error),
            Ok(_)
                if ack == Ack::Appended && !self.config.enforce_fsync
                    || canary::is(Canary::EarlyOffset) =>
            {
                self.store_offsets_soon();
                Ok(None)
            }
            Ok(change) => {
                let (promise, done) = Promise::new();
                self.consumers.state.borrow_mut().waiting.push((change, promise));
                self.store_offsets_soon();
                self.consumers.hurry.raise();
                Ok(Some(done))
            }
        };
        async move {
            match waits? {
                None => Ok(()),
                Some(done) => done.await.unwrap_or(Err(OffsetError::Closed)),
            }
        }
    }

    /// Sees that a task stores what has changed.
    pub(crate) fn store_offsets_soon(self: &Rc<Self>) {
        {
            let mut state = self.consumers.state.borrow_mut();
            if state.storing || state.changed == state.stored || state.ended {
                return;
            }
            state.storing = true;
        }
        let storing = Storing { inner: Rc::clone(self), table: None };
        self.spawn(async move {
            let mut storing = storing;
            let inner = Rc::clone(&storing.inner);
            loop {
                let hurry = inner.consumers.hurry.wait();
                if inner.consumers.state.borrow().waiting.is_empty() {
                    let sleep = inner.shared.platform().clock().sleep(STORE_WITHIN);
                    first_of(sleep, hurry).await;
                }
                // After a failure it is tried again in its time.
                let _ = storing.store().await;
                let state = inner.consumers.state.borrow();
                if state.ended || state.changed == state.stored {
                    break;
                }
            }
        });
    }

    /// Stores what an opening has found to need it.
    pub(crate) async fn store_offsets_now(self: &Rc<Self>) -> Result<(), IoError> {
        self.consumers.state.borrow_mut().storing = true;
        let mut storing = Storing { inner: Rc::clone(self), table: None };
        storing.store().await
    }

    /// Ends when what is in force now is durable, or cannot be made so now.
    pub(crate) async fn offsets_stored(self: &Rc<Self>) {
        let done = {
            let mut state = self.consumers.state.borrow_mut();
            if state.check().is_err() || state.changed == state.stored {
                return;
            }
            let (promise, done) = Promise::new();
            let change = state.changed;
            state.waiting.push((change, promise));
            done
        };
        self.store_offsets_soon();
        self.consumers.hurry.raise();
        let _ = done.await;
    }

    /// The partition closes: takes no more changes, and stores what is not stored.
    pub(crate) async fn close_offsets(self: &Rc<Self>) -> Result<(), IoError> {
        self.consumers.state.borrow_mut().ended = true;
        loop {
            let idle = self.consumers.idle.wait();
            if !self.consumers.state.borrow().storing {
                break;
            }
            self.consumers.hurry.raise();
            idle.await;
        }
        let is_stored = {
            let state = self.consumers.state.borrow();
            state.changed == state.stored || state.unread.is_some()
        };
        if is_stored { Ok(()) } else { self.store_offsets_now().await }
    }
}

/// The one who stores. Dropped, by a panic too, it lets the next one, and whoever waits for it is
/// not left waiting.
struct Storing<P: Platform, A: Answer> {
    inner: Rc<Inner<P, A>>,
    table: Option<Table>,
}

impl<P: Platform, A: Answer> Storing<P, A> {
    /// Stores all offsets as they are now, durably, and answers who waited for it.
    async fn store(&mut self) -> Result<(), IoError> {
        let (change, in_file, entries) = {
            let mut state = self.inner.consumers.state.borrow_mut();
            self.table = state.table.take().or(self.table.take());
            (state.changed, state.in_file, state.entries())
        };
        let table = self.table.as_mut().expect("one task stores at a time");
        let lowest = entries.iter().map(|entry| entry.offset).min();
        let result = match change == in_file {
            true => table.settle(&self.inner.shared).await,
            false => table.store(&self.inner.shared, entries).await,
        };
        if let Err(error) = &result
            && error.op == IoOp::SyncDir
        {
            // Other names in the directory may be lost with this one: a new segment's, too.
            self.inner.poison(again(error));
            self.inner.pump();
        }
        let answered: Vec<_> = {
            let mut state = self.inner.consumers.state.borrow_mut();
            match &result {
                Ok(()) => {
                    (state.stored, state.in_file, state.lowest_stored) = (change, change, lowest);
                }
                Err(_) => state.in_file = state.stored,
            }
            state.waiting.extract_if(.., |(waits_for, _)| *waits_for <= change).collect()
        };
        for (_, promise) in answered {
            promise.give(match &result {
                Ok(()) => Ok(()),
                Err(error) => Err(OffsetError::Io(again(error))),
            });
        }
        result
    }
}

impl<P: Platform, A: Answer> Drop for Storing<P, A> {
    fn drop(&mut self) {
        let consumers = &self.inner.consumers;
        let waiting = {
            let mut state = consumers.state.borrow_mut();
            state.storing = false;
            state.table = self.table.take().or(state.table.take());
            // Somebody came while this one ended by a panic: better no answer than none ever.
            if state.changed == state.stored {
                Vec::new()
            } else {
                std::mem::take(&mut state.waiting)
            }
        };
        drop(waiting);
        consumers.idle.raise();
    }
}

/// The same error for one more who waits.
fn again(error: &IoError) -> IoError {
    let source = match error.source.raw_os_error() {
        Some(code) => std::io::Error::from_raw_os_error(code),
        None => error.source.kind().into(),
    };
    let same = IoError::new(error.op, &error.path, source);
    match error.at {
        Some(position) => same.at(position),
        None => same,
    }
}
