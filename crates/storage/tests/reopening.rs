//! After a fault: recovery in place. What was answered as written or durable is there afterwards,
//! and stays there when the power fails later.

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use corelog_format::SLOT_LEN;
use corelog_io::sim::{Fault, FaultId, Rng, Sim, errno};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::{
    Ack, AppendError, Appended, From, LogConfig, MANIFEST_FILE, OpenDamage, ReopenError,
};

/// What was appended and answered, in the order of the offsets.
#[derive(Default)]
struct Told {
    replies: Vec<(bytes::Bytes, Ack, Reply)>,
}

impl Told {
    fn append(&mut self, log: &Log, bytes: bytes::Bytes, ack: Ack) {
        let reply = append(log, &bytes, ack);
        self.replies.push((bytes, ack, reply));
    }

    /// Batches that were answered as at least `least`, with everything before them: all of it is
    /// promised.
    fn promised(&self, least: Ack) -> Model {
        let rank = |ack| matches!(ack, Ack::Written) as u8 + 2 * (ack == Ack::Durable) as u8;
        let kept = self
            .replies
            .iter()
            .rposition(|(_, ack, reply)| rank(*ack) >= rank(least) && reply.ok().is_some())
            .map_or(0, |last| last + 1);
        let mut model = Model::default();
        for (bytes, _, reply) in &self.replies[..kept] {
            // One that waited for more than was reached is in front of one that is promised: it is
            // kept, too; where it stands follows from its neighbours.
            let appended = reply.ok().unwrap_or(Appended {
                base_offset: model.end(),
                base_timestamp: 0,
                message_count: 1,
            });
            model.push(bytes.clone(), appended);
        }
        model
    }
}

/// The log serves what `model` holds, from offset 0 on, byte for byte.
async fn assert_holds(log: &Log, model: &Model, what: &str) {
    let mut next = 0;
    for (bytes, appended) in &model.batches {
        let got = poll(log, From::Offset(next), 1, 1).await;
        let got = got.unwrap_or_else(|error| panic!("{what}: at {next}: {error}"));
        assert_eq!(got.messages, 1, "{what}: at {next} of {}", model.end());
        let served = &got.batches()[0];
        let base_timestamp = served.header().base_timestamp;
        let known = appended.base_timestamp;
        assert!(known == 0 || known == base_timestamp, "{what}: at {next}");
        assert_same(served, bytes, Appended { base_timestamp, ..*appended });
        next = got.next;
    }
}

/// A fault in the `nth` operation of a kind, anywhere in a life that also rolls.
#[derive(Debug, Clone, Copy)]
struct Scene {
    op: IoOp,
    on: &'static str,
    code: i32,
    nth_max: u64,
    enforce_fsync: bool,
}

const SCENES: [Scene; 8] = [
    Scene { op: IoOp::Write, on: ".log", code: errno::EIO, nth_max: 12, enforce_fsync: false },
    Scene { op: IoOp::Write, on: ".log", code: errno::EIO, nth_max: 12, enforce_fsync: true },
    Scene { op: IoOp::Write, on: ".log", code: errno::ENOSPC, nth_max: 12, enforce_fsync: false },
    Scene { op: IoOp::Sync, on: ".log", code: errno::EIO, nth_max: 12, enforce_fsync: false },
    Scene { op: IoOp::Sync, on: ".log", code: errno::EIO, nth_max: 12, enforce_fsync: true },
    Scene { op: IoOp::SetLen, on: ".log", code: errno::EIO, nth_max: 2, enforce_fsync: false },
    Scene { op: IoOp::SyncDir, on: "7", code: errno::EIO, nth_max: 2, enforce_fsync: false },
    Scene { op: IoOp::Allocate, on: ".log", code: errno::EIO, nth_max: 12, enforce_fsync: false },
];

/// Random appends until the fault; `None` where the fault did not come.
async fn poisoned(sim: &Sim, scene: Scene, seed: u64) -> Option<(Log, Told, FaultId)> {
    let config = LogConfig { enforce_fsync: scene.enforce_fsync, ..small_segments() };
    let log = open(sim.platform(), config).await;
    let (mut rng, mut told) = (Rng::new(seed), Told::default());
    let fault =
        Fault::fail(scene.code).of(scene.op).on(scene.on).from_nth(rng.between(1, scene.nth_max));
    let fault = sim.disk().inject(fault);
    for _ in 0..120 {
        let ack = [Ack::Appended, Ack::Written, Ack::Written, Ack::Durable][rng.index(4)];
        let len = if rng.chance(1, 4) { 200_000 } else { 3_000 };
        told.append(&log, batch(rng.next_u64(), &[rng.below(len) as usize]), ack);
        if rng.chance(1, 2) {
            sim.clock().sleep(Duration::from_micros(rng.below(3_000))).await;
        }
        if log.fault().is_some() {
            sim.clock().sleep(Duration::from_millis(rng.below(20))).await;
            return Some((log, told, fault));
        }
    }
    None
}

