//! Reads that are made ahead of readers and shared by them, on a disk that counts, delays and fails.

mod common;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::{Ack, From, LogConfig, Place, PollError, Shared, SharedLimits};

const BATCH: usize = 20_000;
const BATCHES: u64 = 300;

/// Windows of 128 KiB; room for `ahead` bytes ahead.
fn limits(ahead: usize) -> SharedLimits {
    SharedLimits {
        cache_bytes: 4 << 20,
        read_bytes: 128 << 10,
        read_ahead_bytes: ahead,
        ..SharedLimits::default()
    }
}

/// A closed log of one segment, 6 MB.
fn log_of_6_mb(sim: &Sim) -> Model {
    let batches = vec![BATCH; BATCHES as usize];
    let model = sim.run(filled(sim.platform(), LogConfig::default(), &batches));
    sim.disk().set_delay_us(1_000..=1_000);
    model
}

async fn open_with(sim: &Sim, limits: SharedLimits) -> (Log, Shared<corelog_io::sim::SimPlatform>) {
    let shared = Shared::new(sim.platform().clone(), limits);
    let opened = Log::open(shared.clone(), place(), LogConfig::default()).await;
    (opened.unwrap().0, shared)
}

/// Reads `from..to` in polls of 100,000 bytes and compares every batch.
async fn read(log: &Log, model: &Model, from: u64, to: u64) -> Result<(), (u64, PollError)> {
    let mut next = from;
    while next < to {
        let got = poll(log, From::Offset(next), u32::MAX, 100_000).await;
        let got = got.map_err(|error| (next, error))?;
        for served in got.batches() {
            let (bytes, appended) = &model.batches[served.first_offset() as usize];
            assert_same(&served, bytes, *appended);
        }
        assert!(got.next > next, "a poll below the end serves something");
        next = got.next;
    }
    Ok(())
}

/// Bytes of log files read since the count was `before`.
fn read_since(log: &Log, before: u64) -> u64 {
    log.stats().disk_read_bytes - before
}

#[test]
fn a_sequential_reader_finds_its_bytes_read() {
    let time_and_bytes = |ahead: usize| {
        let sim = Sim::new(1);
        let model = log_of_6_mb(&sim);
        sim.run(async {
            let (log, _) = open_with(&sim, limits(ahead)).await;
            let began = sim.clock().now_us();
            read(&log, &model, 0, BATCHES).await.unwrap();
            (sim.clock().now_us() - began, log.stats().disk_read_bytes)
        })
    };
    let (serial, serial_bytes) = time_and_bytes(0);
    let (ahead, ahead_bytes) = time_and_bytes(1 << 20);
    assert!(ahead * 2 < serial, "{ahead} us with reads ahead, {serial} us without");
    // Windows overlap by a block, and nothing is read twice.
    let file = BATCHES * (BATCH as u64 + 304);
    for bytes in [serial_bytes, ahead_bytes] {
        assert!((file..file + file / 15).contains(&bytes), "{bytes} bytes of {file}");
    }
}

#[test]
fn a_reader_that_stops_has_cost_little_and_a_random_one_nothing() {
    let sim = Sim::new(2);
    log_of_6_mb(&sim);
    sim.run(async {
        let (log, shared) = open_with(&sim, limits(1 << 20)).await;
        // One batch each, far from one another.
        for offset in [10, 200, 90, 280] {
            assert_eq!(poll(&log, From::Offset(offset), 1, 1).await.unwrap().messages, 1);
        }
        sim.clock().sleep(Duration::from_secs(1)).await;
        assert!(read_since(&log, 0) <= 4 * (128 << 10), "{}", read_since(&log, 0));
        let before = log.stats().disk_read_bytes;
        poll(&log, From::Offset(120), 1, 1).await.unwrap();
        poll(&log, From::Offset(121), 1, 1).await.unwrap();
        sim.clock().sleep(Duration::from_secs(1)).await;
        assert!(read_since(&log, before) <= 2 * (128 << 10), "{}", read_since(&log, before));
        assert!(shared.cached_bytes() <= 4 << 20);
    });
}

#[test]
fn ten_readers_behind_one_another_cost_one_read() {
    let sim = Sim::new(3);
    let model = log_of_6_mb(&sim);
    sim.run(async {
        let (log, shared) = open_with(&sim, limits(512 << 10)).await;
        // Each a few polls behind the one before, in a cache smaller than the log.
        for step in 0..BATCHES / 10 + 10 {
            for behind in 0..10 {
                let Some(at) = step.checked_sub(behind) else { continue };
                let (from, to) = (at * 10, (at * 10 + 10).min(BATCHES));
                read(&log, &model, from, to).await.unwrap();
                assert!(shared.cached_bytes() <= 4 << 20, "{}", shared.cached_bytes());
            }
        }
        let file = BATCHES * (BATCH as u64 + 304);
        let bytes = log.stats().disk_read_bytes;
        assert!((file..file + file / 15).contains(&bytes), "{bytes} bytes of {file}");
    });
}

