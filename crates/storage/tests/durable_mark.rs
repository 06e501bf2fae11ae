//! The durable mark: it never leads, lags by at most a second or 64 MiB, moves with a seal and stands
//! at the end after a close; and the manifest that holds it, in two slots.

mod common;

use std::time::Duration;

use common::*;
use corelog_format::{Manifest, ManifestError, Mark, SLOT_LEN, Slot, checksum};
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp};
use corelog_storage::{Ack, LogConfig, MANIFEST_FILE, OpenDamage, OpenError, Place, Shared};

fn path() -> std::path::PathBuf {
    place().dir.join(MANIFEST_FILE)
}

/// The manifest that counts, and where it stands.
fn stored(bytes: &[u8]) -> (Manifest, Slot) {
    let (a, b) = bytes.split_at(SLOT_LEN);
    Manifest::pick(a, b).unwrap().expect("a manifest was stored")
}

fn mark(sim: &Sim) -> Mark {
    stored(&sim.disk().durable_contents(path()).unwrap()).0.mark
}

#[test]
fn the_mark_lags_a_second_at_most() {
    let sim = Sim::new(1);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        for tag in 0..5 {
            append_wait(&log, &batch(tag, &[1_000]), Ack::Durable).await;
            sim.clock().sleep(Duration::from_millis(300)).await;
        }
        assert!(mark(&sim).next_offset >= 1, "more than a second after the first one");
        // The clock, and an operation that takes its time.
        sim.clock().sleep(Duration::from_millis(1_050)).await;
        assert_eq!(mark(&sim).next_offset, 5);
        assert_eq!(mark(&sim).next_offset, log.watermarks().durable());
    });
}

#[test]
fn the_mark_lags_64_mib_at_most() {
    let sim = Sim::new(2);
    sim.disk().set_delay_us(1..=2);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        let began = sim.clock().now_us();
        let mut position = 0;
        let bytes = batch(1, &[4 << 20]);
        for _ in 0..40 {
            append_wait(&log, &bytes, Ack::Durable).await;
            position += bytes.len() as u64;
            let lag = position - mark(&sim).position;
            // What is synced while the mark is on its way comes on top.
            assert!(lag < (64 << 20) + 2 * bytes.len() as u64, "{lag}");
        }
        assert!(sim.clock().now_us() - began < 900_000, "it is not the time that moved it");
        assert!(mark(&sim).position > 0);
    });
}

#[test]
fn a_seal_moves_the_mark_and_a_close_sets_it_to_the_end() {
    let sim = Sim::new(3);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        append_wait(&log, &batch(1, &[1 << 20]), Ack::Written).await;
        assert_eq!(mark(&sim).next_offset, 0);
        append_wait(&log, &batch(2, &[10]), Ack::Written).await;
        sim.clock().sleep(Duration::from_millis(100)).await;
        let Mark { segment, position, next_offset, .. } = mark(&sim);
        assert_eq!((segment, position, next_offset), (1, 0, 1), "nobody asked for a sync");
        let last = append_wait(&log, &batch(3, &[10]), Ack::Appended).await;
        log.close().await.unwrap();
        let Mark { segment, position, next_offset, last_timestamp } = mark(&sim);
        let len = sim.disk().durable_contents(log_file(1)).unwrap().len() as u64;
        assert_eq!((segment, position, next_offset), (1, len, 3));
        assert_eq!(last_timestamp, last.base_timestamp);
    });
}

#[test]
fn the_mark_never_leads() {
    for (seed, enforce_fsync) in [(1, false), (2, true), (3, false), (4, true)] {
        let sim = Sim::new(seed);
        let config = LogConfig { enforce_fsync, ..small_segments() };
        let mut rng = Rng::new(seed);
        sim.run(async {
            let log = open(sim.platform(), config.clone()).await;
            for tag in 0..60 {
                // Most of it is written at some time, and synced by nobody.
                let ack = if rng.chance(1, 6) { Ack::Durable } else { Ack::Appended };
                append(&log, &batch(tag, &[rng.below(100_000) as usize]), ack);
                sim.clock().sleep(Duration::from_micros(rng.below(400_000))).await;
                // What if the power went now? Everything below the mark must be there.
                let image = sim.disk().image_of_power_cut(rng.next_u64());
                let (Manifest { mark, .. }, _) = stored(&image.contents(path()).unwrap());
                let log = image.contents(log_file(mark.segment)).unwrap();
                let mut at = 0;
                while at < mark.position as usize {
                    let (batch, _) = corelog_format::UnverifiedBatch::split_first(&log[at..])
                        .unwrap_or_else(|error| panic!("seed {seed}: byte {at}: {error}"));
                    at += batch.verify().expect("synced").bytes().len();
                }
                assert_eq!(at as u64, mark.position, "seed {seed}");
            }
            flushed(&log).await;
        });
    }
}

