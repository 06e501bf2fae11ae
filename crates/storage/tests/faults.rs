//! The world's faults: returned, latched, contained; nothing acknowledged is lost to them.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp};
use corelog_storage::{Ack, AdmittedBatch, AppendError, From, LogConfig, Shared, SharedLimits};

fn refused(reply: &Reply) -> AppendError {
    reply.get().expect("answered").expect_err("refused")
}

#[test]
fn a_failed_write_poisons_and_what_was_written_is_served() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        let log = open(sim.platform(), LogConfig::default()).await;
        let mut model = Model::default();
        for tag in 0..5 {
            let bytes = batch(tag, &[1_000]);
            let appended = append_wait(&log, &bytes, Ack::Written).await;
            model.push(bytes, appended);
        }
        let fault = disk.inject(Fault::fail(errno::EIO).of(IoOp::Write).on(".log").for_ever());
        let replies: Vec<_> =
            (5..9).map(|tag| append(&log, &batch(tag, &[1_000]), Ack::Written)).collect();
        assert!(log.flush(Ack::Written).await.is_err());
        for reply in &replies {
            assert!(matches!(refused(reply), AppendError::Poisoned(_)), "{:?}", reply.get());
        }
        let later = append(&log, &batch(9, &[10]), Ack::Appended);
        let AppendError::Poisoned(kept) = refused(&later) else { panic!("{:?}", later.get()) };
        assert_eq!(kept.error.source.raw_os_error(), Some(errno::EIO));
        assert_eq!(log.readable_end(), 5);
        model.check_all(&log, &mut Rng::new(1)).await;
        assert!(log.close().await.is_err());
        assert_eq!(disk.open_files(), 0);

        disk.lift(fault);
        let log = open(sim.platform(), LogConfig::default()).await;
        assert!(log.watermarks().appended() >= 5);
        let mut served = Model { batches: model.batches.clone() };
        let bytes = batch(10, &[10]);
        let appended = append_wait(&log, &bytes, Ack::Durable).await;
        if appended.base_offset == 5 {
            served.push(bytes, appended);
            served.check_all(&log, &mut Rng::new(2)).await;
        }
    });
}

#[test]
fn a_failed_sync_is_never_tried_again_and_answers_nobody() {
    for (seed, enforce_fsync) in [(2, false), (3, true)] {
        let sim = Sim::new(seed);
        let acked = sim.run(async {
            let disk = sim.disk();
            let config = LogConfig { enforce_fsync, ..LogConfig::default() };
            let log = open(sim.platform(), config).await;
            let appended = append_wait(&log, &batch(1, &[500]), Ack::Durable).await;
            // On an enforce_fsync topic the synced write itself fails.
            let op = if enforce_fsync { IoOp::Write } else { IoOp::Sync };
            disk.inject(Fault::fail(errno::EIO).of(op).on(".log"));
            let reply = append(&log, &batch(2, &[500]), Ack::Durable);
            assert!(log.flush(Ack::Durable).await.is_err());
            assert!(matches!(refused(&reply), AppendError::Poisoned(_)));
            let before = disk.count(IoOp::Sync) + disk.count(IoOp::Write);
            assert!(log.flush(Ack::Durable).await.is_err());
            sim.clock().sleep(Duration::from_secs(2)).await;
            let manifest = 2; // The mark of the first append may still be stored: one slot.
            assert!(disk.count(IoOp::Sync) + disk.count(IoOp::Write) <= before + manifest);
            assert!(log.watermarks().durable() < 3);
            appended
        });
        sim.disk().power_cut(seed);
        sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            let got = poll(&log, From::First, 1, 1).await.unwrap();
            assert_eq!(got.batches()[0].header().base_timestamp, acked.base_timestamp);
        });
    }
}

#[test]
fn a_full_disk_refuses_before_an_offset_is_used_and_recovers() {
    for (seed, preallocate_segments) in [(4, false), (5, true)] {
        let sim = Sim::new(seed);
        sim.run(async {
            let disk = sim.disk();
            let config = LogConfig { preallocate_segments, ..small_segments() };
            let log = open(sim.platform(), config).await;
            let mut model = Model::default();
            let fill = async |model: &mut Model, tag: u64| {
                let bytes = batch(tag, &[50_000]);
                let reply = append(&log, &bytes, Ack::Appended);
                log.flush(Ack::Written).await.unwrap();
                match reply.get().unwrap() {
                    Ok(appended) => model.push(bytes, appended),
                    Err(AppendError::StorageFull(error)) => return Err(error.is_full()),
                    Err(error) => panic!("{error}"),
                }
                Ok(())
            };
            disk.set_capacity(3 << 20);
            let mut tag = 0;
            let full = loop {
                tag += 1;
                if let Err(full) = fill(&mut model, tag).await {
                    break full;
                }
                assert!(tag < 200, "the disk never fills");
            };
            assert!(full, "the disk's own error is kept");
            assert!(model.end() > 40, "most of the space was used: {}", model.end());
            assert_eq!(log.watermarks().appended(), model.end(), "no offset was used");
            model.check_all(&log, &mut Rng::new(seed)).await;
            assert!(fill(&mut model, 300).await.is_err(), "still full");
            disk.set_capacity(16 << 20);
            for tag in 400..430 {
                fill(&mut model, tag).await.expect("space is back");
            }
            model.check_all(&log, &mut Rng::new(seed)).await;
            log.close().await.unwrap();
            let log = open(sim.platform(), small_segments()).await;
            model.check_all(&log, &mut Rng::new(seed)).await;
        });
    }
}

