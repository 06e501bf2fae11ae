//! What a shard tells about itself.

use std::rc::Rc;

use corelog_io::Platform;
use corelog_storage::{CloseError, Counts, PartitionStats};

use crate::records::Lend;
use crate::reply::Reply;
use crate::shard::{BytesOf, State};
use crate::{ControlError, PartitionFailure, PartitionId};

/// Partitions between two looks of the shard at what else there is to do.
const RUN: usize = 64;

/// Counters of one shard since it began, and its queues now.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ShardStats {
    /// The shard's number.
    pub shard: usize,
    /// What all its partitions have counted since the shard began, those that are closed or deleted
    /// included: it never goes back.
    pub counts: Counts,
    /// Partitions that are open, poisoned ones included.
    pub open: usize,
    /// Partitions that take no appends since a fault.
    pub poisoned: usize,
    /// Open partitions, by id. None where only totals were asked for.
    pub partitions: Vec<(PartitionId, PartitionStats)>,
    /// Partitions that could not be opened or failed since, by id.
    pub failed: Vec<PartitionFailure>,
    /// Requests served, from the mailbox and from code on the shard.
    pub requests: u64,
    /// Runs in which the mailbox was drained; `requests / runs` is how well they gather.
    pub runs: u64,
    /// Requests in the mailbox now.
    pub mailbox: usize,
    /// Appends not answered yet.
    pub appends_in_flight: usize,
    /// Their bytes.
    pub append_bytes_in_flight: usize,
    /// Polls not answered yet.
    pub polls_in_flight: usize,
    /// Appends and polls that the shard's limits of requests and bytes in flight refused. A full
    /// mailbox, and a client's own limits, are not in it.
    pub refused: u64,
    /// Requests that found the mailbox full.
    pub mailbox_full: u64,
    /// Tasks of the shard that run now, without the one that looks at its partitions for this.
    pub tasks: usize,
    /// Bytes of log writes in flight.
    pub write_bytes_in_flight: usize,
    /// Bytes of written buffers kept for readers.
    pub cached_bytes: usize,
    /// Open handles for reading segments.
    pub open_handles: usize,
    /// Open handles of active segments, for writing.
    pub active_handles: usize,
}

/// What closing a shard found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct CloseReport {
    /// Partitions that closed in order.
    pub closed: usize,
    /// Partitions whose end is not in order; the next opening recovers them.
    pub failed: Vec<(PartitionId, CloseError)>,
    /// Partitions that were out of service before.
    pub out_of_service: Vec<PartitionFailure>,
}

impl<P: Platform, L: Lend<BytesOf<P>>> State<P, L> {
    /// Answers `reply` with the shard's counters, and with those of each partition where these are
    /// asked for, too: of a run of them at a time, so that ten thousand keep nobody waiting.
    pub(crate) fn stats(self: &Rc<Self>, partitions: bool, reply: Reply<ShardStats, ControlError>) {
        if !partitions {
            return reply.send(Ok(self.totals()));
        }
        let state = Rc::clone(self);
        self.spawn(async move {
            let ids = state.partitions.borrow().open_ids();
            state.yield_now().await;
            let mut all = Vec::with_capacity(ids.len());
            for run in ids.chunks(RUN) {
                {
                    let partitions = state.partitions.borrow();
                    let known = run.iter().filter_map(|id| Some((*id, partitions.any(*id)?)));
                    all.extend(known.map(|(id, partition)| (id, partition.stats())));
                }
                state.yield_now().await;
            }
            let totals = state.totals();
            let tasks = totals.tasks - 1;
            reply.send(Ok(ShardStats { partitions: all, tasks, ..totals }));
        });
    }

    fn totals(&self) -> ShardStats {
        let (handle, shared) = (&self.seat.handle, &self.shared);
        let (appends_in_flight, append_bytes_in_flight) = handle.appends.budget().in_flight();
        ShardStats {
            shard: self.index(),
            counts: shared.counts(),
            open: shared.open_partitions(),
            poisoned: shared.poisoned_partitions(),
            partitions: Vec::new(),
            failed: self.partitions.borrow().failures(),
            requests: self.requests.get(),
            runs: self.runs.get(),
            mailbox: handle.waiting(),
            appends_in_flight,
            append_bytes_in_flight,
            polls_in_flight: handle.polls.budget().in_flight().0,
            refused: handle.appends.budget().refused() + handle.polls.budget().refused(),
            mailbox_full: handle.found_full(),
            tasks: self.tasks.running(),
            write_bytes_in_flight: shared.bytes_in_flight(),
            cached_bytes: shared.cached_bytes(),
            open_handles: shared.open_handles(),
            active_handles: shared.active_handles(),
        }
    }
}
