//! The way in for code that runs ON a shard, such as a broker's connections.

use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use corelog_io::{Platform, Spawn};
use corelog_storage::{Ack, ConsumerKey, PollQuery};

use crate::client::{AppendCall, FlushCall, Outgoing, PollCall, WatermarksCall};
use crate::records::Lend;
use crate::shard::{BytesOf, State};
use crate::{Call, Client, ClientLimits, OffsetError, PartitionId};

/// A shard from inside: as [`Client`], but partitions of this shard are called directly, without
/// mailbox and wake; those of others cross. Cheap to clone; local to the shard's thread.
///
/// Direct calls do not queue behind what waits in the mailbox. A partition's appends that all come
/// through contexts of its shard keep the order of the calls.
pub struct ShardContext<P: Platform, L: Lend<BytesOf<P>>> {
    state: Rc<State<P, L>>,
    client: Client,
}

impl<P: Platform, L: Lend<BytesOf<P>>> Clone for ShardContext<P, L> {
    fn clone(&self) -> Self {
        ShardContext { state: Rc::clone(&self.state), client: self.client.clone() }
    }
}

impl<P: Platform, L: Lend<BytesOf<P>>> ShardContext<P, L> {
    pub(crate) fn new(state: Rc<State<P, L>>, limits: &ClientLimits) -> Self {
        let client = state.seat.shards.client(limits);
        ShardContext { state, client }
    }

    /// The shard's number.
    pub fn index(&self) -> usize {
        self.state.index()
    }

    /// True where this shard owns `partition`.
    pub fn owns(&self, partition: PartitionId) -> bool {
        self.client.shards().owner(partition) == self.index()
    }

    /// As [`Client::append`].
    pub fn append(&self, partition: PartitionId, bytes: Bytes, ack: Ack) -> AppendCall {
        self.client.append_by(&self.state, partition, Outgoing::Raw(bytes), ack).0
    }

    /// As [`Client::flush`].
    pub fn flush(&self, partition: PartitionId, ack: Ack) -> FlushCall {
        self.client.flush_by(&self.state, partition, ack)
    }

    /// As [`Client::poll`].
    pub fn poll(&self, partition: PartitionId, query: PollQuery) -> PollCall {
        self.client.poll_by(&self.state, partition, query)
    }

    /// As [`Client::store_offset`].
    pub fn store_offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
        offset: u64,
        ack: Ack,
    ) -> Call<(), OffsetError> {
        self.client.store_by(&self.state, partition, who, Some(offset), ack)
    }

    /// As [`Client::delete_offset`].
    pub fn delete_offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
        ack: Ack,
    ) -> Call<(), OffsetError> {
        self.client.store_by(&self.state, partition, who, None, ack)
    }

    /// As [`Client::offset`].
    pub fn offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
    ) -> Call<Option<u64>, OffsetError> {
        self.client.offset_by(&self.state, partition, who)
    }

    /// As [`Client::watermarks`].
    pub fn watermarks(&self, partition: PartitionId) -> WatermarksCall {
        self.client.watermarks_by(&self.state, partition)
    }

    /// The client that shares this context's limits, for code that leaves the shard. Its calls
    /// cross by mailbox even to this shard.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs `task` on this shard, detached. A panic ends the task, not the shard.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.state.platform().spawn().spawn(task);
    }

    /// Lets other tasks and I/O run; a loop over many items calls it between slices.
    pub fn yield_now(&self) -> impl Future<Output = ()> + 'static {
        self.state.platform().spawn().yield_now()
    }

    /// Serves a run of what waits in the mailbox, now. A task that keeps the shard busy for long
    /// calls it to keep other threads' requests from waiting for the end of it. True where it
    /// served any.
    pub fn look(&self) -> bool {
        self.state.drain().requests > 0
    }

    /// The platform.
    pub fn platform(&self) -> &P {
        self.state.platform()
    }
}
