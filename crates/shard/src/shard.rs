//! A shard: one thread's partitions, and the loop that drains its mailbox.
//!
//! Appends, flushes and questions are handed to their partition in the order in which they came, in
//! the loop itself; a partition never makes it wait. What has to wait (a poll's reads, a flush, an
//! opening) is a task. All of it is contained: a panic takes one partition out of service.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use corelog_io::task::then;
use corelog_io::{Disk, Platform, Spawn};
use corelog_storage::{
    LogConfig, OpenReport, Place, PollQuery, Polled, Served, Shared, SharedLimits,
};

use crate::context::ShardContext;
use crate::here::{self, Glance};
use crate::home::wake;
use crate::partitions::{Open, Partitions, Routed};
use crate::records::{Lend, Records};
use crate::reply::Reply;
use crate::request::{AppendReply, Ask, Opening, Request};
use crate::retention::Retentions;
use crate::shards::{ByMailbox, Handle, Route, Seat};
use crate::tasks::{Tasks, caught, contained};
use crate::thread::ShardThread;
use crate::timing::{Observer, ShardNotice, Timed, Took, Watch};
use crate::waits::Waits;
use crate::{
    AppendError, ClientLimits, CloseReport, ControlError, FailureReason, OffsetError,
    PartitionFailure, PartitionId, PollError, Unavailable,
};

pub(crate) type BytesOf<P> = <<P as Platform>::Disk as Disk>::Bytes;

/// A shard, on its thread. [`Shard::run`] is its life.
///
/// Dropped without having run to its end, all who wait for it are answered `Closed`; what was
/// appended and not written yet is then as after a crash.
pub struct Shard<P: Platform, L: Lend<BytesOf<P>>> {
    state: Rc<State<P, L>>,
}

pub(crate) struct State<P: Platform, L> {
    pub(crate) seat: Seat,
    pub(crate) shared: Shared<P>,
    lender: L,
    pub(crate) partitions: RefCell<Partitions<P>>,
    pub(crate) tasks: Tasks,
    /// The loop's, while it waits for its mailbox.
    resting: RefCell<Option<Waker>>,
    /// Polls that wait for messages.
    waits: Rc<Waits>,
    /// Openings that wait for one of `limits.openings` places, and how many have one.
    pub(crate) openings: RefCell<VecDeque<Opening>>,
    pub(crate) opening: Cell<usize>,
    /// Set by the first request to close the shard.
    end: RefCell<Option<Reply<CloseReport, ControlError>>>,
    pub(crate) requests: Cell<u64>,
    pub(crate) runs: Cell<u64>,
    pub(crate) retentions: Retentions,
    pub(crate) watch: Watch,
}

/// What a run over the mailbox came to.
#[derive(Default)]
pub(crate) struct Drained {
    pub(crate) requests: usize,
    /// Bytes of appended batches.
    pub(crate) bytes: usize,
}

impl<P: Platform, L: Lend<BytesOf<P>>> Shard<P, L> {
    /// The shard of `seat`, on the calling thread. `limits` are what its partitions share.
    pub fn new(seat: Seat, platform: P, lender: L, limits: SharedLimits) -> Self {
        Self::with(seat, platform, lender, limits, None)
    }

    /// As [`Shard::new`], with somebody who is told what happens.
    pub fn observed(
        seat: Seat,
        platform: P,
        lender: L,
        limits: SharedLimits,
        observer: Rc<dyn Observer>,
    ) -> Self {
        Self::with(seat, platform, lender, limits, Some(observer))
    }

    fn with(
        seat: Seat,
        platform: P,
        lender: L,
        limits: SharedLimits,
        observer: Option<Rc<dyn Observer>>,
    ) -> Self {
        let state = State {
            watch: Watch::new(seat.handle.ticks, observer),
            seat,
            shared: Shared::new(platform, limits),
            lender,
            partitions: RefCell::new(Partitions::new()),
            tasks: Tasks::default(),
            resting: RefCell::default(),
            waits: Rc::default(),
            openings: RefCell::default(),
            opening: Cell::new(0),
            end: RefCell::default(),
            requests: Cell::new(0),
            runs: Cell::new(0),
            retentions: Retentions::default(),
        };
        Shard { state: Rc::new(state) }
    }

    /// The shard's number.
    pub fn index(&self) -> usize {
        self.state.index()
    }

    /// Access for code that runs on this shard, with limits of its own.
    pub fn context(&self, limits: &ClientLimits) -> ShardContext<P, L> {
        ShardContext::new(Rc::clone(&self.state), limits)
    }

    /// Opens many partitions before the shard runs, `ShardLimits::openings` at a time, and tells
    /// how each went, in the order given. One that fails is remembered and answered with the
    /// reason; the others are not affected.
    pub async fn open_all(
        &self,
        partitions: Vec<(PartitionId, Place, LogConfig)>,
    ) -> Vec<(PartitionId, Result<OpenReport, ControlError>)> {
        self.state.open_all(partitions).await
    }

