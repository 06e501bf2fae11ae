//! Where the log was said to end, it does not end before: consumers have gone there.

mod common;

use common::*;
use corelog_io::IoOp;
use corelog_io::sim::{Fault, Sim, errno};
use corelog_storage::{Ack, From, LogConfig};

#[test]
fn the_end_behind_unreadable_bytes_stays_when_they_can_be_read_again() {
    for close in [true, false] {
        let sim = Sim::new(1);
        let model = filled_and_killed(&sim, LogConfig::default(), &[5_000; 5]);
        let at: u64 = model.batches[..2].iter().map(|(bytes, _)| bytes.len() as u64).sum();
        let at = at.next_multiple_of(4096);
        let fault = Fault::fail(errno::EIO).of(IoOp::Read).on(name(&log_file(0))).over(at..at + 1);
        sim.disk().inject(fault.for_ever());
        let end = sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            let end = log.watermarks().appended();
            if close {
                log.close().await.unwrap();
            }
            end
        });
        sim.disk().process_kill(1);
        sim.disk().lift_all();
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            let now = log.watermarks().appended();
            assert!(now >= end, "closed {close}: {now} < {end}, {report:?}");
        });
    }
}

/// The same where there is no space for the new segment: polls have named its offset.
#[test]
fn the_end_stays_where_the_new_segment_found_no_space() {
    let killed = |seed| {
        let sim = Sim::new(seed);
        let model = filled_and_killed(&sim, LogConfig::default(), &[5_000; 5]);
        let at: u64 = model.batches[..2].iter().map(|(bytes, _)| bytes.len() as u64).sum();
        let at = at.next_multiple_of(4096);
        let fault = Fault::fail(errno::EIO).of(IoOp::Read).on(name(&log_file(0))).over(at..at + 1);
        sim.disk().inject(fault.for_ever());
        sim
    };
    let sim = killed(2);
    let end =
        sim.run(async { open(sim.platform(), LogConfig::default()).await.watermarks().appended() });
    for close in [false, true] {
        let sim = killed(2);
        let no_space = Fault::fail(errno::ENOSPC).of(IoOp::Open).on(name(&log_file(end)));
        sim.disk().inject(no_space.for_ever());
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert!(report.read_only && !sim.disk().exists(log_file(end)));
            assert_eq!(log.watermarks().appended(), end);
            if close {
                assert!(log.close().await.is_err());
            }
        });
        sim.disk().power_cut(1);
        sim.disk().lift_all();
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert!(!report.read_only);
            let now = log.watermarks().appended();
            assert!(now >= end, "closed {close}: {now} < {end}, {report:?}");
            append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
            assert!(poll(&log, From::Offset(0), 9, 1).await.unwrap().messages > 0);
            log.close().await.unwrap();
        });
    }
}
