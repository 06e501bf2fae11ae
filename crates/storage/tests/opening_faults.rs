//! Opening on a bad or a full disk: nothing unreadable is cut, nothing is lost for want of space.

mod common;

use common::situations::{check_read_only, situation};
use common::*;
use corelog_io::IoOp;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_storage::{Ack, From, LogConfig, OpenDamage, PollError};

/// A life that was killed above the mark: offsets 0..4 in one file.
fn killed() -> (Sim, Model, [u64; 5]) {
    let sim = Sim::new(1);
    let model = filled_and_killed(&sim, LogConfig::default(), &[5_000, 5_000, 9_000, 300]);
    let mut at = 0;
    let ends = model.batches.iter().map(|(bytes, _)| {
        at += bytes.len() as u64;
        at
    });
    let starts: Vec<u64> = std::iter::once(0).chain(ends).collect();
    (sim, model, starts.try_into().unwrap())
}

fn bad_sector(sim: &Sim, at: u64) -> corelog_io::sim::FaultId {
    let at = at.next_multiple_of(4096);
    let fault = Fault::fail(errno::EIO).of(IoOp::Read).on(name(&log_file(0)));
    sim.disk().inject(fault.over(at..at + 1).for_ever())
}

/// The last batch is not given back at the first attempt, and is at the second: its offset is taken.
#[test]
fn a_read_error_that_passes_takes_no_offset_away() {
    let sim = Sim::new(1);
    let model = filled_and_killed(&sim, LogConfig::default(), &[5_000]);
    // The walk asks for much at once, and then for what it needs.
    let fault = Fault::fail(errno::EIO).of(IoOp::Read).on(name(&log_file(0)));
    sim.disk().inject(fault.times(2));
    sim.run(async {
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert_eq!(report.damage, [OpenDamage::Unreadable { segment: 0, position: 0 }]);
        assert_eq!(log.watermarks().appended(), model.end());
        let got = poll(&log, From::First, 9, 1 << 20).await.unwrap();
        assert_eq!(got.next, model.end());
        log.close().await.unwrap();
    });
}

/// Nobody knows the times of what cannot be read: a lookup by time must not say that nothing is there.
#[test]
fn a_lookup_by_time_does_not_end_before_what_could_not_be_read() {
    let (sim, model, starts) = killed();
    bad_sector(&sim, starts[2]);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        let time = From::Timestamp(model.batches[3].1.base_timestamp);
        let error = poll(&log, time, 9, 1 << 20).await.map(drop).unwrap_err();
        assert!(matches!(error, PollError::Unreadable { .. }), "{error}");
        log.close().await.unwrap();
    });
}

#[test]
fn what_could_not_be_read_is_there_when_it_can_be_read_again() {
    for code in [errno::EIO, 61, 84] {
        let (sim, mut model, starts) = killed();
        let at = starts[2].next_multiple_of(4096);
        let fault = Fault::fail(code).of(IoOp::Read).on(name(&log_file(0))).over(at..at + 1);
        let fault = sim.disk().inject(fault.for_ever());
        let end = sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            let position = starts[2];
            assert_eq!(report.damage, [OpenDamage::Unreadable { segment: 0, position }]);
            assert_eq!((report.row, report.cut_bytes), ("unreadable", 0));
            // A read error is never "no such offset", and what stands before is served.
            let error = poll(&log, From::Offset(2), 9, 1 << 20).await.unwrap_err();
            let PollError::Unreadable { resume_offset, error, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(error.source.raw_os_error(), Some(code));
            assert!(resume_offset.is_some_and(|resume| resume > 2), "{resume_offset:?}");
            assert_eq!(poll(&log, From::First, 9, 1 << 20).await.unwrap().messages, 2);
            let end = log.watermarks().appended();
            assert!(end > 4, "no batch in those bytes can have had this offset: {end}");
            append_wait(&log, &batch(9, &[10]), Ack::Durable).await;
            log.close().await.unwrap();
            end
        });
        sim.disk().lift(fault);
        sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            let got = poll(&log, From::First, 9, 1 << 20).await.unwrap();
            assert_eq!(got.next, 4, "every byte is still there");
            let got = poll(&log, From::Offset(end), 9, 1 << 20).await.unwrap();
            assert_eq!(got.batches()[0].first_offset(), end);
            model.batches.truncate(4);
            for (batch, (bytes, appended)) in poll(&log, From::First, 9, 1 << 20)
                .await
                .unwrap()
                .batches()
                .iter()
                .zip(&model.batches)
            {
                assert_same(batch, bytes, *appended);
            }
        });
    }
}

