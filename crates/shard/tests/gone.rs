//! Shards that go away, and bugs: everyone is answered, nothing else is hurt.

mod common;

use common::*;

use std::cell::Cell;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use corelog_io::sim::{Fault, Sim, SimClock, SimDisk, SimPlatform, SimSpawn};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_shard::{
    AppendError, ClientLimits, ControlError, CopyOut, FailureReason, Lend, PollError, Shard,
    ShardLimits, ShardThread, Shards, Unavailable,
};
use corelog_storage::{Ack, SharedLimits};

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// A shard with requests in every stage: in the mailbox, in a partition, on the disk. `leave` ends
/// it one way or another.
fn everyone_is_answered(leave: impl FnOnce(&Shards, std::pin::Pin<Box<dyn Future<Output = ()>>>)) {
    let sim = Sim::new(1);
    sim.run(async {
        let (shards, seats) = Shards::new(1, &ShardLimits::default());
        let client = shards.client(&ClientLimits::default());
        let shard = shard(seats.into_iter().next().unwrap(), &sim);
        shard.open_all(vec![(id(0), place(id(0)), config())]).await;
        let mut run: std::pin::Pin<Box<dyn Future<Output = ()>>> = Box::pin(shard.run());
        sim.disk().inject(Fault::stall().of(IoOp::Write).for_ever());
        let in_flight = client.append(id(0), batch([1]), Ack::Durable);
        let flush = client.flush(id(0), Ack::Durable);
        let dropped = client.append(id(0), batch([2]), Ack::Durable);
        drop(dropped);
        for _ in 0..20 {
            assert!(poll_once(&mut run).is_pending());
            sim.platform().spawn().yield_now().await;
        }
        let in_mailbox = client.append(id(0), batch([3]), Ack::Appended);
        let poll = client.poll(id(0), from(0));
        let close = shards.close_all(0);
        assert!(client.in_flight().0 >= 4);
        leave(&shards, run);
        assert!(matches!(in_flight.await, Err(AppendError::Closed)));
        assert!(matches!(flush.await, Err(AppendError::Closed)));
        assert!(matches!(in_mailbox.await, Err(AppendError::Closed)));
        assert!(matches!(poll.await, Err(PollError::Closed)));
        assert!(matches!(close.await, Err(ControlError::Unavailable(Unavailable::Closed))));
        assert_eq!(client.in_flight(), (0, 0), "every share came back");
        let late = client.append(id(0), batch([4]), Ack::Appended);
        assert!(matches!(late.refusal(), Some(AppendError::Closed)));
        assert!(matches!(client.poll(id(0), from(0)).refusal(), Some(PollError::Closed)));
    });
}

#[test]
fn a_shard_that_is_dropped_answers_everyone() {
    everyone_is_answered(|_, run| drop(run));
}

#[test]
fn a_leaked_shard_is_answered_for() {
    everyone_is_answered(|shards, run| {
        std::mem::forget(run);
        shards.fail_all(0);
        shards.fail_all(0);
    });
}

#[test]
fn a_seat_that_was_never_taken_closes_its_shard_only() {
    let (shards, mut seats) = Shards::new(2, &ShardLimits::default());
    let client = shards.client(&ClientLimits::default());
    let of = |shard| (0..).map(id).find(|id| shards.owner(*id) == shard).unwrap();
    let (gone, there) = (of(1), of(0));
    let waiting = client.append(gone, batch([1]), Ack::Appended);
    drop(seats.pop());
    assert!(matches!(waiting.wait(), Err(AppendError::Closed)));
    assert!(matches!(
        client.append(gone, batch([1]), Ack::Appended).refusal(),
        Some(AppendError::Closed)
    ));
    assert!(client.append(there, batch([1]), Ack::Appended).refusal().is_none());
}

#[test]
fn blocking_calls_on_a_shards_own_thread_are_errors_and_do_nothing() {
    let sim = Sim::new(2);
    sim.run(async {
        let shards = opened(&sim, 1, 1).await;
        let client = shards.client(&ClientLimits::default());
        assert!(ShardThread::is_current(), "a shard runs on this thread");
        assert!(matches!(
            client.append_blocking(id(0), batch([1]), Ack::Appended),
            Err(AppendError::OnShard)
        ));
        assert!(matches!(client.flush_blocking(id(0), Ack::Durable), Err(AppendError::OnShard)));
        assert!(matches!(client.poll_blocking(id(0), from(0)), Err(PollError::OnShard)));
        assert!(matches!(client.watermarks_blocking(id(0)), Err(PollError::OnShard)));
        assert_eq!(client.in_flight(), (0, 0));
        // One that was made before goes its way.
        let made = client.append(id(0), batch([2]), Ack::Appended);
        assert!(matches!(made.wait(), Err(AppendError::OnShard)));
        let stored = client.append(id(0), batch([3]), Ack::Durable).await.unwrap();
        assert_eq!(stored.base_offset, 1);
        assert_eq!(numbers(&client.poll(id(0), from(0)).await.unwrap()), [2, 3]);
        close(&shards).await;
        assert!(!ShardThread::is_current(), "it has ended");
    });
}

