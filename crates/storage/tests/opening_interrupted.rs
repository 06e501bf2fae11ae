//! Opening each row of the recovery table with every step cut off, and with every step failing: it
//! must come to what one opening without interruption comes to.

mod common;

use std::time::Duration;

use common::situations::{check_read_only, rows, situation};
use common::*;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp, Platform};
use corelog_storage::{Ack, OpenError, OpenReport};

/// What opening came to; `None` where it was cut off.
type Opened = Option<Result<(Log, OpenReport), OpenError>>;

/// Opens with a fault in force; says whether it was met.
fn open_with(sim: &Sim, fault: Fault) -> (bool, Opened) {
    let fault = sim.disk().inject(fault);
    let opened = sim.run_until_halt(1_000_000, try_open(sim.platform(), small_segments()));
    (sim.disk().hits(fault) > 0, opened)
}

#[test]
fn an_opening_that_is_cut_off_at_any_step_comes_to_the_same() {
    for row in rows() {
        let situation = situation(row);
        let mut steps = 0;
        for nth in 1.. {
            let mut met = false;
            for (power, seed) in [(false, nth), (true, nth + 1_000)] {
                let what = format!("{row}, cut off at operation {nth}, power {power}, seed {seed}");
                let sim = situation.sim(seed);
                // Twice: the second attempt is cut off somewhere, too.
                for at in [nth, 1 + seed % (steps + 1)] {
                    let (hit, opened) = open_with(&sim, Fault::halt().from_nth(at));
                    met |= hit && at == nth;
                    drop(opened);
                    match power {
                        true => sim.disk().power_cut(seed),
                        false => sim.disk().process_kill(seed),
                    }
                    situation.harm(&sim);
                }
                situation.judge(&sim, false, &what);
            }
            if !met {
                break;
            }
            steps = nth;
        }
        assert!(steps > 10, "{row}: {steps} operations");
    }
}

#[test]
fn an_opening_in_which_any_step_fails_loses_nothing_and_works_the_next_time() {
    let may_answer = |op, code| match code {
        errno::EMFILE => op == IoOp::Open,
        _ => !matches!(op, IoOp::Read | IoOp::Sync | IoOp::SyncDir),
    };
    for row in rows() {
        let situation = situation(row);
        for code in [errno::ENOSPC, errno::EMFILE] {
            for nth in 1.. {
                let what = format!("{row}, error {code} at operation {nth}");
                let sim = situation.sim(nth);
                // Which operation it is shows in an undisturbed run of the same seed.
                let (_, opened) = open_with(&sim, Fault::fail(0).on("nowhere"));
                drop(opened);
                let Some(event) = sim.disk().trace().get(nth as usize - 1).cloned() else { break };
                if !may_answer(event.op, code) {
                    continue;
                }
                let sim = situation.sim(nth);
                let (met, opened) = open_with(&sim, Fault::fail(code).from_nth(nth));
                assert!(met, "{what}");
                match opened.expect("nothing halts") {
                    Ok((log, report)) if report.read_only => {
                        situation.harm(&sim);
                        sim.run(check_read_only(&situation, &log, &what));
                    }
                    Ok((log, _)) => assert!(log.fault().is_none(), "{what}"),
                    Err(OpenError::Io(error)) => {
                        assert_eq!(error.source.raw_os_error(), Some(code), "{what}: {error}");
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
                sim.disk().process_kill(nth);
                situation.harm(&sim);
                situation.judge(&sim, false, &what);
            }
        }
    }
}

/// A file that does not continue the log is moved away, and the opening is killed at any step of that.
/// The log then grows over its name and beyond, and the power fails.
#[test]
fn what_was_moved_away_does_not_come_back_into_a_log_that_has_grown_over_it() {
    let (mut nth, mut met) = (0, true);
    while met {
        nth += 1;
        for cut in 0..6 {
            let what = format!("killed at {nth}, power cut {cut}");
            let sim = Sim::new(cut);
            let mut model = sim.run(filled(sim.platform(), small_segments(), &[10, 10]));
            let time = model.batches[1].1.base_timestamp;
            sim.disk()
                .put(log_file(9), &as_stored(&batch(77, &[150]), PARTITION, 9, time))
                .unwrap();
            let (hit, opened) = open_with(&sim, Fault::halt().from_nth(nth));
            met = hit;
            drop(opened);
            sim.disk().process_kill(cut);
            sim.disk().lift_all();
            sim.run(async {
                let log = open(sim.platform(), small_segments()).await;
                for tag in 0..24 {
                    let bytes = batch(tag, &[60_000]);
                    model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
                }
                // The mark follows within a second.
                sim.platform().clock().sleep(Duration::from_secs(3)).await;
                let bytes = batch(24, &[10]);
                model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
            });
            sim.disk().power_cut(cut);
            sim.run(async {
                let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
                assert_eq!(report.damage, [], "{what}");
                assert_eq!(log.watermarks().durable(), model.end(), "{what}");
                model.check_all(&log, &mut Rng::new(cut)).await;
            });
        }
    }
    assert!(nth > 10, "{nth} operations");
}