#[test]
fn polls_at_once_share_a_read() {
    let sim = Sim::new(4);
    log_of_6_mb(&sim);
    sim.run(async {
        let (log, _) = open_with(&sim, limits(0)).await;
        poll(&log, From::Offset(200), 1, 1).await.unwrap();
        let one = log.stats().disk_read_bytes;
        let reads = sim.disk().count(IoOp::Read);
        let polls: Vec<_> = (0..10)
            .map(|_| {
                let (log, done) = (log.clone(), Rc::new(std::cell::Cell::new(0)));
                let seen = Rc::clone(&done);
                sim.platform().spawn().spawn(async move {
                    done.set(poll(&log, From::Offset(20), 1, 1).await.unwrap().messages);
                });
                seen
            })
            .collect();
        sim.clock().sleep(Duration::from_secs(1)).await;
        assert!(polls.iter().all(|messages| messages.get() == 1));
        assert_eq!(sim.disk().count(IoOp::Read) - reads, 1);
        assert!(read_since(&log, one) <= 128 << 10);
    });
}

#[test]
fn an_error_ahead_is_the_error_of_who_needs_it_and_of_nobody_else() {
    let sim = Sim::new(5);
    let model = log_of_6_mb(&sim);
    sim.run(async {
        let (log, _) = open_with(&sim, limits(1 << 20)).await;
        read(&log, &model, 0, 20).await.unwrap();
        // Reads that are made ahead from here on fail once: each is made again when it is needed.
        let fault = sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Read).on(".log").times(3));
        read(&log, &model, 20, 150).await.unwrap();
        assert_eq!(sim.disk().hits(fault), 3);
        sim.clock().sleep(Duration::from_millis(50)).await;
        // From here on for ever: what was read ahead is served, then the error is the poll's.
        let fault = sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Read).on(".log").for_ever());
        let (at, error) = read(&log, &model, 150, BATCHES).await.unwrap_err();
        assert!(at > 155 && at < BATCHES, "{at}");
        let PollError::Unreadable { error, .. } = error else { panic!("{error}") };
        assert_eq!(error.source.raw_os_error(), Some(errno::EIO));
        assert!(error.at.is_some(), "{error}");
        sim.disk().lift(fault);
        read(&log, &model, at, BATCHES).await.unwrap();
    });
}

#[test]
fn a_bit_turned_over_in_a_read_ahead_is_never_served_and_not_kept() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let model = log_of_6_mb(&sim);
        sim.run(async {
            let (log, _) = open_with(&sim, limits(1 << 20)).await;
            read(&log, &model, 0, 20).await.unwrap();
            let fault = sim.disk().inject(Fault::flip_read().on(".log"));
            let mut next = 20;
            let mut named = 0;
            while let Err((at, error)) = read(&log, &model, next, BATCHES).await {
                assert!(matches!(error, PollError::Corrupt { segment: 0, .. }), "{error}");
                named += 1;
                assert!(named == 1, "it is read again");
                next = at;
            }
            assert_eq!(sim.disk().hits(fault), 1);
            // Not named where a good prefix was served, nor where the bit stood in the part of a
            // block that belongs to the batch before.
            assert!(log.stats().corrupt_reads <= 1 && named <= log.stats().corrupt_reads);
        });
    }
}

#[test]
fn windows_go_with_the_partition_even_while_they_are_read() {
    for drop_only in [false, true] {
        let sim = Sim::new(6);
        let model = log_of_6_mb(&sim);
        sim.run(async {
            let (log, shared) = open_with(&sim, limits(1 << 20)).await;
            read(&log, &model, 0, 40).await.unwrap();
            sim.disk().inject(Fault::stall().of(IoOp::Read).on(".log").for_ever());
            let mut parked = Box::pin(poll(&log, From::Offset(250), 1, 1));
            let begun = poll_fn(|cx| Poll::Ready(parked.as_mut().poll(cx).is_pending()));
            assert!(begun.await);
            sim.clock().sleep(Duration::from_millis(10)).await;
            assert!(shared.cached_bytes() > 0);
            if drop_only {
                drop(parked);
                drop(log);
            } else {
                log.close().await.unwrap();
                assert_eq!(shared.cached_bytes(), 0);
                sim.disk().lift_all();
                assert_eq!(parked.await.unwrap().messages, 1, "it ends well, with its own window");
            }
            sim.disk().lift_all();
            sim.clock().sleep(Duration::from_secs(5)).await;
            assert_eq!((shared.cached_bytes(), shared.open_handles()), (0, 0));
            assert_eq!(sim.disk().read_bytes_held(), 0, "nothing is left behind");
        });
    }
}

