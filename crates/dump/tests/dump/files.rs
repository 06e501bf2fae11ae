//! Which files are looked at, what is said of the others, and the exit codes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Scratch, Segment, binary, dump, real_partition, verify, verify_one};

const VERBS: [&[&str]; 13] = [
    &["ls"],
    &["ls", "--json"],
    &["show"],
    &["show", "--messages", "--ndjson"],
    &["show", "--reverse"],
    &["stats"],
    &["stats", "--json"],
    &["extract"],
    &["extract", "--format", "ndjson"],
    &["verify"],
    &["verify", "--json"],
    &["index", "check"],
    &["index", "rebuild"],
];

/// The path in a report.
fn path_of(file: &Value) -> &Path {
    Path::new(file["path"].as_str().expect("a path"))
}

/// One corrupt, one empty, one without index, three good (aeron 2100).
#[test]
fn a_directory_of_good_and_bad_segments() {
    let scratch = Scratch::new();
    let mut offset = 0;
    for at in 0..6 {
        let batches: &[u32] = if at == 5 { &[] } else { &[2, 2, 2] };
        let mut segment = Segment::new(0, offset, batches);
        offset = segment.next_offset;
        if at == 1 {
            segment.bytes[segment.batches[1].start + 300] ^= 1;
        }
        let path = segment.write(&scratch, "p");
        if at == 2 {
            fs::remove_file(path.with_extension("index")).expect("removed");
        }
    }
    let files = verify(&scratch.path().join("p"), 1);
    let words = |name: &str| -> Vec<&str> {
        files.iter().map(|file| file[name].as_str().expect("a word")).collect()
    };
    assert_eq!(words("verdict"), ["clean", "corrupt", "clean", "clean", "clean", "clean"]);
    assert_eq!(words("index"), ["ok", "ok", "missing", "ok", "ok", "ok"]);
    let batches: Vec<u64> =
        files.iter().map(|file| file["batches"].as_u64().expect("a number")).collect();
    assert_eq!(batches, [3, 2, 3, 3, 3, 0]);
    // ls compares no checksums: it lists all six.
    let ran = dump([OsStr::new("ls"), scratch.path().join("p").as_os_str()]).expect(0);
    assert_eq!(ran.out.lines().count(), 7, "{ran:?}");
}

/// Segments that do not follow one another, although each is clean by itself.
#[test]
fn a_segment_lost_in_the_middle() {
    let scratch = Scratch::new();
    for (first, batches) in [(0, [2, 2]), (8, [2, 2]), (12, [2, 2])] {
        Segment::new(0, first, &batches).write(&scratch, "p");
    }
    let files = verify(&scratch.path().join("p"), 1);
    let verdicts: Vec<&Value> = files.iter().map(|file| &file["verdict"]).collect();
    assert_eq!(verdicts, ["corrupt", "clean", "clean"]);
    let fault = &files[0]["faults"][0];
    assert_eq!((&fault["expected"], &fault["found"]), (&4.into(), &8.into()));
    // Files that were named one by one are not all of the partition: no chain is asked of them.
    assert_eq!(
        verify_one(&scratch.path().join("p/00000000000000000000.log"), 0)["verdict"],
        "clean"
    );
}

#[test]
fn a_torn_tail_with_a_later_segment_behind_it_is_no_tail() {
    let scratch = Scratch::new();
    let mut first = Segment::new(0, 0, &[2, 2]);
    first.bytes.truncate(first.bytes.len() - 1);
    first.write(&scratch, "p");
    let second = Segment::new(0, 4, &[]);
    second.write(&scratch, "p");
    let verdict = || verify(&scratch.path().join("p"), 1)[0]["verdict"].clone();
    assert_eq!(verdict(), "torn_tail", "nothing readable is behind it");
    Segment::new(0, 4, &[1]).write(&scratch, "p");
    assert_eq!(verdict(), "corrupt");
}

