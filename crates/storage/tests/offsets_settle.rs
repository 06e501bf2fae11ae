//! What an opening finds of stored offsets may be a killed process's, and on its way to the disk
//! still: it is made durable before anybody relies on it.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Sim, errno};
use corelog_io::{Clock, IoOp};
use corelog_storage::{Ack, OpenReport};

const FILE: &str = "consumer_offsets";
/// Time in which what was found is durable.
const SOON: Duration = Duration::from_millis(1_100);
/// What was stored durably before the one that a kill leaves on its way.
const BEFORE: u64 = 3;
const LAST: u64 = 39;
/// Consumers whose offsets make the file grow.
const MANY: u32 = 400;

/// A process is killed while it stores [`LAST`], in the old file or in a new one: what it wrote can
/// be read, and a power cut takes it back. `None` where the seed does not come to that.
fn killed(seed: u64, grows: bool) -> Option<Sim> {
    let sim = Sim::new(seed);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        for tag in 0..60 {
            append_wait(&log, &batch(tag, &[60_000]), Ack::Durable).await;
        }
        log.store_offset(consumer(1), 0, Ack::Durable).await.unwrap();
        log.store_offset(consumer(1), BEFORE, Ack::Durable).await.unwrap();
        log.close().await.unwrap();
    });
    let halt = match grows {
        // The new file has its name, and that is not durable yet.
        true => Fault::halt().of(IoOp::SyncDir).on("partitions"),
        false => Fault::halt().of(IoOp::Write).on(FILE),
    };
    sim.run_until_halt(u64::MAX, async {
        let log = open(sim.platform(), small_segments()).await;
        sim.clock().sleep(SOON).await;
        sim.disk().inject(halt);
        let others = if grows { 2..MANY } else { 2..2 };
        for id in others {
            log.store_offset(consumer(id), LAST, Ack::Appended).await.unwrap();
        }
        log.store_offset(consumer(1), LAST, Ack::Durable).await.unwrap();
    });
    sim.disk().process_kill(seed);
    sim.disk().lift_all();
    let falls_back = (0..20).any(|cut| after_cut(&sim, cut).0 == Some(BEFORE));
    (read(&sim) == Some(LAST) && falls_back).then_some(sim)
}

/// Three of each kind.
fn all_killed() -> Vec<Sim> {
    let of = |grows| (0..100).filter_map(move |seed| killed(seed, grows)).take(3);
    let killed: Vec<Sim> = of(false).chain(of(true)).collect();
    assert_eq!(killed.len(), 6, "kills that left something on its way");
    killed
}

/// What an opening of a copy would tell that nothing else touches.
fn after_cut(sim: &Sim, cut: u64) -> (Option<u64>, OpenReport) {
    let other = Sim::from_image(cut, &sim.disk().image_of_power_cut(cut));
    other.run(async {
        let (log, report) = try_open(other.platform(), small_segments()).await.unwrap();
        (log.consumer_offset(consumer(1)).unwrap(), report)
    })
}

fn read(sim: &Sim) -> Option<u64> {
    let bytes = sim.disk().contents(place().dir.join(FILE)).unwrap();
    let (table, ..) = corelog_format::OffsetTable::pick(&bytes).unwrap().unwrap();
    table.entries.iter().find(|entry| entry.id == 1).map(|entry| entry.offset)
}

fn stays(sim: &Sim, what: &str) {
    for cut in 0..20 {
        assert_eq!(after_cut(sim, cut).0, Some(LAST), "{what}, cut {cut}");
    }
}

#[test]
fn what_was_found_is_durable_within_a_second_and_when_it_is_closed() {
    for sim in all_killed() {
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            assert_eq!(log.consumer_offset(consumer(1)).unwrap(), Some(LAST));
            log.close().await.unwrap();
        });
        stays(&sim, "closed");
    }
    for sim in all_killed() {
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            sim.clock().sleep(SOON).await;
            stays(&sim, "a second later");
            let syncs = sim.disk().count(IoOp::Sync);
            sim.clock().sleep(Duration::from_secs(10)).await;
            assert_eq!(sim.disk().count(IoOp::Sync), syncs, "once is enough");
            log.close().await.unwrap();
        });
    }
}

