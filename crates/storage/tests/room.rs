//! What partitions of one shard may have in flight together: a bound, a line, and nobody left in it.

mod common;

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::{Ack, AdmittedBatch, From, Place, Shared, SharedLimits};

/// Room for one write at a time; a partition's only one needs none.
fn one_at_a_time() -> SharedLimits {
    SharedLimits { flying_bytes: 1, write_bytes: 64 << 10, ..SharedLimits::default() }
}

async fn open_all(sim: &Sim, count: u32, limits: SharedLimits) -> Vec<Part> {
    let shared = Shared::new(sim.platform().clone(), limits);
    let mut logs = Vec::new();
    for number in 0..count {
        let dir = place().dir.with_file_name(number.to_string());
        let place = Place { dir, partition_id: number, ..place() };
        let opened = Part::open(shared.clone(), place, small_segments()).await;
        logs.push(opened.expect("the partition opens").0);
    }
    logs
}

fn send(log: &Part, tag: u64, bytes: usize) -> Reply {
    let reply = Reply::default();
    let batch = AdmittedBatch::admit(batch(tag, &[bytes])).unwrap();
    log.append(batch, Ack::Written, Slot::Plain(reply.clone()));
    reply
}

/// The most writes that were in flight at one time while `body` ran, looked at every microsecond.
async fn most_in_flight(sim: &Sim, logs: &[Part], body: impl Future<Output = ()>) -> usize {
    let (most, stop) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let watch = (logs.to_vec(), Rc::clone(&most), Rc::clone(&stop), sim.clock().clone());
    sim.platform().spawn().spawn(async move {
        let (logs, most, stop, clock) = watch;
        while !stop.get() {
            let now = logs.iter().map(|log| log.stats().writes_in_flight).sum();
            most.set(most.get().max(now));
            clock.sleep(Duration::from_micros(1)).await;
        }
    });
    body.await;
    stop.set(true);
    most.get()
}

#[test]
fn all_partitions_together_keep_to_the_limit_and_everyone_gets_through() {
    let at_once = |limits: SharedLimits| {
        let sim = Sim::new(31);
        sim.run(async {
            let logs = open_all(&sim, 5, limits).await;
            let mut replies = Vec::new();
            // Three segments in each, so that rolls come while others hold the room.
            let most = most_in_flight(&sim, &logs, async {
                for tag in 0..12 {
                    replies.extend(logs.iter().map(|log| send(log, tag, 250_000)));
                }
                for log in &logs {
                    log.flush(Ack::Written).await.unwrap();
                }
            });
            let most = most.await;
            let waits: u64 = logs.iter().map(|log| log.stats().room_waits).sum();
            for reply in &replies {
                assert!(reply.ok().is_some(), "{:?}", reply.get());
            }
            for log in &logs {
                assert!(log.stats().segments > 2, "{:?}", log.stats());
                let polled = log.poll(query(From::Offset(0), u32::MAX, 8 << 20)).await.unwrap();
                assert!(polled.messages > 0);
                log.close().await.unwrap();
            }
            assert!(sim.take_panics().is_empty());
            (most, waits)
        })
    };
    let (most, waits) = at_once(one_at_a_time());
    assert_eq!(most, 5, "one of each");
    assert!(waits >= 5, "who waited for room was counted: {waits}");
    let (most, waits) = at_once(SharedLimits { flying_bytes: 1 << 30, ..one_at_a_time() });
    assert!(most > 10, "without the limit each has several: {most}");
    assert_eq!(waits, 0);
}

#[test]
fn a_close_waits_for_what_waits_for_room() {
    let sim = Sim::new(32);
    sim.run(async {
        let logs = open_all(&sim, 1, one_at_a_time()).await;
        sim.disk().inject(Fault::delay(Duration::from_millis(50)).of(IoOp::Write).times(1));
        let replies: Vec<_> = (0..3).map(|tag| send(&logs[0], tag, 150_000)).collect();
        logs[0].close().await.unwrap();
        for reply in replies {
            assert!(reply.ok().is_some(), "{:?}", reply.get());
        }
    });
}

#[test]
fn a_write_that_fails_or_ends_in_a_panic_gives_its_room_back() {
    for (seed, panics) in [(33, false), (34, true)] {
        let sim = Sim::new(seed);
        sim.run(async {
            let logs = open_all(&sim, 4, one_at_a_time()).await;
            logs.iter().for_each(|log| drop(send(log, 0, 10)));
            for log in &logs {
                log.flush(Ack::Written).await.unwrap();
            }
            if panics {
                let batch = AdmittedBatch::admit(batch(1, &[10])).unwrap();
                logs[0].append(batch, Ack::Written, Slot::Armed);
            } else {
                let fault = Fault::fail(errno::EIO).of(IoOp::Write).on("partitions/0/");
                sim.disk().inject(fault);
                send(&logs[0], 1, 200_000);
            }
            // Several windows each: all but the first of them wait for room.
            let others: Vec<_> = logs[1..].iter().map(|log| send(log, 1, 200_000)).collect();
            sim.clock().sleep(Duration::from_secs(1)).await;
            assert_eq!(sim.take_panics().len(), usize::from(panics));
            assert!(logs[0].fault().is_some());
            for reply in others {
                assert!(reply.ok().is_some(), "{:?}", reply.get());
            }
            assert!(logs[0].close().await.is_err());
            for log in &logs[1..] {
                log.close().await.unwrap();
            }
        });
    }
}

#[test]
fn answers_come_in_the_order_of_the_appends() {
    let sim = Sim::new(35);
    sim.run(async {
        let mut rng = Rng::new(35);
        let limits = SharedLimits { flying_bytes: 4 << 10, ..one_at_a_time() };
        let logs = open_all(&sim, 3, limits).await;
        let mut sent: Vec<Vec<Reply>> = vec![Vec::new(); logs.len()];
        for tag in 0..60 {
            let at = rng.index(logs.len());
            let bytes = rng.between(10, 100_000) as usize;
            sent[at].push(send(&logs[at], tag, bytes));
            if rng.chance(1, 3) {
                sim.clock().sleep(Duration::from_micros(rng.below(200))).await;
            }
            for replies in &sent {
                let answered = replies.iter().take_while(|reply| reply.get().is_some()).count();
                assert!(replies[answered..].iter().all(|reply| reply.get().is_none()));
            }
        }
        for log in &logs {
            log.close().await.unwrap();
        }
    });
}
