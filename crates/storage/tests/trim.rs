//! The front of the log goes, at the right moment and for good, whatever comes in between.

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::{Ack, AppendError, CloseError, From, LogConfig, SharedLimits, TrimError};

/// Appends `count` batches of which 18 fill a segment.
async fn fill(log: &Log, model: &mut Model, count: u64) {
    for _ in 0..count {
        let bytes = batch(model.end(), &[60_000]);
        let appended = append_wait(log, &bytes, Ack::Durable).await;
        model.push(bytes, appended);
    }
}

/// The model of a log that begins at `start`.
fn from(model: &Model, start: u64) -> Model {
    let kept = model.batches.iter().filter(|(_, appended)| appended.base_offset >= start);
    Model { batches: kept.cloned().collect() }
}

/// The only files of segments are those of `segments`, an index without a log is none.
fn assert_files(sim: &Sim, segments: &[u64]) {
    assert_eq!(logs(sim), segments);
    for path in sim.disk().files() {
        if let Some(first) = name(&path).strip_suffix(".index") {
            assert!(segments.contains(&first.parse().unwrap()), "{} is left", path.display());
        }
    }
}

#[test]
fn what_lies_wholly_below_goes_and_nothing_else() {
    let sim = Sim::new(1);
    let (model, segments) = sim.run(async {
        let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
        let (log, _) = open_limited(sim.platform(), small_segments(), limits).await.unwrap();
        let mut model = Model::default();
        fill(&log, &mut model, 70).await;
        let segments = logs(&sim);
        assert_eq!(segments.len(), 4);
        model.check_all(&log, &mut Rng::new(1)).await;
        let before = sim.disk().open_files();
        for (up_to, start) in [(0, 0), (segments[1] - 1, 0), (segments[1], segments[1])] {
            let trimmed = log.trim(up_to).await.unwrap();
            assert_eq!(trimmed.start, start, "up to {up_to}");
            assert_eq!(log.watermarks().start(), start);
        }
        assert_files(&sim, &segments[1..]);
        assert!(sim.disk().open_files() < before, "the handle of what is gone is closed");
        assert_eq!(log.trim(segments[2] + 3).await.unwrap().segments, 1);
        assert_files(&sim, &segments[2..]);
        let kept = from(&model, segments[2]);
        for place in [From::Offset(0), From::First, From::Timestamp(0), From::Last(u32::MAX)] {
            let got = poll(&log, place, 1, 1).await.unwrap();
            assert_eq!(got.batches()[0].header().base_offset, segments[2], "{place:?}");
        }
        let gone = model.batches[3].1.base_timestamp;
        let got = poll(&log, From::Timestamp(gone), 1, 1).await.unwrap();
        assert_eq!(got.batches()[0].header().base_offset, segments[2]);
        kept.check_all(&log, &mut Rng::new(2)).await;
        let trimmed = log.trim(u64::MAX).await.unwrap();
        assert_eq!((trimmed.start, trimmed.segments), (segments[3], 1), "never the active one");
        fill(&log, &mut model, 30).await;
        log.close().await.unwrap();
        assert!(matches!(log.trim(u64::MAX).await, Err(TrimError::Closed)));
        (from(&model, segments[3]), logs(&sim))
    });
    sim.disk().power_cut(1);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        assert_files(&sim, &segments);
        assert_eq!(log.watermarks().start(), model.batches[0].1.base_offset);
        model.check_all(&log, &mut Rng::new(3)).await;
        let appended = append_wait(&log, &batch(1, &[1]), Ack::Durable).await;
        assert_eq!(appended.base_offset, model.end());
    });
}

/// Everything may go but the offsets: the log goes on where it was.
#[test]
fn an_emptied_log_goes_on_at_its_offset() {
    let sim = Sim::new(2);
    let end = sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let mut model = Model::default();
        fill(&log, &mut model, 17).await;
        // It fills the segment exactly to its end or beyond: the next append rolls.
        while logs(&sim).len() == 1 {
            fill(&log, &mut model, 1).await;
        }
        assert_eq!(log.trim(u64::MAX).await.unwrap().segments, 1);
        model.end()
    });
    for cut in 0..2 {
        sim.disk().power_cut(cut);
        let next = sim.run(async { open(sim.platform(), small_segments()).await.watermarks() });
        assert_eq!((next.start() + 1, next.appended()), (end, end));
    }
}

