//! The way in from any thread and any runtime: admission at the call, then the crossing.

use std::sync::Arc;

use bytes::Bytes;
use corelog_storage::{
    Ack, AdmittedBatch, Appended, ConsumerKey, PollQuery, Scratch, Trimmed, Watermarks,
};

use crate::limits::Budget;
use crate::reply::Call;
use crate::request::{Ask, Request};
use crate::shards::{ByMailbox, Route, Shards};
use crate::thread::ShardThread;
use crate::{
    AppendError, ClientLimits, ControlError, OffsetError, PartitionId, PollError, Producer,
    Records, Unavailable,
};

/// An append on its way.
pub type AppendCall = Call<Appended, AppendError>;
/// A flush on its way.
pub type FlushCall = Call<(), AppendError>;
/// A poll on its way.
pub type PollCall = Call<Records, PollError>;
/// A question for the watermarks on its way.
pub type WatermarksCall = Call<Watermarks, PollError>;

/// Appends to and polls from the partitions of all shards. Clone + Send + Sync; clones share one
/// set of limits.
///
/// Calls never wait. Each takes its place in the order when it is made: two appends of one thread
/// to one partition are stored in the order of the calls, whichever is awaited first. Where
/// something is full the call is refused with `Busy` at once and nothing is done; later calls may
/// pass, so a caller that needs its order kept across `Busy` uses a [`Producer`].
///
/// The answer is a [`Call`]: a future for any runtime, or [`Call::wait`]. Dropping it gives up the
/// answer, not the request: a dropped append may still be stored. The `.._blocking` twins wait on
/// the calling thread; on a shard's own thread they answer `OnShard` and do nothing.
#[derive(Clone)]
pub struct Client {
    shards: Shards,
    budget: Arc<Budget>,
}

/// A batch that is not on its way: bytes as they came, or admitted already.
pub(crate) enum Outgoing {
    Raw(Bytes),
    Admitted(AdmittedBatch),
}

impl Outgoing {
    fn len(&self) -> usize {
        match self {
            Outgoing::Raw(bytes) => bytes.len(),
            Outgoing::Admitted(batch) => batch.len(),
        }
    }

    fn admit(self, scratch: &Scratch) -> Result<AdmittedBatch, AppendError> {
        match self {
            Outgoing::Raw(bytes) => {
                AdmittedBatch::admit_in(bytes, scratch).map_err(AppendError::Refused)
            }
            Outgoing::Admitted(batch) => Ok(batch),
        }
    }
}

impl Client {
    pub(crate) fn new(shards: Shards, limits: &ClientLimits) -> Self {
        let budget = Budget::new(limits.requests_in_flight, limits.bytes_in_flight);
        Client { shards, budget: Arc::new(budget) }
    }

    /// Appends `bytes`, exactly one batch as a producer builds it (message-batches.md), to
    /// `partition`. The bytes are verified here, on the calling thread, and cross by reference.
    ///
    /// Answered when `ack` is reached. Unsound bytes are `Refused` with the field and its position,
    /// without asking a shard.
    pub fn append(&self, partition: PartitionId, bytes: Bytes, ack: Ack) -> AppendCall {
        self.append_by(&ByMailbox, partition, Outgoing::Raw(bytes), ack).0
    }

    /// [`Client::append`], waiting on this thread. On a shard's own thread nothing is appended.
    pub fn append_blocking(
        &self,
        partition: PartitionId,
        bytes: Bytes,
        ack: Ack,
    ) -> Result<Appended, AppendError> {
        may_block()?;
        self.append(partition, bytes, ack).wait()
    }

    /// Ends when everything appended to `partition` before the call has reached `ack`.
    pub fn flush(&self, partition: PartitionId, ack: Ack) -> FlushCall {
        self.flush_by(&ByMailbox, partition, ack)
    }

    /// [`Client::flush`], waiting on this thread.
    pub fn flush_blocking(&self, partition: PartitionId, ack: Ack) -> Result<(), AppendError> {
        may_block()?;
        self.flush(partition, ack).wait()
    }

    /// Whole batches from where `query` says. The records lend memory of the shard: see
    /// [`Records`]. A dropped poll sends home what it would have got.
    pub fn poll(&self, partition: PartitionId, query: PollQuery) -> PollCall {
        self.poll_by(&ByMailbox, partition, query)
    }

    /// [`Client::poll`], waiting on this thread.
    pub fn poll_blocking(
        &self,
        partition: PartitionId,
        query: PollQuery,
    ) -> Result<Records, PollError> {
        may_block()?;
        self.poll(partition, query).wait()
    }

    /// Where the log of `partition` stands.
    pub fn watermarks(&self, partition: PartitionId) -> WatermarksCall {
        self.watermarks_by(&ByMailbox, partition)
    }

    /// [`Client::watermarks`], waiting on this thread.
    pub fn watermarks_blocking(&self, partition: PartitionId) -> Result<Watermarks, PollError> {
        may_block()?;
        self.watermarks(partition).wait()
    }

