//! Polls while the log moves on: nothing that was appended is passed over or called damaged.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Sim};
use corelog_io::{Clock, IoOp};
use corelog_storage::{Ack, From, LogConfig, SharedLimits};

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