#[test]
fn the_new_start_is_durable_before_the_first_file_goes() {
    let sim = Sim::new(3);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let mut model = Model::default();
        fill(&log, &mut model, 40).await;
        sim.clock().sleep(Duration::from_secs(3)).await;
        sim.disk().clear_trace();
        log.trim(u64::MAX).await.unwrap();
        let trace = sim.disk().trace();
        let ends = |op, part: &str| {
            let fits = |e: &&corelog_io::sim::Event| e.op == op && name(&e.path).contains(part);
            trace.iter().rfind(fits).unwrap_or_else(|| panic!("no {op:?} of {part}")).ended.unwrap()
        };
        let stored = trace.iter().find(|e| e.op == IoOp::Write && e.dsync).unwrap();
        let removals: Vec<_> = trace.iter().filter(|e| e.op == IoOp::Remove).collect();
        assert_eq!(removals.len(), 4, "log and index of two segments");
        assert!(removals.iter().all(|e| e.begun > stored.ended.unwrap()));
        assert!(ends(IoOp::SyncDir, "7") > ends(IoOp::Remove, ".log"));
    });
}

/// The process dies, or the power fails, at every step of a trim.
#[test]
fn a_crash_at_any_step_leaves_the_old_start_or_the_new_one() {
    let mut outcomes = [0; 2];
    for step in 1.. {
        let mut ended = 0;
        for (seed, power) in [(step, false), (step + 1000, true), (step + 2000, true)] {
            let sim = Sim::new(seed);
            let mut model = Model::default();
            let trimmed = sim.run(async {
                let log = open(sim.platform(), small_segments()).await;
                fill(&log, &mut model, 60).await;
                sim.clock().sleep(Duration::from_secs(3)).await;
                log
            });
            let segments = logs(&sim);
            let halt = sim.disk().inject(Fault::halt().from_nth(step));
            let done = sim.run_until_halt(u64::MAX >> 1, trimmed.trim(u64::MAX));
            sim.disk().lift(halt);
            drop(trimmed);
            match power {
                true => sim.disk().power_cut(seed),
                false => sim.disk().process_kill(seed),
            }
            sim.run(async {
                let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
                assert_eq!(report.damage, [], "step {step} seed {seed}");
                let start = log.watermarks().start();
                let is_new = start == *segments.last().unwrap();
                assert!(is_new || start == 0, "step {step} seed {seed}: {start}");
                assert!(is_new || done.is_none(), "step {step} seed {seed}: it had ended");
                outcomes[usize::from(is_new)] += 1;
                let kept = segments.iter().copied().filter(|s| *s >= start).collect::<Vec<_>>();
                assert_files(&sim, &kept);
                let kept = from(&model, start);
                kept.check_all(&log, &mut Rng::new(seed)).await;
                let appended = append_wait(&log, &batch(1, &[1]), Ack::Durable).await;
                assert_eq!(appended.base_offset, model.end());
            });
            ended += u32::from(done.is_some());
        }
        if ended == 3 {
            break;
        }
    }
    assert!(outcomes.iter().all(|n| *n > 1), "{outcomes:?}");
}

#[test]
fn without_its_manifest_nothing_is_removed_and_the_log_goes_on() {
    for (code, op) in [(errno::ENOSPC, IoOp::Write), (errno::EIO, IoOp::Write), (24, IoOp::Open)] {
        let sim = Sim::new(4);
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            let mut model = Model::default();
            fill(&log, &mut model, 40).await;
            let (before, removals) = (logs(&sim), sim.disk().count(IoOp::Remove));
            let fault = sim.disk().inject(Fault::fail(code).of(op).on("manifest").for_ever());
            let error = log.trim(u64::MAX).await.unwrap_err();
            assert!(
                matches!(&error, TrimError::Manifest(e) if e.source.raw_os_error() == Some(code))
            );
            assert!(error.to_string().contains("manifest"), "{error}");
            assert_eq!(logs(&sim), before);
            assert_eq!(sim.disk().count(IoOp::Remove), removals);
            assert_eq!(log.watermarks().start(), 0);
            fill(&log, &mut model, 5).await;
            model.check_all(&log, &mut Rng::new(1)).await;
            sim.disk().lift(fault);
            assert_eq!(log.trim(u64::MAX).await.unwrap().segments, 2);
        });
    }
}

