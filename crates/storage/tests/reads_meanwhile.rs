//! Polls while the log moves on: nothing that was appended is passed over or called damaged.

mod common;

use std::future::{Future, poll_fn};
use std::path::Path;
use std::task::Poll;
use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Sim};
use corelog_io::{Clock, Disk, IoOp};
use corelog_storage::{Ack, From, LogConfig, Shared, SharedLimits};

/// Nothing of what is written stays in memory.
fn no_cache() -> SharedLimits {
    SharedLimits { cache_bytes: 0, ..SharedLimits::default() }
}

#[test]
fn a_poll_by_time_finds_the_first_batch_that_is_only_in_memory() {
    let sim = Sim::new(1);
    sim.run(async {
        let (log, _) =
            open_limited(sim.platform(), LogConfig::default(), no_cache()).await.unwrap();
        append_wait(&log, &batch(1, &[1_000]), Ack::Written).await;
        sim.disk().inject(Fault::stall().of(IoOp::Write).on(".log").for_ever());
        let unwritten = append_wait(&log, &batch(2, &[1_000]), Ack::Appended).await;
        let got = poll(&log, From::Timestamp(unwritten.base_timestamp), 1, 1).await.unwrap();
        assert_eq!((got.messages, got.next), (1, unwritten.base_offset + 1));
        let behind = poll(&log, From::Timestamp(unwritten.base_timestamp + 1), 1, 1).await.unwrap();
        assert_eq!(behind.messages, 0);
        sim.disk().lift_all();
    });
}

#[test]
fn a_poll_by_time_finds_the_first_batch_of_a_segment_that_is_only_in_memory() {
    let sim = Sim::new(2);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        append_wait(&log, &batch(1, &[1 << 20]), Ack::Written).await;
        let first = append(&log, &batch(2, &[100]), Ack::Appended);
        log.flush(Ack::Appended).await.unwrap();
        sim.disk().inject(Fault::stall().of(IoOp::Write).on(".log").for_ever());
        let first = first.ok().unwrap();
        assert_eq!((log.stats().segments, log.watermarks().written()), (2, 1));
        let got = poll(&log, From::Timestamp(first.base_timestamp), 1, 1).await.unwrap();
        assert_eq!((got.messages, got.next), (1, first.base_offset + 1));
        sim.disk().lift_all();
    });
}

#[test]
fn a_batch_longer_than_the_cache_is_served_while_its_writes_are_in_flight() {
    // The head of the batch is written while its end is still in flight: it stays in memory.
    let sim = Sim::new(3);
    sim.run(async {
        let limits = SharedLimits { writes_in_flight: 1, ..no_cache() };
        let (log, _) = open_limited(sim.platform(), LogConfig::default(), limits).await.unwrap();
        append_wait(&log, &batch(1, &[100]), Ack::Written).await;
        let slow = Fault::delay(Duration::from_millis(50)).of(IoOp::Write).on(".log");
        sim.disk().inject(slow.from_nth(2).for_ever());
        let long = batch(2, &[3 << 20]);
        let appended = append_wait(&log, &long, Ack::Appended).await;
        sim.clock().sleep(Duration::from_millis(20)).await;
        assert_eq!(log.watermarks().written(), 1, "its end is still in flight");
        for from in [From::Timestamp(appended.base_timestamp), From::Offset(1), From::Last(1)] {
            let got = poll(&log, from, 1, 1).await.unwrap();
            assert_same(&got.batches()[0], &long, appended);
        }
        assert_eq!(poll(&log, From::First, 10, usize::MAX).await.unwrap().batches().len(), 2);
    });
}

#[test]
fn a_poll_in_progress_keeps_no_lock_behind_a_close() {
    let sim = Sim::new(4);
    sim.run(async {
        let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
        let (log, _) = open_limited(sim.platform(), LogConfig::default(), limits).await.unwrap();
        append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
        sim.disk().inject(Fault::delay(Duration::from_millis(500)).of(IoOp::Read).on(".log"));
        let mut parked = Box::pin(poll(&log, From::First, 1, 1));
        let begun = poll_fn(|cx| Poll::Ready(parked.as_mut().poll(cx).is_pending()));
        assert!(begun.await);
        sim.clock().sleep(Duration::from_millis(10)).await;
        log.close().await.unwrap();
        open(sim.platform(), LogConfig::default()).await.close().await.unwrap();
        assert_eq!(parked.await.unwrap().messages, 1, "and the poll ends well");
    });
}

#[test]
fn a_poll_that_outlives_its_partition_hands_no_file_to_the_next_one() {
    // A purge: the directory is moved away and a partition of the same id begins anew, while a
    // poll of the old one is opening a segment.
    let sim = Sim::new(5);
    sim.run(async {
        let shared = Shared::new(sim.platform().clone(), no_cache());
        let open = async || {
            let opened = Log::open(shared.clone(), place(), small_segments()).await;
            opened.unwrap().0
        };
        let log = open().await;
        append_wait(&log, &batch(1, &[1 << 20]), Ack::Written).await;
        append_wait(&log, &batch(2, &[10]), Ack::Written).await;
        sim.disk().inject(Fault::delay(Duration::from_millis(500)).of(IoOp::Open).on("00.log"));
        let mut parked = Box::pin(poll(&log, From::First, 1, 1));
        let begun = poll_fn(|cx| Poll::Ready(parked.as_mut().poll(cx).is_pending()));
        assert!(begun.await);
        log.close().await.unwrap();
        assert_eq!(shared.open_handles(), 0);
        let _ = parked.await;
        assert_eq!(shared.open_handles(), 0, "what opened late is not kept");
        sim.disk().rename(&place().dir, Path::new("/trash")).await.unwrap();

        let log = open().await;
        let bytes = batch(3, &[1 << 20]);
        let appended = append_wait(&log, &bytes, Ack::Written).await;
        append_wait(&log, &batch(4, &[10]), Ack::Written).await;
        let got = poll(&log, From::First, 1, 1).await.unwrap();
        assert_same(&got.batches()[0], &bytes, appended);
        drop(log);
        assert_eq!(shared.open_handles(), 1, "a task still holds it");
        sim.clock().sleep(Duration::from_secs(2)).await;
        assert_eq!(shared.open_handles(), 0, "handles go with the partition, closed or not");
    });
}

#[test]
fn where_polls_end_never_goes_back_while_buffers_are_scarce() {
    // A batch is appended, its head written, its end in flight: the next one must not take the
    // head's buffer, or what a poll has served is gone for the next poll.
    for seed in 0..40 {
        let sim = Sim::new(seed);
        sim.run(async {
            sim.disk().buffers().set_limit(12 << 10);
            let limits = SharedLimits { write_bytes: 4 << 10, ..no_cache() };
            let (log, _) =
                open_limited(sim.platform(), LogConfig::default(), limits).await.unwrap();
            let replies: Vec<_> =
                (0..20).map(|tag| append(&log, &batch(tag, &[7_000]), Ack::Appended)).collect();
            let mut end = 0;
            while replies.iter().any(|reply| reply.ok().is_none()) {
                let now = log.readable_end();
                assert!(now >= end, "seed {seed}: from {end} back to {now}");
                end = now;
                sim.clock().sleep(Duration::from_micros(20)).await;
            }
            log.flush(Ack::Written).await.unwrap();
            assert_eq!(log.readable_end(), 20);
        });
    }
}
