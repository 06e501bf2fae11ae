//! Time is not used twice in one process, either: what a fault took had its time.

mod common;

use common::*;
use corelog_io::IoOp;
use corelog_io::sim::{Fault, Sim, errno};
use corelog_storage::{Ack, From, LogConfig, PollError};

#[test]
fn times_of_batches_that_a_fault_took_are_not_given_away_again() {
    let sim = Sim::new(900);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        let kept = append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
        // The clock goes back: from here on each stamp is the last one and a microsecond.
        sim.clock().step(-10_000_000);
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write).on(".log"));
        let lost: Vec<Reply> =
            (0..5).map(|tag| append(&log, &batch(tag, &[10]), Ack::Appended)).collect();
        let last = lost.iter().filter_map(Reply::ok).map(|told| told.base_timestamp).max();
        let last = last.expect("answered when appended");
        assert!(last > kept.base_timestamp);
        assert!(log.flush(Ack::Written).await.is_err(), "the write fails");
        let (log, _) = log.reopen().await.unwrap();
        let next = append_wait(&log, &batch(7, &[10]), Ack::Durable).await;
        assert!(next.base_timestamp > last, "{} was given away as {last}", next.base_timestamp);
        log.close().await.unwrap();
    });
}

#[test]
fn times_go_on_behind_damage_though_the_clock_went_back() {
    let sim = Sim::new(89);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        for tag in 0..3 {
            append_wait(&log, &batch(tag, &[10]), Ack::Durable).await;
        }
        // Within what the clock's ceiling allows stamps run ahead of a clock that goes back.
        let last = append_wait(&log, &batch(4, &[10]), Ack::Durable).await.base_timestamp;
        log.close().await.unwrap();
        sim.clock().step(-1_000_000);
        sim.disk().flip_bit(log_file(0), 300, 1).unwrap();
        sim.disk().delete(index_file(0)).ok();
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert_eq!(report.damage.len(), 1, "{report:?}");
        let next = append_wait(&log, &batch(7, &[10]), Ack::Durable).await;
        assert!(next.base_timestamp > last, "{} behind {last}", next.base_timestamp);
        log.close().await.unwrap();
    });
}

/// Nothing says how young the batches in bytes are that cannot be read: a lookup by time ends in the
/// device's error, not in "there is none".
#[test]
fn a_time_in_what_cannot_be_read_is_no_time_behind_the_end() {
    let sim = Sim::new(90);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        let mut times = Vec::new();
        for tag in 0..3 {
            times.push(append_wait(&log, &batch(tag, &[10]), Ack::Durable).await.base_timestamp);
        }
        log.close().await.unwrap();
        let manifest = log_file(0).with_file_name("manifest");
        for slot in [0, 4096] {
            sim.disk().flip_bit(&manifest, slot + 20, 1).unwrap();
        }
        sim.disk().delete(index_file(0)).ok();
        let unreadable = Fault::fail(errno::EIO).of(IoOp::Read).on(".log").times(u64::MAX);
        let unreadable = sim.disk().inject(unreadable);
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert!(!report.damage.is_empty(), "{report:?}");
        for time in &times {
            match poll(&log, From::Timestamp(*time), 10, 1 << 20).await {
                Err(PollError::Io(_) | PollError::Unreadable { .. }) => {}
                other => panic!("{:?}", other.map(|got| got.batches().len())),
            }
        }
        sim.disk().lift(unreadable);
        let got = poll(&log, From::Timestamp(times[1]), 10, 1 << 20).await.unwrap();
        assert_eq!(got.batches()[0].header().base_timestamp, times[1]);
        log.close().await.unwrap();
    });
}
