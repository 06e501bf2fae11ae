//! The rig itself, as a user runs it: the program, its processes, a real file system. Campaigns
//! side by side, as most of a round is waiting for the device.

use std::path::Path;
use std::process::Command;

/// Rounds of each campaign in a normal test run; `scripts/kill.sh` runs more.
const ROUNDS: u64 = 100;

/// Another seed would be as good; these stay, so that a failure is not gone the next time.
fn campaign(name: &str, seed: u64, options: &[&str]) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kills").join(name);
    std::fs::create_dir_all(&dir).expect("the target is writable");
    let output = Command::new(env!("CARGO_BIN_EXE_corelog-kill"))
        .arg("--dir")
        .arg(&dir)
        .arg(format!("--rounds={ROUNDS}"))
        .arg(format!("--seed={seed}"))
        .args(options)
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    // A rig that kills nobody, or finds nothing to recover, proves nothing.
    assert!(said.starts_with(&format!("{ROUNDS} rounds\n")), "{said}");
    for reached in [
        "lives ended after an answer",
        "lives ended in a change",
        "lives ended while running",
        "lives ended while opening",
        "lives ended while recovering",
        "lives ended while closing",
        "lives ended not killed, closed",
    ] {
        assert!(said.contains(reached), "{reached} in {said}");
    }
    assert!(!said.contains(" 0 changes of the catalog"), "{said}");
    assert!(!said.contains(" 0 trims"), "{said}");
    assert!(!said.contains(" 0 partitions had something above the mark"), "{said}");
}

#[test]
fn what_was_answered_outlives_a_hundred_kills_on_two_shards() {
    campaign("two", 1_000, &["--shards=2"]);
}

#[test]
fn what_was_answered_outlives_a_hundred_kills_on_the_ring_runtime() {
    campaign("ring", 3_000, &["--shards=2", "--runtime=ring"]);
}

#[test]
fn what_was_answered_outlives_a_hundred_kills_on_one_shard_with_more_producers() {
    campaign("one", 2_000, &["--shards=1", "--producers=2", "--partitions=1"]);
}