#[test]
fn one_file_that_stays_holds_up_no_other_and_is_never_served() {
    let sim = Sim::new(5);
    let (model, segments) = sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let mut model = Model::default();
        fill(&log, &mut model, 60).await;
        let segments = logs(&sim);
        let odd = format!("{:020}.log", segments[1]);
        sim.disk().inject(Fault::fail(errno::EACCES).of(IoOp::Remove).on(&odd).times(2));
        let error = log.trim(u64::MAX).await.unwrap_err();
        assert!(matches!(&error, TrimError::Remove { start, .. } if *start == segments[3]));
        assert!(error.to_string().contains(&odd), "{error}");
        assert_eq!(logs(&sim), [segments[1], segments[3]]);
        assert!(log.fault().is_none());
        fill(&log, &mut model, 3).await;
        (model, segments)
    });
    sim.disk().process_kill(5);
    for removed in [false, true] {
        sim.run(async {
            let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
            assert_eq!(report.damage, []);
            assert_eq!(report.left.len(), usize::from(!removed), "{:?}", report.left);
            assert_eq!(log.watermarks().start(), segments[3]);
            from(&model, segments[3]).check_all(&log, &mut Rng::new(1)).await;
            log.close().await.unwrap();
        });
    }
    assert_files(&sim, &segments[3..]);
}

#[test]
fn a_failed_directory_sync_poisons_and_the_start_stands() {
    let sim = Sim::new(6);
    let segments = sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let mut model = Model::default();
        fill(&log, &mut model, 40).await;
        let segments = logs(&sim);
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::SyncDir));
        assert!(matches!(log.trim(u64::MAX).await, Err(TrimError::Remove { .. })));
        let late = append(&log, &batch(1, &[1]), Ack::Appended).get().unwrap();
        assert!(matches!(late, Err(AppendError::Poisoned(_))));
        assert!(matches!(log.trim(u64::MAX).await, Err(TrimError::Poisoned(_))));
        segments
    });
    sim.disk().power_cut(6);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        assert_eq!(log.watermarks().start(), segments[2]);
        assert_files(&sim, &segments[2..]);
    });
}

#[test]
fn a_close_waits_for_the_last_removal() {
    let sim = Sim::new(7);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let mut model = Model::default();
        fill(&log, &mut model, 40).await;
        let stall = sim.disk().inject(Fault::stall().of(IoOp::Remove).on(".log"));
        let trim = log.trim(u64::MAX);
        let closed = Rc::new(Cell::new(false));
        let (closing, done) = (log.clone(), Rc::clone(&closed));
        sim.platform().spawn().spawn(async move {
            closing.close().await.unwrap();
            done.set(true);
        });
        sim.clock().sleep(Duration::from_secs(5)).await;
        assert!(!closed.get(), "a file of the next life might be removed");
        assert!(matches!(log.close().await, Err(CloseError::Closed)));
        sim.disk().lift(stall);
        assert_eq!(trim.await.unwrap().segments, 2);
        sim.clock().sleep(Duration::from_secs(5)).await;
        assert!(closed.get());
    });
}

/// Polls at every place beside trims, with so few handles that files are opened all the time.
#[test]
fn polls_under_way_read_on_or_begin_at_the_new_start() {
    for seed in 0..40 {
        let sim = Sim::new(100 + seed);
        sim.disk().set_delay_us(10..=2_000);
        sim.run(async {
            let limits = SharedLimits { cache_bytes: 0, open_files: 1, ..SharedLimits::default() };
            let config = LogConfig { index_step: 4096, ..small_segments() };
            let (log, _) = open_limited(sim.platform(), config, limits).await.unwrap();
            let mut model = Model::default();
            fill(&log, &mut model, 75).await;
            let running = Rc::new(Cell::new(4));
            for reader in 0..4 {
                let (log, model) = (log.clone(), model.clone());
                let (running, mut rng) = (Rc::clone(&running), Rng::new(seed * 10 + reader));
                sim.platform().spawn().spawn(async move {
                    for _ in 0..30 {
                        let wanted = rng.below(model.end());
                        let place = match rng.below(4) {
                            0 => From::First,
                            1 => From::Timestamp(model.batches[wanted as usize].1.base_timestamp),
                            _ => From::Offset(wanted),
                        };
                        let start = log.watermarks().start();
                        let max = rng.between(1, 200_000) as usize;
                        let got = poll(&log, place, 100, max).await;
                        let got = got.unwrap_or_else(|e| panic!("seed {seed}: {place:?}: {e}"));
                        let first = got.batches()[0].header().base_offset;
                        let least = if place == From::First { start } else { wanted.max(start) };
                        let most = least.max(log.watermarks().start());
                        assert!((least..=most).contains(&first), "{place:?}: {first}");
                        for (i, served) in got.batches().iter().enumerate() {
                            let (bytes, appended) = &model.batches[first as usize + i];
                            assert_same(served, bytes, *appended);
                        }
                    }
                    running.set(running.get() - 1);
                });
            }
            let mut rng = Rng::new(seed);
            while running.get() > 0 {
                sim.clock().sleep(Duration::from_millis(rng.below(40))).await;
                log.trim(log.watermarks().start() + rng.below(25)).await.unwrap();
            }
        });
    }
}

