//! Vast and changing files: sparse tebibytes, files that shrink under the map.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Scratch, Segment, binary, dump, with_path};

/// What reads, in as many ways as there are.
const COMMANDS: [&[&str]; 9] = [
    &["ls", "--json"],
    &["show", "--messages", "--ndjson"],
    &["show", "--reverse"],
    &["show", "--offset", "3"],
    &["stats"],
    &["extract"],
    &["hex", "--offset", "3"],
    &["hex", "--at", "100"],
    &["verify"],
];

/// A tebibyte of hole behind a few batches costs neither time nor memory.
#[test]
fn a_sparse_tebibyte() {
    let scratch = Scratch::new();
    let path = Segment::new(0, 0, &[2, 2]).write(&scratch, "p");
    File::options().write(true).open(&path).and_then(|f| f.set_len(1 << 40)).expect("sparse");
    for command in COMMANDS {
        for flags in [&[][..], &["--no-mmap"], &["--direct"]] {
            let script = match flags {
                // A mapping takes as much of the address space.
                [] => "exec \"$@\"",
                _ => "ulimit -v 65536 && exec \"$@\"",
            };
            let began = Instant::now();
            let output = Command::new("sh")
                .args(["-c", script, "sh", env!("CARGO_BIN_EXE_corelog-dump")])
                .args(command)
                .args(flags)
                .arg(&path)
                .output()
                .expect("it runs");
            assert_eq!(output.status.code(), Some(0), "{command:?} {flags:?}: {output:?}");
            assert!(!output.stdout.is_empty());
            assert!(began.elapsed() < Duration::from_secs(60), "{command:?} {flags:?}");
        }
    }
    let diff = dump([std::ffi::OsStr::new("diff"), path.as_os_str(), path.as_os_str()]).expect(0);
    assert!(diff.out.starts_with("the same"));
}

/// A tebibyte that begins with rubbish: a search behind damage is bounded as well.
#[test]
fn a_sparse_tebibyte_of_damage() {
    let scratch = Scratch::new();
    let path = scratch.file("00000000000000000000.log", &[0xA5; 5000]);
    File::options().write(true).open(&path).and_then(|f| f.set_len(1 << 40)).expect("sparse");
    for command in COMMANDS {
        let ran = dump(with_path(command, &path));
        assert_eq!(ran.code, Some(1), "{command:?}: {ran:?}");
        assert!(!ran.err.contains("panicked"));
    }
    let diff = dump([std::ffi::OsStr::new("diff"), path.as_os_str(), path.as_os_str()]).expect(0);
    assert!(diff.out.starts_with("the same"));
}

/// The hole is in the middle: what stands behind it is found, in no time and no memory.
#[test]
fn a_sparse_tebibyte_between_batches() {
    let scratch = Scratch::new();
    let segment = Segment::new(0, 0, &[2, 2]);
    let path = segment.write(&scratch, "p");
    let behind = Segment::new(0, 4, &[2]).bytes;
    let file = File::options().write(true).open(&path).expect("opened");
    std::os::unix::fs::FileExt::write_all_at(&file, &behind, 1 << 39).expect("written");
    file.set_len(1 << 40).expect("sparse");
    for command in COMMANDS {
        let began = Instant::now();
        let ran = dump(with_path(command, &path));
        // The hole is damage for whoever comes to it.
        assert!(ran.code < Some(2) && !ran.err.contains("panicked"), "{command:?}: {ran:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "{command:?}");
    }
    let ran = dump(with_path(&["show", "--ndjson"], &path)).expect(1);
    assert_eq!(ran.lines().len(), 3, "{ran:?}");
}

/// The program waits for us to read, and finds the file cut when it goes on.
#[test]
fn a_file_that_shrinks_under_the_map() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[]);
    while segment.bytes.len() < 8 << 20 {
        segment.push(0, &vec![vec![b'x'; 100]; 10]);
    }
    for flags in [&[][..], &["--no-mmap"], &["--direct"]] {
        let path = segment.write(&scratch, "p");
        let mut child = binary()
            .args(["show", "--messages", "--ndjson"])
            .args(flags)
            .arg(&path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut out = child.stdout.take().expect("a pipe");
        // It is under way; the pipe holds far less than all lines.
        let mut front = [0; 1000];
        out.read_exact(&mut front).expect("lines");
        File::options().write(true).open(&path).and_then(|f| f.set_len(3 << 20)).expect("cut");
        let mut lines = front.to_vec();
        out.read_to_end(&mut lines).expect("lines");
        let output = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr);
        if flags.is_empty() {
            assert_eq!(output.status.code(), Some(2), "{err}");
            assert!(err.contains("shrank") && !err.contains("damage"), "{err}");
            continue;
        }
        // What is read is looked at again as it is now: the batch that the cut went through is
        // damage, and what was printed is not printed twice.
        assert_eq!(output.status.code(), Some(1), "{flags:?}: {err}");
        assert_eq!(err.matches("damage at").count(), 1, "{flags:?}: {err}");
        let whole = segment.batches.iter().filter(|batch| batch.end <= 3 << 20).count();
        let offsets: Vec<u64> = String::from_utf8(lines)
            .expect("UTF-8")
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).expect("JSON")["offset"].as_u64()
            })
            .map(|offset| offset.expect("a number"))
            .collect();
        assert!(offsets.iter().copied().eq(0..10 * whole as u64), "{flags:?}: {}", offsets.len());
    }
}

/// What --direct asks for is refused where it cannot be had, not forgotten.
#[test]
fn direct_reads_give_the_same() {
    let scratch = Scratch::new();
    let path = Segment::new(0, 0, &[2, 3, 4, 5]).write(&scratch, "p");
    for command in COMMANDS {
        let plain = dump(with_path(command, &path)).expect(0);
        let direct = dump(with_path(&[command, &["--direct"]].concat(), &path)).expect(0);
        assert_eq!(plain.out, direct.out, "{command:?}");
    }
}