/// Recovery in place keeps what was promised, and a power cut afterwards takes none of it, although
/// the failed sync may have lost what it was to keep and later syncs do not tell.
#[test]
fn what_was_promised_outlives_the_fault_and_a_power_cut_after_it() {
    let mut met = [0; SCENES.len()];
    for (number, scene) in SCENES.into_iter().enumerate() {
        for seed in 0..25 {
            let what = format!("{scene:?} seed {seed}");
            let sim = Sim::new(seed);
            let kept = sim.run(async {
                let (log, told, fault) = poisoned(&sim, scene, seed).await?;
                sim.disk().lift(fault);
                let (log, report) = log.reopen().await.unwrap();
                assert_eq!(report.damage, [], "{what}");
                assert_holds(&log, &told.promised(Ack::Written), &what).await;
                // All that is there counts as durable from now on: the next answer says so.
                let bytes = batch(99, &[700]);
                let end = log.watermarks().appended();
                let appended = append_wait(&log, &bytes, Ack::Durable).await;
                assert_eq!(appended.base_offset, end, "{what}");
                let mut kept = Model::default();
                for (bytes, _, _) in told.replies.iter().take(end as usize) {
                    let appended =
                        Appended { base_offset: kept.end(), base_timestamp: 0, ..appended };
                    kept.push(bytes.clone(), appended);
                }
                kept.push(bytes, appended);
                Some(kept)
            });
            let Some(kept) = kept else { continue };
            met[number] += 1;
            sim.disk().power_cut(seed + 7);
            sim.run(async {
                let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
                assert_eq!(report.damage, [], "{what}");
                assert_holds(&log, &kept, &what).await;
            });
        }
    }
    assert!(met.iter().all(|n| *n > 5), "{met:?}");
}

/// The same where the process dies of it, or is closed, and another one opens. It may find the
/// manifest unreadable: then it does not know what was synced, and must not count on any of it.
#[test]
fn what_was_promised_outlives_the_fault_a_new_process_and_a_power_cut_after_it() {
    for (number, scene) in SCENES.into_iter().enumerate() {
        for (seed, lost) in (0..20).map(|seed| (seed, seed % 4 > 1)) {
            let what = format!("{scene:?} seed {seed} lost {lost}");
            let sim = Sim::new(seed);
            let told = sim.run(async {
                let (log, told, fault) = poisoned(&sim, scene, seed).await?;
                sim.disk().lift(fault);
                if seed % 2 == 0 {
                    assert!(log.close().await.is_err());
                }
                Some(told)
            });
            let Some(told) = told else { continue };
            sim.disk().process_kill(seed + number as u64);
            if lost {
                lose_manifest(&sim);
            }
            let end = sim.run(async {
                let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
                match lost {
                    // A torn write passes for damage then.
                    true => assert_eq!(report.damage[0], OpenDamage::Manifest, "{what}"),
                    false => assert_eq!(report.damage, [], "{what}"),
                }
                assert_holds(&log, &told.promised(Ack::Written), &what).await;
                append_wait(&log, &batch(99, &[700]), Ack::Durable).await.base_offset
            });
            sim.disk().power_cut(seed + 7);
            sim.run(async {
                let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
                assert_eq!(report.damage, [], "{what}");
                assert_holds(&log, &told.promised(Ack::Written), &what).await;
                assert!(log.watermarks().appended() > end, "{what}");
            });
        }
    }
}

/// Damages both slots, durably.
fn lose_manifest(sim: &Sim) {
    let path = place().dir.join(MANIFEST_FILE);
    for slot in [0, SLOT_LEN as u64] {
        sim.disk().flip_bit(&path, slot + 40, 1).unwrap();
    }
}

/// What was durable survives a fault and a power cut without any reopening.
#[test]
fn what_was_durable_outlives_a_power_cut_at_the_fault() {
    for scene in SCENES {
        for seed in 0..15 {
            let what = format!("{scene:?} seed {seed}");
            let sim = Sim::new(seed);
            let told = sim.run(async { poisoned(&sim, scene, seed).await.map(|scene| scene.1) });
            let Some(told) = told else { continue };
            let least = if scene.enforce_fsync { Ack::Appended } else { Ack::Durable };
            sim.disk().power_cut(seed);
            sim.disk().lift_all();
            sim.run(async {
                let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
                assert_eq!(report.damage, [], "{what}");
                assert_holds(&log, &told.promised(least), &what).await;
            });
        }
    }
}

