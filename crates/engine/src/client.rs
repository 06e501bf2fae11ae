//! The way in from any thread and any runtime.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use corelog_shard::{
    AppendCall, Call, FlushCall, PartitionId, PollCall, Producer, Records, Scope, ShardThread,
    WatermarksCall,
};
use corelog_storage::{Ack, Appended, ConsumerKey, Figures, OpenReport, Trimmed, Watermarks};

use crate::control::{AskedShard, Control};
use crate::error::{AppendError, ControlError, OffsetError, PollError, ReopenError, Unavailable};
use crate::groups::{Groups, Member, MemberPoll, MemberStore};
use crate::poll::Poll;
use crate::stats::EngineStats;
use crate::streams::Catalog;

/// Appends to and polls from all partitions, and leads to the [`Catalog`] of them. Clone + Send +
/// Sync; clones share one set of limits (`Limits::client_..`).
///
/// Calls never wait. Each takes its place in the order when it is made, not when its future is
/// polled: two appends of one thread to one partition are stored in the order of the calls. Where
/// something is full a call is answered `Busy` at once and nothing is done; a [`Producer`] keeps
/// its order across that.
///
/// What a call returns is its answer, a future for any runtime. Dropping it gives up the answer,
/// not the request (see [the crate's table](crate#dropped-futures)). The `.._blocking` twins wait on the
/// calling thread; on a shard's own thread they answer `OnShard` and do nothing.
#[derive(Clone)]
pub struct Client {
    shard: corelog_shard::Client,
    control: Arc<Control>,
}

impl Client {
    pub(crate) fn new(shard: corelog_shard::Client, control: Arc<Control>) -> Client {
        Client { shard, control }
    }

    /// Appends `batch`, exactly one batch as a producer builds it (`BatchBuilder`), to
    /// `partition`. The bytes are verified here, on the calling thread, and are not copied on their
    /// way to the owning shard. Answered when `ack` is reached: what survives what then stands in
    /// [the crate's table](crate#what-an-answer-is-worth).
    ///
    /// # Errors
    /// Unsound bytes are `Refused` with the field and its position, and no shard is asked. `Busy`
    /// where a mailbox or a limit of what is in flight is full: nothing was stored, try again. Each
    /// variant of [`AppendError`] says whether the batch may be stored.
    ///
    /// # Cancel safety
    /// Dropped, the future gives up the answer: the batch may be stored or not; where it is, whole
    /// and in its place.
    pub fn append(&self, partition: PartitionId, batch: impl Into<Bytes>, ack: Ack) -> AppendCall {
        self.shard.append(partition, batch.into(), ack)
    }

    /// [`Client::append`], waiting on this thread.
    ///
    /// # Errors
    /// As there, and `OnShard`.
    pub fn append_blocking(
        &self,
        partition: PartitionId,
        batch: impl Into<Bytes>,
        ack: Ack,
    ) -> Result<Appended, AppendError> {
        self.shard.append_blocking(partition, batch.into(), ack)
    }

    /// A handle for one producer's appends to `partition`, in order even across `Busy`.
    pub fn producer(&self, partition: PartitionId) -> Producer {
        self.shard.producer(partition)
    }

    /// Ends when everything appended to `partition` before the call has reached `ack`.
    ///
    /// # Errors
    /// Of [`AppendError`] what may happen to a batch on its way; `Poisoned` where a write or sync
    /// failed, which is never tried again.
    ///
    /// # Cancel safety
    /// Dropped, the future gives up the answer; the flush goes on.
    pub fn flush(&self, partition: PartitionId, ack: Ack) -> FlushCall {
        self.shard.flush(partition, ack)
    }

    /// [`Client::flush`], waiting on this thread.
    ///
    /// # Errors
    /// As there, and `OnShard`.
    pub fn flush_blocking(&self, partition: PartitionId, ack: Ack) -> Result<(), AppendError> {
        self.shard.flush_blocking(partition, ack)
    }

    /// Whole batches from where `poll` says, in offset order and without a gap. The records lend
    /// memory of the shard: see [`Records`]. Every byte of them was verified. At the end of the log
    /// they are empty, which is no error.
    ///
    /// # Errors
    /// `Busy` where a mailbox is full or too many polls are in flight. Damage is `Corrupt`, with
    /// its place and the offset from which polls may go on; the rest stands at [`PollError`].
    ///
    /// # Cancel safety
    /// Dropped, the future gives up the answer, and what was lent for it goes home. With
    /// [`Poll::auto_commit`] it may be stored as done all the same.
    pub fn poll(&self, partition: PartitionId, poll: Poll) -> PollCall {
        self.shard.poll(partition, poll.into())
    }

    /// [`Client::poll`], waiting on this thread.
    ///
    /// # Errors
    /// As there, and `OnShard`.
    pub fn poll_blocking(&self, partition: PartitionId, poll: Poll) -> Result<Records, PollError> {
        self.shard.poll_blocking(partition, poll.into())
    }

