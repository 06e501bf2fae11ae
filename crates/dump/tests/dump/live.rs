//! Files that a process holds: read, not mapped, and said so.

use rustix::fs::{FlockOperation, flock};

use crate::support::{Scratch, Segment, verify_one};

#[test]
fn a_held_file_is_verified_and_said_to_be_in_motion() {
    let scratch = Scratch::new();
    let path = Segment::new(0, 0, &[2, 2]).write(&scratch, "p");
    let engine = std::fs::File::open(&path).expect("opened");
    flock(&engine, FlockOperation::LockExclusive).expect("locked");
    let report = verify_one(&path, 0);
    assert_eq!((&report["verdict"], &report["batches"]), (&"clean".into(), &2.into()));
    assert_eq!(report["findings"][0]["finding"], "held");
    // Looking took no lock and left none.
    drop(engine);
    assert_eq!(verify_one(&path, 0)["findings"], serde_json::json!([]));
    let engine = std::fs::File::open(&path).expect("opened");
    flock(&engine, FlockOperation::NonBlockingLockExclusive).expect("free");
}