/// The simulated platform, with a clock that panics when asked after the fuse was lit.
#[derive(Clone)]
struct Fused {
    sim: SimPlatform,
    clock: FusedClock,
}

#[derive(Clone)]
struct FusedClock {
    sim: SimClock,
    lit: Rc<Cell<bool>>,
}

impl Clock for FusedClock {
    fn now_us(&self) -> u64 {
        assert!(!self.lit.take(), "the fuse");
        self.sim.now_us()
    }

    fn ceiling_us(&self) -> u64 {
        self.sim.ceiling_us()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        self.sim.sleep(duration)
    }
}

impl Platform for Fused {
    type Disk = SimDisk;
    type Clock = FusedClock;
    type Spawn = SimSpawn;

    fn disk(&self) -> &SimDisk {
        self.sim.disk()
    }

    fn clock(&self) -> &FusedClock {
        &self.clock
    }

    fn spawn(&self) -> &SimSpawn {
        self.sim.spawn()
    }
}

/// Lends by copying, and panics once after the fuse was lit.
struct FusedLender(Rc<Cell<bool>>);

impl<B: AsRef<[u8]>> Lend<B> for FusedLender {
    fn lend(&self, bytes: B, range: Range<usize>) -> Bytes {
        assert!(!self.0.take(), "the lender's fuse");
        CopyOut.lend(bytes, range)
    }
}

/// A bug in a partition's append and one in a poll: that partition is out of service until it is
/// opened again, with everything it had; the shard and the other partitions do not notice.
#[test]
fn a_panic_takes_one_partition_out_of_service() {
    let sim = Sim::new(3);
    sim.run(async {
        let (clock_fuse, lender_fuse) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let (shards, seats) = Shards::new(1, &ShardLimits::default());
        let clock = FusedClock { sim: sim.clock().clone(), lit: Rc::clone(&clock_fuse) };
        let shard = Shard::new(
            seats.into_iter().next().unwrap(),
            Fused { sim: sim.platform().clone(), clock },
            FusedLender(Rc::clone(&lender_fuse)),
            SharedLimits::default(),
        );
        shard.open_all((0..3).map(|n| (id(n), place(id(n)), config())).collect()).await;
        sim.platform().spawn().spawn(shard.run());
        let client = shards.client(&ClientLimits::default());
        for n in 0..3 {
            client.append(id(n), batch([1, 2]), Ack::Durable).await.unwrap();
        }

        clock_fuse.set(true);
        let lost = client.append(id(0), batch([3]), Ack::Durable).await;
        assert!(matches!(lost, Err(AppendError::Closed)), "{lost:?}");
        assert!(!clock_fuse.get());
        lender_fuse.set(true);
        let error = client.poll(id(1), from(0)).await.unwrap_err();
        assert!(error.to_string().contains("the lender's fuse"), "{error}");

        for n in 0..2 {
            let error = client.append(id(n), batch([4]), Ack::Durable).await.unwrap_err();
            let AppendError::PartitionFailed(failure) = error else { panic!("{error}") };
            assert!(matches!(failure.reason, FailureReason::Panicked(_)));
            assert_eq!(failure.partition, id(n));
        }
        client.append(id(2), batch([5]), Ack::Durable).await.unwrap();
        assert_eq!(numbers(&client.poll(id(2), from(0)).await.unwrap()), [1, 2, 5]);
        let failed = shards.stats(0).await.unwrap().failed;
        assert_eq!(failed.iter().map(|f| f.partition).collect::<Vec<_>>(), [id(0), id(1)]);

        for n in 0..2 {
            shards.open(id(n), place(id(n)), config()).await.unwrap();
            client.append(id(n), batch([6]), Ack::Durable).await.unwrap();
            let found = numbers(&client.poll(id(n), from(0)).await.unwrap());
            assert!(found.starts_with(&[1, 2]) && found.ends_with(&[6]), "{found:?}");
        }
        let report = shards.close_all(0).await.unwrap();
        assert_eq!((report.closed, report.out_of_service.len()), (3, 0));
    });
}

/// A waker that panics is its owner's bug: the append is stored, the partition serves on.
#[test]
fn a_callers_waker_that_panics_hurts_nobody_else() {
    struct Bomb;
    impl std::task::Wake for Bomb {
        fn wake(self: std::sync::Arc<Self>) {
            panic!("the caller's waker");
        }
    }
    let sim = Sim::new(4);
    sim.run(async {
        let shards = opened(&sim, 1, 1).await;
        let client = shards.client(&ClientLimits::default());
        let mut call = client.append(id(0), batch([1]), Ack::Durable);
        let bomb = Waker::from(std::sync::Arc::new(Bomb));
        assert!(pin!(&mut call).poll(&mut Context::from_waker(&bomb)).is_pending());
        client.append(id(0), batch([2]), Ack::Durable).await.unwrap();
        assert_eq!(call.await.unwrap().base_offset, 0);
        assert_eq!(numbers(&client.poll(id(0), from(0)).await.unwrap()), [1, 2]);
    });
}
