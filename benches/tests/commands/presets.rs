//! Every workload, small, on the real engine and a real disk; damage that must be found; kills.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Running, as_its_schema_says, bench, dir, json, logs_below, names, ran};
use serde_json::Value;

/// What makes every preset small.
const SMALL: &str = "--total 3MiB --rounds 1 --shards 2 --durable-samples 5 --durable-producers 3";

/// And its batches.
const SMALL_BATCHES: &str = "--batch-messages 10 --message-size 400";

/// A figure of the JSON that must be there and more than 0.
fn positive(json: &Value, pointer: &str) {
    let figure = json.pointer(pointer).and_then(Value::as_f64);
    assert!(figure.is_some_and(|figure| figure > 0.0), "{pointer}: {figure:?} in {json:#}");
}

fn run_preset(preset: &str, flags: &str) -> (Value, String) {
    let dir = dir(&format!("preset-{preset}"));
    let flags = format!("run {preset} {SMALL} {flags} --dir here --json out.json");
    let printed = ran(&dir, &flags, 0);
    assert!(printed.contains("of the ceiling") || printed.contains("x the ceiling"), "{printed}");
    assert_eq!(names(&dir), ["out.json"]);
    let json = json(&dir.join("out.json"));
    assert_eq!((&json["schema"], &json["ended"]), (&1.into(), &"complete".into()));
    assert_eq!(json["settings"]["preset"], preset);
    (json, printed)
}

#[test]
fn fsync() {
    let (json, printed) = run_preset("fsync", SMALL_BATCHES);
    positive(&json, "/durable/latency_us/p50");
    positive(&json, "/ratio/durable_p50");
    // What it does, and not what the preset it is made from would append.
    assert!(
        printed.contains("fsync: shards 2, producers 1 and 3 (closed loop), batches of 1 x 100 B")
    );
    for phase in ["durable_shared", "durable_spread"] {
        assert!(printed.contains(phase), "{printed}");
    }
    assert_eq!(json["append"], Value::Null);
}

#[test]
fn either_runtime_runs_and_is_named() {
    let flags = format!("{SMALL_BATCHES} --runtime ring --verify");
    let (json, _) = run_preset("standard", &flags);
    assert_eq!(json["settings"]["runtime"], "ring");
    positive(&json, "/append/mb_per_s");
    positive(&json, "/poll/mb_per_s");
    positive(&json, "/durable/latency_us/p50");
}

#[test]
fn mixed() {
    let (json, printed) = run_preset("mixed", SMALL_BATCHES);
    assert_eq!(json["settings"]["runtime"], "glommio");
    positive(&json, "/append/mb_per_s");
    positive(&json, "/poll/mb_per_s");
    for phase in ["tail", "catch_up"] {
        assert!(printed.contains(phase), "{printed}");
    }
}

#[test]
fn many_partitions() {
    let (json, _) = run_preset("many-partitions", "--partitions 60 --message-size 400");
    positive(&json, "/ratio/append");
    positive(&json, "/ratio/poll");
}

#[test]
fn small_batches() {
    let (json, _) = run_preset("small-batches", "--batch-messages 1..5 --message-size 0..300");
    positive(&json, "/ratio/append");
    assert_eq!(json["settings"]["batch_messages"], serde_json::json!([1, 5]));
}

#[test]
fn recovery() {
    let (_, printed) = run_preset("recovery", SMALL_BATCHES);
    for phase in ["open_clean", "open_killed"] {
        assert!(printed.contains(phase), "{printed}");
    }
}

#[test]
fn shuffle() {
    let (json, _) = run_preset("shuffle", &format!("{SMALL_BATCHES} --headers 2 --partitions 7"));
    positive(&json, "/ratio/append");
    assert_eq!(json["settings"]["shuffle"], true);
}

#[test]
fn verify() {
    let (json, printed) = run_preset("verify", SMALL_BATCHES);
    positive(&json, "/ratio/poll");
    assert!(printed.contains("verify"), "{printed}");
}

#[test]
fn an_open_loop_is_said_so_and_keeps_its_rate() {
    let dir = dir("open-loop");
    let flags = "run --duration 600ms --warm-up 100ms --rate 500msg --batch-messages 1 \
                 --message-size 100 --durable-samples 0 --json out.json";
    let printed = ran(&dir, flags, 0);
    assert!(printed.contains("500 messages/s (open loop)"), "{printed}");
    let json = json(&dir.join("out.json"));
    assert_eq!(json["settings"]["loop"], "open");
    // As many as the schedule has starts behind the warm-up, however slow the disk is; a late answer
    // of the warm-up may be among them.
    let count = json["append"]["latency_us"]["count"].as_u64().unwrap();
    assert!((296..=352).contains(&count), "{count}");
}

#[test]
fn an_open_loop_can_be_random_in_bursts_and_uneven() {
    let dir = dir("open-loop-random");
    let flags = "run --duration 500ms --rate 2000msg --arrivals poisson --burst 5 --skew 0.99 \
                 --entropy 20 --partitions 8 --batch-messages 1 --message-size 200 --verify \
                 --durable-samples 0 --json out.json";
    let printed = ran(&dir, flags, 0);
    assert!(printed.contains("(open loop, poisson arrivals of 5)"), "{printed}");
    assert!(printed.contains("partitions 8 (skew 0.99)"), "{printed}");
    assert!(printed.contains("20 % of them random"), "{printed}");
    let json = json(&dir.join("out.json"));
    let settings = &json["settings"];
    assert_eq!((&settings["arrivals"], &settings["burst"]), (&"poisson".into(), &5.into()));
    assert_eq!((&settings["skew"], &settings["entropy_percent"]), (&0.99.into(), &20.into()));
    positive(&json, "/append/response_latency_us/p50");
    as_its_schema_says("run", &json);
}

