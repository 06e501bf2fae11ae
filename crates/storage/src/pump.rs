//! What the appender asks for is done here, and its answers are given.
//!
//! The appender decides, this file awaits; each I/O is a task of its own that is never cancelled,
//! and its end comes back into [`Inner::pump`].

use std::future::Future;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use corelog_format::Mark;
use corelog_io::task::then;
use corelog_io::{BLOCK, Buf, Clock, File, IoError, Platform, Spawn, align_up};

use crate::appender::{Action, Appender, Lent};
use crate::canary::{self, Canary};
use crate::partition::{BytesOf, FileOf, Inner};
use crate::room::Writer;
use crate::watch::{Closing, Giving, Watch};
use crate::{Answer, Fault, Notice};

/// How long to wait for a buffer or for the clock's ceiling before looking again.
const RETRY_AFTER: Duration = Duration::from_millis(1);
/// Zeros are written ahead of the tail in pieces of this size.
const ZERO_BYTES: usize = 256 << 10;

impl<P: Platform, A: Answer> Writer for Inner<P, A> {
    fn room(self: Rc<Self>) {
        self.appender.borrow_mut().room();
        self.pump();
    }
}

impl<P: Platform, A: Answer> Inner<P, A> {
    /// Does everything that can be done now.
    pub(crate) fn pump(self: &Rc<Self>) {
        loop {
            // Nothing is borrowed while an action or an answer runs: a runtime may run a task
            // inside of the spawn. The action goes first, so that a panic of an answer loses none.
            let action = self.next_action();
            let is_done = action.is_none();
            if let Some(action) = action {
                self.run(action);
            }
            if self.answering.get() || self.shared.has_just_sent() {
                // What was just sent is not with the device yet, and an answer may wake a thread
                // that wants this very CPU: the answers follow when the device has its work.
                if is_done {
                    self.answer_soon();
                    break;
                }
            } else {
                self.answer();
                if is_done {
                    break;
                }
            }
        }
        self.look_for_rest();
        let readable = self.readable_end();
        if self.announced.replace(readable) != readable {
            self.changed.raise();
        }
    }

    /// Gives the answers that are due, each taken when its turn has come: one that panics takes none
    /// with it.
    fn answer(self: &Rc<Self>) {
        let _giving = Giving::new(self);
        loop {
            let next = self.appender.borrow_mut().ready.pop_front();
            let Some(answer) = next else { return };
            if answer.is_refused_append() {
                self.tally.add(|c| &c.append_errors, 1);
            }
            answer.give();
        }
    }

    /// Goes on in a task of its own: nothing is done, and nobody is called, from inside of a panic,
    /// which may be that of a thread that takes its whole executor down.
    pub(crate) fn pump_apart(self: &Rc<Self>) {
        let inner = Rc::clone(self);
        self.spawn(async move { inner.pump() });
    }

    /// Gives the answers that are due after the thread has turned to its I/O. One task at a time
    /// does it, so that they stay in order.
    fn answer_soon(self: &Rc<Self>) {
        if self.appender.borrow().ready.is_empty() || self.answering.replace(true) {
            return;
        }
        let inner = Rc::clone(self);
        let turn = self.shared.platform().spawn().turn_to_io();
        self.spawn(async move {
            turn.await;
            inner.answering.set(false);
            inner.answer();
        });
    }

    fn next_action(&self) -> Option<Action<BytesOf<P>>> {
        let clock = self.shared.platform().clock();
        let lent = Lent {
            alloc: &|len| self.shared.alloc(len),
            memory: &self.memory,
            index: &self.index,
            now_us: clock.now_us(),
            ceiling_us: clock.ceiling_us(),
            room: self.shared.has_room(),
            has_file: self.file.borrow().is_some(),
        };
        self.appender.borrow_mut().next(&lent)
    }

    /// Runs a step of this partition. A step that panics, which is our bug, poisons the partition:
    /// what waits for it is answered, and nothing is appended behind a state that nobody knows.
    pub(crate) fn spawn(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        self.spawn_step(|_| {}, task);
    }

    /// As [`Inner::spawn`], a step that the appender counts as under way: after a panic `stopped` says
    /// that it is not any more, else a close would wait for the end of it.
    pub(crate) fn spawn_step(
        self: &Rc<Self>,
        stopped: fn(&mut Appender<P::Disk, A>),
        task: impl Future<Output = ()> + 'static,
    ) {
        let watch = Watch::new(Rc::clone(self), stopped);
        self.shared.platform().spawn().spawn(then(task, move |()| watch.ended()));
    }

    fn run(self: &Rc<Self>, action: Action<BytesOf<P>>) {
        let inner = Rc::clone(self);
        let clock = self.shared.platform().clock();
        match action {
            Action::Write { id, bytes, at } => self.write(id, bytes, at),
            Action::AwaitRoom => {
                self.tally.add(|c| &c.room_waits, 1);
                let inner: Weak<Self> = Rc::downgrade(self);
                self.shared.await_room(inner);
            }
            Action::OpenFile => {
                self.spawn_step(Appender::file_opened, async move { inner.unpark().await });
            }
            Action::Sync(mark) => {
                self.spawn_step(|a| a.synced(None), async move { inner.sync(mark).await });
            }
            Action::Allocate(to) => {
                self.spawn_step(|a| a.allocated(None), async move { inner.allocate(to).await });
            }
            Action::Seal => {
                self.spawn_step(Appender::seal_ended, async move {
                    crate::roll::seal(&inner).await;
                });
            }
            Action::Close => {
                let closing = Closing::new(inner);
                self.spawn(async move {
                    let result = crate::roll::close(closing.partition()).await;
                    closing.ended(result);
                });
            }
            Action::FlushTimer => {
                let sleep = clock.sleep(self.config.flush_after);
                self.spawn(async move {
                    sleep.await;
                    inner.appender.borrow_mut().flush_due();
                    inner.pump();
                });
            }
            Action::Retry => {
                self.tally.add(|c| &c.stalls, 1);
                let sleep = clock.sleep(RETRY_AFTER);
                self.spawn(async move {
                    sleep.await;
                    inner.appender.borrow_mut().retry();
                    inner.pump();
                });
            }
        }
    }

