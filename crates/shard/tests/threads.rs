//! Real threads against shards on threads of their own: nothing is lost, hangs or is reordered.
//!
//! The shards run on the simulated platform. Its executor has no way to park, so a task beside the
//! shard keeps it turning; the shard itself is polled only when it was woken, so a lost wake of the
//! mailbox hangs these tests.

mod common;

use common::*;

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use corelog_io::sim::{Sim, SimPlatform};
use corelog_io::{Platform, Spawn};
use corelog_shard::{
    AppendError, Client, ClientLimits, CopyOut, PollError, ShardContext, ShardLimits, Shards,
};
use corelog_storage::Ack;

/// Shards on threads; each has `partitions` of the test's topic that are its own.
fn start(count: usize, partitions: u32, limits: &ShardLimits) -> (Shards, Vec<JoinHandle<()>>) {
    start_with(count, partitions, limits, |_| {})
}

/// As [`start`], and each shard begins with `guests`.
fn start_with(
    count: usize,
    partitions: u32,
    limits: &ShardLimits,
    guests: impl Fn(ShardContext<SimPlatform, CopyOut>) + Clone + Send + 'static,
) -> (Shards, Vec<JoinHandle<()>>) {
    let (shards, seats) = Shards::new(count, limits);
    let threads = seats
        .into_iter()
        .map(|seat| {
            let (shards, guests) = (shards.clone(), guests.clone());
            thread::spawn(move || {
                let sim = Sim::new(7);
                sim.run(async {
                    let shard = shard(seat, &sim);
                    let own =
                        (0..partitions).map(id).filter(|id| shards.owner(*id) == shard.index());
                    let own = own.map(|id| (id, place(id), config())).collect();
                    let opened = shard.open_all(own).await;
                    assert!(opened.iter().all(|(_, result)| result.is_ok()));
                    let spawn = sim.platform().spawn().clone();
                    let keeper = spawn.clone();
                    spawn.spawn(async move {
                        loop {
                            thread::yield_now();
                            keeper.yield_now().await;
                        }
                    });
                    guests(shard.context(&ClientLimits::default()));
                    shard.run().await;
                });
            })
        })
        .collect();
    (shards, threads)
}

fn stop(shards: &Shards, threads: Vec<JoinHandle<()>>) {
    for index in 0..shards.count() {
        let report = shards.close_all(index).wait().unwrap();
        assert!(report.failed.is_empty(), "{report:?}");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Appends `each` numbers, some calls in flight at once, against limits that answer `Busy` often.
fn produce(client: &Client, partition: u32, who: u64, each: u64) -> u64 {
    let mut producer = client.producer(id(partition));
    let (mut calls, mut busy) = (Vec::new(), 0);
    let mut last = None;
    for n in 0..each {
        let mut call = producer.append(batch([who << 32 | n]), Ack::Appended);
        while let Some(error) = call.refusal() {
            assert!(matches!(error, AppendError::Busy), "{error}");
            busy += 1;
            thread::yield_now();
            call = producer.retry().unwrap();
        }
        calls.push(call);
        if calls.len() == 16 || n == each - 1 {
            for call in calls.drain(..) {
                let offset = call.wait().unwrap().base_offset;
                assert!(last.is_none_or(|last| last < offset), "{last:?} then {offset}");
                last = Some(offset);
            }
        }
    }
    busy
}

#[test]
fn producers_on_threads_keep_their_order_through_busy_mailboxes() {
    const PRODUCERS: u64 = 4;
    const EACH: u64 = 1500;
    let limits =
        ShardLimits { mailbox_requests: 8, appends_in_flight: 16, ..ShardLimits::default() };
    let (shards, threads) = start(2, 2, &limits);
    let busy: u64 = thread::scope(|scope| {
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|who| {
                let client = shards.client(&ClientLimits::default());
                scope.spawn(move || produce(&client, (who % 2) as u32, who, EACH))
            })
            .collect();
        producers.into_iter().map(|producer| producer.join().unwrap()).sum()
    });
    assert!(busy > 0, "the limits were never met: the test tests less than it says");

    let client = shards.client(&ClientLimits::default());
    let mut next = [0; PRODUCERS as usize];
    for partition in 0..2 {
        let mut offset = 0;
        loop {
            let records = client.poll_blocking(id(partition), from(offset)).unwrap();
            if records.is_empty() {
                break;
            }
            assert_eq!(records.first_offset(), Some(offset), "a gap");
            offset = records.next_offset();
            for number in numbers(&records) {
                let (who, n) = ((number >> 32) as usize, number & 0xFFFF_FFFF);
                assert_eq!(n, next[who], "producer {who}");
                next[who] += 1;
            }
        }
        assert_eq!(offset, PRODUCERS / 2 * EACH);
    }
    assert_eq!(next, [EACH; PRODUCERS as usize]);
    assert_eq!(client.in_flight(), (0, 0));
    stop(&shards, threads);
}

/// Threads call while the shard ends: each call is answered, stored or `Closed`, and what was
/// answered with an offset has one of its own.
#[test]
fn calls_that_race_with_the_end_are_all_answered() {
    for _ in 0..20 {
        let (shards, threads) = start(1, 1, &ShardLimits::default());
        thread::scope(|scope| {
            let callers: Vec<_> = (0..3)
                .map(|who| {
                    let client = shards.client(&ClientLimits::default());
                    scope.spawn(move || {
                        let mut offsets = Vec::new();
                        loop {
                            match client.append_blocking(id(0), batch([who]), Ack::Appended) {
                                Ok(done) => offsets.push(done.base_offset),
                                Err(AppendError::Closed) => break,
                                Err(error) => panic!("{error}"),
                            }
                            match client.poll_blocking(id(0), from(offsets.len() as u64)) {
                                Ok(_) | Err(PollError::Closed) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                        assert_eq!(client.in_flight(), (0, 0));
                        offsets
                    })
                })
                .collect();
            thread::sleep(std::time::Duration::from_millis(10));
            stop(&shards, threads);
            let mut offsets: Vec<u64> =
                callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
            offsets.sort_unstable();
            let before = offsets.len();
            offsets.dedup();
            assert_eq!(offsets.len(), before, "an offset was given twice");
        });
    }
}

/// Tasks on two shards ask each other's, one question at a time, while a thread asks as well: every
/// answer comes home to a shard that is about to sleep, or to one that runs. A lost one hangs this.
#[test]
fn tasks_of_shards_ask_each_other_and_no_answer_is_lost() {
    const TASKS: usize = 3;
    const EACH: usize = 3000;
    // Fewer places for wakes than tasks that wait: some come by the answering thread.
    let limits = ShardLimits { mailbox_requests: 2, ..ShardLimits::default() };
    let (done, all_done) = mpsc::channel();
    let (shards, threads) = start_with(2, 2, &limits, move |here| {
        for _ in 0..TASKS {
            let (task, done) = (here.clone(), done.clone());
            here.spawn(async move {
                let other = (0..2).map(id).find(|id| !task.owns(*id)).unwrap();
                let mut answered = 0;
                while answered < EACH {
                    match task.watermarks(other).await {
                        Ok(_) => answered += 1,
                        // Its mailbox is full, or it is still opening.
                        Err(PollError::Busy | PollError::UnknownPartition(_)) => {
                            task.yield_now().await;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                done.send(()).unwrap();
            });
        }
    });
    let client = shards.client(&ClientLimits::default());
    let mut ended = 0;
    while ended < 2 * TASKS {
        let _ = client.watermarks(id(0)).wait();
        ended += all_done.try_iter().count();
    }
    stop(&shards, threads);
}