#[test]
fn a_healthy_partition_is_not_reopened_and_a_closed_one_neither() {
    let sim = Sim::new(1);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        append_wait(&log, &batch(1, &[10]), Ack::Written).await;
        assert!(matches!(log.reopen().await, Err(ReopenError::NotPoisoned)));
        append_wait(&log, &batch(2, &[10]), Ack::Written).await;
        log.close().await.unwrap();
        assert!(matches!(log.reopen().await, Err(ReopenError::Closed)));
    });
}

/// Old polls are served until the old life has ended; a write that hangs is waited for.
#[test]
fn the_old_life_ends_first_and_serves_until_then() {
    let sim = Sim::new(2);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        let mut model = Model::default();
        let bytes = batch(0, &[3_000_000]);
        let appended = append_wait(&log, &bytes, Ack::Written).await;
        model.push(bytes, appended);
        // Of the next batch's writes one hangs and one fails.
        let stall = sim.disk().inject(Fault::stall().of(IoOp::Write).on(".log"));
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write).on(".log").from_nth(2));
        let lost = append(&log, &batch(1, &[3_000_000]), Ack::Written);
        sim.clock().sleep(Duration::from_secs(1)).await;
        assert!(matches!(lost.get().unwrap(), Err(AppendError::Poisoned(_))));
        let new = Rc::new(Cell::new(None));
        let (old, put) = (log.clone(), Rc::clone(&new));
        sim.platform().spawn().spawn(async move { put.set(Some(old.reopen().await)) });
        sim.clock().sleep(Duration::from_secs(60)).await;
        assert!(new.take().is_none(), "the write may still land");
        model.check_all(&log, &mut Rng::new(1)).await;
        assert!(matches!(log.reopen().await, Err(ReopenError::Closed)), "one at a time");
        sim.disk().lift(stall);
        sim.clock().sleep(Duration::from_secs(1)).await;
        let (log, _) = new.take().expect("it ends when the write has").unwrap();
        model.check_all(&log, &mut Rng::new(1)).await;
        append_wait(&log, &batch(3, &[10]), Ack::Durable).await;
        log.close().await.unwrap();
        assert_eq!(sim.disk().open_files(), 0);
    });
}

/// A disk that stays broken: the partition stays closed with the reason, and opens when it is mended.
#[test]
fn a_recovery_that_fails_says_why_and_loses_nothing() {
    for (op, on) in [(IoOp::Write, ".log"), (IoOp::Open, ".log"), (IoOp::SetLen, ".log")] {
        let sim = Sim::new(3);
        sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            let mut told = Told::default();
            for tag in 0..5 {
                told.append(&log, batch(tag, &[5_000]), Ack::Written);
                log.flush(Ack::Written).await.unwrap();
            }
            sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Sync).on(".log"));
            assert!(log.flush(Ack::Durable).await.is_err());
            let fault = sim.disk().inject(Fault::fail(errno::EIO).of(op).on(on).for_ever());
            let Err(error) = log.reopen().await else { panic!("{op:?} does not fail") };
            assert!(matches!(error, ReopenError::Open(_)), "{error}");
            assert!(error.to_string().contains(on), "{error}");
            sim.disk().lift(fault);
            // Closed is closed, but it may be tried again in place.
            let (log, _) = log.reopen().await.unwrap();
            assert_holds(&log, &told.promised(Ack::Written), &format!("{op:?} {on}")).await;
            append_wait(&log, &batch(9, &[10]), Ack::Durable).await;
        });
    }
}

/// What was durable is not cut, whatever the fault has done to it: the mark is stored where it
/// stood, so that damage below is damage, and not a torn tail.
#[test]
fn damage_below_what_was_durable_is_told_and_not_cut() {
    let sim = Sim::new(4);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        let mut told = Told::default();
        for tag in 0..6 {
            told.append(&log, batch(tag, &[5_000]), Ack::Durable);
            log.flush(Ack::Durable).await.unwrap();
        }
        let len = told.replies[0].0.len() as u64;
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write).on(".log"));
        told.append(&log, batch(6, &[5_000]), Ack::Written);
        assert!(log.flush(Ack::Written).await.is_err());
        sim.disk().flip_bit(log_file(0), 3 * len + 1_000, 0).unwrap();
        let (log, report) = log.reopen().await.unwrap();
        assert_eq!(report.damage.len(), 1, "{report:?}");
        assert_eq!(log.watermarks().appended(), 6);
        assert_eq!(poll(&log, From::Offset(2), 1, 1).await.unwrap().messages, 1);
        assert!(poll(&log, From::Offset(3), 1, 1).await.is_err());
        assert_eq!(append_wait(&log, &batch(9, &[10]), Ack::Durable).await.base_offset, 6);
    });
}
