//! One partition: what its owner asks of it, and what its parts share.
//!
//! Everything lives on one thread. The appender decides what happens next; `pump.rs` does it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use corelog_format::Mark;
use corelog_io::{Clock, Disk, IoError, Platform};

use crate::actives::Active;
use crate::appender::Appender;
use crate::consumers::{Consumers, Listed};
use crate::index::SparseIndex;
use crate::marks::Marks;
use crate::memory::Memory;
use crate::read::{Foreign, Hints};
use crate::reindex::Reindexed;
use crate::segments::{Segments, log_path};
use crate::shared::Life;
use crate::signal::{Promise, Signal};
use crate::stats::{Now, Tally};
use crate::waiting::Pending;
use crate::{
    Ack, AdmittedBatch, Answer, AppendError, CloseError, Fault, LogConfig, OpenDamage, OpenError,
    OpenReport, PartitionStats, PollError, PollQuery, Polled, Shared, Watermarks,
};

/// Where a partition lives and which one it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// An existing directory above `dir`; directories between the two are created, durably.
    pub root: PathBuf,
    /// The partition's directory.
    pub dir: PathBuf,
    /// The id that is stamped into every batch.
    pub partition_id: u32,
    /// Raised whenever the id begins a new life; a directory of another incarnation is refused.
    pub incarnation: u64,
}

pub(crate) type BytesOf<P> = <<P as Platform>::Disk as Disk>::Bytes;
pub(crate) type FileOf<P> = <<P as Platform>::Disk as Disk>::File;

/// One partition's log. Cheap to clone; local to its thread.
pub struct Partition<P: Platform, A: Answer> {
    pub(crate) inner: Rc<Inner<P, A>>,
}

impl<P: Platform, A: Answer> Clone for Partition<P, A> {
    fn clone(&self) -> Self {
        Partition { inner: Rc::clone(&self.inner) }
    }
}

pub(crate) struct Inner<P: Platform, A: Answer> {
    pub(crate) shared: Shared<P>,
    pub(crate) place: Place,
    pub(crate) config: Rc<LogConfig>,
    pub(crate) appender: RefCell<Appender<P::Disk, A>>,
    pub(crate) memory: Rc<RefCell<Memory<BytesOf<P>>>>,
    /// Index of the active segment.
    pub(crate) index: RefCell<SparseIndex>,
    /// The active segment's file; `None` while parked, with a fault at the opening, once closed.
    pub(crate) file: RefCell<Option<Active<FileOf<P>>>>,
    /// The file was used since others have asked for it last.
    pub(crate) used: Cell<bool>,
    pub(crate) segments: RefCell<Segments>,
    pub(crate) marks: Marks,
    pub(crate) hints: RefCell<Hints>,
    pub(crate) foreign: Foreign,
    pub(crate) reindexed: Reindexed,
    pub(crate) consumers: Consumers,
    /// No poll waits any more: the partition is about to close.
    pub(crate) waits_end: Cell<bool>,
    pub(crate) changed: Rc<Signal>,
    /// Where polls ended when `changed` was raised last.
    pub(crate) announced: Cell<u64>,
    /// A task gives the answers that are due.
    pub(crate) answering: Cell<bool>,
    pub(crate) closing: RefCell<Option<Promise<Result<(), CloseError>>>>,
    /// Number of the first chunk that is not under the cache's budget yet.
    pub(crate) cached: Cell<u64>,
    pub(crate) tally: Tally,
    /// Appends are refused for want of space: that was told.
    pub(crate) full: Cell<bool>,
    pub(crate) life: Life<P>,
}

/// What recovery or creation hands over to a running partition.
pub(crate) struct Opened<P: Platform> {
    pub(crate) segments: Segments,
    pub(crate) index: SparseIndex,
    /// The active segment's file; `None` only with a fault.
    pub(crate) file: Option<Rc<FileOf<P>>>,
    pub(crate) start: u64,
    pub(crate) end: Mark,
    /// Bytes of the active file from the block boundary up to its end.
    pub(crate) last_block: Vec<u8>,
    pub(crate) marks: Marks,
    /// What there is of consumers' offsets.
    pub(crate) listed: Listed,
    /// Batches below this offset may be another server's, and their times may go back.
    pub(crate) adopted_end: u64,
    /// Why the partition takes no appends.
    pub(crate) fault: Option<IoError>,
}

