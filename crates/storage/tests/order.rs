//! What has to come before what, read from the trace of the disk.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::{Event, Fault, Rng, Sim};
use corelog_io::{Clock, IoOp};
use corelog_storage::{Ack, LogConfig, MANIFEST_FILE};

fn is_log(event: &Event) -> bool {
    name(&event.path).ends_with(".log")
}

/// After a crash: what the walk accepts is written again and synced, file by file, before the mark
/// moves over it and before the first poll can be made.
#[test]
fn what_opening_accepts_is_durable_before_it_is_shown_or_marked() {
    for enforce_fsync in [false, true] {
        let config = LogConfig { enforce_fsync, ..small_segments() };
        let sim = Sim::new(1);
        let model = filled_and_killed(&sim, config.clone(), &[600_000, 700_000, 800_000, 30, 40]);
        assert!(logs(&sim).len() > 1);
        sim.disk().clear_trace();
        sim.run(async {
            let (log, report) = try_open(sim.platform(), config.clone()).await.unwrap();
            assert!(report.recovered_batches > 0 && report.rewritten_bytes > 0);
            let trace = sim.disk().trace();
            let marked = |e: &&Event| e.op == IoOp::Write && e.path.ends_with(MANIFEST_FILE);
            let marked = trace.iter().rfind(marked).expect("the mark is moved");
            let written: Vec<_> =
                trace.iter().filter(|e| e.op == IoOp::Write && is_log(e)).collect();
            assert!(!written.is_empty());
            for write in written {
                let safe = write.dsync
                    || trace.iter().any(|e| {
                        let covers = e.op == IoOp::Sync && e.path == write.path;
                        covers && e.begun > write.ended.unwrap() && e.ended.unwrap() < marked.begun
                    });
                assert!(safe, "{write:?}");
            }
            assert!(marked.ended.is_some(), "and all of it before the opening ends");
            // The power fails before anything else: what is shown now stays.
            for seed in 0..20 {
                let other = Sim::from_image(seed, &sim.disk().image_of_power_cut(seed));
                other.run(async {
                    let log = open(other.platform(), config.clone()).await;
                    model.check_all(&log, &mut Rng::new(seed)).await;
                });
            }
            model.check_all(&log, &mut Rng::new(1)).await;
        });
    }
}

/// Writes that are slow, each by another time, as where the rest of a short transfer follows late:
/// no sync begins that would be credited with one that is still on its way, and nobody is answered.
#[test]
fn a_durable_answer_waits_for_every_byte_below_it() {
    for seed in 0..30 {
        let sim = Sim::new(seed);
        let mut rng = Rng::new(seed);
        for nth in 0..40 {
            if rng.chance(1, 2) {
                let slow = Fault::delay(Duration::from_millis(rng.between(1, 50)));
                sim.disk().inject(slow.of(IoOp::Write).on(".log").from_nth(nth));
            }
        }
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            let mut waiting = Vec::new();
            for tag in 0..40 {
                let bytes = random_batch(&mut rng, 200_000);
                waiting.push((bytes.len(), append(&log, &bytes, Ack::Durable)));
                sim.clock().sleep(Duration::from_micros(rng.below(20_000))).await;
                let (mut at, mut segment_at) = (0, 0);
                let trace = sim.disk().trace();
                let answered = waiting.iter().take_while(|(_, reply)| reply.ok().is_some());
                for (len, reply) in answered {
                    // Where it stands: a batch that begins a file begins it at 0.
                    if sim.disk().exists(log_file(reply.ok().unwrap().base_offset)) {
                        (at, segment_at) = (0, reply.ok().unwrap().base_offset);
                    }
                    let range = at..at + *len as u64;
                    at = range.end;
                    assert!(
                        is_covered(&trace, &log_file(segment_at), range.clone()),
                        "seed {seed}, append {tag}: {range:?} of {segment_at}"
                    );
                }
            }
            log.flush(Ack::Durable).await.unwrap();
            assert!(waiting.iter().all(|(_, reply)| reply.ok().is_some()));
        });
    }
}

/// Every byte of `range` was written by a write that ended, and a sync of the file began after that
/// and has ended.
fn is_covered(trace: &[Event], path: &std::path::Path, range: std::ops::Range<u64>) -> bool {
    let of = |op| trace.iter().filter(move |e| e.op == op && e.path == path && e.errno.is_none());
    let last_sync = of(IoOp::Sync).filter(|e| e.ended.is_some()).map(|e| e.begun).max();
    let Some(synced) = last_sync else { return false };
    let mut at = range.start;
    while at < range.end {
        let covering = of(IoOp::Write).filter(|e| e.ended.is_some_and(|ended| ended < synced));
        let ends = covering.filter_map(|e| {
            let start = e.at?;
            let end = start + e.len as u64;
            (start <= at && at < end).then_some(end)
        });
        match ends.max() {
            Some(end) => at = end,
            None => return false,
        }
    }
    true
}