    /// Serves until [`crate::Shards::close_all`] ends it, with everything closed and answered.
    /// Not to be cancelled: a shard that is dropped half way is a crash of its partitions.
    pub async fn run(self) {
        let _mark = ShardThread::enter();
        let state = &self.state;
        let entered = here::enter(&state.seat.handle.home, Rc::new(Rc::clone(state)));
        while !state.is_ending() {
            state.rest().await;
            // Under load the mailbox is never empty: others get their turn between two runs. After
            // one that copied much the device may have run dry: it gets what is ready for it.
            if state.drain().bytes >= state.seat.limits.run_bytes {
                state.platform().spawn().turn_to_io().await;
            } else {
                state.yield_now().await;
            }
        }
        drop(entered);
        state.end().await;
    }
}

impl<P: Platform, L: Lend<BytesOf<P>>> Drop for Shard<P, L> {
    /// Contexts and tasks may keep the state alive; nobody waits for them.
    fn drop(&mut self) {
        self.state.seat.close();
    }
}

impl<P: Platform, L> State<P, L> {
    pub(crate) fn index(&self) -> usize {
        self.seat.handle.index
    }

    pub(crate) fn platform(&self) -> &P {
        self.shared.platform()
    }

    /// Ends when something has come in from other threads, or the shard is to end.
    async fn rest(&self) {
        let home = &self.seat.handle.home;
        // A task that looks into the mailbox may have met the end: its push woke this loop, which
        // finds the mailbox empty.
        let mut ready = pin!(self.seat.inbox.ready_or(|| self.is_ending() || !home.is_empty()));
        poll_fn(|cx| {
            let ready = ready.as_mut().poll(cx);
            let mine = ready.is_pending().then(|| cx.waker().clone());
            let old = self.resting.replace(mine);
            drop(old);
            ready
        })
        .await;
    }

    pub(crate) async fn yield_now(&self) {
        self.platform().spawn().yield_now().await;
    }

    /// Spawns a task that a close waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let running = self.tasks.enter();
        self.platform().spawn().spawn(then(task, move |()| drop(running)));
    }

    /// Takes a partition that panicked out of service.
    pub(crate) fn fail(&self, id: PartitionId, message: Arc<str>) -> PartitionFailure {
        let failure = self.partitions.borrow_mut().fail(id, FailureReason::Panicked(message));
        self.watch.notice(id, &ShardNotice::Failed(&failure));
        failure
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.end.borrow().is_some()
    }

    pub(crate) fn take_end(&self) -> Option<Reply<CloseReport, ControlError>> {
        self.end.borrow_mut().take()
    }
}

impl<P: Platform, L: Lend<BytesOf<P>>> State<P, L> {
    /// Serves what waits in the mailbox, until `ShardLimits::run_requests` or `run_bytes` are
    /// reached.
    pub(crate) fn drain(self: &Rc<Self>) -> Drained {
        let limits = &self.seat.limits;
        self.seat.handle.home.deliver();
        let mut drained = Drained::default();
        while drained.requests < limits.run_requests.max(1)
            && drained.bytes < limits.run_bytes.max(1)
            && let Some(request) = self.seat.inbox.pop()
        {
            drained.requests += 1;
            drained.bytes += request.batch_len();
            if let Some(asked) = request.asked() {
                self.watch.took(Took::Crossing, asked);
            }
            self.serve(request);
        }
        self.waits.look(&self.seat.handle.missed);
        if drained.requests > 0 {
            self.runs.set(self.runs.get() + 1);
        }
        drained
    }

    /// Serves one request: hands it over, or begins a task for it.
    pub(crate) fn serve(self: &Rc<Self>, request: Request) {
        self.requests.set(self.requests.get() + 1);
        match request {
            Request::Ask(partition, ask) => self.ask(partition, ask),
            Request::Open(opening) => self.open(*opening),
            Request::Close { partition, reply } => self.close(partition, reply),
            Request::Reopen { partition, reply } => self.reopen(partition, reply),
            Request::Stats { partitions, reply } => self.stats(partitions, reply),
            Request::Figures { scope, reply } => self.figures(scope, reply),
            Request::GaveUp(slot) => self.waits.gave_up(slot),
            Request::CloseAll { reply } => {
                self.seat.handle.stop_intake();
                // Two that crossed: the later one is dropped, which answers `Closed`.
                self.end.borrow_mut().get_or_insert(reply);
            }
        }
    }