#[test]
fn a_poll_ends_with_what_it_has_rather_than_hold_buffers_and_wait() {
    let sim = Sim::new(7);
    let model = log_of_6_mb(&sim);
    sim.run(async {
        let (log, _) = open_with(&sim, SharedLimits { held_bytes: 0, ..limits(0) }).await;
        let got = poll(&log, From::First, u32::MAX, 1 << 20).await.unwrap();
        assert!((1..10).contains(&got.messages), "{}: one window's", got.messages);
        read(&log, &model, 0, BATCHES).await.unwrap();
        log.close().await.unwrap();
        let (log, _) = open_with(&sim, limits(0)).await;
        let got = poll(&log, From::First, u32::MAX, 1 << 20).await.unwrap();
        assert!(got.messages > 40, "{}", got.messages);
    });
}

#[test]
fn loaded_indexes_and_windows_are_bounded_for_the_shard_and_go_with_trimmed_segments() {
    let sim = Sim::new(8);
    let other = Place { dir: place().dir.with_file_name("8"), partition_id: 8, ..place() };
    sim.run(async {
        let limits = SharedLimits { loaded_indexes: 3, ..limits(256 << 10) };
        let shared = Shared::new(sim.platform().clone(), limits);
        let mut logs = Vec::new();
        for place in [place(), other] {
            let log = Log::open(shared.clone(), place, small_segments()).await.unwrap().0;
            for tag in 0..60 {
                append_wait(&log, &batch(tag, &[60_000]), Ack::Durable).await;
            }
            assert!(log.stats().segments > 3);
            logs.push(log);
        }
        for log in &logs {
            for offset in 0..60 {
                assert_eq!(poll(log, From::Offset(offset), 1, 1).await.unwrap().messages, 1);
            }
        }
        assert_eq!(shared.loaded_indexes(), 3);
        poll(&logs[0], From::First, 1, 1).await.unwrap();
        logs[1].close().await.unwrap();
        assert_eq!(shared.loaded_indexes(), 1, "the other one's is left");
        let before = shared.cached_bytes();
        logs[0].trim(30).await.unwrap();
        assert!(shared.cached_bytes() < before, "windows of files that are gone");
        logs[0].close().await.unwrap();
        assert_eq!((shared.loaded_indexes(), shared.open_handles()), (0, 0));
    });
}

