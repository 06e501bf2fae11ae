//! Results as scripts and tools meet them: files of a run, comparisons, the doctor, the page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::{self, as_its_schema_says, json as read};
use serde_json::{Value, json};

fn dir(name: &str) -> PathBuf {
    support::dir(&format!("reports-{name}"))
}

fn bench(working_dir: &Path, words: &[&str]) -> Output {
    support::bench(working_dir).args(words).output().unwrap()
}

/// Runs it and asserts on its exit status; what it printed.
fn prints(working_dir: &Path, status: i32, words: &str) -> String {
    let output = bench(working_dir, &words.split_whitespace().collect::<Vec<_>>());
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "`{words}`:\n{stdout}{stderr}");
    if status == 2 { stderr } else { stdout }
}

/// The same in their order.
fn names(dir: &Path) -> Vec<String> {
    let mut names = support::names(dir);
    names.sort();
    names
}

const RUN: &str = "run --total 1MiB --producers 2 --partitions 2 --shards 1 --batch-messages 20 \
                   --message-size 500 --rounds 2 --durable-samples 5";

#[test]
fn a_run_leaves_what_it_was_asked_for_and_nothing_else() {
    let dir = dir("run");
    let flags = format!("{RUN} --json a.json --hdr a.hlog --csv a.csv --html a.html");
    let text = prints(&dir, 0, &flags);
    assert!(text.contains("% of the ceiling"), "{text}");
    assert_eq!(names(&dir), ["a.csv", "a.hlog", "a.html", "a.json"]);

    let run = read(&dir.join("a.json"));
    assert_eq!((&run["schema"], &run["ended"]), (&json!(1), &json!("complete")));
    // The machine of the tests has a disk: what it cost must be known.
    for key in ["cpu_percent", "process_written_bytes", "context_switches_voluntary"] {
        assert!(run["append"]["usage"][key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert!(run["append"]["usage"]["io_uring_enters"].is_null());
    assert_eq!(run["append"]["rounds"].as_array().unwrap().len(), 2);
    as_its_schema_says("run", &run);

    let csv = fs::read_to_string(dir.join("a.csv")).unwrap();
    let appended: u64 = csv
        .lines()
        .filter(|line| line.starts_with("append,"))
        .map(|line| line.split(',').nth(4).unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(Some(appended), run["append"]["bytes"].as_u64(), "{csv}");

    let log = fs::read_to_string(dir.join("a.hlog")).unwrap();
    let lines: Vec<_> = log.lines().filter(|line| line.starts_with("Tag=durable,")).collect();
    assert_eq!(lines.len(), 2, "{log}");

    // The page of the run and the one made from its result are the same.
    prints(&dir, 0, "report a.json --html b.html");
    let pages = ["a.html", "b.html"].map(|name| fs::read_to_string(dir.join(name)).unwrap());
    assert_eq!(pages[0], pages[1]);
    assert!(pages[0].starts_with("<!DOCTYPE html>"));
}

#[test]
fn json_on_stdout_is_alone_there() {
    let dir = dir("stdout");
    let output = bench(&dir, &format!("{RUN} --json -").split_whitespace().collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0));
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(run["schema"], 1);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(names(&dir).is_empty());
}

#[test]
fn a_quiet_run_prints_nothing_and_writes_its_results() {
    let dir = dir("quiet");
    let ceiling = "ceiling --total 64KiB --blocks 4KiB --depths 1 --rounds 1 --synced-samples 1 \
                   --synced-time 0s";
    for command in [RUN, ceiling] {
        let words = format!("{command} --quiet --json a.json");
        let output = bench(&dir, &words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0));
        let printed = [output.stdout, output.stderr].concat();
        assert!(printed.is_empty(), "{}", String::from_utf8_lossy(&printed));
        assert_eq!(read(&dir.join("a.json"))["schema"], 1);
    }
}

#[test]
fn what_cannot_be_written_is_said_before_the_run() {
    let dir = dir("outputs");
    for (flags, words) in [
        ("--csv none/a", "cannot write none/a"),
        ("--html none/a", "cannot write none/a"),
        ("--hdr -", "only --json"),
        ("--hdr a --csv a", "both go to a"),
    ] {
        let error = prints(&dir, 2, &format!("{RUN} {flags}"));
        assert!(error.contains(words), "{flags}: {error}");
    }
}

/// A result with nine rounds of appends around this many MB/s.
fn result(path: &Path, middle: f64) {
    let value = |n: i32| middle * (1.0 + f64::from(n - 4) / 1000.0);
    let rounds: Vec<Value> = (0..9).map(|n| json!({"mb_per_s": value(n)})).collect();
    let run = json!({"schema": 1, "phases": ["append"], "machine": {"kernel": "6.18"},
                     "append": {"mb_per_s": middle, "rounds": rounds}});
    fs::write(path, run.to_string()).unwrap();
}

#[test]
fn a_comparison_says_what_changed_and_fails_when_it_was_asked_to() {
    let dir = dir("compare");
    result(&dir.join("a"), 1000.0);
    result(&dir.join("b"), 900.0);
    let text = prints(&dir, 0, "compare a b");
    assert!(text.contains("append.mb_per_s") && text.contains("worse"), "{text}");
    assert!(prints(&dir, 0, "compare a a").contains("no difference"));
    assert!(prints(&dir, 0, "compare b a").contains("better"));
    let text = prints(&dir, 1, "compare a b --fail-if append.mb_per_s<-5%");
    assert!(text.contains("FAIL  append.mb_per_s<-5%"), "{text}");
    prints(&dir, 0, "compare a b --fail-if append.mb_per_s<-20%");
    prints(&dir, 1, "compare a b --fail-if append.mb_per_s<-20% --fail-if append.mb_per_s<-1");
    let json: Value = serde_json::from_str(&prints(&dir, 0, "compare a b --json")).unwrap();
    assert_eq!(json["rows"][0]["verdict"], "worse");
    as_its_schema_says("compare", &json);
    let words = "compare a b --json --fail-if append.mb_per_s<-5%";
    let json: Value = serde_json::from_str(&prints(&dir, 1, words)).unwrap();
    assert_eq!(json["fail_if"][0]["holds"], true);
    as_its_schema_says("compare", &json);

    let mut other = read(&dir.join("b"));
    other["machine"]["kernel"] = json!("6.1");
    fs::write(dir.join("c"), other.to_string()).unwrap();
    let found: Value = serde_json::from_str(&prints(&dir, 0, "compare b c --json")).unwrap();
    assert_eq!(found["differences"][0]["b"], "6.1");
    as_its_schema_says("compare", &found);
    let text = prints(&dir, 0, "compare b c");
    assert!(text.contains("environments differ") && text.contains("machine.kernel"), "{text}");
}

#[test]
fn a_comparison_that_cannot_be_made_is_no_pass() {
    let dir = dir("compare-wrong");
    result(&dir.join("a"), 1000.0);
    fs::write(dir.join("text"), "not a result").unwrap();
    fs::write(dir.join("newer"), "{\"schema\": 2}").unwrap();
    fs::write(dir.join("empty"), "{\"schema\": 1, \"phases\": []}").unwrap();
    fs::write(dir.join("other"), "{\"schema\": 1, \"killed\": 20}").unwrap();
    for (words, what) in [
        ("compare a", "<B>"),
        ("compare a none", "cannot read none"),
        ("compare a text", "is no JSON"),
        ("compare newer a", "has schema 2"),
        ("compare empty empty", "neither side has a figure"),
        ("compare a other", "other is no result of `run`"),
        ("report other --html page", "other is no result of `run`"),
        ("compare a a --fail-if faster", "neither < nor >"),
        ("compare a a --fail-if append.mb<5%", "neither result has append.mb"),
        ("compare a a --confidence 2", "a percentage"),
    ] {
        let error = prints(&dir, 2, words);
        assert!(error.contains(what), "`{words}`: {error}");
    }
}

#[test]
fn rows_of_benchmarks_that_moved_end_with_1() {
    let dir = dir("moved");
    let result = |folder: &str, middle: f64| {
        let rounds: Vec<f64> = (0..15).map(|n| middle + f64::from(n % 3)).collect();
        let row = json!({"what": "1 KB", "unit": "MB/s", "ratio": null,
                         "rounds": {"engine": rounds, "beside": []}});
        let result = json!({"schema": 1, "bench": "append", "quick": false, "allocator": "own",
                            "tables": [{"title": "t", "rows": [row]}]});
        fs::create_dir_all(dir.join(folder)).unwrap();
        fs::write(dir.join(folder).join("append.json"), result.to_string()).unwrap();
    };
    result("old", 1000.0);
    result("new", 1001.0);
    result("slow", 800.0);
    result("fast", 1200.0);
    assert!(prints(&dir, 0, "moved old new").contains("1 did not move"));
    assert!(prints(&dir, 1, "moved old slow").starts_with("worse   append: t: 1 KB"));
    assert!(prints(&dir, 0, "moved old/append.json fast").starts_with("better"));
    prints(&dir, 0, "moved old slow --least 30");
    let json: Value = serde_json::from_str(&prints(&dir, 1, "moved old slow --json")).unwrap();
    assert_eq!((&json["worse"], &json["rows"][0]["verdict"]), (&json!(true), &json!("worse")));
    as_its_schema_says("moved", &json);

    fs::create_dir(dir.join("empty")).unwrap();
    assert!(prints(&dir, 2, "moved old empty").contains("no result in it"));
    assert!(prints(&dir, 2, "moved none new").contains("cannot read none"));
    fs::write(dir.join("run.json"), "{\"schema\": 1}").unwrap();
    assert!(prints(&dir, 2, "moved run.json new").contains("no bench"));
}

#[test]
fn the_doctor_tells_what_is_here_and_leaves_nothing() {
    let dir = dir("doctor");
    fs::write(dir.join("somebodys"), "x").unwrap();
    let text = prints(&dir, 0, "doctor");
    for thing in ["io_uring", "O_DIRECT", "locked memory", "file system", "engine", "is fit"] {
        assert!(text.contains(thing), "no {thing}:\n{text}");
    }
    let json: Value = serde_json::from_str(&prints(&dir, 0, "doctor --dir . --json")).unwrap();
    assert_eq!((&json["schema"], &json["fit"]), (&json!(1), &json!(true)));
    assert!(json["checks"].as_array().unwrap().len() > 10);
    as_its_schema_says("doctor", &json);
    assert_eq!(names(&dir), ["somebodys"]);
    assert!(prints(&dir, 2, "doctor --dir none").contains("none is no directory"));
}

#[test]
fn the_schema_is_printed() {
    let dir = dir("schema");
    let schema = |words: &str| serde_json::from_str::<Value>(&prints(&dir, 0, words)).unwrap();
    assert_eq!(schema("schema"), schema("schema run"));
    for of in ["run", "ceiling", "compare", "crash", "doctor", "moved", "verify"] {
        let schema = schema(&format!("schema {of}"));
        assert_eq!(schema["properties"]["schema"]["const"], 1);
        assert!(schema["title"].as_str().unwrap().contains(&format!("corelog-bench {of}")), "{of}");
    }
    assert!(prints(&dir, 2, "schema report").contains("possible values"));
}
