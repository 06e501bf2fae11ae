//! What comes from other threads reaches a shard that is busy: its runtime has it look around between
//! two tasks, and nobody has to turn to I/O for it.

mod common;

use common::*;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use corelog_io::sim::Sim;
use corelog_shard::{ClientLimits, PollError, ShardLimits, Shards, WatermarksCall, glance};

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn poll<F: Future>(future: Pin<&mut F>, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(wakes))))
}

/// `work` on a thread of its own, to its end.
fn elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().unwrap())
}

/// A partition of shard `owner`.
fn owned(shards: &Shards, owner: usize) -> corelog_shard::PartitionId {
    (0..).map(id).find(|id| shards.owner(*id) == owner).unwrap()
}

/// A call that waits on this thread for shard `of`, which never answers.
fn asked(shards: &Shards, of: usize, wakes: &Arc<Wakes>) -> WatermarksCall {
    let client = shards.client(&ClientLimits::default());
    let mut call = client.watermarks(owned(shards, of));
    assert!(poll(Pin::new(&mut call), wakes).is_pending());
    call
}

fn all_closed<const N: usize>(calls: [WatermarksCall; N]) {
    for mut call in calls {
        let answer = poll(Pin::new(&mut call), &Arc::default());
        assert!(matches!(answer, Poll::Ready(Err(PollError::Closed))), "{answer:?}");
    }
}

#[test]
fn a_glance_serves_requests_while_the_loop_rests_and_leaves_a_long_run_to_it() {
    let sim = Sim::new(1);
    sim.run(async {
        let limits = ShardLimits { run_requests: 2, ..ShardLimits::default() };
        let (shards, mut seats) = Shards::new(1, &limits);
        let mut run = pin!(shard(seats.remove(0), &sim).run());
        let of_loop = Arc::new(Wakes::default());
        assert!(poll(run.as_mut(), &of_loop).is_pending());
        let client = shards.client(&ClientLimits::default());
        let of_call = Arc::new(Wakes::default());
        let ask = || elsewhere(|| client.watermarks(id(0)));
        let mut call = ask();
        // This wake a runtime takes in when it turns to its I/O.
        assert_eq!(of_loop.count(), 1);
        assert!(poll(Pin::new(&mut call), &of_call).is_pending());
        glance();
        let answer = poll(Pin::new(&mut call), &of_call);
        assert!(matches!(answer, Poll::Ready(Err(PollError::UnknownPartition(_)))), "{answer:?}");
        assert_eq!(of_loop.count(), 1, "it has nothing to do");

        let mut calls: Vec<_> = (0..5).map(|_| ask()).collect();
        let mut waiting = || {
            calls.retain_mut(|call| poll(Pin::new(call), &of_call).is_pending());
            calls.len()
        };
        glance();
        assert_eq!((waiting(), of_loop.count()), (3, 2), "a run, and the loop is called");
        glance();
        assert_eq!((waiting(), of_loop.count()), (3, 2), "it is under way");
        assert!(poll(run.as_mut(), &of_loop).is_pending());
    });
}

#[test]
fn who_waits_on_a_shard_is_woken_there() {
    let sim = Sim::new(1);
    sim.run(async {
        let (shards, mut seats) = Shards::new(2, &ShardLimits::default());
        let mut run = Box::pin(shard(seats.remove(0), &sim).run());
        let (of_loop, of_task) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
        assert!(poll(run.as_mut(), &of_loop).is_pending());

        let calls = [(); 2].map(|()| asked(&shards, 1, &of_task));
        elsewhere(|| shards.fail_all(1));
        assert_eq!(of_task.count(), 0, "woken by the thread that answered");
        assert_eq!(of_loop.count(), 1, "the shard may sleep");
        glance();
        assert_eq!(of_task.count(), 2);
        all_closed(calls);
        drop(run);
    });
}

#[test]
fn a_shard_that_sleeps_wakes_who_was_answered_when_it_runs() {
    let sim = Sim::new(1);
    sim.run(async {
        let (shards, mut seats) = Shards::new(2, &ShardLimits::default());
        let mut run = pin!(shard(seats.remove(0), &sim).run());
        let (of_loop, of_task) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
        assert!(poll(run.as_mut(), &of_loop).is_pending());
        let calls = [asked(&shards, 1, &of_task)];
        elsewhere(|| shards.fail_all(1));
        assert_eq!((of_loop.count(), of_task.count()), (1, 0));
        assert!(poll(run.as_mut(), &of_loop).is_pending());
        assert_eq!(of_task.count(), 1);
        all_closed(calls);
    });
}

#[test]
fn who_finds_no_room_and_who_waits_on_a_shard_that_has_ended_is_woken_by_who_answers() {
    let sim = Sim::new(1);
    sim.run(async {
        // Room for one request in each mailbox, and for one wake.
        let limits = ShardLimits { mailbox_requests: 1, ..ShardLimits::default() };
        let (shards, mut seats) = Shards::new(4, &limits);
        let mut run = Box::pin(shard(seats.remove(0), &sim).run());
        let (of_loop, of_task) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
        assert!(poll(run.as_mut(), &of_loop).is_pending());
        let calls = [1, 2, 3].map(|of| asked(&shards, of, &of_task));
        elsewhere(|| shards.fail_all(1));
        assert_eq!(of_task.count(), 0);
        elsewhere(|| shards.fail_all(2));
        assert_eq!(of_task.count(), 1, "there was no room");
        drop(run);
        assert_eq!(of_task.count(), 2, "the end wakes those who are left");
        elsewhere(|| shards.fail_all(3));
        assert_eq!(of_task.count(), 3, "nobody looks any more");
        all_closed(calls);
    });
}
