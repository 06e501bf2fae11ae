//! All shards as other threads see them: where to push, and the tables their answers come from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use corelog_storage::{Figures, LogConfig, OpenReport, Place, Scratch, Trimmed, Watermarks};

use crate::home::Home;
use crate::limits::{Budget, ShardLimits};
use crate::mailbox::{Receiver, Refused, Sender, mailbox};
use crate::reply::{Call, Replies, Reply};
use crate::request::{Ask, Follow, Opening, Request};
use crate::timing::{Asked, Ticks, asked};
use crate::waits;
use crate::{
    AppendError, Client, ClientLimits, CloseReport, ControlError, OffsetError, PartitionId,
    PollError, Records, Scope, ShardStats, Unavailable,
};

/// Requests in flight for which there is no limit of their own: openings, flushes and the like.
const CONTROLS_IN_FLIGHT: usize = 1024;
/// Questions for statistics in flight: an answer is long where there are many partitions.
const STATS_IN_FLIGHT: usize = 16;

/// The shards of one engine, from outside: makes clients, opens and closes partitions, and answers
/// for shards that died. Clone + Send + Sync; clones are the same shards.
#[derive(Clone)]
pub struct Shards {
    handles: Arc<[Arc<Handle>]>,
}

/// One shard's side of [`Shards`], to be moved into the shard's thread and made a
/// [`crate::Shard`] there. Dropped instead, its shard is closed.
pub struct Seat {
    pub(crate) inbox: Receiver<Request>,
    pub(crate) handle: Arc<Handle>,
    pub(crate) limits: ShardLimits,
    pub(crate) shards: Shards,
}

/// One shard, from outside.
pub(crate) struct Handle {
    pub(crate) index: usize,
    pub(crate) ticks: Option<Ticks>,
    /// Requests that found the mailbox full.
    full: AtomicU64,
    mailbox: Sender<Request>,
    /// Where its own tasks are woken.
    pub(crate) home: Arc<Home>,
    /// For the batches on their way to it.
    pub(crate) scratch: Scratch,
    pub(crate) appends: Arc<Replies<corelog_storage::Appended, AppendError>>,
    pub(crate) polls: Arc<Replies<Records, PollError>>,
    /// Somebody gave up a poll that waits, and the mailbox had no room to say so.
    pub(crate) missed: Arc<AtomicBool>,
    pub(crate) flushes: Arc<Replies<(), AppendError>>,
    pub(crate) watermarks: Arc<Replies<Watermarks, PollError>>,
    pub(crate) stores: Arc<Replies<(), OffsetError>>,
    pub(crate) offsets: Arc<Replies<Option<u64>, OffsetError>>,
    pub(crate) trims: Arc<Replies<Trimmed, ControlError>>,
    opens: Arc<Replies<OpenReport, ControlError>>,
    closes: Arc<Replies<(), ControlError>>,
    stats: Arc<Replies<ShardStats, ControlError>>,
    figures: Arc<Replies<Vec<(PartitionId, Figures)>, ControlError>>,
    ends: Arc<Replies<CloseReport, ControlError>>,
}

impl Shards {
    /// `count` shards (at least one) that take in what `limits` allow, each, and their seats in
    /// order. Everything that is limited is allocated here.
    pub fn new(count: usize, limits: &ShardLimits) -> (Shards, Vec<Seat>) {
        Self::with(count, limits, None)
    }

    /// As [`Shards::new`], and requests are timed by `ticks`.
    pub fn timed(count: usize, limits: &ShardLimits, ticks: Ticks) -> (Shards, Vec<Seat>) {
        Self::with(count, limits, Some(ticks))
    }

    fn with(count: usize, limits: &ShardLimits, ticks: Option<Ticks>) -> (Shards, Vec<Seat>) {
        let (handles, inboxes): (Vec<_>, Vec<_>) =
            (0..count.max(1)).map(|index| Handle::new(index, limits, ticks)).unzip();
        let shards = Shards { handles: handles.into() };
        let seats = inboxes
            .into_iter()
            .zip(shards.handles.iter())
            .map(|(inbox, handle)| Seat {
                inbox,
                handle: Arc::clone(handle),
                limits: limits.clone(),
                shards: shards.clone(),
            })
            .collect();
        (shards, seats)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.handles.len()
    }

    /// The number of the shard that owns `partition`.
    pub fn owner(&self, partition: PartitionId) -> usize {
        partition.owner(self.count())
    }

