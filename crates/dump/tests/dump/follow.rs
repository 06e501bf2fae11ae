//! `follow` of a partition that is written as an engine writes it: allocated ahead, in blocks, over
//! rolls.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::schema::assert_fits;
use crate::support::{Scratch, Segment, binary, dump, reads_around_the_cache, with_path};

/// A program that follows; it ends with the test.
struct Follower {
    child: Child,
    /// Taken where nobody reads any more.
    lines: Option<BufReader<ChildStdout>>,
}

impl Follower {
    fn start(partition: &Path, flags: &[&str]) -> Follower {
        let mut child = binary()
            .args(["follow", "--ndjson", "--messages"])
            .args(flags)
            .arg(partition)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = child.stdout.take().map(BufReader::new);
        Follower { child, lines }
    }

    /// The offset of the next line.
    fn offset(&mut self) -> u64 {
        let mut line = String::new();
        self.lines.as_mut().expect("a pipe").read_line(&mut line).expect("a line");
        let value: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        value["offset"].as_u64().expect("a number")
    }

    fn expect(&mut self, offsets: std::ops::Range<u64>) {
        for offset in offsets {
            assert_eq!(self.offset(), offset);
        }
    }

    /// Ends it as Ctrl-C does; gives its exit code and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).expect("a signal");
        let status = self.child.wait().expect("it ends");
        let mut err = String::new();
        let mut stderr = self.child.stderr.take().expect("a pipe");
        std::io::Read::read_to_string(&mut stderr, &mut err).expect("UTF-8");
        (status.code(), err)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The active segment of a partition, allocated ahead and held.
struct Active {
    file: File,
    path: PathBuf,
    written: usize,
}

impl Active {
    fn create(dir: &Path, first_offset: u64) -> Active {
        fs::create_dir_all(dir).expect("created");
        let path = dir.join(format!("{first_offset:020}.log"));
        let file = File::create_new(&path).expect("created");
        flock(&file, FlockOperation::LockExclusive).expect("locked");
        file.set_len(1 << 20).expect("allocated");
        Active { file, path, written: 0 }
    }

    /// Writes everything of `segment` up to byte `to` that was not written yet.
    fn write(&mut self, segment: &Segment, to: usize) {
        self.file
            .write_all_at(&segment.bytes[self.written..to], self.written as u64)
            .expect("written");
        self.file.sync_data().expect("synced");
        self.written = to;
    }

