//! The campaign as a user runs it, briefly.

use std::process::Command;

use crate::support::temp_dir;

#[test]
fn nothing_acknowledged_is_lost_and_everything_goes_on_behind_random_trouble() {
    campaign("glommio");
}

#[test]
fn nothing_acknowledged_is_lost_behind_random_trouble_on_the_ring_runtime() {
    campaign("ring");
}

fn campaign(runtime: &str) {
    let dir = temp_dir();
    let output = Command::new(env!("CARGO_BIN_EXE_corelog-hostile"))
        .arg("--dir")
        .arg(dir.path())
        .args(["--rounds=5", "--seed=1000", "--runtime", runtime])
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    // A rig that hits nothing proves nothing.
    assert!(said.starts_with("5 rounds"), "{said}");
    for never in [" 0 operations hit", " 0 poisoned", " 0 partitions reopened"] {
        assert!(!said.contains(never), "{said}");
    }
}
