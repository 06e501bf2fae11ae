//! The binary as scripts see it: exit statuses, files it leaves and does not leave, JSON keys.

use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Running, as_its_schema_says, bench, dir, json, logs_below, names, ran, text};
use serde_json::Value;

#[test]
fn the_ceiling_is_measured_and_nothing_is_left() {
    let dir = dir("ceiling");
    let flags = "ceiling --total 1MiB --blocks 4KiB,256KiB --depths 1,3 --rounds 2 \
                 --synced-samples 5 --synced-time 10ms --synced-blocks 4KiB,8KiB \
                 --synced-depths 1,2 --json out.json";
    let output = bench(&dir).args(flags.split_whitespace()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("256 KiB"), "{printed}");
    assert_eq!(names(&dir), ["out.json"]);

    let json = json(&dir.join("out.json"));
    assert_eq!(json["schema"], 1);
    let cells = json["sweep"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        assert!(cell["write_mb_per_s"].as_f64().unwrap() > 0.0, "{cell}");
        assert!(cell["read_mb_per_s"].as_f64().unwrap() > 0.0, "{cell}");
        assert_eq!(cell["rounds"]["read_mb_per_s"].as_array().unwrap().len(), 2);
    }
    // Two sizes at two depths by two methods.
    let synced = json["synced_sweep"].as_array().unwrap();
    assert_eq!(synced.len(), 8);
    for cell in synced {
        assert!(cell["writes_per_s"].as_f64().unwrap() > 0.0, "{cell}");
        assert!(cell["latency_us"]["p50"].as_f64().unwrap() > 0.0, "{cell}");
    }
    assert!(json["sync_write_p50_us"].as_f64().unwrap() > 0.0);
    as_its_schema_says("ceiling", &json);
}

#[test]
fn a_run_appends_polls_and_says_what_scripts_rely_on() {
    let dir = dir("run");
    let flags = "run --dir here --keep --shards 2 --partitions 3 --total 1MiB --producers 2 \
                 --batch-messages 20 --message-size 500 --rounds 2 --durable-samples 5 \
                 --json out.json";
    let output = bench(&dir).args(flags.split_whitespace()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("% of the ceiling"), "{printed}");

    let json = json(&dir.join("out.json"));
    assert_eq!(json["schema"], 1);
    // What scripts rely on, all of it: a key that goes or moves breaks them.
    let mut keys: Vec<String> = [
        "/ratio/append",
        "/ratio/poll",
        "/ratio/durable_p50",
        "/ceiling/write_mb_per_s",
        "/ceiling/read_mb_per_s",
        "/ceiling/sync_write_p50_us",
    ]
    .map(str::to_owned)
    .into();
    for phase in ["append", "poll", "durable"] {
        let latencies = ["p50", "p90", "p99", "p999", "max"].map(|key| format!("latency_us/{key}"));
        let figures = ["mb_per_s", "messages_per_s"].map(str::to_owned);
        keys.extend(figures.iter().chain(&latencies).map(|key| format!("/{phase}/{key}")));
    }
    for pointer in &keys {
        let figure = json.pointer(pointer).and_then(Value::as_f64);
        assert!(figure.is_some_and(|figure| figure > 0.0), "{pointer}: {figure:?}");
    }
    assert!(json["machine"]["kernel"].is_string(), "{}", json["machine"]);
    assert_eq!(json["rounds"].as_array().unwrap().len(), 2);
    // All that was appended is there: both rounds were kept, each with its partitions' logs.
    let logs = logs_below(&dir.join("here"));
    assert_eq!(logs.len(), 2 * (3 + 1), "{logs:?}");
    let bytes: u64 = logs.iter().map(|log| fs::metadata(log).unwrap().len()).sum();
    assert!(bytes >= 1 << 20, "{bytes} bytes of logs");

    let output = bench(&dir).args(flags.replace("--keep", "").split_whitespace()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(names(&dir.join("here")).is_empty());
}

#[test]
fn a_directory_that_is_not_ours_is_not_touched() {
    let dir = dir("foreign");
    fs::create_dir(dir.join("round-0")).unwrap();
    fs::write(dir.join("round-0/precious"), "x").unwrap();
    for command in ["run", "ceiling", "crash"] {
        let output = bench(&dir).args([command, "--dir", "."]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("not a directory of corelog-bench"), "{}", text(&output));
    }
    assert_eq!(fs::read_to_string(dir.join("round-0/precious")).unwrap(), "x");
    assert_eq!(names(&dir), ["round-0"]);
}

#[test]
fn wrong_usage_says_so_before_anything_happens() {
    let dir = dir("usage");
    for flags in [
        "",
        "run --total 0",
        "run --shards none",
        "ceiling --blocks 5000",
        "ceiling --synced-blocks 1",
        "run nonsense",
        "run --rate 5M",
        "verify",
        "run --json missing/out.json",
        "ceiling --json missing/out.json",
    ] {
        let output = bench(&dir).args(flags.split_whitespace()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "`{flags}`: {}", text(&output));
        assert!(!output.stderr.is_empty(), "`{flags}` fails without a word");
    }
    assert!(names(&dir).is_empty());
}

#[test]
fn help_and_version_are_no_errors() {
    let dir = dir("help");
    for flags in ["--help", "--version", "run --help", "ceiling --help", "crash --help"] {
        ran(&dir, flags, 0);
    }
}

#[test]
fn a_signal_ends_a_run_and_its_files_go() {
    let dir = dir("stopped");
    let mut sweep = Running::start(
        bench(&dir)
            .args(["ceiling", "--total", "4MiB", "--rounds", "1000", "--json", "out.json"])
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    );
    let deadline = Instant::now() + Duration::from_secs(60);
    let is_working = || {
        let mut places = names(&dir).into_iter();
        // Behind the sequential writes and reads of the first round.
        places.any(|place| dir.join(place).join("ceiling/synced").exists())
    };
    while !is_working() {
        assert!(Instant::now() < deadline, "the run did not begin");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(sweep.stop(), Some(130));
    // What was measured until then is told, and nothing else is left.
    assert_eq!(names(&dir), ["out.json"]);
    let json = json(&dir.join("out.json"));
    assert_eq!(json["ended"], "interrupted");
    assert!(json["sweep"][0]["write_mb_per_s"].as_f64().unwrap() > 0.0, "{json:#}");
    assert!(json["rounds"].as_u64().unwrap() < 1000);
    as_its_schema_says("ceiling", &json);
}

#[test]
fn kept_files_stay_and_the_next_run_may_have_the_directory() {
    let dir = dir("kept");
    let flags = "ceiling --dir mine --total 64KiB --blocks 4KiB --depths 1 --rounds 1 \
                 --synced-samples 1 --synced-time 0s";
    let output = bench(&dir).args(flags.split_whitespace()).arg("--keep").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(dir.join("mine/ceiling/synced").exists());
    let output = bench(&dir).args(flags.split_whitespace()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(names(&dir.join("mine")).is_empty());
}
