//! What each command prints, held against files in `tests/dump/expected`. To accept a change, look
//! at it and run the tests once with `CORELOG_UPDATE=1` in the environment.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Scratch, Segment, dump, real_partition};

/// Runs `corelog-dump ARGS` (`REAL` and `OURS` stand for the recorded partition and for one of
/// ours) and compares what it printed, its messages and its exit code with the file of this name.
fn snapshot(name: &str, ours: &Path, args: &[&str]) {
    let real = real_partition();
    let place = |arg: &&str| match *arg {
        "REAL" => real.clone().into_os_string(),
        "OURS" => ours.as_os_str().to_os_string(),
        arg => arg.into(),
    };
    let ran = dump(args.iter().map(place));
    let mut text = format!("$ corelog-dump {}\n{}", args.join(" "), ran.out);
    for line in ran.err.lines() {
        text.push_str(&format!("stderr: {line}\n"));
    }
    text.push_str(&format!("exit code: {}\n", ran.code.expect("an exit code")));
    for (path, word) in [(real.as_path(), "REAL"), (ours, "OURS")] {
        text = text.replace(path.to_str().expect("UTF-8"), word);
    }
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/dump/expected")
        .join(format!("{name}.txt"));
    if std::env::var_os("CORELOG_UPDATE").is_some() {
        fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
        fs::write(&file, &text).expect("written");
        return;
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(text == expected, "{name}: expected\n{expected}\nfound\n{text}");
}

/// Two segments: the first sealed, the second with zeros behind its last batch.
fn ours(scratch: &Scratch) -> PathBuf {
    let first = Segment::new(4, 0, &[1, 2, 3]);
    first.write(scratch, "partitions/4");
    let mut second = Segment::new(4, first.next_offset, &[2]);
    second.bytes.resize(second.bytes.len() + 3000, 0);
    second.write(scratch, "partitions/4");
    scratch.path().join("partitions/4")
}

#[test]
fn of_the_real_segment() {
    let none = Path::new("/nowhere");
    let commands: [(&str, &[&str]); 14] = [
        ("real-ls", &["ls", "REAL"]),
        ("real-ls-json", &["ls", "--json", "REAL"]),
        ("real-show", &["show", "REAL"]),
        ("real-show-ndjson", &["show", "--ndjson", "--limit", "3", "REAL"]),
        ("real-show-messages", &["show", "--messages", "--limit", "3", "REAL"]),
        (
            "real-show-messages-ndjson",
            &["show", "--messages", "--ndjson", "--payload", "hex", "--limit", "3", "REAL"],
        ),
        ("real-show-reverse", &["show", "--messages", "--reverse", "--limit", "2", "REAL"]),
        ("real-hex", &["hex", "--offset", "0", "REAL"]),
        ("real-hex-json", &["hex", "--offset", "0", "--json", "REAL"]),
        ("real-hex-colours", &["hex", "--offset", "0", "--color", "always", "REAL"]),
        ("real-stats", &["stats", "REAL"]),
        ("real-stats-json", &["stats", "--json", "REAL"]),
        ("real-extract", &["extract", "--format", "ndjson", "--offset", "0..2", "REAL"]),
        ("real-diff", &["diff", "REAL", "REAL"]),
    ];
    for (name, args) in commands {
        snapshot(name, none, args);
    }
}

#[test]
fn of_ours() {
    let scratch = Scratch::new();
    let ours = ours(&scratch);
    let commands: [(&str, &[&str]); 8] = [
        ("ours-ls", &["ls", "OURS"]),
        ("ours-ls-json", &["ls", "--json", "OURS"]),
        ("ours-show-reverse", &["show", "--reverse", "OURS"]),
        ("ours-show-offset", &["show", "--messages", "--offset", "2..7", "OURS"]),
        ("ours-follow", &["follow", "--from", "start", "--limit", "4", "OURS"]),
        ("ours-diff", &["diff", "OURS", "REAL"]),
        ("ours-diff-json", &["diff", "--json", "OURS", "REAL"]),
        ("ours-hex-nothing", &["hex", "--offset", "99", "OURS"]),
    ];
    for (name, args) in commands {
        snapshot(name, &ours, args);
    }
}

#[test]
fn of_a_damaged_segment() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(4, 0, &[1, 2, 3]);
    segment.bytes[segment.batches[1].start + 300] ^= 1;
    segment.write(&scratch, "partitions/4");
    let ours = scratch.path().join("partitions/4");
    let commands: [(&str, &[&str]); 4] = [
        ("damaged-show", &["show", "OURS"]),
        ("damaged-hex", &["hex", "--offset", "1", "OURS"]),
        ("damaged-stats-json", &["stats", "--json", "OURS"]),
        ("damaged-extract", &["extract", "--format", "ndjson", "--payload", "none", "OURS"]),
    ];
    for (name, args) in commands {
        snapshot(name, &ours, args);
    }
}

#[test]
fn of_the_help() {
    for command in ["ls", "show", "follow", "hex", "stats", "diff", "extract"] {
        snapshot(&format!("help-{command}"), Path::new("/nowhere"), &[command, "--help"]);
        let help = dump([command, "--help"]).out;
        assert!(help.contains("Example: corelog-dump"), "{command}");
    }
}