#[test]
fn what_is_no_segment_is_named_and_left_alone() {
    let scratch = Scratch::new();
    let segment = Segment::new(0, 0, &[2]);
    segment.write(&scratch, "p");
    let foreign = [
        "00000000000000000002.log.corrupt-1700000000",
        "00000000000000000002.log.tmp",
        "00000000000000000002.log.bak",
        "00000000000000000000.log.gz",
        "0000000000000000002.log",
        "000000000000000000002.log",
        "+0000000000000000002.log",
        ".nfs0000000000a1",
        "Thumbs.db",
        "manifest.tmp",
    ];
    for name in foreign {
        scratch.file(&format!("p/{name}"), &segment.bytes);
    }
    for dir in ["lost+found", "00000000000000000004.log"] {
        fs::create_dir(scratch.path().join("p").join(dir)).expect("created");
    }
    let target = scratch.file("elsewhere", &segment.bytes);
    symlink(target, scratch.path().join("p/00000000000000000006.log")).expect("linked");
    scratch.file("p/00000000000000000008.index", b"");
    // Known, so not worth a word.
    let known = ["manifest", "superblock.a", "superblock.b", "purge.gen", "offsets/groups/1"];
    for name in known.iter().chain(&["quarantine/00000000000000000000.log"]) {
        scratch.file(&format!("p/{name}"), b"");
    }
    let partition = scratch.path().join("p");
    for verb in VERBS {
        let args = verb.iter().map(OsStr::new).chain([partition.as_os_str()]);
        let ran = dump(args).expect(0);
        let links = ["lost+found", "00000000000000000004.log", "00000000000000000006.log"];
        for name in foreign.iter().chain(&links).chain(&["00000000000000000008.index"]) {
            let line = ran.err.lines().find(|line| line.contains(&format!("/{name}:")));
            assert!(line.is_some_and(|line| line.contains("ignored")), "{verb:?} {name}: {ran:?}");
        }
        assert_eq!(ran.err.lines().count(), foreign.len() + 4, "{ran:?}");
    }
    let files = verify(&partition, 0);
    assert_eq!(files.len(), 1);
    assert!(path_of(&files[0]).ends_with("00000000000000000000.log"));
}

/// A planted link leads nowhere: neither for a log nor for the index beside it.
#[test]
fn a_link_in_a_directory_is_not_followed() {
    let scratch = Scratch::new();
    let path = Segment::new(0, 0, &[2]).write(&scratch, "p");
    let index = path.with_extension("index");
    let elsewhere = scratch.path().join("elsewhere");
    fs::rename(&index, &elsewhere).expect("moved");
    symlink(&elsewhere, &index).expect("linked");
    let report = verify_one(&scratch.path().join("p"), 0);
    assert_eq!(report["index"], "bad");
    assert_eq!(report["findings"][0]["finding"], "index_unreadable");
}

#[test]
fn every_level_of_a_data_directory() {
    let scratch = Scratch::new();
    scratch.file("LOCK", b"");
    scratch.file("catalog.redb", b"not ours to read");
    let place = |s: u32, t: u32, p: u64| format!("streams/{s}/topics/{t}/partitions/{p}");
    for (stream, topic, partition) in
        [(0, 0, 0), (0, 0, 1), (0, 0, 10), (0, 0, 2), (0, 1, 0), (3, 0, 0)]
    {
        let dir = place(stream, topic, partition);
        Segment::new(partition, 0, &[1]).write(&scratch, &dir);
    }
    scratch.file("streams/0/topics/0/partitions/x/00000000000000000000.log", b"junk");
    scratch.file("streams/0/topics/0/partitions/01/00000000000000000000.log", b"junk");
    for (path, count) in [
        ("", 6),
        ("streams", 6),
        ("streams/0", 5),
        ("streams/0/topics", 5),
        ("streams/0/topics/0", 4),
        ("streams/0/topics/0/partitions", 4),
        ("streams/0/topics/0/partitions/10", 1),
    ] {
        assert_eq!(verify(&scratch.path().join(path), 0).len(), count, "{path}");
    }
    let files = verify(&scratch.path().join("streams/0/topics/0"), 0);
    let partitions: Vec<&str> = files
        .iter()
        .map(|file| path_of(file).parent().and_then(Path::file_name).expect("a directory"))
        .map(|name| name.to_str().expect("UTF-8"))
        .collect();
    assert_eq!(partitions, ["0", "1", "2", "10"]);
    // The directory says whose batches these must be.
    Segment::new(7, 0, &[1, 1]).write(&scratch, &place(3, 0, 0));
    let report = verify_one(&scratch.path().join("streams/3"), 1);
    assert_eq!((&report["verdict"], &report["batches"]), (&"corrupt".into(), &2.into()));
    assert_eq!(report["faults"][0]["field"], "partition_id");
    // A data directory in which nothing was stored yet is fine.
    let fresh = Scratch::new();
    fresh.file("LOCK", b"");
    assert!(dump([OsStr::new("ls"), fresh.path().as_os_str()]).expect(0).err.is_empty());
}

#[test]
fn a_copy_under_any_name_that_ends_in_log() {
    let scratch = Scratch::new();
    let segment = Segment::new(0, 700, &[2, 2]);
    let path = scratch.file("copy of segment.log", &segment.bytes);
    scratch.file("copy of segment.index", &segment.index_bytes());
    let report = verify_one(&path, 0);
    assert_eq!((&report["first_offset"], &report["index"]), (&700.into(), &"ok".into()));
    // Named twice it is verified once; a link that the user names is followed.
    let path = path.as_os_str();
    let twice = dump([OsStr::new("verify"), OsStr::new("--json"), path, path]).expect(0).json();
    assert_eq!(twice["files"].as_array().expect("a list").len(), 1);
    symlink(path, scratch.path().join("link.log")).expect("linked");
    verify_one(&scratch.path().join("link.log"), 0);
}