/// Recovers the log, once more where descriptors had run out and others could give some back:
/// running it twice equals running it once.
async fn recover<P: Platform>(
    shared: &Shared<P>,
    place: &Place,
    config: &LogConfig,
) -> Result<(Opened<P>, OpenReport), OpenError> {
    match crate::recover::open(shared, place, config).await {
        Err(OpenError::Io(error)) if shared.gave_back(&error).await => {
            crate::recover::open(shared, place, config).await
        }
        recovered => recovered,
    }
}

impl<P: Platform, A: Answer> Partition<P, A> {
    /// Opens the partition in `place`, creating it where nothing is there, recovering it where it
    /// was not closed. Data that is damaged is reported, never a reason to refuse.
    pub async fn open(
        shared: Shared<P>,
        place: Place,
        config: LogConfig,
    ) -> Result<(Self, OpenReport), OpenError> {
        config.validate().map_err(OpenError::Config)?;
        let (mut opened, mut report) = recover(&shared, &place, &config).await?;
        let (found, table, damaged) =
            crate::consumers::load(&shared, &place.dir, place.incarnation, opened.listed).await;
        if damaged {
            report.damage.push(OpenDamage::ConsumerOffsets);
        }
        let (consumers, must_store) = Consumers::new(found, table, opened.end.next_offset);
        opened.end.last_timestamp = opened.end.last_timestamp.max(shared.stamped_us());
        let config = Rc::new(config);
        let life = shared.begin_life();
        let appender = Appender::new(
            place.partition_id,
            Rc::clone(&config),
            shared.limits(),
            life.tally().clone(),
            opened.start,
            opened.end,
            &opened.last_block,
        );
        let inner = Inner {
            memory: Rc::new(RefCell::new(Memory::new(opened.end.position))),
            appender: RefCell::new(appender),
            index: RefCell::new(opened.index),
            file: RefCell::new(None),
            used: Cell::new(false),
            segments: RefCell::new(opened.segments),
            marks: opened.marks,
            hints: RefCell::default(),
            foreign: Foreign::new(opened.adopted_end, shared.platform().clock().now_us()),
            reindexed: Reindexed::default(),
            consumers,
            waits_end: Cell::new(false),
            changed: Rc::default(),
            announced: Cell::new(opened.end.next_offset),
            answering: Cell::new(false),
            closing: RefCell::default(),
            cached: Cell::new(0),
            tally: life.tally().clone(),
            full: Cell::new(false),
            life,
            shared,
            place,
            config,
        };
        if let Some(error) = opened.fault {
            inner.poison(error);
        }
        let inner = Rc::new(inner);
        opened.file.into_iter().for_each(|file| inner.enter(file));
        // Before an append could give an offset that counts as consumed.
        if must_store
            && inner.appender.borrow().fault().is_none()
            && let Err(error) = inner.store_offsets_now().await
        {
            inner.poison(error);
            report.read_only = true;
        }
        if !must_store {
            inner.store_offsets_soon();
        }
        inner.offsets_unread();
        Ok((Partition { inner }, report))
    }

    /// Appends `batch` behind everything whose `append` was called before. Never waits: `answer`
    /// is called when `ack` is reached: before this returns where it can be, or in the thread's
    /// next turn where the call has sent a write, which goes first.
    pub fn append(&self, batch: AdmittedBatch, ack: Ack, answer: A) {
        self.inner.used.set(true);
        let work = Pending::Append { batch, ack, answer };
        match self.inner.consumers.unread() {
            None => self.inner.appender.borrow_mut().push(work),
            Some(why) => self.inner.appender.borrow_mut().refuse(work, AppendError::Offsets(why)),
        }
        self.inner.pump();
    }

    /// Ends when everything appended before the call has reached `ack`. Takes its place when
    /// called. Dropping the future does not undo the flush.
    pub fn flush(&self, ack: Ack) -> impl Future<Output = Result<(), AppendError>> + use<P, A> {
        let (promise, done) = Promise::new();
        self.inner.appender.borrow_mut().push(Pending::Flush { ack, promise });
        self.inner.pump();
        async move { done.await.unwrap_or(Err(AppendError::Closed)) }
    }