#[test]
fn a_segment_that_cannot_be_created_now_is_created_later() {
    for code in [errno::EMFILE, errno::EACCES, errno::ENOSPC] {
        let sim = Sim::new(code as u64);
        sim.run(async {
            let disk = sim.disk();
            let log = open(sim.platform(), small_segments()).await;
            let mut model = Model::default();
            for tag in 0..20 {
                let bytes = batch(tag, &[60_000]);
                let appended = append_wait(&log, &bytes, Ack::Written).await;
                model.push(bytes, appended);
            }
            let fault = disk.inject(Fault::fail(code).of(IoOp::Open).on(".log").for_ever());
            let mut refusals = 0;
            for tag in 20..40 {
                let bytes = batch(tag, &[60_000]);
                let reply = append(&log, &bytes, Ack::Written);
                log.flush(Ack::Written).await.unwrap();
                match reply.get().unwrap() {
                    Ok(appended) => model.push(bytes, appended),
                    Err(AppendError::StorageFull(_)) if code == errno::ENOSPC => refusals += 1,
                    Err(AppendError::NoSegment(_)) if code != errno::ENOSPC => refusals += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            assert!(refusals > 0);
            disk.lift(fault);
            for tag in 40..50 {
                let bytes = batch(tag, &[60_000]);
                let appended = append_wait(&log, &bytes, Ack::Written).await;
                model.push(bytes, appended);
            }
            model.check_all(&log, &mut Rng::new(1)).await;
        });
    }
}

#[test]
fn index_and_mark_faults_disturb_no_append() {
    for part in [".index", "manifest"] {
        let sim = Sim::new(6);
        let model = sim.run(async {
            let disk = sim.disk();
            let log = open(sim.platform(), small_segments()).await;
            for op in [IoOp::Open, IoOp::Write, IoOp::Sync] {
                disk.inject(Fault::fail(errno::ENOSPC).of(op).on(part).for_ever());
            }
            let mut model = Model::default();
            for tag in 0..60 {
                let bytes = batch(tag, &[60_000]);
                let appended = append_wait(&log, &bytes, Ack::Durable).await;
                model.push(bytes, appended);
            }
            model.check_all(&log, &mut Rng::new(1)).await;
            disk.lift_all();
            model
        });
        sim.disk().power_cut(6);
        sim.run(async {
            let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
            assert_eq!(report.damage, []);
            model.check_all(&log, &mut Rng::new(2)).await;
            let appended = append_wait(&log, &batch(99, &[10]), Ack::Durable).await;
            assert_eq!(appended.base_offset, model.end());
        });
    }
}

#[test]
fn a_failed_directory_sync_at_a_roll_poisons() {
    let sim = Sim::new(7);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::SyncDir).for_ever());
        let mut last = None;
        for tag in 0..30 {
            last = Some(append(&log, &batch(tag, &[60_000]), Ack::Written));
            let _ = log.flush(Ack::Written).await;
        }
        assert!(matches!(refused(&last.unwrap()), AppendError::Poisoned(_)));
        assert!(log.fault().is_some());
    });
}