#[test]
fn paths_that_do_not_work() {
    let scratch = Scratch::new();
    let without_extension = scratch.file("00000000000000000000", b"x");
    let junk = scratch.file("junk.bin", &[0xA5; 1000]);
    let index = scratch.file("00000000000000000000.index", &[0; 24]);
    let empty_dir = scratch.path().join("empty");
    fs::create_dir(&empty_dir).expect("created");
    let missing = scratch.path().join("missing.log");
    let null = scratch.path().join("null.log");
    symlink("/dev/null", &null).expect("linked");
    let fifo = scratch.path().join("fifo.log");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs");
    assert!(made.success());
    let dangling = scratch.path().join("dangling.log");
    symlink(&missing, &dangling).expect("linked");
    let null_device = Path::new("/dev/null").to_path_buf();
    for path in
        [without_extension, junk, index, empty_dir, missing, null, fifo, dangling, null_device]
    {
        for verb in VERBS.iter().chain(&[&["repair"][..], &["repair", "--apply"]]) {
            let args = verb.iter().map(OsStr::new).chain([path.as_os_str()]);
            let ran = dump(args).expect(2);
            assert!(ran.err.contains(path.to_str().expect("UTF-8")), "{verb:?}: {ran:?}");
            assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
        }
    }
    // No path, no verb, an unknown flag: usage, with exit code 2 as well.
    for args in [&["verify"][..], &[], &["verify", "--wat", "x"], &["show", "--limit", "-1", "x"]] {
        let ran = dump(args).expect(2);
        assert!(ran.err.contains("Usage"), "{ran:?}");
    }
    for args in [&["--help"][..], &["--version"], &["verify", "--help"]] {
        assert!(!dump(args).expect(0).out.is_empty());
    }
}

#[test]
fn an_empty_segment_is_clean() {
    let scratch = Scratch::new();
    let path = scratch.file("00000000000000000042.log", b"");
    for verb in VERBS {
        dump(verb.iter().map(OsStr::new).chain([path.as_os_str()])).expect(0);
    }
    let listed = dump([OsStr::new("ls"), path.as_os_str()]).expect(0).out;
    let line = listed.lines().nth(1).expect("a line");
    assert_eq!(line.split_whitespace().next(), Some("42"));
}

/// One path that fails does not hide the damage, or the soundness, of the others.
#[test]
fn failures_and_damage_together() {
    let scratch = Scratch::new();
    let good = Segment::new(0, 0, &[1]).write(&scratch, "good");
    let mut torn = Segment::new(0, 0, &[1, 1]);
    torn.bytes.pop();
    let torn = torn.write(&scratch, "torn");
    let missing = scratch.path().join("missing.log");
    let args = [OsStr::new("verify"), missing.as_os_str(), torn.as_os_str(), good.as_os_str()];
    let ran = dump(args).expect(2);
    assert!(ran.out.contains("torn_tail") && ran.out.contains("clean"), "{ran:?}");
    dump([OsStr::new("verify"), torn.as_os_str(), good.as_os_str()]).expect(1);
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let partition = real_partition();
    let runs = VERBS.iter().map(|verb| (*verb, partition.as_os_str()));
    for (verb, last) in runs.chain([(&["decode", "name"][..], OsStr::new("0167"))]) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = binary()
            .args(verb)
            .arg(last)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(0) && err.is_empty(), "{verb:?}: {output:?}");
    }
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let output =
        binary().arg("verify").arg(real_partition()).stdout(full).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("output"), "{output:?}");
}

#[test]
fn nothing_is_ever_modified() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[2, 2, 2]);
    segment.bytes[segment.batches[1].start + 300] ^= 1;
    segment.bytes.resize(segment.bytes.len() + 5000, 0);
    segment.index.truncate(1);
    scratch.file("p/manifest", &segment.manifest_at(10));
    segment.write(&scratch, "p");
    let picture = || -> Vec<_> {
        let mut all: Vec<_> = fs::read_dir(scratch.path().join("p"))
            .expect("listed")
            .map(|entry| {
                let path = entry.expect("an entry").path();
                let modified = fs::metadata(&path).and_then(|m| m.modified()).expect("a time");
                (path.clone(), modified, fs::read(path).expect("read"))
            })
            .collect();
        all.sort();
        all
    };
    let before = picture();
    for verb in VERBS {
        dump(verb.iter().map(OsStr::new).chain([scratch.path().join("p").as_os_str()]));
    }
    assert_eq!(before, picture());
}

/// A name that would drive a terminal is shown escaped.
#[test]
fn hostile_names_are_escaped() {
    let scratch = Scratch::new();
    let path = scratch.file("a\n\u{1b}[2Jb.log", b"");
    let ran = dump([OsStr::new("verify"), path.as_os_str()]).expect(0);
    assert!(ran.out.contains("a\\n\\u{1b}[2Jb.log"), "{ran:?}");
    assert_eq!(ran.out.lines().count(), 1);
}
