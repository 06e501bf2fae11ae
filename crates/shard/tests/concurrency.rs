//! Concurrency as other engines got it wrong (their reports, our tests): one entry each.

mod common;

use common::*;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use corelog_io::sim::{Fault, Sim};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_shard::ClientLimits;
use corelog_storage::{Ack, LogConfig};

/// CON-5, appenders that read the same tail: sixteen tasks append to one partition, each in its own
/// rhythm. Offsets are unique and dense, the log holds what each append was told, and each task's
/// batches stand in the order of its calls.
#[test]
fn many_appenders_share_one_partition_without_a_gap() {
    const TASKS: u64 = 16;
    const EACH: u64 = 25;
    for seed in 0..10 {
        let sim = Sim::new(seed);
        sim.run(async {
            let shards = opened(&sim, 1, 1).await;
            let told = Rc::new(RefCell::new(Vec::new()));
            let spawn = sim.platform().spawn().clone();
            for task in 0..TASKS {
                let client = shards.client(&ClientLimits::default());
                let (told, spawner) = (Rc::clone(&told), spawn.clone());
                spawn.spawn(async move {
                    let mut calls = Vec::new();
                    for n in 0..EACH {
                        let number = task * EACH + n;
                        let ack =
                            [Ack::Appended, Ack::Written, Ack::Durable][(number % 3) as usize];
                        calls.push((number, client.append(id(0), batch([number]), ack)));
                        if (task + n) % 4 == 0 {
                            spawner.yield_now().await;
                        }
                        // Read in another order than made: the order of the calls counts.
                        if n % 5 == 4 {
                            while let Some((number, call)) = calls.pop() {
                                let offset = call.await.unwrap().base_offset;
                                told.borrow_mut().push((offset, number));
                            }
                        }
                    }
                });
            }
            while told.borrow().len() < (TASKS * EACH) as usize {
                spawn.yield_now().await;
            }
            let mut told = told.take();
            told.sort_unstable();
            let client = shards.client(&ClientLimits::default());
            let stored = numbers(&client.poll(id(0), from(0)).await.unwrap());
            let expected: Vec<_> = (0..).zip(stored.iter().copied()).collect();
            assert_eq!(told, expected, "seed {seed}");
            let mut next = [0; TASKS as usize];
            for number in stored {
                let task = (number / EACH) as usize;
                assert_eq!(number % EACH, next[task], "seed {seed}, task {task}");
                next[task] += 1;
            }
            assert_eq!(next, [EACH; TASKS as usize]);
            close(&shards).await;
        });
    }
}

/// CON-7, a sync inside a critical section: every sync of one partition takes 200 ms. Appends to a
/// neighbour on the same shard and polls of the slow one do not feel it, and the waiting appends
/// share syncs.
#[test]
fn a_slow_sync_holds_up_only_those_who_wait_for_it() {
    let sim = Sim::new(3);
    sim.run(async {
        let shards = opened(&sim, 1, 2).await;
        let client = shards.client(&ClientLimits::default());
        // The first append waits for space, which is another matter.
        client.append(id(0), batch([99]), Ack::Written).await.unwrap();
        let delay = Fault::delay(Duration::from_millis(200)).of(IoOp::Sync).on("/2-0/").for_ever();
        sim.disk().inject(delay);
        let before = shards.stats(0).await.unwrap().partitions[0].1.syncs;
        let start = sim.clock().now_us();
        let mut slow = vec![client.append(id(0), batch([0]), Ack::Durable)];
        for n in 1..=50 {
            let begun = sim.clock().now_us();
            slow.push(client.append(id(0), batch([n]), Ack::Durable));
            client.append(id(1), batch([n]), Ack::Durable).await.unwrap();
            let records = client.poll(id(0), from(0)).await.unwrap();
            assert!(records.messages() as u64 >= n, "appended is readable");
            let took = sim.clock().now_us() - begun;
            assert!(took < 20_000, "{took} us");
        }
        assert!(sim.clock().now_us() - start < 200_000, "the neighbour waited for a slow sync");
        for call in slow {
            call.await.unwrap();
        }
        let syncs = shards.stats(0).await.unwrap().partitions[0].1.syncs - before;
        assert!(syncs <= 5, "{syncs} syncs for 51 appends");
    });
}

/// CON-8, two flushes of one buffer: eight tasks flush while others append and the timer flushes
/// too. Nothing is stored twice or misplaced, and each flush covers what came before it.
#[test]
fn flushes_from_many_tasks_store_everything_once() {
    for seed in 0..10 {
        let sim = Sim::new(seed);
        sim.run(async {
            let shards = opened(&sim, 1, 1).await;
            let client = shards.client(&ClientLimits::default());
            let spawn = sim.platform().spawn().clone();
            let done = Rc::new(RefCell::new(0));
            for task in 0..8_u64 {
                let (client, done, spawner) = (client.clone(), Rc::clone(&done), spawn.clone());
                spawn.spawn(async move {
                    for n in 0..10 {
                        let made = client.append(id(0), batch([task * 10 + n]), Ack::Appended);
                        let ack = [Ack::Written, Ack::Durable][(task + n) as usize % 2];
                        client.flush(id(0), ack).await.unwrap();
                        let offset = made.await.unwrap().base_offset;
                        let marks = client.watermarks(id(0)).await.unwrap();
                        let reached =
                            if ack == Ack::Durable { marks.durable() } else { marks.written() };
                        assert!(reached > offset, "seed {seed}: {offset} is not in {reached}");
                        spawner.yield_now().await;
                    }
                    *done.borrow_mut() += 1;
                });
            }
            while *done.borrow() < 8 {
                spawn.yield_now().await;
            }
            close(&shards).await;
            let shards = opened(&sim, 1, 1).await;
            let client = shards.client(&ClientLimits::default());
            let mut stored = numbers(&client.poll(id(0), from(0)).await.unwrap());
            stored.sort_unstable();
            assert_eq!(stored, (0..80).collect::<Vec<_>>(), "seed {seed}");
        });
    }
}

/// CON-2, a reader that holds up writers: records are held while the log rolls through segments
/// and closes. Neither waits for them, and they stay readable.
#[test]
fn records_that_are_held_stop_neither_roll_nor_close() {
    let sim = Sim::new(4);
    sim.run(async {
        let shards = running(&sim, 1, &corelog_shard::ShardLimits::default());
        let config = LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() };
        shards.open(id(0), place(id(0)), config).await.unwrap();
        let client = shards.client(&ClientLimits::default());
        client.append(id(0), batch(0..100), Ack::Durable).await.unwrap();
        let held = client.poll(id(0), from(0)).await.unwrap();
        let start = sim.clock().now_us();
        let mut segments = 1;
        while segments < 3 {
            client.append(id(0), batch(0..2000), Ack::Written).await.unwrap();
            segments = shards.stats(0).await.unwrap().partitions[0].1.segments;
        }
        close(&shards).await;
        let took = sim.clock().now_us() - start;
        assert!(took < 1_000_000, "{took} us");
        assert_eq!(numbers(&held), (0..100).collect::<Vec<_>>());
    });
}
