//! The simulator catches the mistakes that it exists for, within seconds; see docs/testing.md for how
//! to add one. Needs the feature `canary`; without it there is nothing to catch.
#![cfg(feature = "canary")]

use corelog_sim::Failure;
use corelog_storage::canary::{Canary, set};

/// Seeds within which each mistake must show. Without the mistake all of them pass (`seeds.rs`).
const SEEDS: u64 = 300;

/// The first seed that fails with `canary` built in, which must fail the same way twice.
fn caught(canary: Canary) -> Failure {
    set(Some(canary));
    let failed = (0..SEEDS).find_map(|seed| corelog_sim::run(seed, 60).err());
    let Some(failure) = failed else { panic!("{canary:?} is not caught in {SEEDS} seeds") };
    let again = corelog_sim::run(failure.seed, 60).expect_err("a seed is a complete report");
    assert_eq!((again.hash, &again.broken), (failure.hash, &failure.broken));
    set(None);
    let fine = corelog_sim::run(failure.seed, 60);
    assert!(fine.is_ok(), "it is the mistake that was caught: {}", fine.unwrap_err());
    assert!(failure.to_string().ends_with(&format!("-- --seed {}", failure.seed)));
    *failure
}

#[test]
fn an_answer_that_comes_too_early() {
    let failure = caught(Canary::EarlyAck);
    assert!(failure.broken.contains("was promised"), "{failure}");
}

#[test]
fn a_sync_that_was_skipped() {
    let failure = caught(Canary::SkippedSync);
    assert!(
        failure.broken.contains("was promised") || failure.broken.contains("Corrupt"),
        "{failure}"
    );
}

#[test]
fn an_index_entry_above_the_mark_that_was_trusted() {
    let failure = caught(Canary::TrustedIndex);
    // The hole is met by whoever comes there first: the opening itself, or a poll.
    let broken = &failure.broken;
    assert!(["missing", "Corrupt", "open"].iter().any(|what| broken.contains(what)), "{failure}");
}

#[test]
fn a_retention_that_drops_what_nobody_has_read() {
    let failure = caught(Canary::IgnoredBarrier);
    assert!(failure.broken.contains("somebody has read only up to"), "{failure}");
}

#[test]
fn a_segment_that_goes_before_the_new_start_is_durable() {
    let failure = caught(Canary::EarlyUnlink);
    // Whoever meets the hole: an opening after a crash, or a poll where the start could not be stored.
    let broken = &failure.broken;
    assert!(
        ["missing", "Missing", "Corrupt", "open", "NotFound"].iter().any(|w| broken.contains(w)),
        "{failure}"
    );
}

#[test]
fn an_offset_that_is_answered_too_early() {
    let failure = caught(Canary::EarlyOffset);
    let broken = &failure.broken;
    assert!(broken.contains("has stored") || broken.contains("begins at"), "{failure}");
}
