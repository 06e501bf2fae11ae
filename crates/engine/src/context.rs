//! The engine from inside a shard.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use bytes::Bytes;
use corelog_io::{Clock, Platform, Spawn};
use corelog_shard::{
    AppendCall, Call, FlushCall, Lend, OffsetError, PartitionId, PollCall, WatermarksCall,
};
use corelog_storage::{Ack, ConsumerKey};

use crate::control::ShardReport;
use crate::groups::{Groups, Member, MemberPoll, MemberStore};
use crate::guests::Guests;
use crate::poll::Poll;
use crate::runtime::{MemoryUse, RealBytes, RealDisk, RealPlatform};

/// Lends a shard's buffers by the runtime's leases.
#[derive(Clone)]
pub(crate) struct Lender {
    pub(crate) disk: RealDisk,
}

impl Lend<RealBytes> for Lender {
    fn lend(&self, bytes: RealBytes, range: Range<usize>) -> Bytes {
        self.disk.lend(&bytes, range)
    }
}

/// Access for code that runs ON a shard, as a broker's connections do. It comes from
/// [`Engine::run_on_shard`](crate::Engine::run_on_shard), is cheap to clone and stays on its
/// thread.
///
/// Partitions of this shard are called directly, without mailbox and wake; those of others cross.
/// The calls are those of [`Client`](crate::Client); the same limits hold, for each job apart.
///
/// What is here works on both runtimes ([`Runtime`](crate::machine::Runtime)), as does any future that is
/// woken by its waker, such as a channel's. Code that uses glommio itself (its sockets, its timers)
/// runs on [`Runtime::Glommio`](crate::machine::Runtime::Glommio) only; elsewhere glommio panics, which
/// ends the task.
///
/// Code here must not block: everything on the shard waits for it. Blocking calls of this crate
/// know that and answer `OnShard`.
#[derive(Clone)]
pub struct ShardContext {
    inner: corelog_shard::ShardContext<RealPlatform, Lender>,
    guests: Guests,
}

impl ShardContext {
    pub(crate) fn new(
        inner: corelog_shard::ShardContext<RealPlatform, Lender>,
        guests: Guests,
    ) -> ShardContext {
        ShardContext { inner, guests }
    }

    /// The shard's number.
    pub fn index(&self) -> usize {
        self.inner.index()
    }

    /// True where this shard owns `partition`.
    pub fn owns(&self, partition: PartitionId) -> bool {
        self.inner.owns(partition)
    }

    /// As [`Client::append`](crate::Client::append).
    pub fn append(&self, partition: PartitionId, batch: impl Into<Bytes>, ack: Ack) -> AppendCall {
        self.inner.append(partition, batch.into(), ack)
    }

    /// As [`Client::flush`](crate::Client::flush).
    pub fn flush(&self, partition: PartitionId, ack: Ack) -> FlushCall {
        self.inner.flush(partition, ack)
    }

    /// As [`Client::poll`](crate::Client::poll).
    pub fn poll(&self, partition: PartitionId, poll: Poll) -> PollCall {
        self.inner.poll(partition, poll.into())
    }

    /// As [`Client::store_offset`](crate::Client::store_offset).
    pub fn store_offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
        offset: u64,
        ack: Ack,
    ) -> Call<(), OffsetError> {
        self.inner.store_offset(partition, who, offset, ack)
    }

    /// As [`Client::delete_offset`](crate::Client::delete_offset).
    pub fn delete_offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
        ack: Ack,
    ) -> Call<(), OffsetError> {
        self.inner.delete_offset(partition, who, ack)
    }

    /// As [`Client::offset`](crate::Client::offset).
    pub fn offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
    ) -> Call<Option<u64>, OffsetError> {
        self.inner.offset(partition, who)
    }

    /// As [`Client::poll_as`](crate::Client::poll_as); `groups` is a client's.
    pub fn poll_as(
        &self,
        groups: &Groups,
        member: Member,
        partition: u32,
        poll: Poll,
    ) -> MemberPoll {
        let offset = |id, who| self.offset(id, who);
        groups.poll(member, partition, poll, offset, |id, query| self.inner.poll(id, query))
    }

    /// As [`Client::store_offset_as`](crate::Client::store_offset_as); `groups` is a client's.
    pub fn store_offset_as(
        &self,
        groups: &Groups,
        member: Member,
        partition: u32,
        offset: u64,
        ack: Ack,
    ) -> MemberStore {
        let ask = |id, who| self.store_offset(id, who, offset, ack);
        groups.store(member, partition, Some(offset), ask)
    }

    /// As [`Client::delete_offset_as`](crate::Client::delete_offset_as); `groups` is a client's.
    pub fn delete_offset_as(
        &self,
        groups: &Groups,
        member: Member,
        partition: u32,
        ack: Ack,
    ) -> MemberStore {
        let ask = |id, who| self.delete_offset(id, who, ack);
        groups.store(member, partition, None, ask)
    }

    /// As [`Client::watermarks`](crate::Client::watermarks).
    pub fn watermarks(&self, partition: PartitionId) -> WatermarksCall {
        self.inner.watermarks(partition)
    }

    /// What the shard's buffers are used for now.
    pub fn memory(&self) -> MemoryUse {
        self.inner.platform().disk().memory()
    }

    /// What the shard's runtime tells.
    pub(crate) fn report(&self) -> ShardReport {
        let (latencies, io) = self.inner.platform().disk().meter().report();
        ShardReport { memory: self.memory(), latencies, io }
    }

    /// Runs `task` on this shard, detached. A panic ends the task and nothing else. The engine's
    /// close drops tasks that have not ended by then.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.inner.spawn(self.guests.hosted(task));
    }

    /// Ends after at least `duration`. Cancel-safe, and costs a busy shard nothing meanwhile.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        self.inner.platform().clock().sleep(duration)
    }

    /// Ends when `fd` has something to read, an end or an error; at once where it has already. For
    /// whatever can be polled: sockets, pipes, sets of them (epoll). May end without a cause.
    ///
    /// The wait begins at the call, on a descriptor of its own, and ends with the future: cancel-safe.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn readable(&self, fd: BorrowedFd<'_>) -> io::Result<impl Future<Output = ()> + 'static> {
        self.inner.platform().spawn().readable(fd)
    }

    /// Lets other tasks and I/O run. A loop over many items calls it between slices.
    pub fn yield_now(&self) -> impl Future<Output = ()> + 'static {
        self.inner.platform().spawn().yield_now()
    }

    /// Serves a run of what waits in the mailbox, now. A task that keeps the shard busy for long
    /// calls it, so that other threads' requests do not wait for its end. True where it served any.
    pub fn look(&self) -> bool {
        self.inner.look()
    }
}