    /// Hands what a partition is asked to it, if it is open.
    pub(crate) fn ask(self: &Rc<Self>, id: PartitionId, ask: Ask) {
        let routed = self.partitions.borrow_mut().route(id, ask);
        let (partition, ask) = match routed {
            Routed::To(partition, ask) => (partition, ask),
            Routed::Refused(ask, why) => {
                ask.refuse(why);
                return;
            }
            Routed::Later => return,
        };
        let done = match ask {
            // A panic drops the reply, which answers `Closed`: stored or not, who knows.
            Ask::Append { batch, ack, asked, reply } => contained(|| {
                let reply = AppendReply { reply, ack, timed: self.watch.timed(asked) };
                partition.append(batch, ack, reply);
            }),
            // Takes its place behind the appends that came before, here and now.
            Ask::Flush { ack, reply } => {
                contained(|| partition.flush(ack)).map(|flushed| self.flush(id, flushed, reply))
            }
            Ask::Poll { query, asked, reply } => {
                self.poll(id, partition, query, self.watch.timed(asked), reply);
                Ok(())
            }
            Ask::StoreOffset { who, offset, ack, reply } => contained(|| match offset {
                Some(offset) => self.stored(id, partition.store_offset(who, offset, ack), reply),
                None => self.stored(id, partition.delete_offset(who, ack), reply),
            }),
            Ask::Offset { who, reply } => contained(|| partition.consumer_offset(who))
                .map(|stored| reply.send(stored.map_err(OffsetError::Storage))),
            Ask::DeleteSegments { count, reply } => {
                self.delete_segments(id, partition, count, reply);
                Ok(())
            }
            Ask::Follow(follow) => {
                contained(|| partition.keep_groups(&follow.groups, follow.next_group))
                    .map(|()| self.set_retention(id, follow.retention))
            }
            Ask::Watermarks { reply } => {
                contained(|| partition.watermarks()).map(|marks| reply.send(Ok(marks)))
            }
        };
        if let Err(message) = done {
            self.fail(id, message);
        }
    }

    fn flush(
        self: &Rc<Self>,
        id: PartitionId,
        flushed: impl Future<Output = Result<(), corelog_storage::AppendError>> + 'static,
        reply: Reply<(), AppendError>,
    ) {
        let state = Rc::clone(self);
        self.spawn(async move {
            reply.send(match caught(flushed).await {
                Ok(result) => result.map_err(AppendError::from),
                Err(message) => Err(AppendError::PartitionFailed(state.fail(id, message))),
            });
        });
    }

    /// The poll is answered: tells how long it took, or that there is damage. One that waited for
    /// messages says nothing about the shard.
    fn polled(
        &self,
        id: PartitionId,
        polled: Result<Polled<BytesOf<P>>, corelog_storage::PollError>,
        timed: Option<Timed>,
    ) -> Result<Records, corelog_storage::PollError> {
        use corelog_storage::PollError::{Corrupt, Unreadable};
        match &polled {
            Ok(polled) => {
                let what = match polled.served {
                    Served::FromMemory => Some(Took::PollOfMemory),
                    Served::FromFiles => Some(Took::PollOfFiles),
                    Served::Waited => None,
                };
                what.zip(timed).into_iter().for_each(|(what, timed)| timed.took(what));
            }
            Err(error @ (Corrupt { .. } | Unreadable { .. })) => {
                self.watch.notice(id, &ShardNotice::Damaged(error));
            }
            Err(_) => {}
        }
        polled.map(|polled| Records::lend(polled, &self.lender))
    }

    fn poll(
        self: &Rc<Self>,
        id: PartitionId,
        partition: Open<P>,
        mut query: PollQuery,
        timed: Option<Timed>,
        reply: Reply<Records, PollError>,
    ) {
        query.max_bytes = query.max_bytes.min(self.seat.limits.poll_bytes);
        let state = Rc::clone(self);
        self.spawn(async move {
            let lent = async { state.polled(id, partition.poll(query).await, timed) };
            let polled = match query.max_wait.is_zero() {
                true => Some(caught(lent).await),
                false => state.waits.unless_given_up(&reply, caught(lent)).await,
            };
            if let Some(polled) = polled {
                reply.send(match polled {
                    Ok(result) => result.map_err(PollError::from),
                    Err(message) => Err(PollError::PartitionFailed(state.fail(id, message))),
                });
            }
            // The end of a task is a cheap moment to see what came in meanwhile: a shard that is
            // busy with reads would come to its mailbox late otherwise.
            state.drain();
        });
    }
}

impl<P: Platform, L: Lend<BytesOf<P>>> Glance for Rc<State<P, L>> {
    fn glance(&self) {
        self.seat.handle.home.deliver();
        // A loop that does not rest has its turn soon, and looks itself.
        if self.seat.inbox.is_empty() || self.resting.borrow().is_none() {
            return;
        }
        // Served here and now: behind all other tasks the loop would come late. One run only, what
        // is more is the loop's.
        let is_long = self.drain().bytes >= self.seat.limits.run_bytes;
        if is_long || !self.seat.inbox.is_empty() {
            let resting = self.resting.take();
            resting.into_iter().for_each(wake);
        }
    }
}

/// Code on the shard: own partitions directly, others through their mailbox.
impl<P: Platform, L: Lend<BytesOf<P>>> Route for Rc<State<P, L>> {
    fn deliver(&self, to: &Handle, request: Request) -> Option<(Request, Unavailable)> {
        if to.index == self.index() {
            self.serve(request);
            return None;
        }
        ByMailbox.deliver(to, request)
    }

    fn is_full(&self, to: &Handle) -> bool {
        to.index != self.index() && ByMailbox.is_full(to)
    }
}