#[test]
fn topic_options_and_retention_reach_the_topic() {
    let dir = dir("retention");
    // Partitions keep at least a segment and the longest batch: 65 MiB.
    let flags = "run --total 80MiB --rounds 1 --partitions 1 --producers 1 --segment-size 1MiB \
                 --retention-size 2MiB --messages-required-to-save 10 --flush-after 1ms \
                 --ack appended --durable-samples 0 --verify --keep --dir here --json out.json";
    ran(&dir, flags, 0);
    let json = json(&dir.join("out.json"));
    assert_eq!(json["append"]["answered_when"], "appended");
    let appended = json["append"]["bytes"].as_u64().unwrap();
    let kept = || -> Vec<u64> {
        let logs = logs_below(&dir.join("here")).into_iter();
        // One that is deleted meanwhile has none.
        logs.filter_map(|log| Some(fs::metadata(log).ok()?.len())).collect()
    };
    // A segment ends with the batch that passes its size.
    assert!(kept().iter().all(|bytes| *bytes < 3 << 20), "{:?}", kept());

    // The engine deletes when it comes to it: it is given the time that it takes.
    let engine = corelog::Engine::builder(dir.join("here/round-0")).open().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while kept().iter().sum::<u64>() >= appended {
        assert!(Instant::now() < deadline, "nothing is deleted of {appended} bytes: {:?}", kept());
        thread::sleep(Duration::from_millis(20));
    }
    engine.close_blocking().unwrap();
    ran(&dir, "verify here", 0);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn damage_in_kept_files_is_found_and_named() {
    let dir = dir("damage");
    ran(&dir, &format!("run {SMALL} {SMALL_BATCHES} --dir here --keep"), 0);
    let printed = ran(&dir, "verify here", 0);
    assert!(printed.contains("both layers of checksums hold"), "{printed}");
    let log = logs_below(&dir.join("here"))
        .into_iter()
        .find(|log| log.to_string_lossy().contains("topics/0/"))
        .unwrap();
    let good = fs::read(&log).unwrap();
    for at in [300, good.len() / 2, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        fs::write(&log, &bytes).unwrap();
        let printed = ran(&dir, "verify here", 1);
        assert!(printed.contains("bytes differ: partition"), "{printed}");
        assert!(printed.contains(log.file_name().unwrap().to_str().unwrap()), "{printed}");
    }
    fs::write(&log, &good).unwrap();
    ran(&dir, "verify here", 0);
    // Nothing to verify is an error, and so is a directory of somebody else.
    ran(&dir, "verify .", 2);
    ran(&dir, "verify missing", 2);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn killed_processes_lose_nothing_that_was_answered() {
    let cases = [
        ("crash-written", ""),
        ("crash-durable", "--ack durable"),
        ("crash-ring", "--runtime ring"),
    ];
    for (name, other) in cases {
        let dir = dir(name);
        let flags = format!("crash --lives 3 --batches 150 {other} --json out.json --dir here");
        let printed = ran(&dir, &flags, 0);
        assert!(printed.starts_with("3 processes killed"), "{printed}");
        assert_eq!(names(&dir), ["out.json"]);
        let json = json(&dir.join("out.json"));
        assert_eq!((&json["killed"], &json["ended"]), (&3.into(), &"complete".into()));
        positive(&json, "/answered_batches");
        positive(&json, "/checked_messages");
        as_its_schema_says("crash", &json);
    }
    ran(&dir("crash-usage"), "crash --ack appended", 2);
}

#[test]
fn a_disk_without_room_is_said_before_anything_is_written() {
    let dir = dir("no-room");
    let printed = ran(&dir, "run --total 9000T", 2);
    assert!(printed.contains("needed in") && printed.contains("lower --total"), "{printed}");
    ran(&dir, "crash --lives 100000 --batches 1000000 --message-size 1MiB", 2);
    assert!(names(&dir).is_empty());
}

#[test]
fn a_run_is_stopped_while_its_partitions_are_made() {
    let dir = dir("stopped-early");
    let flags = "run --partitions 1000 --total 1MiB --dir here --keep --json out.json";
    let mut run = Running::start(bench(&dir).args(flags.split_whitespace()));
    let partitions = dir.join("here/round-0/streams/0/topics/0/partitions");
    let made = || fs::read_dir(&partitions).map_or(0, Iterator::count);
    let deadline = Instant::now() + Duration::from_secs(240);
    while made() == 0 {
        assert!(Instant::now() < deadline, "no partition is made");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(run.stop(), Some(130));
    // Some at a time, and no more once it is stopped.
    assert!(made() < 1000, "all of them were made");
    assert_eq!(json(&dir.join("out.json"))["ended"], "interrupted");
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_stopped_run_tells_what_it_measured_and_leaves_nothing() {
    let dir = dir("stopped-run");
    let flags = "run --duration 10min --rate 1000msg --batch-messages 1 --dir here --json out.json";
    let mut run = Running::start(bench(&dir).args(flags.split_whitespace()));
    let deadline = Instant::now() + Duration::from_secs(240);
    while logs_below(&dir).iter().all(|log| fs::metadata(log).unwrap().len() == 0) {
        assert!(Instant::now() < deadline, "the run did not begin");
        thread::sleep(Duration::from_millis(5));
    }
    // Behind the warm-up: some answers are counted.
    thread::sleep(Duration::from_millis(700));
    assert_eq!(run.stop(), Some(130));
    assert_eq!(names(&dir), ["out.json"]);
    let json = json(&dir.join("out.json"));
    assert_eq!(json["ended"], "interrupted");
    positive(&json, "/append/mb_per_s");
    positive(&json, "/append/latency_us/count");
}