    fn seal(self) -> PathBuf {
        self.file.set_len(self.written as u64).expect("cut");
        self.path
    }
}

#[test]
fn what_comes_is_printed_over_rolls() {
    let scratch = Scratch::new();
    let dir = scratch.path().join("partitions/0");
    let first = Segment::new(0, 0, &[2, 3, 1, 2]);
    let mut active = Active::create(&dir, 0);
    active.write(&first, first.batches[0].end);
    let mut all = Follower::start(&dir, &["--from", "start"]);
    let mut from_four = Follower::start(&dir, &["--from", "4"]);
    all.expect(0..2);
    assert!(reads_around_the_cache(&all.child));
    // Half a batch is none, and none is lost.
    active.write(&first, first.batches[1].start + 100);
    std::thread::sleep(Duration::from_millis(200));
    active.write(&first, first.batches[1].end);
    all.expect(2..5);
    from_four.expect(4..5);
    active.write(&first, first.bytes.len());
    let sealed = active.seal();
    let second = Segment::new(0, 8, &[1, 1]);
    let mut active = Active::create(&dir, 8);
    active.write(&second, second.bytes.len());
    all.expect(5..10);
    from_four.expect(5..10);
    let mut tail = Follower::start(&dir, &[]);
    // Everybody follows; what is behind is no matter to the one who begins at the end.
    std::thread::sleep(Duration::from_millis(300));
    fs::remove_file(sealed).expect("retention took it");
    let third = Segment::new(0, 10, &[2]);
    let sealed = active.seal();
    let mut active = Active::create(&dir, 10);
    active.write(&third, third.bytes.len());
    for follower in [&mut all, &mut from_four, &mut tail] {
        follower.expect(10..12);
    }
    for follower in [all, from_four, tail] {
        assert_eq!(follower.end(), (Some(0), String::new()));
    }
    assert!(sealed.exists());
}

#[test]
fn a_purge_begins_anew() {
    let scratch = Scratch::new();
    let dir = scratch.path().join("partitions/0");
    let old = Segment::new(0, 0, &[2, 2]);
    let mut active = Active::create(&dir, 0);
    active.write(&old, old.bytes.len());
    let mut follower = Follower::start(&dir, &["--from", "start"]);
    follower.expect(0..4);
    fs::remove_file(active.seal()).expect("removed");
    let new = Segment::new(0, 0, &[3]);
    let mut active = Active::create(&dir, 0);
    active.write(&new, new.bytes.len());
    follower.expect(0..3);
    let (code, err) = follower.end();
    assert!(code == Some(0) && err.contains("begins again with 0"), "{err}");
}

#[test]
fn damage_that_stays_is_said_and_stepped_over() {
    let scratch = Scratch::new();
    let dir = scratch.path().join("partitions/0");
    let mut segment = Segment::new(0, 0, &[2, 2, 2]);
    segment.bytes[segment.batches[1].start + 300] ^= 1;
    let mut active = Active::create(&dir, 0);
    active.write(&segment, segment.bytes.len());
    let mut follower = Follower::start(&dir, &["--from", "start"]);
    follower.expect(0..2);
    follower.expect(4..6);
    let (code, err) = follower.end();
    assert!(code == Some(1) && err.contains("damage at"), "{code:?} {err}");
}

/// Whoever reads goes away while nothing comes: it ends all the same, and not only with the next
/// message.
#[test]
fn a_closed_pipe_ends_it_although_nothing_comes() {
    let scratch = Scratch::new();
    let dir = scratch.path().join("partitions/0");
    let segment = Segment::new(0, 0, &[2]);
    let mut active = Active::create(&dir, 0);
    active.write(&segment, segment.bytes.len());
    let mut follower = Follower::start(&dir, &["--from", "start"]);
    follower.expect(0..2);
    std::thread::sleep(Duration::from_millis(200));
    assert!(follower.child.try_wait().expect("asked").is_none(), "an open pipe does not end it");
    drop(follower.lines.take());
    let began = Instant::now();
    let status = loop {
        match follower.child.try_wait().expect("asked") {
            Some(status) => break status,
            None => assert!(began.elapsed() < Duration::from_secs(20), "it goes on for nobody"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(0));
}

/// Lines of `follow` are as their schemas say.
#[test]
fn lines_are_as_their_schemas_say() {
    let scratch = Scratch::new();
    let dir = scratch.path().join("partitions/0");
    Segment::new(0, 0, &[2, 2]).write(&scratch, "partitions/0");
    let limit = ["follow", "--ndjson", "--from", "start", "--limit", "2"];
    let batches = dump(with_path(&limit, &dir)).expect(0).lines();
    let messages = dump(with_path(&[&limit[..], &["--messages"]].concat(), &dir)).expect(0).lines();
    assert_eq!((batches.len(), messages.len()), (2, 2));
    batches.iter().for_each(|line| assert_fits(line, "follow-batch"));
    messages.iter().for_each(|line| assert_fits(line, "follow-message"));
}

#[test]
fn a_limit_ends_it_and_so_does_what_is_no_partition() {
    let scratch = Scratch::new();
    let dir = scratch.path().join("partitions/0");
    Segment::new(0, 0, &[2, 2]).write(&scratch, "partitions/0");
    let ran = dump(with_path(&["follow", "--from", "1", "--limit", "2", "--messages"], &dir));
    assert_eq!(ran.expect(0).out.lines().count(), 2);
    Segment::new(1, 0, &[2]).write(&scratch, "partitions/1");
    dump(with_path(&["follow"], scratch.path())).expect(2);
    dump(with_path(&["follow", "--from", "soon"], &dir)).expect(2);
    dump(with_path(&["follow"], &scratch.path().join("missing"))).expect(2);
}