#[test]
fn a_read_error_is_an_error_and_not_an_empty_poll() {
    let sim = Sim::new(8);
    sim.run(async {
        let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
        let (log, _) = open_limited(sim.platform(), LogConfig::default(), limits).await.unwrap();
        let mut model = Model::default();
        for tag in 0..3 {
            let bytes = batch(tag, &[1_000]);
            let appended = append_wait(&log, &bytes, Ack::Written).await;
            model.push(bytes, appended);
        }
        // One read in vain may be that of a sector ahead: the poll asks for its own once more.
        let fault = sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Read).on(".log").for_ever());
        let error = poll(&log, From::First, 1, 1).await.unwrap_err();
        assert!(error.to_string().contains("read"), "{error}");
        sim.disk().lift(fault);
        model.check_all(&log, &mut Rng::new(1)).await;
        // The bit that turns may stand in the block's other batches: some flip hits the first.
        let flips = sim.disk().inject(Fault::flip_read().of(IoOp::Read).on(".log").for_ever());
        let error = loop {
            match poll(&log, From::First, 1, 1).await {
                Ok(_) => assert!(sim.disk().hits(flips) < 20, "no flip is seen"),
                Err(error) => break error,
            }
        };
        sim.disk().lift(flips);
        assert!(matches!(error, corelog_storage::PollError::Corrupt { segment: 0, .. }));
        model.check_all(&log, &mut Rng::new(2)).await;
    });
}

#[test]
fn slow_syncs_hold_up_neither_polls_nor_appends() {
    let sim = Sim::new(9);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        append_wait(&log, &batch(0, &[10]), Ack::Durable).await;
        let slow = Fault::delay(Duration::from_millis(200)).of(IoOp::Sync).on(".log").for_ever();
        sim.disk().inject(slow);
        let before = (sim.clock().elapsed(), log.stats().syncs);
        let durable: Vec<_> =
            (1..100).map(|tag| append(&log, &batch(tag, &[10]), Ack::Durable)).collect();
        let appended = append(&log, &batch(200, &[10]), Ack::Appended);
        sim.clock().sleep(Duration::from_millis(1)).await;
        assert!(appended.ok().is_some());
        assert_eq!(poll(&log, From::Last(1), 1, 1).await.unwrap().messages, 1);
        assert!(sim.clock().elapsed() - before.0 < Duration::from_millis(20));
        log.flush(Ack::Durable).await.unwrap();
        assert!(durable.iter().all(|reply| reply.ok().is_some()));
        assert!(log.stats().syncs - before.1 < 6, "99 appends share few syncs");
    });
}

/// Whatever was appended before a durable flush, in a segment that was sealed since or in the one
/// behind it, is there after a power cut at the moment of the answer; also where there is nothing to
/// write any more.
#[test]
fn a_durable_flush_covers_both_files_of_a_roll() {
    for (seed, ack) in (0..40).zip([Ack::Appended, Ack::Written].into_iter().cycle()) {
        let sim = Sim::new(seed);
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            let mut model = Model::default();
            for tag in 0..15 + seed / 4 {
                let bytes = batch(tag, &[60_000]);
                model.push(bytes.clone(), append_wait(&log, &bytes, ack).await);
            }
            if seed % 4 < 2 {
                log.flush(Ack::Written).await.unwrap();
            }
            for _ in 0..2 {
                log.flush(Ack::Durable).await.unwrap();
                for cut in 0..5 {
                    let other = Sim::from_image(seed, &sim.disk().image_of_power_cut(cut));
                    other.run(async {
                        let log = open(other.platform(), small_segments()).await;
                        assert_eq!(log.watermarks().appended(), model.end(), "seed {seed}");
                        model.check_all(&log, &mut Rng::new(cut)).await;
                    });
                }
            }
        });
    }
}

#[test]
fn a_panic_in_a_task_of_the_partition_poisons_it_and_leaves_nobody_waiting() {
    let sim = Sim::new(10);
    sim.run(async {
        let shared = Shared::new(sim.platform().clone(), SharedLimits::default());
        let opened = Part::open(shared, place(), LogConfig::default()).await;
        let (log, _) = opened.unwrap();
        let admit = |tag| AdmittedBatch::admit(batch(tag, &[10])).unwrap();
        // With space reserved the next two leave in writes of their own.
        log.append(admit(0), Ack::Written, Slot::Plain(Reply::default()));
        log.flush(Ack::Written).await.unwrap();
        log.append(admit(1), Ack::Written, Slot::Armed);
        let waiting = Reply::default();
        sim.disk().inject(Fault::delay(Duration::from_millis(5)).of(IoOp::Write).from_nth(1));
        sim.clock().sleep(Duration::from_micros(1)).await;
        log.append(admit(2), Ack::Written, Slot::Plain(waiting.clone()));
        sim.clock().sleep(Duration::from_secs(1)).await;
        let panics = sim.take_panics();
        assert_eq!(panics.len(), 1, "{panics:?}");
        assert!(log.fault().is_some());
        assert!(matches!(refused(&waiting), AppendError::Poisoned(_)), "{:?}", waiting.get());
        let later = Reply::default();
        log.append(admit(3), Ack::Appended, Slot::Plain(later.clone()));
        assert!(matches!(refused(&later), AppendError::Poisoned(_)));
        assert!(log.close().await.is_err());
    });
}
