//! A user's task that panics on a shard in the middle of everything.

use std::time::{Duration, Instant};

use corelog::error::RunError;
use corelog::stats::EngineStats;
use corelog::{Ack, Client, PartitionId, Poll, ShardContext};

use crate::callers::block_on;
use crate::support::{P, Sent, assert_same, batch, in_child, poll_all, reopened, small_segments};
use crate::support::{batches, with_topic};

const OTHER: PartitionId = PartitionId { partition: 1, ..P };

/// Waits until so many tasks have panicked, nothing of anybody is under way on the shards, and nothing is
/// lent.
fn quiet(client: &Client, panics: u64) -> EngineStats {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        // Whoever counts takes back what came home.
        let stats = client.stats_blocking().expect("the shards live");
        let works = stats.shards.iter().any(|shard| {
            shard.appends_in_flight + shard.polls_in_flight + shard.tasks + shard.mailbox > 0
        });
        let lent: usize = stats.memory.iter().map(|memory| memory.leases).sum();
        if !works && lent == 0 && stats.panics >= panics {
            return stats;
        }
        assert!(Instant::now() < end, "{lent} leases are out: {stats:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Panics when it is dropped, unless that is because of another panic.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("from a destructor");
        }
    }
}

/// Holds records, has appends and reads of both partitions under way, and panics.
async fn in_the_middle(shard: ShardContext, tag: u64) {
    let held = shard.poll(P, Poll::first()).await.expect("it is served");
    let mut calls = Vec::new();
    let mut polls = Vec::new();
    for number in 0..8 {
        for id in [P, OTHER] {
            calls.push(shard.append(id, batch(tag << 8 | number, 1, 60_000), Ack::Durable));
            polls.push(shard.poll(id, Poll::offset(number).max_messages(1)));
        }
    }
    // The first writes and reads are handed to the kernel here.
    shard.yield_now().await;
    let _under_way = (held, calls, polls);
    match tag % 3 {
        0 => panic!("in a task"),
        1 => {
            let inside = shard.clone();
            shard.spawn(async move {
                let _held = inside.poll(OTHER, Poll::first()).await.expect("it is served");
                panic!("in a task of a task");
            });
            panic!("beside it");
        }
        _ => drop(Bomb),
    }
}

/// Views are out on other threads and on the shard, writes, syncs and reads are with the kernel, and
/// the code on the shard panics: the shard lives and serves everybody, leases come home, and no byte
/// that somebody reads or the kernel writes was given back. Freed memory is overwritten here, so
/// that it would be seen.
#[test]
fn a_panic_with_leases_out_and_io_in_flight_is_the_codes_alone() {
    let name = "panics::a_panic_with_leases_out_and_io_in_flight_is_the_codes_alone";
    let Some(dir) = in_child(name, &["env", "MALLOC_PERTURB_=165"]) else { return };
    let config = corelog::TopicConfig { partitions: 2, ..small_segments() };
    let (engine, client) = with_topic(&dir, 2, config);
    let append = |id, tag| {
        let bytes = batch(tag, 1, 60_000);
        let appended = client.append_blocking(id, bytes.clone(), Ack::Written).expect("it fits");
        Sent { bytes, appended }
    };
    let first: Vec<_> = (0..20).map(|tag| append(P, tag)).collect();
    append(OTHER, 0);
    for round in 1..=24 {
        let held = client.poll_blocking(P, Poll::first()).expect("it is served");
        let ran = block_on(engine.run_on_shard(round as usize % 2, move |shard| async move {
            in_the_middle(shard, round).await;
        }));
        assert!(matches!(ran, Err(RunError::Panicked)), "{ran:?}");
        // Everybody else is served, by both shards, and what is lent stays as it was.
        for id in [P, OTHER] {
            append(id, 1_000 + round);
        }
        assert_same(P, &first[..batches(&held).len()], &batches(&held));
    }
    // Those of tasks of tasks are counted; who runs code on a shard is told of its own.
    let stats = quiet(&client, 8);
    assert!(stats.shards.iter().all(|shard| shard.failed.is_empty()), "no partition was hurt");
    let stored = [P, OTHER].map(|id| poll_all(&client, id, 0, 1 << 20));
    // Dropped appends may be stored, each once, whole and in order: `poll_all` verifies them.
    assert!(stored[0].len() >= 20 + 24 && stored[1].len() > 24);
    engine.close_blocking().expect("the shards end in order");
    let (engine, client) = reopened(&dir, 1);
    for (id, before) in [P, OTHER].into_iter().zip(&stored) {
        assert!(poll_all(&client, id, 0, 1 << 20) == *before, "{id}");
    }
    engine.close_blocking().expect("nothing is wrong");
}