    fn write(self: &Rc<Self>, id: u64, bytes: BytesOf<P>, at: u64) {
        let Some(file) = self.active_file() else { return };
        self.tally.add(|c| &c.writes, 1);
        self.tally.add(|c| &c.bytes_written, bytes.as_ref().len() as u64);
        let flight = self.shared.fly(bytes.as_ref().len());
        let watch = Watch::new(Rc::clone(self), |_| {});
        file.write_then(self.shared.platform().spawn(), bytes, at, move |outcome| {
            watch.inner.wrote(id, outcome);
            // Those who wait for room come first: they have been ready for longer.
            flight.landed();
            watch.inner.pump();
            watch.ended();
        });
    }

    fn wrote(self: &Rc<Self>, id: u64, outcome: Result<(), IoError>) {
        match outcome {
            Ok(()) => {
                let moved = self.appender.borrow_mut().wrote(id);
                self.cache_written();
                self.give_up_unwritten();
                if moved && self.config.enforce_fsync {
                    crate::marks::durable_moved(self);
                }
            }
            Err(error) => {
                self.appender.borrow_mut().write_failed(id);
                self.poison(error);
            }
        }
    }

    /// Chunks below the last written batch come under the cache's budget. Before, the write itself
    /// needs them, or a batch that begins in them and is not on the disk as a whole.
    fn cache_written(&self) {
        let written = self.appender.borrow().written().position;
        loop {
            let number = self.cached.get();
            let next = self.memory.borrow().chunk(number).map(|chunk| (chunk.end, chunk.held));
            let evicted = number < self.memory.borrow().first_chunk();
            match next {
                Some((end, held)) if end <= written => {
                    self.shared.cache(&self.memory, number, held);
                }
                None if evicted => {}
                _ => return,
            }
            self.cached.set(number + 1);
        }
    }

    async fn sync(self: &Rc<Self>, mark: Mark) {
        let Some(file) = self.active_file() else { return };
        self.tally.add(|c| &c.syncs, 1);
        let synced = match canary::is(Canary::SkippedSync) {
            true => Ok(()),
            false => file.sync().await,
        };
        match synced {
            Ok(()) => {
                self.appender.borrow_mut().synced(Some(mark));
                crate::marks::durable_moved(self);
            }
            // A failed sync may have dropped what it was to keep: it is never tried again.
            Err(error) => {
                self.appender.borrow_mut().synced(None);
                self.poison(error);
            }
        }
        self.pump();
    }

    async fn allocate(self: &Rc<Self>, to: u64) {
        let Some(file) = self.active_file() else { return };
        let from = align_up(self.appender.borrow().reserved());
        let fault = match file.allocate(to).await {
            Ok(()) => self.write_zeros(&file, from, to).await.err(),
            Err(error) if error.is_full() => {
                let told = error.duplicate();
                if self.appender.borrow_mut().full(to, error) {
                    self.refused_for_space(&told);
                }
                return self.pump();
            }
            Err(error) => Some(error),
        };
        self.appender.borrow_mut().allocated(fault.is_none().then_some(to));
        match fault {
            Some(error) => self.poison(error),
            None => self.has_space(),
        }
        self.pump();
    }

    /// `enforce_fsync` writes go to blocks that were written before: then a synced write changes
    /// no metadata. The zeros, and the file's length, are durable before the tail reaches them.
    async fn write_zeros(&self, file: &FileOf<P>, from: u64, to: u64) -> Result<(), IoError> {
        if !self.config.enforce_fsync {
            return Ok(());
        }
        let mut at = from;
        while at < to {
            let len = (to - at).min(ZERO_BYTES as u64) as usize;
            // Without a buffer the blocks stay unwritten: slower, not wrong.
            let Some(mut buf) = self.shared.alloc(len) else { break };
            buf.as_mut().fill(0);
            file.write_at(buf.freeze(len), at).await?;
            self.tally.add(|c| &c.bytes_zeroed, len as u64);
            at += len as u64;
        }
        debug_assert!(to.is_multiple_of(BLOCK as u64));
        file.sync().await
    }

    /// The first fault latches: the partition takes no more appends until it is reopened.
    pub(crate) fn poison(&self, error: IoError) {
        let since_us = self.shared.platform().clock().now_us();
        self.shared.lost_time(self.appender.borrow().appended().last_timestamp);
        let is_first = self.appender.borrow().fault().is_none();
        let fault = Arc::new(Fault { since_us, error });
        self.appender.borrow_mut().poison(Arc::clone(&fault));
        self.give_up_unwritten();
        if is_first {
            self.life.poisoned();
            self.shared.tell(&Notice::Poisoned(&fault));
        }
    }

    /// An append was refused for want of space.
    pub(crate) fn refused_for_space(&self, error: &IoError) {
        if !self.full.replace(true) {
            self.shared.tell(&Notice::StorageFull(error));
        }
    }

    /// Space was found.
    pub(crate) fn has_space(&self) {
        if self.full.replace(false) {
            self.shared.tell(&Notice::SpaceIsBack);
        }
    }

    /// A partition with a fault must not sit on the shard's buffers until it is reopened.
    fn give_up_unwritten(&self) {
        let written = self.appender.borrow_mut().give_up_unwritten();
        if let Some(written) = written {
            self.memory.borrow_mut().cut(written.position);
        }
    }
}
