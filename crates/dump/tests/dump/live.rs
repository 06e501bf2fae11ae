//! Files that a process holds: read, not mapped, and said so.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::support::{Scratch, Segment, verify_one};

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