    /// Stores `offset`, that of the last message that `who` is done with.
    pub fn store_offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
        offset: u64,
        ack: Ack,
    ) -> Call<(), OffsetError> {
        self.store_by(&ByMailbox, partition, who, Some(offset), ack)
    }

    /// Deletes what `who` has stored.
    pub fn delete_offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
        ack: Ack,
    ) -> Call<(), OffsetError> {
        self.store_by(&ByMailbox, partition, who, None, ack)
    }

    /// What `who` has stored.
    pub fn offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
    ) -> Call<Option<u64>, OffsetError> {
        self.offset_by(&ByMailbox, partition, who)
    }

    /// Deletes the `count` oldest sealed segments, as far as consumers have read them.
    pub fn delete_segments(
        &self,
        partition: PartitionId,
        count: u32,
    ) -> Call<Trimmed, ControlError> {
        let (handle, client) = (self.shards.owner_of(partition), Some(&self.budget));
        handle.call(&handle.trims, client, &ByMailbox, |reply| {
            Request::Ask(partition, Ask::DeleteSegments { count, reply })
        })
    }

    /// A handle whose appends keep their order across `Busy`. It shares this client's limits.
    pub fn producer(&self, partition: PartitionId) -> Producer {
        Producer::new(self.clone(), partition)
    }

    /// Requests and bytes of this client that are not answered yet.
    pub fn in_flight(&self) -> (usize, usize) {
        self.budget.in_flight()
    }

    /// The shards behind this client.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Sends a batch; where it does not go its way although it is sound, it comes back.
    pub(crate) fn append_by(
        &self,
        route: &impl Route,
        partition: PartitionId,
        batch: Outgoing,
        ack: Ack,
    ) -> (AppendCall, Option<Outgoing>) {
        let handle = self.shards.owner_of(partition);
        // Room before admission: an overloaded engine must not verify what it will refuse.
        let room = match route.is_full(handle) {
            true => Err(Unavailable::Busy),
            false => handle.appends.permit(Some(&self.budget), batch.len()),
        };
        let permit = match room {
            Ok(permit) => permit,
            Err(why) => return (Call::refused(why.into()), Some(batch)),
        };
        let batch = match batch.admit(&handle.scratch) {
            Ok(batch) => batch,
            Err(error) => return (Call::refused(error), None),
        };
        let (call, reply) = match handle.appends.begin(permit) {
            Ok(ends) => ends,
            Err(why) => return (Call::refused(why.into()), Some(Outgoing::Admitted(batch))),
        };
        let ask = Ask::Append { batch, ack, asked: handle.asked(), reply };
        match route.deliver(handle, Request::Ask(partition, ask)) {
            None => (call, None),
            Some((request, why)) => {
                drop(call);
                let batch = request.refuse(why.clone()).map(Outgoing::Admitted);
                (Call::refused(why.into()), batch)
            }
        }
    }

    pub(crate) fn flush_by(&self, route: &impl Route, id: PartitionId, ack: Ack) -> FlushCall {
        let (handle, client) = (self.shards.owner_of(id), Some(&self.budget));
        handle.call(&handle.flushes, client, route, |reply| {
            Request::Ask(id, Ask::Flush { ack, reply })
        })
    }

    pub(crate) fn poll_by(
        &self,
        route: &impl Route,
        id: PartitionId,
        query: PollQuery,
    ) -> PollCall {
        let (handle, client) = (self.shards.owner_of(id), Some(&self.budget));
        let asked = handle.asked();
        handle.call(&handle.polls, client, route, |reply| {
            Request::Ask(id, Ask::Poll { query, asked, reply })
        })
    }

    pub(crate) fn store_by(
        &self,
        route: &impl Route,
        id: PartitionId,
        who: ConsumerKey,
        offset: Option<u64>,
        ack: Ack,
    ) -> Call<(), OffsetError> {
        let (handle, client) = (self.shards.owner_of(id), Some(&self.budget));
        handle.call(&handle.stores, client, route, |reply| {
            Request::Ask(id, Ask::StoreOffset { who, offset, ack, reply })
        })
    }

    pub(crate) fn offset_by(
        &self,
        route: &impl Route,
        id: PartitionId,
        who: ConsumerKey,
    ) -> Call<Option<u64>, OffsetError> {
        let (handle, client) = (self.shards.owner_of(id), Some(&self.budget));
        handle.call(&handle.offsets, client, route, |reply| {
            Request::Ask(id, Ask::Offset { who, reply })
        })
    }

    pub(crate) fn watermarks_by(&self, route: &impl Route, id: PartitionId) -> WatermarksCall {
        let (handle, client) = (self.shards.owner_of(id), Some(&self.budget));
        handle.call(&handle.watermarks, client, route, |reply| {
            Request::Ask(id, Ask::Watermarks { reply })
        })
    }
}

fn may_block() -> Result<(), Unavailable> {
    match ShardThread::is_current() {
        true => Err(Unavailable::OnShard),
        false => Ok(()),
    }
}