    /// Stores `offset` for `who`: that of the last message that it is done with. It may go back; one
    /// above the last message is refused. In force before any later call of this thread; with
    /// `Ack::Appended` durable within a second, with the others when this is answered.
    pub fn store_offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
        offset: u64,
        ack: Ack,
    ) -> Call<(), OffsetError> {
        self.shard.store_offset(partition, who, offset, ack)
    }

    /// Deletes what `who` has stored. `NothingStored` where that is nothing.
    pub fn delete_offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
        ack: Ack,
    ) -> Call<(), OffsetError> {
        self.shard.delete_offset(partition, who, ack)
    }

    /// What `who` has stored, if anything.
    pub fn offset(
        &self,
        partition: PartitionId,
        who: ConsumerKey,
    ) -> Call<Option<u64>, OffsetError> {
        self.shard.offset(partition, who)
    }

    /// The members of consumer groups.
    pub fn groups(&self) -> Groups {
        Groups::new(Arc::clone(&self.control))
    }

    /// [`Client::poll`] as a member of a consumer group; refused where the partition of the group's
    /// topic is not the member's. Its consumer is the group, whoever `poll` names.
    ///
    /// Where the partition goes to another member before the answer, the messages are that one's,
    /// and the answer is a refusal; unless the poll stores them as done by itself
    /// ([`Poll::auto_commit`]).
    pub fn poll_as(&self, member: Member, partition: u32, poll: Poll) -> MemberPoll {
        let offset = |id, who| self.offset(id, who);
        self.groups().poll(member, partition, poll, offset, |id, query| self.shard.poll(id, query))
    }

    /// [`Client::store_offset`] as a member of a consumer group, of its group; refused where the
    /// partition of the group's topic is not the member's.
    pub fn store_offset_as(
        &self,
        member: Member,
        partition: u32,
        offset: u64,
        ack: Ack,
    ) -> MemberStore {
        let ask = |id, who| self.store_offset(id, who, offset, ack);
        self.groups().store(member, partition, Some(offset), ask)
    }

    /// [`Client::delete_offset`] as a member of a consumer group, of its group; refused where the
    /// partition of the group's topic is not the member's.
    pub fn delete_offset_as(&self, member: Member, partition: u32, ack: Ack) -> MemberStore {
        let ask = |id, who| self.delete_offset(id, who, ack);
        self.groups().store(member, partition, None, ask)
    }

    /// Deletes the `count` oldest sealed segments; fewer where there are not so many, or where a
    /// consumer has stored an offset in front of their end. The active one always stays.
    pub fn delete_segments(
        &self,
        partition: PartitionId,
        count: u32,
    ) -> Call<Trimmed, ControlError> {
        self.shard.delete_segments(partition, count)
    }

    /// How far the log of `partition` has come.
    pub fn watermarks(&self, partition: PartitionId) -> WatermarksCall {
        self.shard.watermarks(partition)
    }

    /// [`Client::watermarks`], waiting on this thread.
    ///
    /// # Errors
    /// As there, and `OnShard`.
    pub fn watermarks_blocking(&self, partition: PartitionId) -> Result<Watermarks, PollError> {
        self.shard.watermarks_blocking(partition)
    }

    /// Requests of this client (and its clones) that are not answered yet, and the bytes of its
    /// appends among them: what `Limits::client_requests_in_flight` and `client_bytes_in_flight`
    /// bound.
    pub fn in_flight(&self) -> (usize, usize) {
        self.shard.in_flight()
    }

    /// The streams, topics, partitions and consumer groups.
    pub fn catalog(&self) -> Catalog {
        Catalog::new(Arc::clone(&self.control))
    }

    /// Brings a partition back that takes no more appends since a fault of the disk
    /// ([`crate::error::storage::AppendError::Poisoned`]), or that could not be opened. The others
    /// are not affected, and no other call has to be stopped for it.
    ///
    /// Polls are served while the old life's I/O ends; then the log is recovered in place, and what
    /// is asked meanwhile waits for that. Everything that was answered as written or durable is
    /// there afterwards; a batch that was answered `Poisoned` may be there. A write that the device
    /// never answers is waited for: it might land in the new life.
    ///
    /// The request is on its way when this returns. Dropping the future gives up the answer; a
    /// partition that could not be opened may then stay closed.
    ///
    /// ```
    /// # use corelog::{Ack, Client, PartitionId};
    /// # use corelog::error::{AppendError, storage};
    /// # async fn example(client: &Client, partition: PartitionId, batch: bytes::Bytes)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// match client.append(partition, batch.clone(), Ack::Written).await {
    ///     Err(AppendError::Storage(storage::AppendError::Poisoned(fault))) => {
    ///         eprintln!("{fault}: reopening");
    ///         client.reopen_partition(partition).await?;
    ///         // The batch may be stored: look, before it is sent a second time.
    ///     }
    ///     answer => println!("offset {}", answer?.base_offset),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`ReopenError`].
    pub fn reopen_partition(
        &self,
        partition: PartitionId,
    ) -> impl Future<Output = Result<OpenReport, ReopenError>> + Send + use<> {
        let control = Arc::clone(&self.control);
        let recovery = control.shards.reopen(partition);
        async move {
            match recovery.await {
                Err(error) if is_not_served(&error) => {
                    let opening = control.open_failed(partition)?;
                    opening.await.unwrap_or_else(|_| Err(Unavailable::Closed.into()))
                }
                done => done.map_err(ReopenError::Partition),
            }
        }
    }

    /// [`Client::reopen_partition`], waiting on this thread.
    ///
    /// # Errors
    /// As there, and `OnShard`.
    pub fn reopen_partition_blocking(
        &self,
        partition: PartitionId,
    ) -> Result<OpenReport, ReopenError> {
        if ShardThread::is_current() {
            return Err(Unavailable::OnShard.into());
        }
        match self.control.shards.reopen(partition).wait() {
            Err(error) if is_not_served(&error) => {
                let opening = self.control.open_failed(partition)?;
                opening.recv().unwrap_or_else(|_| Err(Unavailable::Closed.into()))
            }
            done => done.map_err(ReopenError::Partition),
        }
    }

    /// What partitions hold: segments, bytes, messages, the last offset, by id. Those that are not
    /// served are not in the answer, nor is what does not exist.
    ///
    /// ```
    /// # use corelog::Client;
    /// # use corelog::stats::Scope;
    /// # async fn example(client: &Client) -> Result<(), corelog::error::ControlError> {
    /// let topic = client.figures(Scope::Topic { stream: 0, topic: 0 }).await?;
    /// let bytes: u64 = topic.iter().map(|(_, figures)| figures.bytes).sum();
    /// # Ok(())
    /// # }
    /// ```
    pub fn figures(
        &self,
        scope: Scope,
    ) -> impl Future<Output = Result<Vec<(PartitionId, Figures)>, ControlError>> + Send + use<>
    {
        let asked = self.control.ask_figures(scope);
        async move {
            let mut all = Vec::new();
            for shard in asked {
                all.extend(shard.await?);
            }
            all.sort_unstable_by_key(|(id, _)| *id);
            Ok(all)
        }
    }

    /// [`Client::figures`], waiting on this thread.
    ///
    /// # Errors
    /// As there, and `OnShard`.
    pub fn figures_blocking(
        &self,
        scope: Scope,
    ) -> Result<Vec<(PartitionId, Figures)>, ControlError> {
        if ShardThread::is_current() {
            return Err(Unavailable::OnShard.into());
        }
        let mut all = Vec::new();
        for shard in self.control.ask_figures(scope) {
            all.extend(shard.wait()?);
        }
        all.sort_unstable_by_key(|(id, _)| *id);
        Ok(all)
    }

    /// Counters of the engine, its shards and each of its partitions. The shards gather them beside
    /// their work; for ten thousand partitions the answer takes some megabytes.
    pub fn stats(&self) -> impl Future<Output = Result<EngineStats, ControlError>> + Send + use<> {
        self.ask_stats(true)
    }

    /// [`Client::stats`], waiting on this thread.
    ///
    /// # Errors
    /// As there, and `OnShard`.
    pub fn stats_blocking(&self) -> Result<EngineStats, ControlError> {
        self.wait_for_stats(true)
    }

    /// As [`Client::stats`] without the partitions, which are all in the shards' sums: as cheap with
    /// ten thousand as with one.
    pub fn totals(&self) -> impl Future<Output = Result<EngineStats, ControlError>> + Send + use<> {
        self.ask_stats(false)
    }

    /// [`Client::totals`], waiting on this thread.
    ///
    /// # Errors
    /// As there, and `OnShard`.
    pub fn totals_blocking(&self) -> Result<EngineStats, ControlError> {
        self.wait_for_stats(false)
    }

    fn ask_stats(
        &self,
        partitions: bool,
    ) -> impl Future<Output = Result<EngineStats, ControlError>> + Send + use<> {
        let control = Arc::clone(&self.control);
        let asked = control.ask_stats(partitions);
        async move {
            let mut answers = Vec::with_capacity(asked.len());
            for shard in asked {
                answers.push(shard.answer().await?);
            }
            Ok(control.stats(answers))
        }
    }

    fn wait_for_stats(&self, partitions: bool) -> Result<EngineStats, ControlError> {
        if ShardThread::is_current() {
            return Err(Unavailable::OnShard.into());
        }
        let asked = self.control.ask_stats(partitions).into_iter();
        let answers: Result<_, _> = asked.map(AskedShard::wait).collect();
        Ok(self.control.stats(answers?))
    }
}

/// The shard has nothing to recover in place: the partition was not opened, or failed since.
fn is_not_served(error: &ControlError) -> bool {
    matches!(error, ControlError::Unavailable(Unavailable::PartitionFailed(_)))
}