#[test]
fn damage_elsewhere_does_not_hide_a_time_and_damage_on_the_way_is_named() {
    let sim = Sim::new(9);
    let model = sim.run(filled(sim.platform(), small_segments(), &[60_000; 80]));
    let segments = logs(&sim);
    assert!(segments.len() >= 5);
    // The first batch of every segment but the first and the last.
    for segment in &segments[1..segments.len() - 1] {
        sim.disk().flip_bit(log_file(*segment), 300, 1).unwrap();
    }
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        for (at, (_, appended)) in model.batches.iter().enumerate() {
            let holds = segments.iter().rposition(|first| *first <= at as u64).unwrap();
            let got = poll(&log, From::Timestamp(appended.base_timestamp), 1, 1).await;
            if holds == 0 || holds + 1 == segments.len() {
                assert_eq!(got.unwrap().batches()[0].first_offset(), at as u64);
                continue;
            }
            match got {
                Ok(got) => assert_eq!(got.batches()[0].first_offset(), at as u64),
                Err(PollError::Corrupt { segment, position: 0, resume_offset, .. }) => {
                    assert!(segment <= segments[holds], "on the way to it");
                    assert!(resume_offset.is_some());
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
}

#[test]
fn a_sequential_reader_beside_appends_and_rolls_sees_every_batch() {
    for seed in 0..10 {
        let sim = Sim::new(seed);
        sim.run(async {
            let mut rng = Rng::new(seed);
            let limits = SharedLimits { cache_bytes: 64 << 10, ..limits(128 << 10) };
            let (log, _) = open_limited(sim.platform(), small_segments(), limits).await.unwrap();
            let (mut model, mut next) = (Model::default(), 0);
            for _ in 0..200 {
                let bytes = random_batch(&mut rng, 30_000);
                let appended = append_wait(&log, &bytes, Ack::Written).await;
                model.push(bytes, appended);
                // Mostly behind what memory holds.
                while model.end() - next > rng.below(200) {
                    let max = rng.between(1, 200_000) as usize;
                    let got = poll(&log, From::Offset(next), u32::MAX, max).await.unwrap();
                    for served in got.batches() {
                        let first = served.first_offset();
                        let at = model.batches.partition_point(|(_, a)| a.base_offset < first);
                        let (bytes, appended) = &model.batches[at];
                        assert_same(&served, bytes, *appended);
                    }
                    assert!(got.next > next);
                    next = got.next;
                }
            }
            assert!(log.stats().segments > 2 && log.stats().disk_read_bytes > 0);
            model.check_all(&log, &mut rng).await;
        });
    }
}

#[test]
fn a_batch_longer_than_the_cache_makes_it_give_way() {
    let sim = Sim::new(10);
    let mut sizes = vec![BATCH; 60];
    sizes.push(5 << 20);
    let model = sim.run(filled(sim.platform(), LogConfig::default(), &sizes));
    sim.run(async {
        let (log, shared) = open_with(&sim, limits(1 << 20)).await;
        read(&log, &model, 0, 40).await.unwrap();
        sim.clock().sleep(Duration::from_secs(1)).await;
        assert!(shared.cached_bytes() > 1 << 20, "read ahead, for nobody yet");
        let got = poll(&log, From::Offset(60), 1, 1).await.unwrap();
        assert_same(&got.batches()[0], &model.batches[60].0, model.batches[60].1);
        assert_eq!(shared.cached_bytes(), 0, "it may need all the memory that reads have");
        read(&log, &model, 40, 61).await.unwrap();
    });
}

#[test]
fn a_window_that_fails_behind_the_batch_that_is_asked_for_is_read_without_what_is_behind() {
    let sim = Sim::new(11);
    let model = log_of_6_mb(&sim);
    sim.run(async {
        let (log, _) = open_with(&sim, limits(0)).await;
        // The read of the whole window fails, the one of the batch alone does not.
        let fault = sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Read).on(".log"));
        let got = poll(&log, From::Offset(100), 1, 1).await.unwrap();
        assert_same(&got.batches()[0], &model.batches[100].0, model.batches[100].1);
        assert_eq!(sim.disk().hits(fault), 1);
        // Where that one fails as well, the error is the poll's.
        let fault = Fault::fail(errno::EIO).of(IoOp::Read).on(".log");
        let fault = sim.disk().inject(fault.for_ever());
        let error = poll(&log, From::Offset(200), 1, 1).await.unwrap_err();
        assert!(matches!(error, PollError::Unreadable { .. }), "{error}");
        sim.disk().lift(fault);
        poll(&log, From::Offset(200), 1, 1).await.unwrap();
    });
}

#[test]
fn a_window_of_the_active_segment_serves_nothing_that_was_written_after_it_was_read() {
    let sim = Sim::new(12);
    sim.run(async {
        let limits = SharedLimits { cache_bytes: 512 << 10, ..limits(128 << 10) };
        let (log, _) = open_with(&sim, limits).await;
        let mut model = Model::default();
        // The last block of each last window is read when it is full to a part only, and kept.
        for round in 0..10 {
            for tag in 0..20 {
                let bytes = batch(round * 100 + tag, &[BATCH]);
                let appended = append_wait(&log, &bytes, Ack::Written).await;
                model.push(bytes, appended);
            }
            for back in [15, 25, 40] {
                let from = model.end().saturating_sub(back);
                read(&log, &model, from, model.end()).await.unwrap();
            }
        }
        assert!(log.stats().disk_read_bytes > 0);
        // What is behind the window's end would be taken for damage, and the poll ends before it.
        assert_eq!(log.stats().corrupt_reads, 0);
    });
}

#[test]
fn a_long_poll_over_windows_that_others_have_checked_lets_other_tasks_run() {
    let sim = Sim::new(13);
    let model = sim.run(filled(sim.platform(), LogConfig::default(), &[50; 4_000]));
    sim.run(async {
        let (log, _) = open_with(&sim, SharedLimits::default()).await;
        read(&log, &model, 0, 4_000).await.unwrap();
        let before = log.stats().disk_read_bytes;
        let mut waits = 0;
        let mut polling = pin!(poll(&log, From::First, u32::MAX, usize::MAX));
        let got = poll_fn(|cx| {
            let polled = polling.as_mut().poll(cx);
            waits += u32::from(polled.is_pending());
            polled
        });
        assert_eq!(got.await.unwrap().next, 4_000);
        assert_eq!(read_since(&log, before), 0, "nothing to wait for");
        assert_eq!(waits, 7, "one yield after each 512 batches");
    });
}