    /// A client with limits of its own.
    pub fn client(&self, limits: &ClientLimits) -> Client {
        Client::new(self.clone(), limits)
    }

    /// Opens a partition on the shard that owns it: recovers what is in `place`, or creates it.
    /// Where that fails the shard remembers why and answers so until an opening succeeds.
    pub fn open(
        &self,
        partition: PartitionId,
        place: Place,
        config: LogConfig,
    ) -> Call<OpenReport, ControlError> {
        let handle = self.owner_of(partition);
        handle.call(&handle.opens, None, &ByMailbox, |reply| {
            Request::Open(Box::new(Opening { partition, place, config, reply }))
        })
    }

    /// Closes a partition: everything appended before becomes durable, its files are cut to their
    /// exact length. Afterwards it is unknown.
    pub fn close(&self, partition: PartitionId) -> Call<(), ControlError> {
        let handle = self.owner_of(partition);
        handle.call(&handle.closes, None, &ByMailbox, |reply| Request::Close { partition, reply })
    }

    /// Recovers in place a partition that is open and has had a fault
    /// ([`corelog_storage::Partition::reopen`]); it takes appends afterwards. Polls are served until
    /// the old life's I/O has ended; what is asked from then on waits for the end of the recovery.
    /// Where that fails the shard remembers why and answers so until an opening succeeds.
    pub fn reopen(&self, partition: PartitionId) -> Call<OpenReport, ControlError> {
        let handle = self.owner_of(partition);
        handle.call(&handle.opens, None, &ByMailbox, |reply| Request::Reopen { partition, reply })
    }

    /// Tells a partition what it has to know of its topic. Behind an opening that is on its way it
    /// counts from the end of that; after a reopening it has to be told again.
    ///
    /// # Errors
    /// `Busy` where the mailbox is full: tell it again. A partition that is not served forgets it.
    pub fn follow(&self, partition: PartitionId, follow: Follow) -> Result<(), Unavailable> {
        let request = Request::Ask(partition, Ask::Follow(follow));
        match ByMailbox.deliver(self.owner_of(partition), request) {
            None => Ok(()),
            Some((_, why)) => Err(why),
        }
    }

    /// Counters of shard `index` and of each of its partitions. The shard does it in slices, beside
    /// everything else; the partitions are not of one moment.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn stats(&self, index: usize) -> Call<ShardStats, ControlError> {
        self.ask_stats(index, true)
    }

    /// As [`Shards::stats`] without the partitions: as cheap with ten thousand as with one.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn totals(&self, index: usize) -> Call<ShardStats, ControlError> {
        self.ask_stats(index, false)
    }

    fn ask_stats(&self, index: usize, partitions: bool) -> Call<ShardStats, ControlError> {
        let handle = &self.handles[index];
        let request = |reply| Request::Stats { partitions, reply };
        handle.call(&handle.stats, None, &ByMailbox, request)
    }

    /// What the open partitions of `scope` hold that shard `index` owns, by id. Those that are not
    /// open are not in the answer.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn figures(
        &self,
        index: usize,
        scope: Scope,
    ) -> Call<Vec<(PartitionId, Figures)>, ControlError> {
        let handle = &self.handles[index];
        handle.call(&handle.figures, None, &ByMailbox, |reply| Request::Figures { scope, reply })
    }

    /// Closes shard `index`: it serves what came in before this call, takes nothing more, closes
    /// every partition and ends. The call answers when all of that is done.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn close_all(&self, index: usize) -> Call<CloseReport, ControlError> {
        let handle = &self.handles[index];
        handle.call(&handle.ends, None, &ByMailbox, |reply| Request::CloseAll { reply })
    }

    /// Answers `Closed` to everyone who waits for shard `index`, now and for ever. For whoever
    /// watches over the shard's thread, when it ended or its executor had to be leaked. Callable
    /// from any thread, any number of times.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn fail_all(&self, index: usize) {
        self.handles[index].fail_all();
    }

    pub(crate) fn owner_of(&self, partition: PartitionId) -> &Arc<Handle> {
        &self.handles[self.owner(partition)]
    }
}

/// How a request gets to its shard.
pub(crate) trait Route {
    /// Delivers `request`; where that cannot be it comes back with the reason.
    fn deliver(&self, to: &Handle, request: Request) -> Option<(Request, Unavailable)>;

    /// True where a delivery would very likely be refused now. Saves the work that precedes it.
    fn is_full(&self, to: &Handle) -> bool;
}

