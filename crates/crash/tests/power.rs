//! Power cuts on ext4 and XFS, a few of each; and the rig finds a disk that lies.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory of the test's own for what is temporary: devices are in memory.
fn work(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("powercut").join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir).expect("an earlier run's directory can go");
    }
    dir
}

fn powercut(args: &[&str], work: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corelog-powercut"));
    command.args(args).arg("--work").arg(work).output().expect("it can be started")
}

fn text(output: &Output) -> String {
    let Output { status, stdout, stderr } = output;
    let (stdout, stderr) = (String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr));
    format!("{status}\n{stdout}{stderr}")
}

/// The number before `what` in a summary.
fn count(summary: &str, what: &str) -> u64 {
    let before = summary.split(what).next().and_then(|text| text.split_whitespace().next_back());
    before.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{what}: {summary}"))
}

fn promises_survive_on(fs: &str, runtime: &str) {
    let work = work(&format!("{fs}-{runtime}"));
    let args = ["--runtime", runtime, "run", "--fs", fs, "--rounds", "3", "--cuts", "5"];
    let done = powercut(&args, &work);
    let text = text(&done);
    assert!(done.status.success(), "{text}");
    for what in ["promises", "of them cut while", "loose writes", "batches read", "recovered"] {
        let what = if what == "recovered" { "partitions recovered" } else { what };
        assert!(count(&text, &format!(" {what}")) > 0, "no {what}: this proves nothing: {text}");
    }
}

#[test]
fn promises_survive_power_cuts_on_ext4() {
    promises_survive_on("ext4", "glommio");
}

#[test]
fn promises_survive_power_cuts_on_xfs() {
    promises_survive_on("xfs", "glommio");
}

#[test]
fn promises_survive_power_cuts_on_the_ring_runtime() {
    promises_survive_on("ext4", "ring");
}

/// The canary: if the last flush before each cut did nothing, promises are broken, and the rig says
/// which; what it keeps shows the same again.
#[test]
fn a_disk_whose_flush_does_nothing_is_found_out_and_again_from_what_was_kept() {
    let work = work("lies");
    let done = powercut(&["run", "--fs", "ext4", "--cuts", "40", "--lies", "1"], &work);
    let said = text(&done);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("a promise is broken"), "{said}");
    assert!(said.contains("which was promised"), "{said}");
    let kept = said.split("corelog-powercut replay ").nth(1).and_then(|rest| rest.lines().next());
    let kept = kept.unwrap_or_else(|| panic!("how to see it again: {said}"));
    let again = powercut(&["replay", kept], &work);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again));
    assert!(text(&again).contains("which was promised"), "{}", text(&again));
}
