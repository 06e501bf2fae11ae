//! `extract`: what comes out is a segment again, the lines of `show`, or what a command made of it.

use std::fs;
use std::path::Path;

use crate::support::{
    Ran, Scratch, Segment, binary, dump, real_log, real_partition, verify_one, with_path,
};

fn extract(args: &[&str], path: &Path) -> Ran {
    dump(with_path(&[&["extract"], args].concat(), path))
}

fn raw(args: &[&str], path: &Path) -> Vec<u8> {
    let output = binary().arg("extract").args(args).arg(path).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output.stdout
}

#[test]
fn batches_are_a_segment_again() {
    let real = real_partition();
    assert!(raw(&[], &real) == real_log());
    let scratch = Scratch::new();
    let dir = scratch.path().join("out");
    fs::create_dir(&dir).expect("created");
    let name = dir.to_str().expect("UTF-8");
    let ran = extract(&["--offset", "30..1100", "-o", name], &real).expect(0);
    // Whole batches, under the name of the first one's offset.
    let path = dir.join("00000000000000000001.log");
    assert!(ran.out.is_empty() && ran.err.contains("00000000000000000001.log"), "{ran:?}");
    let report = verify_one(&path, 0);
    assert_eq!(report["first_offset"], 1);
    assert!(report["last_offset"].as_u64().expect("a number") >= 1099);
    assert!(fs::read(&path).expect("read") == raw(&["--offset", "30..1100"], &real));
    // Never over something that is there.
    let before = fs::read(&path).expect("read");
    extract(&["--offset", "30..31", "-o", name], &real).expect(2);
    extract(&["-o", path.to_str().expect("UTF-8")], &real).expect(2);
    assert!(fs::read(&path).expect("read") == before);
    // Nothing selected leaves nothing behind.
    let none = scratch.path().join("none.log");
    extract(&["--offset", "5000..", "-o", none.to_str().expect("UTF-8")], &real).expect(0);
    assert!(!none.exists());
}

#[test]
fn batches_with_holes_between_them_are_said() {
    let scratch = Scratch::new();
    let path = Segment::new(0, 0, &[2, 2, 2, 2]).write(&scratch, "p");
    let bytes = fs::read(&path).expect("read");
    let segment = Segment::new(0, 0, &[2, 2, 2, 2]);
    let args = ["extract", "--id", "0", "--id", "6", path.to_str().expect("UTF-8")];
    let output = binary().args(args).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0));
    let (first, last) = (segment.batches[0].clone(), segment.batches[3].clone());
    assert!(output.stdout == [&bytes[first], &bytes[last]].concat());
    assert!(String::from_utf8_lossy(&output.stderr).contains("do not follow"));
}

#[test]
fn messages_are_the_lines_of_show() {
    let real = real_partition();
    let flags = ["--offset", "100..300"];
    let lines = extract(&[&["--format", "ndjson"], &flags[..]].concat(), &real).expect(0).out;
    let show = ["show", "--ndjson", "--messages", "--payload", "base64"];
    assert_eq!(lines, dump(with_path(&[&show, &flags[..]].concat(), &real)).expect(0).out);
    assert_eq!(lines.lines().count(), 200);
}

#[test]
fn payloads_through_a_command() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[]);
    segment.push(0, &[b"one".to_vec(), b"two".to_vec(), Vec::new()]);
    segment.push(0, &[b"three\nlines\n".to_vec()]);
    let path = segment.write(&scratch, "p");
    let pipe =
        |command: &str, more: &[&str]| extract(&[&["--pipe", command], more].concat(), &path);
    assert_eq!(pipe("cat", &[]).expect(0).out, "one\ntwo\n\nthree\nlines\n\n");
    assert_eq!(pipe("tr a-z A-Z", &["--grep", "^t"]).expect(0).out, "TWO\nTHREE\nLINES\n\n");
    let framed = pipe("od -An -v -tx1 | tr -d ' \\n'", &["--framing", "length", "--offset", "..3"]);
    assert_eq!(framed.expect(0).out, "030000006f6e650300000074776f00000000");
    // One that has seen enough is no failure; one that fails is, and what it printed stays.
    assert_eq!(pipe("head -n 1", &[]).expect(0).out, "one\n");
    let ran = pipe("cat; exit 3", &[]).expect(2);
    assert!(ran.out.starts_with("one") && ran.err.contains("exit code 3"), "{ran:?}");
    assert!(pipe("kill -9 $$", &[]).expect(2).err.contains("signal 9"));
    assert!(pipe("no-such-command-anywhere", &[]).expect(2).err.contains("exit code 127"));
    pipe("cat", &["-o", "x"]).expect(2);
}

/// A command that reads slowly or not at all holds no memory of ours: 64 MiB through 32 MiB.
#[test]
fn a_command_is_fed_as_it_reads() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[]);
    while segment.bytes.len() < 64 << 20 {
        segment.push(0, &vec![vec![b'x'; 60_000]; 8]);
    }
    let path = segment.write(&scratch, "p");
    let script = "ulimit -v 32768 && exec \"$@\"";
    let run = |command: &str| {
        let args = ["-c", script, "sh", env!("CARGO_BIN_EXE_corelog-dump"), "extract", "--no-mmap"];
        let mut sh = std::process::Command::new("sh");
        sh.args(args).args(["--pipe", command]).arg(&path).output().expect("it runs")
    };
    let output = run("wc -c");
    let count = segment.next_offset * 60_001;
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), count.to_string(), "{output:?}");
    assert!(run("sleep 0.1").status.success());
}

/// That an output cannot be made is no word about the segment that is copied to it.
#[test]
fn an_output_that_cannot_be_made_ends_it() {
    let scratch = Scratch::new();
    let dir = scratch.path().join("p");
    for (first, batches) in [(0, [2, 2]), (4, [2, 2])] {
        Segment::new(0, first, &batches).write(&scratch, "p");
    }
    let output = scratch.path().join("missing/out");
    let (dir, output) = (dir.to_str().expect("UTF-8"), output.to_str().expect("UTF-8"));
    let ran = dump(["extract", dir, "--output", output]).expect(2);
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    assert!(ran.err.contains(output) && ran.err.contains("cannot create"), "{ran:?}");
}
