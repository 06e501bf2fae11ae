//! The recovery table, row by row: each is reached on real bytes, and opening comes to what it says.

mod common;

use common::situations::{rows, situation};

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
    assert_eq!(rows(), ROWS);
}