/// From any thread: through the mailbox.
pub(crate) struct ByMailbox;

impl Route for ByMailbox {
    fn deliver(&self, to: &Handle, request: Request) -> Option<(Request, Unavailable)> {
        match to.mailbox.try_send(request) {
            Ok(()) => None,
            Err(Refused::Full(request)) => {
                to.full.fetch_add(1, Ordering::Relaxed);
                Some((request, Unavailable::Busy))
            }
            Err(Refused::Closed(request)) => Some((request, Unavailable::Closed)),
        }
    }

    fn is_full(&self, to: &Handle) -> bool {
        let is_full = to.mailbox.is_full();
        if is_full {
            to.full.fetch_add(1, Ordering::Relaxed);
        }
        is_full
    }
}

impl Seat {
    /// Answers everyone `Closed` and drops what waits: batches hold memory, and the queue would
    /// keep them until the last client is gone.
    pub(crate) fn close(&self) {
        self.handle.fail_all();
        while self.inbox.pop().is_some() {}
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.close();
    }
}

impl Handle {
    fn new(
        index: usize,
        limits: &ShardLimits,
        ticks: Option<Ticks>,
    ) -> (Arc<Self>, Receiver<Request>) {
        let (sender, inbox) = mailbox(limits.mailbox_requests);
        let missed = Arc::new(AtomicBool::new(false));
        let tell = waits::tell(sender.clone(), Arc::clone(&missed));
        let home = Home::new(limits.mailbox_requests, inbox.sleep());
        let handle = Handle {
            index,
            home: Arc::new(home),
            ticks,
            full: AtomicU64::new(0),
            mailbox: sender,
            scratch: Scratch::default(),
            appends: Replies::new(limits.appends_in_flight, limits.append_bytes_in_flight),
            polls: Replies::telling(limits.polls_in_flight, usize::MAX, Some(tell)),
            missed,
            flushes: controls(),
            watermarks: controls(),
            stores: controls(),
            offsets: controls(),
            trims: controls(),
            opens: controls(),
            closes: controls(),
            stats: Replies::new(STATS_IN_FLIGHT, usize::MAX),
            figures: controls(),
            ends: controls(),
        };
        (Arc::new(handle), inbox)
    }

    /// The present, where the request that is made now is to be timed.
    pub(crate) fn asked(&self) -> Option<Asked> {
        asked(self.ticks)
    }

    /// Requests that found the mailbox full.
    pub(crate) fn found_full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    /// Requests in the mailbox.
    pub(crate) fn waiting(&self) -> usize {
        self.mailbox.len()
    }

    /// Takes a slot of `replies` and delivers the request that `make` builds around it.
    pub(crate) fn call<V, E: From<Unavailable>>(
        &self,
        replies: &Arc<Replies<V, E>>,
        client: Option<&Arc<Budget>>,
        route: &impl Route,
        make: impl FnOnce(Reply<V, E>) -> Request,
    ) -> Call<V, E> {
        match replies.permit(client, 0).and_then(|permit| replies.begin(permit)) {
            Ok((call, reply)) => match route.deliver(self, make(reply)) {
                None => call,
                Some((request, why)) => {
                    drop(call);
                    request.refuse(why.clone());
                    Call::refused(why.into())
                }
            },
            Err(why) => Call::refused(why.into()),
        }
    }

    /// Refuses all calls from now on; what is on its way is still answered.
    pub(crate) fn stop_intake(&self) {
        self.appends.close();
        self.polls.close();
        self.flushes.close();
        self.watermarks.close();
        self.stores.close();
        self.offsets.close();
        self.trims.close();
        self.opens.close();
        self.closes.close();
        self.stats.close();
        self.figures.close();
        self.ends.close();
    }

    pub(crate) fn fail_all(&self) {
        self.home.end();
        self.appends.fail_all();
        self.polls.fail_all();
        self.flushes.fail_all();
        self.watermarks.fail_all();
        self.stores.fail_all();
        self.offsets.fail_all();
        self.trims.fail_all();
        self.opens.fail_all();
        self.closes.fail_all();
        self.stats.fail_all();
        self.figures.fail_all();
        self.ends.fail_all();
    }
}

fn controls<V, E: From<Unavailable>>() -> Arc<Replies<V, E>> {
    Replies::new(CONTROLS_IN_FLIGHT, usize::MAX)
}