async fn flushed(log: &Log) {
    log.flush(Ack::Durable).await.unwrap();
}

#[test]
fn a_newer_version_is_refused_and_nothing_is_changed() {
    for slot in [0, SLOT_LEN] {
        let sim = Sim::new(5);
        sim.run(filled(sim.platform(), LogConfig::default(), &[10, 20]));
        let mut bytes = sim.disk().contents(path()).unwrap();
        bytes[slot + 16] = 2;
        let sum = checksum::xxh3(&bytes[slot + 16..slot + SLOT_LEN]);
        bytes[slot + 8..slot + 16].copy_from_slice(&sum.to_le_bytes());
        sim.disk().put(path(), &bytes).unwrap();
        let before: Vec<_> = sim.disk().files();
        sim.run(async {
            let opened = try_open(sim.platform(), LogConfig::default()).await.map(|_| ());
            let Err(OpenError::Manifest { path, why }) = opened else { panic!("{opened:?}") };
            assert_eq!(name(&path), MANIFEST_FILE);
            assert!(matches!(why, ManifestError::UnknownVersion { found: 2, .. }), "{why}");
        });
        assert_eq!(sim.disk().files(), before);
        assert_eq!(sim.disk().contents(path()).unwrap(), bytes);
    }
}

#[test]
fn an_unreadable_slot_counts_as_damaged_and_both_are_written_anew() {
    for (bad, lost) in [(0..1, false), (4096..4097, false), (0..8192, true)] {
        let sim = Sim::new(6);
        let model = sim.run(filled(sim.platform(), LogConfig::default(), &[10, 20, 30]));
        let fault = Fault::fail(errno::EIO).of(IoOp::Read).on(MANIFEST_FILE).over(bad.clone());
        let fault = sim.disk().inject(fault.for_ever());
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            let damage: &[OpenDamage] = if lost { &[OpenDamage::Manifest] } else { &[] };
            assert_eq!(report.damage, damage, "{bad:?}");
            model.check_all(&log, &mut Rng::new(1)).await;
            append_wait(&log, &batch(9, &[10]), Ack::Durable).await;
        });
        sim.disk().process_kill(1);
        sim.disk().lift(fault);
        let bytes = sim.disk().contents(path()).unwrap();
        let (manifest, _) = stored(&bytes);
        assert_eq!((manifest.incarnation, manifest.mark.next_offset), (3, 3));
        if lost {
            // What was lost cannot come back: either slot is one of the new ones.
            for slot in [0, SLOT_LEN] {
                let mut torn = bytes.clone();
                torn[slot + 100] ^= 1;
                assert!(stored(&torn).0.sequence <= 2);
            }
        }
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert_eq!((report.row, log.watermarks().appended()), ("whole", 4));
        });
    }
}

#[test]
fn an_error_that_says_nothing_about_the_bytes_refuses_and_changes_nothing() {
    let sim = Sim::new(7);
    let model = sim.run(filled(sim.platform(), LogConfig::default(), &[10, 20, 30]));
    for (code, op) in [(errno::EMFILE, IoOp::Open), (errno::EACCES, IoOp::Open), (6, IoOp::Read)] {
        let before = (sim.disk().contents(path()).unwrap(), sim.disk().files());
        let fault = sim.disk().inject(Fault::fail(code).of(op).on(MANIFEST_FILE).for_ever());
        sim.run(async {
            let opened = try_open(sim.platform(), LogConfig::default()).await.map(|_| ());
            let Err(OpenError::Io(error)) = opened else { panic!("{code}: {opened:?}") };
            assert_eq!((error.op, error.source.raw_os_error()), (op, Some(code)));
            sim.disk().lift(fault);
            assert_eq!((sim.disk().contents(path()).unwrap(), sim.disk().files()), before);
            let log = open(sim.platform(), LogConfig::default()).await;
            model.check_all(&log, &mut Rng::new(1)).await;
            log.close().await.unwrap();
        });
    }
}

#[test]
fn another_incarnation_is_refused_whatever_slot_names_it() {
    let sim = Sim::new(8);
    sim.run(filled(sim.platform(), LogConfig::default(), &[10, 20]));
    for damaged in [None, Some(0), Some(4096)] {
        let kept = sim.disk().contents(path()).unwrap();
        if let Some(slot) = damaged {
            sim.disk().flip_bit(path(), slot + 40, 1).unwrap();
        }
        sim.run(async {
            let other = Place { incarnation: 4, ..place() };
            let shared = Shared::new(sim.platform().clone(), Default::default());
            let opened = Log::open(shared, other, LogConfig::default()).await.map(|_| ());
            let Err(OpenError::OtherIncarnation { found: 3, expected: 4, .. }) = opened else {
                panic!("{opened:?}");
            };
        });
        sim.disk().put(path(), &kept).unwrap();
    }
}