    /// Whole batches from the place that `query` names, at most as much as it allows and at least
    /// one batch where there is one. Batches are as they were stored; one that is selected in part
    /// gets a recomputed header (message-batches.md) and keeps its frames.
    ///
    /// Damage behind the first served batch ends the answer early; damage at its start is the
    /// error. Cancel-safe.
    pub async fn poll(&self, query: PollQuery) -> Result<Polled<BytesOf<P>>, PollError> {
        let tally = &self.inner.tally;
        tally.add(|c| &c.polls, 1);
        let polled = crate::read::poll(&self.inner, query).await;
        match &polled {
            Ok(polled) if polled.messages > 0 => {
                tally.add(|c| &c.polled_messages, polled.messages.into());
                tally.add(|c| &c.polled_bytes, polled.len() as u64);
            }
            Ok(_) => {}
            Err(_) => tally.add(|c| &c.poll_errors, 1),
        }
        polled
    }

    /// Where the log stands.
    pub fn watermarks(&self) -> Watermarks {
        self.inner.appender.borrow().watermarks()
    }

    /// The offset at which polls end now: nothing at or above it is served.
    pub fn readable_end(&self) -> u64 {
        self.inner.readable_end()
    }

    /// Ends when polls may see more than at the time of the call. Cancel-safe.
    pub fn changed(&self) -> impl Future<Output = ()> + 'static {
        self.inner.changed.wait()
    }

    /// Polls that wait for messages are answered with what is there, from now on.
    pub fn end_waits(&self) {
        self.inner.waits_end.set(true);
        self.inner.changed.raise();
    }

    /// The fault after which the partition takes no more appends.
    pub fn fault(&self) -> Option<Arc<Fault>> {
        self.inner.appender.borrow().fault().cloned()
    }

    /// Makes everything durable, cuts the active file to its exact length, stores the index and
    /// the mark at the end, and gives the handles back. Appends after the call are refused.
    pub async fn close(&self) -> Result<(), CloseError> {
        let (promise, done) = Promise::new();
        {
            let mut closing = self.inner.closing.borrow_mut();
            if closing.is_some() || self.inner.appender.borrow().is_closed() {
                return Err(CloseError::Closed);
            }
            *closing = Some(promise);
        }
        self.end_waits();
        self.inner.appender.borrow_mut().push(Pending::Close);
        self.inner.pump();
        match (done.await, self.fault()) {
            (Some(result), _) => result,
            // A panic ended it.
            (None, Some(fault)) => Err(CloseError::Poisoned(fault)),
            (None, None) => Err(CloseError::Closed),
        }
    }

    /// Counters and queue lengths.
    pub fn stats(&self) -> PartitionStats {
        let inner = &self.inner;
        let appender = inner.appender.borrow();
        let now = Now {
            watermarks: appender.watermarks(),
            segments: inner.segments.borrow().len(),
            writes_in_flight: appender.writes_in_flight(),
            waiting_appends: appender.waiting_appends(),
            poisoned: appender.fault().is_some(),
        };
        PartitionStats::new(now, inner.tally.read())
    }
}

impl<P: Platform, A: Answer> Inner<P, A> {
    /// Where polls end. A batch that is longer than the pool may stand partly on the disk and
    /// partly in the tail: it, and what follows, is shown when it is written.
    pub(crate) fn readable_end(&self) -> u64 {
        let appender = self.appender.borrow();
        let (end, written) = (appender.readable_end(), appender.written().next_offset);
        if end > written && !self.memory.borrow().reaches_down_to(written) {
            return written;
        }
        end
    }

    /// The active file. Only asked for while the partition is open and not parked.
    pub(crate) fn active_file(&self) -> Option<Rc<FileOf<P>>> {
        self.file.borrow().as_ref().map(|active| Rc::clone(&active.file))
    }

    pub(crate) fn log_path(&self, segment: u64) -> PathBuf {
        log_path(&self.place.dir, segment)
    }
}
