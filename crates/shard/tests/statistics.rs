//! What a shard counts and tells: sums that outlive partitions, statistics that keep nobody waiting,
//! times and news for whoever watches.

mod common;

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{batch, close, config, from, id, limits, opened, place, running};
use corelog_io::sim::{Fault, Sim};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_shard::{
    ControlError, CopyOut, Observer, PartitionId, Shard, ShardLimits, ShardNotice, Shards, Took,
    Unavailable,
};
use corelog_storage::{Ack, PollQuery, SharedLimits};

#[test]
fn sums_outlive_partitions() {
    let sim = Sim::new(31);
    sim.run(async {
        let shards = opened(&sim, 1, 2).await;
        let client = shards.client(&limits(100, 1 << 20));
        let mut bytes = 0;
        for number in 0..5 {
            let batch = batch([number, number + 100]);
            bytes += batch.len() as u64;
            client.append(id(number as u32 % 2), batch, Ack::Durable).await.unwrap();
        }
        let records = client.poll(id(0), from(0)).await.unwrap();
        let before = shards.stats(0).await.unwrap();
        let sums = before.counts;
        assert_eq!(
            (sums.batches, sums.messages, sums.bytes, sums.append_errors),
            (5, 10, bytes, 0)
        );
        assert_eq!((sums.polls, sums.polled_messages), (1, records.messages().into()));
        assert_eq!(sums.polled_bytes, records.len() as u64);
        let of = |which: fn(&corelog_storage::Counts) -> u64| -> u64 {
            before.partitions.iter().map(|(_, partition)| which(&partition.counts())).sum()
        };
        assert_eq!(of(|c| c.bytes), bytes);
        assert_eq!(of(|c| c.syncs), sums.syncs);
        assert_eq!(of(|c| c.writes), sums.writes);
        assert_eq!((before.open, before.poisoned), (2, 0));

        shards.close(id(0)).await.unwrap();
        let after = shards.totals(0).await.unwrap();
        assert_eq!((after.open, after.partitions.len()), (1, 0));
        assert!(after.counts.syncs > sums.syncs, "the close is a sync");
        assert_eq!((after.counts.batches, after.counts.bytes), (5, bytes));
        shards.open(id(0), place(id(0)), config()).await.unwrap();
        let again = shards.stats(0).await.unwrap();
        assert_eq!(again.partitions[0].1.batches, 0, "it counts from its opening");
        assert_eq!(again.counts.batches, 5);
        close(&shards).await;
    });
}

#[test]
fn statistics_of_many_partitions_keep_nobody_waiting() {
    let sim = Sim::new(32);
    sim.run(async {
        let shards = opened(&sim, 1, 300).await;
        let client = shards.client(&limits(100, 1 << 20));
        let mut stats = pin!(shards.stats(0));
        // Asked later, answered sooner.
        client.watermarks(id(7)).await.unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(stats.as_mut().poll(&mut cx).is_pending());
        let stats = stats.await.unwrap();
        assert_eq!(stats.partitions.len(), 300);
        assert!(stats.partitions.is_sorted_by_key(|(id, _)| *id));
        let mut totals = pin!(shards.totals(0));
        let marks = client.watermarks(id(7));
        marks.await.unwrap();
        assert!(matches!(totals.as_mut().poll(&mut cx), Poll::Ready(Ok(_))), "at once");
        close(&shards).await;
    });
}

/// Queues, tasks, buffers and handles: at rest, while a write and a poll are under way, and after.
#[test]
fn what_is_under_way_is_told_as_it_is() {
    let sim = Sim::new(35);
    sim.run(async {
        let shards = opened(&sim, 1, 3).await;
        let client = shards.client(&limits(100, 1 << 20));
        let rest = shards.totals(0).await.unwrap();
        assert_eq!((rest.mailbox, rest.tasks), (0, 0));
        assert_eq!((rest.write_bytes_in_flight, rest.cached_bytes), (0, 0));
        assert_eq!((rest.open_handles, rest.active_handles), (0, 3));
        let next = shards.totals(0).await.unwrap();
        assert_eq!((next.requests - rest.requests, next.runs - rest.runs), (1, 1));

        sim.disk().inject(Fault::delay(Duration::from_millis(50)).of(IoOp::Write).times(1));
        let written = client.append(id(0), batch([1]), Ack::Written);
        let waits = PollQuery { max_wait: Duration::from_secs(1), ..from(0) };
        let polled = client.poll(id(1), waits);
        sim.clock().sleep(Duration::from_millis(1)).await;
        let busy = shards.totals(0).await.unwrap();
        assert_eq!((busy.appends_in_flight, busy.polls_in_flight, busy.tasks), (1, 1, 1));
        assert_eq!((busy.write_bytes_in_flight, busy.cached_bytes), (4096, 0));
        written.await.unwrap();
        assert!(polled.await.unwrap().is_empty());
        let after = shards.totals(0).await.unwrap();
        assert_eq!((after.write_bytes_in_flight, after.tasks), (0, 0));
        assert_eq!((after.cached_bytes, after.open_handles), (4096, 0), "for readers of the end");

        shards.close(id(0)).await.unwrap();
        shards.open(id(0), place(id(0)), config()).await.unwrap();
        assert_eq!(client.poll(id(0), from(0)).await.unwrap().messages(), 1);
        let read = shards.totals(0).await.unwrap();
        assert_eq!((read.open_handles, read.active_handles), (1, 3));
        close(&shards).await;
    });
}

