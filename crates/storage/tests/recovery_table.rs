//! The recovery table, row by row: each is reached on real bytes, and opening comes to what it says,
//! also where every step of it is cut off or fails.

mod common;

use common::situations::{check_read_only, situation};
use common::*;
use corelog_io::IoOp;
use corelog_io::sim::{Fault, errno};
use corelog_storage::OpenError;

/// One test a row, and the names for the test that finds a row without one.
macro_rules! rows {
    ($($test:ident: $row:literal,)*) => {
        const ROWS: &[&str] = &[$($row),*];
        $(
            #[test]
            fn $test() {
                let situation = situation($row);
                situation.judge(&situation.sim(1), true, $row);
            }
        )*
    };
}

rows! {
    new_is_created: "new",
    whole_is_kept: "whole",
    adopted_is_kept: "adopted",
    torn_tail_is_cut: "torn tail",
    stray_segment_is_moved_away: "stray segment",
    begun_again_at_the_mark: "begun again",
    corrupt_is_left: "corrupt",
    cut_short_keeps_its_offsets_taken: "cut short",
    missing_segment_keeps_its_offsets_taken: "missing segment",
    unreadable_is_left: "unreadable",
    incomplete_batch_is_cut: "incomplete batch",
    incomplete_batch_inside_is_left: "incomplete batch inside",
    damage_without_a_mark_is_left: "damage without a mark",
    gap_without_a_mark_is_left: "gap without a mark",
    no_log_left_begins_again: "no log left",
}

#[test]
fn every_row_of_the_document_has_its_test() {
    let document = include_str!("../../../docs/durability.md");
    let rows = document.lines().skip_while(|line| !line.starts_with("| row | the walk stops"));
    let rows = rows.skip(2).map_while(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), ROWS);
}

/// Opens with a fault in force; gives whether it was met.
fn open_with(
    sim: &corelog_io::sim::Sim,
    fault: Fault,
) -> (bool, Option<Result<(Log, corelog_storage::OpenReport), OpenError>>) {
    let fault = sim.disk().inject(fault);
    let opened = sim.run_until_halt(1_000_000, try_open(sim.platform(), small_segments()));
    (sim.disk().hits(fault) > 0, opened)
}

#[test]
fn an_opening_that_is_cut_off_at_any_step_comes_to_the_same() {
    for row in ROWS {
        let situation = situation(row);
        let mut steps = 0;
        for nth in 1.. {
            let mut met = false;
            for (power, seed) in [(false, nth), (true, nth), (true, nth + 1_000)] {
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
    let kinds: [(i32, fn(IoOp) -> bool); 2] = [
        (errno::ENOSPC, |op| !matches!(op, IoOp::Read | IoOp::Sync | IoOp::SyncDir)),
        (errno::EMFILE, |op| op == IoOp::Open),
    ];
    for row in ROWS {
        let situation = situation(row);
        for (code, fails) in kinds {
            for nth in 1.. {
                let what = format!("{row}, error {code} at operation {nth}");
                let sim = situation.sim(nth);
                // Which operation it is shows in an undisturbed run of the same seed.
                let (_, opened) = open_with(&sim, Fault::fail(0).on("nowhere"));
                drop(opened);
                let Some(event) = sim.disk().trace().get(nth as usize - 1).cloned() else { break };
                if !fails(event.op) {
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
