//! Files that a process holds: read, not mapped, and said so.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::support::{Scratch, Segment, binary, log_flags, reads_around_the_cache, verify_one};

/// A child that another test starts just now has this process's files until it runs its program.
fn wait_until_free(path: &Path) {
    let other = File::open(path).expect("opened");
    while flock(&other, FlockOperation::NonBlockingLockExclusive).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_held_file_is_verified_and_said_to_be_in_motion() {
    let scratch = Scratch::new();
    let path = Segment::new(0, 0, &[2, 2]).write(&scratch, "p");
    let engine = File::open(&path).expect("opened");
    flock(&engine, FlockOperation::LockExclusive).expect("locked");
    let report = verify_one(&path, 0);
    assert_eq!((&report["verdict"], &report["batches"]), (&"clean".into(), &2.into()));
    assert_eq!(report["findings"][0]["finding"], "held");
    // Looking took no lock and left none.
    drop(engine);
    wait_until_free(&path);
    assert_eq!(verify_one(&path, 0)["findings"], serde_json::json!([]));
    let engine = File::open(&path).expect("opened");
    flock(&engine, FlockOperation::NonBlockingLockExclusive).expect("free");
}

/// The second look at a tail that an engine may be writing begins in the middle of the log: it must
/// expect what continues it, and not the segment's first batch once more.
#[test]
fn a_second_look_at_a_held_tail_expects_what_continues_it() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[2, 2]);
    let end = segment.bytes.len();
    segment.bytes.extend_from_within(..);
    let path = segment.write(&scratch, "p");
    let free = verify_one(&path, 1);
    let engine = File::open(&path).expect("opened");
    flock(&engine, FlockOperation::LockExclusive).expect("locked");
    let held = verify_one(&path, 1);
    assert_eq!(held["faults"][0]["position"], end);
    for field in ["verdict", "batches", "faults"] {
        assert_eq!(held[field], free[field], "{field}");
    }
}

/// A page cache may hold old pages of what an engine writes around it: a file that is held is read
/// around it too, by every command, and one that nobody holds is mapped.
#[test]
fn a_held_file_is_read_around_the_cache() {
    let scratch = Scratch::new();
    // More than a pipe and a buffer hold: nobody reads, so it waits with the file open.
    let path = Segment::new(0, 0, &[100; 40]).write(&scratch, "p");
    let flags_while_held = |is_held: bool, args: &[&str]| {
        let engine = is_held.then(|| File::open(&path).expect("opened"));
        if let Some(engine) = &engine {
            flock(engine, FlockOperation::LockExclusive).expect("locked");
        }
        let mut child = Waiting::start(args, &path);
        let begun = reads_around_the_cache_if(&mut child, is_held);
        drop(engine);
        begun
    };
    for args in [&["show", "--messages"][..], &["extract", "--format", "ndjson"]] {
        assert!(flags_while_held(true, args), "{args:?}");
        wait_until_free(&path);
        assert!(flags_while_held(false, args), "{args:?}: mapped where nobody holds it");
    }
}

/// A program whose output nobody reads; it ends with the test.
struct Waiting(Child);

impl Waiting {
    fn start(args: &[&str], path: &Path) -> Waiting {
        let child = binary().args(args).arg(path).stdout(Stdio::piped()).spawn();
        Waiting(child.expect("it starts"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether it has come to read its log so, with O_DIRECT or without.
fn reads_around_the_cache_if(waiting: &mut Waiting, direct: bool) -> bool {
    if direct {
        return reads_around_the_cache(&waiting.0);
    }
    let began = Instant::now();
    while log_flags(&waiting.0).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(5), "it opens its log");
    }
    // It has had the time to change its mind.
    std::thread::sleep(Duration::from_millis(100));
    log_flags(&waiting.0).iter().all(|flags| flags & 0o40000 == 0)
}
