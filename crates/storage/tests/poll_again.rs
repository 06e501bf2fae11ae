//! Polls are functions of their place: asked again they say the same, whatever was asked in between;
//! at the end, over a reopening, and while segments are begun.

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::{Ack, AppendError, From, LogConfig, SharedLimits};

#[test]
fn the_same_place_gives_the_same_bytes_however_often_and_in_whatever_order() {
    for cache_bytes in [0, 1 << 20, 32 << 20] {
        let sim = Sim::new(1);
        let model = sim.run(filled(sim.platform(), small_segments(), &[9_000; 300]));
        sim.run(async {
            let limits = SharedLimits { cache_bytes, ..SharedLimits::default() };
            let opened = open_limited(sim.platform(), small_segments(), limits).await;
            let (log, _) = opened.unwrap();
            // In one segment and in two, forwards and backwards, on and off the way of a reader.
            for (a, b) in [(5, 6), (6, 5), (5, 200), (200, 5), (0, 299), (299, 0), (110, 112)] {
                let mut first: Option<[Got; 2]> = None;
                for _ in 0..3 {
                    let mut got = Vec::new();
                    for offset in [a, b] {
                        let one = poll(&log, From::Offset(offset), 2, 1 << 20).await.unwrap();
                        let (bytes, appended) = &model.batches[offset as usize];
                        assert_same(&one.batches()[0], bytes, *appended);
                        let again = poll(&log, From::Offset(offset), 2, 1 << 20).await.unwrap();
                        assert_eq!(one, again, "twice at {offset}");
                        got.push(one);
                    }
                    let got: [Got; 2] = got.try_into().unwrap();
                    assert_eq!(first.get_or_insert_with(|| got.clone()), &got, "{a} and {b}");
                }
            }
        });
    }
}

/// A reader that goes on where it stopped gets every offset once, over a reopening that leaves the
/// last batch in memory only, with the log's end on and around the edges of blocks and segments.
#[test]
fn every_offset_comes_once_over_a_reopening() {
    // Batches of 304 bytes and more: 4096 - 304, one less and one more, and the same of a segment.
    let edges = [4096_usize, 8192, 1 << 20];
    let lengths = edges.iter().flat_map(|edge| [edge - 305, edge - 304, edge - 303]);
    for (round, length) in lengths.enumerate() {
        for killed in [false, true] {
            for beside in [false, true] {
                let sim = Sim::new(round as u64);
                let mut model = match killed {
                    true => filled_and_killed(&sim, small_segments(), &[length]),
                    false => sim.run(filled(sim.platform(), small_segments(), &[length])),
                };
                sim.run(async {
                    let config =
                        LogConfig { flush_after: Duration::from_secs(60), ..small_segments() };
                    let log = open(sim.platform(), config).await;
                    let count = if beside { 50 } else { 1 };
                    let (appending, clock) = (log.clone(), sim.clock().clone());
                    sim.platform().spawn().spawn(async move {
                        for tag in 0..count {
                            let ack = if tag % 9 == 8 { Ack::Durable } else { Ack::Appended };
                            append_wait(&appending, &batch(tag, &[3_000, 10]), ack).await;
                            clock.sleep(Duration::from_micros(tag * 17 % 300)).await;
                        }
                    });
                    let mut next = 0;
                    while next < 1 + 2 * count {
                        let got = poll(&log, From::Offset(next), 3, 1 << 20).await.unwrap();
                        if got.messages == 0 {
                            assert_eq!(got.next, next, "nothing is jumped over");
                            log.changed().await;
                            continue;
                        }
                        assert_eq!(got.batches()[0].first_offset(), next, "none is left out");
                        next += u64::from(got.messages);
                        assert_eq!(got.next, next, "and none comes twice");
                    }
                    assert!(killed || beside || log.watermarks().written() == 1, "in memory only");
                    let first = model.batches.remove(0);
                    let got = poll(&log, From::First, 1, 1).await.unwrap();
                    assert_same(&got.batches()[0], &first.0, first.1);
                });
            }
        }
    }
}

/// The end, asked for in every way a thousand times while segments are begun one after the other.
#[test]
fn the_end_is_found_while_segments_are_begun() {
    let sim = Sim::new(3);
    sim.run(async {
        let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
        let opened = open_limited(sim.platform(), small_segments(), limits).await;
        let (log, _) = opened.unwrap();
        let first = append_wait(&log, &batch(0, &[1 << 20]), Ack::Appended).await;
        assert_eq!(first.base_offset, 0);
        let running = Rc::new(Cell::new(true));
        let (appending, done) = (log.clone(), Rc::clone(&running));
        sim.platform().spawn().spawn(async move {
            for tag in 1..120 {
                append_wait(&appending, &batch(tag, &[500_000, 500_000]), Ack::Written).await;
            }
            done.set(false);
        });
        let (mut rounds, mut rng) = (0, Rng::new(3));
        while running.get() || rounds < 1_000 {
            let end = log.readable_end();
            let got = poll(&log, From::Last(1), 9, 1).await.unwrap();
            assert!(got.messages > 0 && got.next > end - 1, "{end}");
            let count = rng.between(1, 9) as u32;
            let got = poll(&log, From::Last(count), 1, 1).await.unwrap();
            let at = got.next - u64::from(got.messages);
            assert!(at + u64::from(count) >= end || at == 0, "{count} before {end}: {at}");
            let end = log.readable_end();
            let got = poll(&log, From::Offset(end), 9, 1).await.unwrap();
            assert!(got.messages == 0 || got.next > end);
            assert!(got.messages > 0 || got.next == end, "the next offset is the end");
            sim.clock().sleep(Duration::from_micros(rng.below(2_000))).await;
            rounds += 1;
        }
        assert!(log.stats().segments > 50);
    });
}

/// The first thing that ever happens to a partition goes wrong: what follows has its place.
#[test]
fn a_first_append_that_came_to_nothing_takes_nothing_with_it() {
    for (code, op) in [(errno::ENOSPC, IoOp::Allocate), (errno::EIO, IoOp::Write)] {
        for killed in [false, true] {
            let sim = Sim::new(4);
            let mut model = Model::default();
            sim.run(async {
                let log = open(sim.platform(), small_segments()).await;
                sim.disk().inject(Fault::fail(code).of(op).on(".log"));
                let failed = append(&log, &batch(1, &[3 << 20]), Ack::Durable);
                let _ = log.flush(Ack::Durable).await;
                let error = failed.get().unwrap().unwrap_err();
                let poisoned = matches!(error, AppendError::Poisoned(_));
                assert_eq!(poisoned, op == IoOp::Write, "{error}");
                let log = match poisoned {
                    true => log.reopen().await.unwrap().0,
                    false => log,
                };
                // And one that nobody waits for.
                drop(append(&log, &batch(2, &[50]), Ack::Durable));
                let bytes = batch(3, &[60]);
                let appended = append_wait(&log, &bytes, Ack::Durable).await;
                assert_eq!(appended.base_offset, 1, "behind the one that nobody waited for");
                model.push(bytes, appended);
                if !killed {
                    log.close().await.unwrap();
                }
            });
            sim.disk().process_kill(4);
            sim.run(async {
                let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
                assert_eq!(report.damage, []);
                let got = poll(&log, From::First, 9, 1 << 20).await.unwrap();
                assert_eq!((got.messages, got.batches()[0].first_offset()), (2, 0));
                model.check_all(&log, &mut Rng::new(4)).await;
            });
        }
    }
}
