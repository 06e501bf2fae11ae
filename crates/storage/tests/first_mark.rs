//! A creation, or an adoption, that was killed before its manifest was durable, or the names beside it.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Sim, errno};
use corelog_io::{Buf, Clock, Disk, File, IoOp, Open, Platform};
use corelog_storage::{Ack, LogConfig, MANIFEST_FILE};

#[test]
fn a_manifest_that_only_the_cache_holds_is_stored_again() {
    let mut lost = 0;
    for cut in 0..20 {
        let sim = Sim::new(cut);
        sim.run(async {
            // The write ends the process: its bytes are in the cache at most.
            let fails = Fault::fail(errno::EIO).of(IoOp::Write).on(MANIFEST_FILE);
            sim.disk().inject(fails.for_ever());
            assert!(try_open(sim.platform(), LogConfig::default()).await.is_err());
        });
        sim.disk().process_kill(cut);
        sim.disk().lift_all();
        sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
        });
        sim.disk().power_cut(cut);
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            lost += u64::from(report.adopted);
            assert!(report.damage.is_empty(), "{report:?}");
            assert_eq!(log.watermarks().durable(), 1, "{report:?}");
        });
    }
    assert_eq!(lost, 0, "of 20 logs so many lost their manifest");
}

/// Another server's log, whose name nobody has synced; the opening that adopts it is killed at any
/// step, and then the power fails behind a durable append.
#[test]
fn neither_log_nor_manifest_is_lost_with_its_name_after_an_adoption_that_was_killed() {
    let (mut nth, mut met) = (0, true);
    while met {
        nth += 1;
        for cut in 0..8 {
            let sim = Sim::new(cut);
            sim.disk().put(index_file(0), &[]).unwrap();
            sim.run(unnamed_log(&sim, 0, 5_000));
            let halt = sim.disk().inject(Fault::halt().from_nth(nth));
            drop(sim.run_until_halt(1_000_000, try_open(sim.platform(), LogConfig::default())));
            met = sim.disk().hits(halt) > 0;
            sim.disk().process_kill(cut);
            sim.disk().lift_all();
            sim.disk().inject(Fault::halt().from_nth(1 + (3 * nth + cut) % 16));
            drop(sim.run_until_halt(1_000_000, try_open(sim.platform(), LogConfig::default())));
            sim.disk().process_kill(cut);
            sim.disk().lift_all();
            sim.run(async {
                let log = open(sim.platform(), LogConfig::default()).await;
                append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
                // The mark follows within a second.
                sim.platform().clock().sleep(Duration::from_secs(3)).await;
                append_wait(&log, &batch(2, &[10]), Ack::Durable).await;
            });
            sim.disk().process_kill(cut);
            sim.run(async {
                let log = open(sim.platform(), LogConfig::default()).await;
                append_wait(&log, &batch(3, &[10]), Ack::Durable).await;
            });
            sim.disk().power_cut(cut);
            sim.run(async {
                let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
                assert_eq!(log.watermarks().durable(), 4, "killed at {nth}, power cut {cut}");
                assert!(!report.adopted, "its manifest went, killed at {nth}, power cut {cut}");
            });
        }
    }
    assert!(nth > 10, "{nth} operations");
}

/// A segment that somebody has put back, whose name nobody has synced: behind the mark's, and under
/// the mark's own name where the mark stands at its start. The mark moves into it, and stays.
#[test]
fn a_mark_moves_into_no_segment_whose_name_a_power_cut_may_take() {
    for (first, cut) in (0..2).flat_map(|first| (0..12).map(move |cut| (first, cut))) {
        let sim = Sim::new(cut);
        let last = sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            let mut last = 0;
            if first > 0 {
                last = append_wait(&log, &batch(1, &[10]), Ack::Durable).await.base_timestamp;
            }
            log.close().await.unwrap();
            last
        });
        if first == 0 {
            sim.disk().delete(log_file(0)).unwrap();
        }
        sim.run(unnamed_log(&sim, first, last + 1));
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert_eq!((report.row, log.watermarks().appended()), ("whole", first + 1));
            append_wait(&log, &batch(2, &[10]), Ack::Durable).await;
        });
        sim.disk().power_cut(cut);
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert_eq!(report.damage, [], "segment {first}, power cut {cut}");
            assert_eq!(log.watermarks().durable(), first + 2, "segment {first}, power cut {cut}");
        });
    }
}

/// A segment of one message.
async fn unnamed_log(sim: &Sim, first: u64, time: u64) {
    let disk = sim.platform().disk();
    let stored = as_stored(&batch(0, &[100]), PARTITION, first, time);
    let mut block = disk.alloc(4096).unwrap();
    block.as_mut().fill(0);
    block.as_mut()[..stored.len()].copy_from_slice(&stored);
    let how = Open { write: true, create_new: true, ..Open::default() };
    let file = disk.open(&log_file(first), how).await.unwrap();
    file.write_at(block.freeze(4096), 0).await.unwrap();
    file.set_len(stored.len() as u64).await.unwrap();
    file.sync().await.unwrap();
    file.close().await.unwrap();
}