/// Trims beside rolls: no index file is left behind without its log.
#[test]
fn trims_beside_rolls_leave_no_file_behind() {
    for seed in 0..20 {
        let sim = Sim::new(200 + seed);
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            let mut rng = Rng::new(seed);
            for tag in 0..80 {
                append(&log, &batch(tag, &[100_000]), Ack::Appended);
                if rng.chance(1, 3) {
                    drop(log.trim(u64::MAX));
                }
                sim.clock().sleep(Duration::from_micros(rng.below(3_000))).await;
            }
            log.flush(Ack::Durable).await.unwrap();
            log.trim(u64::MAX).await.unwrap();
            let active = *logs(&sim).last().unwrap();
            log.close().await.unwrap();
            assert_files(&sim, &[active]);
        });
    }
}

/// What a retention rule decides on: the same whether the segment was sealed in this life or not,
/// and never younger than what is in it, whatever is wrong with its files.
#[test]
fn sealed_segments_tell_their_length_and_age() {
    let sim = Sim::new(8);
    let model = sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let mut model = Model::default();
        assert_eq!(log.sealed_segments().await, []);
        fill(&log, &mut model, 60).await;
        model
    });
    let firsts = logs(&sim);
    let assert_told = async |log: &Log, unreadable: &[usize]| {
        let told = log.sealed_segments().await;
        assert_eq!(told.len(), 3);
        for (i, one) in told.iter().enumerate() {
            assert_eq!((one.first_offset, one.end_offset), (firsts[i], firsts[i + 1]));
            let inside = &model.batches[firsts[i] as usize..firsts[i + 1] as usize];
            let bytes = inside.iter().map(|(bytes, _)| bytes.len() as u64).sum();
            let last = inside.last().unwrap().1.base_timestamp;
            if unreadable.contains(&i) {
                assert!(one.last_timestamp >= last);
            } else {
                assert_eq!((one.bytes, one.last_timestamp), (Some(bytes), last));
            }
        }
    };
    let mut reads = Vec::new();
    sim.disk().process_kill(8);
    for harm in 0..4 {
        sim.run(async {
            let index = index_file(firsts[0]);
            match harm {
                // An index that lies, and none.
                1 => sim.disk().put(&index, &[7; 48]).unwrap(),
                2 => sim.disk().delete(&index).unwrap(),
                3 => sim.disk().flip_bit(log_file(firsts[1]), 1_000_000, 0).unwrap(),
                _ => {}
            }
            let log = open(sim.platform(), small_segments()).await;
            sim.disk().inject(Fault::fail(errno::EMFILE).of(IoOp::Open).on(".log"));
            let told = log.sealed_segments().await;
            assert_eq!((told[0].bytes, told.len()), (None, 3), "an error holds up no other");
            let before = sim.disk().bytes(IoOp::Read);
            let damaged: &[usize] = if harm == 3 { &[1] } else { &[] };
            assert_told(&log, damaged).await;
            reads.push(sim.disk().bytes(IoOp::Read) - before);
            let before = sim.disk().bytes(IoOp::Read);
            assert_told(&log, damaged).await;
            assert!(harm == 3 || sim.disk().bytes(IoOp::Read) == before, "it is remembered");
            log.close().await.unwrap();
        });
    }
    assert!(reads[0] < 400_000, "the ends are read, not the data: {reads:?}");
}

/// A segment is sealed and trimmed away while its index waits to be stored: no index stays behind.
#[test]
fn an_index_that_waits_is_not_stored_behind_its_log() {
    for seed in 0..16 {
        let sim = Sim::new(300 + seed);
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            let mut model = Model::default();
            fill(&log, &mut model, 10).await;
            let stall = sim.disk().inject(Fault::stall().of(IoOp::Write).on("manifest"));
            sim.clock().sleep(Duration::from_secs(2)).await;
            assert_eq!(sim.disk().hits(stall), 1, "someone has the marker");
            fill(&log, &mut model, 20).await;
            assert_eq!(logs(&sim).len(), 2);
            let trim = log.trim(u64::MAX);
            sim.clock().sleep(Duration::from_secs(1)).await;
            sim.disk().lift(stall);
            assert_eq!(trim.await.unwrap().segments, 1);
            log.close().await.unwrap();
            assert_files(&sim, &logs(&sim)[..]);
            assert_eq!(logs(&sim).len(), 1);
        });
    }
}
