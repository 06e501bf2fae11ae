//! Tasks of one partition that meet: marks, indexes, seals and closes at the same moment.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp};
use corelog_storage::{Ack, LogConfig};

#[test]
fn the_index_is_stored_by_one_task_at_a_time() {
    // The timer that stores the mark also stores the index; so do a seal and a close.
    for (seed, how) in ["seal", "close"].into_iter().enumerate() {
        let sim = Sim::new(seed as u64);
        let end = sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            append_wait(&log, &batch(1, &[400_000]), Ack::Durable).await;
            let slow = Fault::delay(Duration::from_millis(300)).of(IoOp::Write).on(".index");
            sim.disk().inject(slow);
            sim.clock().sleep(Duration::from_millis(1_010)).await;
            // The timer is in the middle of it.
            append_wait(&log, &batch(2, &[400_000]), Ack::Durable).await;
            if how == "seal" {
                append_wait(&log, &batch(3, &[400_000]), Ack::Durable).await;
                append_wait(&log, &batch(4, &[100]), Ack::Durable).await;
            }
            log.close().await.unwrap();
            log.watermarks().appended()
        });
        let index = sim.disk().contents(index_file(0)).unwrap();
        assert_eq!(index.len() / 24, if how == "seal" { 3 } else { 2 }, "{how}");
        if how == "seal" {
            assert_eq!(sim.disk().contents(index_file(3)).unwrap().len(), 24, "the next one's");
        }
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            assert_eq!(log.watermarks().appended(), end);
        });
    }
}

#[test]
fn a_poisoned_partition_is_closed_when_its_io_is_over() {
    // One write fails while another operation is on its way: it holds the file and its lock.
    for (seed, slow) in [IoOp::Sync, IoOp::Allocate].into_iter().enumerate() {
        let sim = Sim::new(seed as u64);
        sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            append_wait(&log, &batch(0, &[700_000]), Ack::Written).await;
            let delay = Fault::delay(Duration::from_millis(500)).of(slow).on(".log");
            sim.disk().inject(delay);
            append(&log, &batch(1, &[10]), Ack::Durable);
            sim.clock().sleep(Duration::from_millis(50)).await;
            sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write).on(".log"));
            append(&log, &batch(2, &[100_000]), Ack::Written);
            sim.clock().sleep(Duration::from_millis(50)).await;
            if slow == IoOp::Sync {
                assert!(log.fault().is_some());
            }
            let _ = log.close().await;
            assert_eq!(sim.disk().open_files(), 0, "{slow:?}: closed, but it still holds a file");
            open(sim.platform(), LogConfig::default()).await;
        });
    }
}

#[test]
fn a_poisoned_partition_is_closed_when_its_mark_is_stored() {
    let sim = Sim::new(3);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
        sim.disk().inject(Fault::delay(Duration::from_secs(2)).of(IoOp::Write).on("manifest"));
        sim.clock().sleep(Duration::from_millis(1_100)).await;
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write).on(".log"));
        append(&log, &batch(2, &[10]), Ack::Written);
        assert!(log.flush(Ack::Written).await.is_err());
        assert!(log.close().await.is_err());
        // The next life writes the same slots.
        let log = open(sim.platform(), LogConfig::default()).await;
        append_wait(&log, &batch(3, &[10]), Ack::Durable).await;
        log.close().await.unwrap();
        sim.clock().sleep(Duration::from_secs(3)).await;
    });
}

#[test]
fn a_pool_that_is_full_of_cache_stores_marks_and_indexes() {
    let sim = Sim::new(5);
    sim.run(async {
        sim.disk().buffers().set_limit(64 << 10);
        let log = open(sim.platform(), small_segments()).await;
        let mut model = Model::default();
        for tag in 0..40 {
            let bytes = batch(tag, &[60_000]);
            let appended = append_wait(&log, &bytes, Ack::Durable).await;
            model.push(bytes, appended);
        }
        log.close().await.expect("the cache gives way to the mark");
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert_eq!(report.recovered_batches, 0);
        model.check_all(&log, &mut Rng::new(5)).await;
        assert!(sim.disk().contents(index_file(0)).unwrap().len() > 24 * 10);
    });
}

#[test]
fn an_append_behind_a_roll_does_not_wait_for_the_mark() {
    let sim = Sim::new(6);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        append_wait(&log, &batch(1, &[1 << 20]), Ack::Written).await;
        sim.clock().sleep(Duration::from_millis(100)).await;
        sim.disk().inject(Fault::stall().of(IoOp::Write).on("manifest").for_ever());
        let reply = append(&log, &batch(2, &[10]), Ack::Written);
        sim.clock().sleep(Duration::from_millis(500)).await;
        assert!(reply.ok().is_some(), "the mark may lag, appends may not");
        sim.disk().lift_all();
    });
}

#[test]
fn tasks_do_not_pile_up_behind_a_mark_that_cannot_be_stored() {
    let sim = Sim::new(7);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        append_wait(&log, &batch(0, &[1 << 20]), Ack::Durable).await;
        sim.disk().inject(Fault::stall().of(IoOp::Write).on("manifest").for_ever());
        // The mark is a segment behind: each sync wants it stored at once.
        for tag in 1..200 {
            append(&log, &batch(tag, &[10]), Ack::Durable);
            sim.clock().sleep(Duration::from_millis(10)).await;
        }
        assert!(log.watermarks().durable() > 190);
        let steps = sim.steps();
        sim.disk().lift_all();
        sim.clock().sleep(Duration::from_millis(100)).await;
        let woken = sim.steps() - steps;
        assert!(woken < 100, "{woken} polls of tasks that waited to store one mark");
    });
}
