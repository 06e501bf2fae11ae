//! Code on a shard, and the memory that leaves it.

mod common;

use common::*;

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use corelog_io::sim::Sim;
use corelog_io::{Platform, Spawn};
use corelog_shard::{
    AppendError, ClientLimits, Lend, PartitionId, PollError, Shard, ShardLimits, Shards,
};
use corelog_storage::{Ack, SharedLimits};

#[test]
fn a_context_calls_its_own_partitions_directly_and_others_by_mailbox() {
    let sim = Sim::new(1);
    sim.run(async {
        let limits = ShardLimits { mailbox_requests: 1, ..ShardLimits::default() };
        let (shards, seats) = Shards::new(2, &limits);
        let of = |shard| (0..).map(id).find(|id| shards.owner(*id) == shard).unwrap();
        let (own, other) = (of(0), of(1));
        let mut both: Vec<_> = seats.into_iter().map(|seat| shard(seat, &sim)).collect();
        for (shard, partition) in both.iter().zip([own, other]) {
            let opened = shard.open_all(vec![(partition, place(partition), config())]).await;
            assert!(opened[0].1.is_ok());
        }
        let context = both[0].context(&ClientLimits::default());
        assert!(context.owns(own) && !context.owns(other));
        assert_eq!((context.index(), both[1].index()), (0, 1));

        // No shard runs yet: what is direct needs no loop, and no room in the mailbox.
        let client = shards.client(&ClientLimits::default());
        let first = context.append(own, batch([1]), Ack::Appended).await.unwrap();
        let second = context.append(own, batch([2]), Ack::Durable).await.unwrap();
        assert_eq!((first.base_offset, second.base_offset), (0, 1));
        assert_eq!(numbers(&context.poll(own, from(0)).await.unwrap()), [1, 2]);
        assert_eq!(context.watermarks(own).await.unwrap().durable(), 2);
        context.flush(own, Ack::Durable).await.unwrap();

        let queued = client.append(own, batch([10]), Ack::Appended);
        for crosses in [&client, context.client()] {
            let full = crosses.append(own, batch([11]), Ack::Appended);
            assert!(matches!(full.refusal(), Some(AppendError::Busy)));
        }
        assert_eq!(context.append(own, batch([3]), Ack::Durable).await.unwrap().base_offset, 2);
        assert!(context.look(), "one append waits");
        assert!(!context.look());
        assert_eq!(queued.await.unwrap().base_offset, 3);

        let crossing = context.append(other, batch([3]), Ack::Durable);
        let full = context.poll(other, from(0));
        assert!(matches!(full.refusal(), Some(PollError::Busy)));
        sim.platform().spawn().spawn(both.pop().unwrap().run());
        assert_eq!(crossing.await.unwrap().base_offset, 0);
        assert_eq!(numbers(&context.poll(other, from(0)).await.unwrap()), [3]);

        let unknown = context.append(PartitionId::new(9, 9, 9), batch([1]), Ack::Appended).await;
        assert!(matches!(unknown, Err(AppendError::UnknownPartition(_) | AppendError::Busy)));
        sim.platform().spawn().spawn(both.pop().unwrap().run());
        close(&shards).await;
        // What is left of the shard refuses; nothing hangs.
        let late = context.append(own, batch([4]), Ack::Appended);
        assert!(matches!(late.refusal(), Some(AppendError::Closed)));
    });
}

/// The end may be met by a task that looks into the mailbox while the shard's loop sleeps.
#[test]
fn a_look_that_meets_the_end_wakes_the_loop() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        sim.run(async {
            let (shards, seats) = Shards::new(1, &ShardLimits::default());
            let shard = shard(seats.into_iter().next().unwrap(), &sim);
            let context = shard.context(&ClientLimits::default());
            sim.platform().spawn().spawn(shard.run());
            for _ in 0..3 {
                context.yield_now().await;
            }
            let end = shards.close_all(0);
            assert!(context.look());
            end.await.unwrap();
        });
    }
}

#[test]
fn a_context_runs_tasks_on_its_shard() {
    let sim = Sim::new(2);
    sim.run(async {
        let (shards, seats) = Shards::new(1, &ShardLimits::default());
        let shard = shard(seats.into_iter().next().unwrap(), &sim);
        shard.open_all(vec![(id(0), place(id(0)), config())]).await;
        let context = shard.context(&ClientLimits::default());
        sim.platform().spawn().spawn(shard.run());
        let offset = Rc::new(Cell::new(None));
        let (inside, result) = (context.clone(), Rc::clone(&offset));
        context.spawn(async move {
            let done = inside.append(id(0), batch([7]), Ack::Durable).await.unwrap();
            result.set(Some(done.base_offset));
        });
        while offset.get().is_none() {
            context.yield_now().await;
        }
        assert_eq!(offset.get(), Some(0));
        drop(shards);
    });
}

/// Lends with a count of what is out, as a runtime with leases does.
struct Leases(Arc<AtomicUsize>);

struct Lease(Vec<u8>, Arc<AtomicUsize>);

impl<B: AsRef<[u8]>> Lend<B> for Leases {
    fn lend(&self, bytes: B, range: Range<usize>) -> Bytes {
        self.0.fetch_add(1, Ordering::Relaxed);
        Bytes::from_owner(Lease(bytes.as_ref()[range].to_vec(), Arc::clone(&self.0)))
    }
}

impl AsRef<[u8]> for Lease {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn leases_go_home_with_their_records_wherever_those_end() {
    let sim = Sim::new(3);
    sim.run(async {
        let out = Arc::new(AtomicUsize::new(0));
        let lent = || out.load(Ordering::Relaxed);
        let (shards, seats) = Shards::new(1, &ShardLimits::default());
        let seat = seats.into_iter().next().unwrap();
        let lender = Leases(Arc::clone(&out));
        let shard = Shard::new(seat, sim.platform().clone(), lender, SharedLimits::default());
        shard.open_all(vec![(id(0), place(id(0)), config())]).await;
        sim.platform().spawn().spawn(shard.run());
        let client = shards.client(&ClientLimits::default());
        for n in 0..8 {
            client.append(id(0), batch([n]), Ack::Durable).await.unwrap();
        }
        let poll = || client.poll(id(0), from(0));

        let records = poll().await.unwrap();
        let one = lent();
        assert!(one > 0, "what is dispatched is lent");
        let owned = records.to_owned();
        let elsewhere = std::thread::spawn(move || numbers(&records).len());
        assert_eq!(elsewhere.join().unwrap(), 8);
        assert_eq!(lent(), 0, "dropped on another thread");
        assert_eq!(numbers(&owned), (0..8).collect::<Vec<_>>());

        let kept = poll().await.unwrap().into_slices();
        assert_eq!(lent(), one, "slices keep their leases");
        drop(kept);
        assert_eq!(lent(), 0);

        // Answered and never read; dropped before the answer; refused by the end of the shard.
        let unread = poll();
        client.watermarks(id(0)).await.unwrap();
        while client.in_flight().0 > 0 {
            sim.platform().spawn().yield_now().await;
        }
        assert_eq!(lent(), one);
        drop(unread);
        assert_eq!(lent(), 0);
        drop(poll());
        while client.in_flight().0 > 0 {
            sim.platform().spawn().yield_now().await;
        }
        assert_eq!(lent(), 0);
        let held = poll().await.unwrap();
        close(&shards).await;
        assert_eq!(numbers(&held), (0..8).collect::<Vec<_>>(), "records outlive their shard");
        drop(held);
        assert_eq!(lent(), 0);
    });
}