#[test]
fn a_torn_tail_in_front_of_a_bad_sector_is_not_cut() {
    let (sim, model, starts) = killed();
    let before = sim.disk().contents(log_file(0)).unwrap();
    sim.disk().flip_bit(log_file(0), starts[1] + 300, 1).unwrap();
    let fault = bad_sector(&sim, starts[2]);
    sim.run(async {
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert_eq!(report.row, "unreadable");
        let [OpenDamage::Corrupt { position, .. }, OpenDamage::Unreadable { position: at, .. }] =
            report.damage[..]
        else {
            panic!("{:?}", report.damage)
        };
        assert_eq!((position, at), (starts[1], starts[2].next_multiple_of(4096)));
        assert!(log.watermarks().appended() >= model.end());
        log.close().await.unwrap();
    });
    sim.disk().lift(fault);
    let after = sim.disk().contents(log_file(0)).unwrap();
    assert_eq!(
        after[starts[2] as usize..starts[4] as usize],
        before[starts[2] as usize..starts[4] as usize]
    );
}

#[test]
fn below_the_mark_a_bad_sector_takes_no_offset() {
    let sim = Sim::new(2);
    let config = LogConfig { index_step: 4096, ..LogConfig::default() };
    let model = sim.run(filled(sim.platform(), config.clone(), &[3_000; 6]));
    let fault = bad_sector(&sim, 4 * 3_304);
    sim.run(async {
        let (log, report) = try_open(sim.platform(), config.clone()).await.unwrap();
        assert!(matches!(report.damage[..], [OpenDamage::Unreadable { segment: 0, .. }]));
        assert_eq!(log.watermarks().appended(), model.end(), "the mark knows the next offset");
        log.close().await.unwrap();
    });
    sim.disk().lift(fault);
    sim.run(async {
        let log = open(sim.platform(), config).await;
        model.check_all(&log, &mut Rng::new(1)).await;
    });
}

#[test]
fn without_space_for_the_quarantine_it_opens_for_reading_and_loses_nothing() {
    let situation = situation("torn tail");
    let sim = situation.sim(3);
    let before = sim.disk().contents(log_file(1)).unwrap();
    sim.disk().set_capacity(sim.disk().used());
    sim.run(async {
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert!(report.read_only && report.row == "torn tail");
        assert!(log.fault().unwrap().error.is_full());
        check_read_only(&situation, &log, "full").await;
        let halves = sim.disk().files().into_iter().filter(|path| name(path).ends_with("tmp"));
        assert_eq!(halves.count(), 0, "half a copy takes no space");
        let now = sim.disk().contents(log_file(1)).unwrap();
        assert_eq!(now.len(), before.len(), "nothing is cut");
        // Still full: the same again. Then there is space, and it goes on in place.
        let (log, report) = log.reopen().await.unwrap();
        assert!(report.read_only);
        sim.disk().set_capacity(u64::MAX);
        let (log, report) = log.reopen().await.unwrap();
        assert!(!report.read_only && log.fault().is_none());
        assert_eq!(report.quarantined.len(), 2);
    });
    sim.disk().process_kill(3);
    situation.judge(&sim, false, "after it was full");
}

#[test]
fn a_mark_that_cannot_be_stored_lags_and_refuses_nothing() {
    for code in [errno::ENOSPC, errno::EIO] {
        let (sim, mut model, _) = killed();
        let fault = Fault::fail(code).of(IoOp::Write).on(corelog_storage::MANIFEST_FILE);
        let fault = sim.disk().inject(fault.for_ever());
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert_eq!(report.damage, []);
            let bytes = batch(9, &[10]);
            model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
        });
        sim.disk().power_cut(1);
        sim.disk().lift(fault);
        sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            model.check_all(&log, &mut Rng::new(1)).await;
        });
    }
}