/// The next store writes over the only slot that a power cut would surely leave: what was found is
/// durable before the first byte of that.
#[test]
fn a_store_over_what_was_found_loses_neither() {
    for (number, sim) in all_killed().iter().enumerate() {
        sim.disk().inject(Fault::halt().of(IoOp::Write).on(FILE));
        let ended = sim.run_until_halt(u64::MAX, async {
            let log = open(sim.platform(), small_segments()).await;
            log.store_offset(consumer(1), LAST + 1, Ack::Durable).await.unwrap();
        });
        assert!(ended.is_none(), "it stops while it writes");
        for cut in 0..40 {
            let (stored, report) = after_cut(sim, cut);
            assert!(report.damage.is_empty(), "{number}, cut {cut}: {report:?}");
            assert!([LAST, LAST + 1].map(Some).contains(&stored), "{number}: {stored:?}");
        }
    }
    // One that was answered is there, whatever the file's name was when it was found.
    for sim in all_killed() {
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            log.store_offset(consumer(1), LAST + 1, Ack::Durable).await.unwrap();
            for cut in 0..20 {
                assert_eq!(after_cut(&sim, cut).0, Some(LAST + 1), "cut {cut}");
            }
            log.close().await.unwrap();
        });
    }
}

/// Nothing goes that a consumer would have before it again.
#[test]
fn what_is_deleted_lies_below_what_stays() {
    for sim in all_killed() {
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            let start = log.delete_segments(9).await.unwrap().start;
            assert!(start > BEFORE + 1, "{start}");
            stays(&sim, "segments were deleted");
        });
    }
    // Where that cannot be made durable, nobody knows what is, and nothing goes.
    for sim in all_killed() {
        sim.run(async {
            let fault = Fault::fail(errno::EIO).of(IoOp::Sync).on(FILE).for_ever();
            let fault = sim.disk().inject(fault);
            let made = Fault::fail(errno::EIO).of(IoOp::Open).on("consumer_offsets.tmp");
            sim.disk().inject(made.for_ever());
            let log = open(sim.platform(), small_segments()).await;
            assert_eq!(log.delete_segments(9).await.unwrap().segments, 0);
            assert!(sim.disk().hits(fault) > 0);
            sim.disk().lift_all();
            assert!(log.delete_segments(9).await.unwrap().segments > 0);
            stays(&sim, "segments were deleted at last");
            log.close().await.unwrap();
        });
    }
    // Of what was stored in this life, too; where it cannot be, what was stored before counts.
    let sim = Sim::new(1);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        for tag in 0..60 {
            append_wait(&log, &batch(tag, &[60_000]), Ack::Durable).await;
        }
        log.store_offset(consumer(1), BEFORE, Ack::Durable).await.unwrap();
        log.store_offset(consumer(1), LAST, Ack::Appended).await.unwrap();
        let full = sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write).on(FILE).for_ever());
        assert_eq!(log.delete_segments(9).await.unwrap().segments, 0);
        sim.disk().lift(full);
        assert!(log.delete_segments(9).await.unwrap().start > BEFORE + 1);
        stays(&sim, "segments were deleted");
        // Who has nothing stored any more holds nothing up, once that is durable.
        log.delete_offset(consumer(1), Ack::Appended).await.unwrap();
        assert!(log.delete_segments(9).await.unwrap().segments > 0);
        assert_eq!(after_cut(&sim, 1).0, None);
        log.close().await.unwrap();
    });
}

/// After a failed sync nobody knows what the disk has of the file: a new one takes its place.
#[test]
fn a_failed_sync_is_made_up_for() {
    for sim in all_killed().into_iter().take(4) {
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            let fault = sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Sync).on(FILE).times(1));
            let renames = sim.disk().count(IoOp::Rename);
            sim.clock().sleep(2 * SOON).await;
            assert_eq!(sim.disk().hits(fault), 1);
            assert_eq!(sim.disk().count(IoOp::Rename), renames + 1);
            assert!(log.fault().is_none());
            stays(&sim, "a new file");
            log.close().await.unwrap();
        });
    }
}