/// Who asks sees what still waits behind it.
#[test]
fn the_mailbox_is_told_as_it_is() {
    let sim = Sim::new(36);
    sim.run(async {
        let shards = opened(&sim, 1, 1).await;
        let calls: Vec<_> = (0..4).map(|_| shards.totals(0)).collect();
        let mut waiting = Vec::new();
        for call in calls {
            waiting.push(call.await.unwrap().mailbox);
        }
        assert_eq!(waiting, [3, 2, 1, 0]);
        close(&shards).await;
    });
}

#[test]
fn a_full_mailbox_is_counted() {
    let sim = Sim::new(33);
    sim.run(async {
        let limits = ShardLimits { mailbox_requests: 2, ..ShardLimits::default() };
        let shards = running(&sim, 1, &limits);
        let calls: Vec<_> = (0..5).map(|_| shards.totals(0)).collect();
        let mut answers = Vec::new();
        for call in calls {
            answers.push(call.await);
        }
        let busy = |answer: &&Result<_, _>| {
            matches!(answer, Err(ControlError::Unavailable(Unavailable::Busy)))
        };
        assert_eq!(answers.iter().filter(busy).count(), 3);
        assert_eq!(shards.totals(0).await.unwrap().mailbox_full, 3);
        close(&shards).await;
    });
}

/// Remembers what it is told.
#[derive(Default)]
struct Watch {
    took: RefCell<Vec<Took>>,
    news: RefCell<Vec<(PartitionId, &'static str)>>,
}

impl Observer for Watch {
    fn took(&self, what: Took, ns: u64) {
        assert!(ns > 0, "the clock of the test goes on with each look");
        self.took.borrow_mut().push(what);
    }

    fn notice(&self, partition: PartitionId, notice: &ShardNotice<'_>) {
        let what = match notice {
            ShardNotice::Opened { reopened: false, .. } => "opened",
            _ => "something else",
        };
        self.news.borrow_mut().push((partition, what));
    }
}

/// Goes on by 50 us with each look, so that all requests are timed.
fn ticks() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(1 << 20);
    NOW.fetch_add(50_000, Ordering::Relaxed)
}

#[test]
fn whoever_watches_is_told_times_and_news() {
    let sim = Sim::new(34);
    sim.run(async {
        let (shards, mut seats) = Shards::timed(1, &ShardLimits::default(), ticks);
        let (platform, watch) = (sim.platform().clone(), Rc::new(Watch::default()));
        let told = Rc::clone(&watch);
        let limits_of_all = SharedLimits::default();
        let shard = Shard::observed(seats.remove(0), platform, CopyOut, limits_of_all, told);
        sim.platform().spawn().spawn(shard.run());
        shards.open(id(0), place(id(0)), config()).await.unwrap();
        let client = shards.client(&limits(100, 8 << 20));
        for (number, ack) in [(0, Ack::Appended), (1, Ack::Written), (2, Ack::Durable)] {
            let batch = batch([number]);
            client.append(id(0), batch, ack).await.unwrap();
        }
        assert_eq!(client.poll(id(0), from(0)).await.unwrap().messages(), 3);
        let waited = PollQuery { max_wait: Duration::from_millis(5), ..from(3) };
        assert!(client.poll(id(0), waited).await.unwrap().is_empty());
        let took = [
            Took::Crossing,
            Took::Append(Ack::Appended),
            Took::Crossing,
            Took::Append(Ack::Written),
            Took::Crossing,
            Took::Append(Ack::Durable),
            Took::Crossing,
            Took::PollOfMemory,
            // Of one that waits nothing but its way.
            Took::Crossing,
        ];
        assert_eq!(*watch.took.borrow(), took);
        assert_eq!(*watch.news.borrow(), [(id(0), "opened")]);
        close(&shards).await;
    });
}
