//! Bit rot and misplaced files: a sample of the cases, the same each time. `scripts/rot.sh` runs more.

use std::path::Path;
use std::process::Command;

use corelog_crash::rot::{Campaign, Case, Ending, Specimen};

/// Rounds of drawn cases for each way the data came to rest: eight cases each, or one of the engine's
/// own files.
const ROUNDS: u64 = 24;

/// Cases that found something once, or that a drawn sample may miss.
const ALWAYS: &[&str] = &[
    // The index names a place behind the end of the log.
    "stale log 2 2 17814636881913057633",
    // Both partitions were begun anew, their data moved away.
    "swapped-across manifest 5 1 2856299928829622799",
    "swapped-across partition 0 0 0",
    // The log began at its second segment, and nobody said so.
    "missing log 3 0 0",
    "link log 3 0 3052914140148379097",
    // The partition began again, and nobody said so.
    "missing partition 1 0 0",
    // Names that are no log's stopped the opening, or it took for ever.
    "odd-inside log 5 2 2952073184633757172",
    "odd-inside log 5 2 2952073184633757173",
    "huge-behind log 2 1 8026039648405865606",
    // An empty catalog was begun beside the data.
    "missing engine 0 0 0",
    // A pipe was waited for.
    "fifo engine 0 0 0",
    "fifo engine 0 1 0",
    "fifo engine 0 2 0",
];

fn campaign(ending: Ending, name: &str) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rot").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the target is writable");
    let program = Path::new(env!("CARGO_BIN_EXE_corelog-rot"));
    let specimen = Specimen::make(&dir, ending, program).expect("nothing is wrong yet");
    let mut campaign = Campaign::new(&specimen, dir.join("work"), 1, 1).expect("it can be listed");
    for case in ALWAYS {
        campaign.one(case.parse::<Case>().expect("it is a case's name"));
    }
    campaign.drawn(ROUNDS, None).expect("the specimen can be read");
    let failures: Vec<String> = campaign.failures().iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{name}: {}", failures.join("\n"));
    // A rig that judges little proves little.
    let outcome = campaign.outcome();
    assert!(outcome.cases > ALWAYS.len() as u64 + 5 * ROUNDS, "{outcome:?}");
    let _ = std::fs::remove_dir_all(&dir);
}

/// The program, as a user runs it, briefly: a process has one runtime.
#[test]
fn rot_is_named_and_the_rest_works_on_the_ring_runtime() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rot").join("ring");
    let _ = std::fs::remove_dir_all(&dir);
    let output = Command::new(env!("CARGO_BIN_EXE_corelog-rot"))
        .arg("--dir")
        .arg(&dir)
        .args(["--rounds=6", "--runtime=ring"])
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    for ending in ["clean: ", "killed: "] {
        let cases = said.split(ending).nth(1).and_then(|rest| rest.split(' ').next());
        let cases: u64 = cases.and_then(|count| count.parse().ok()).expect("a count of cases");
        assert!(cases > 30, "a rig that judges little proves little: {said}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn rot_after_a_clean_close_is_named_and_the_rest_works() {
    campaign(Ending::Clean, "clean");
}

#[test]
fn rot_after_a_kill_is_named_and_the_rest_works() {
    campaign(Ending::Killed, "killed");
}
