//! What `repair` and `index` promise to scripts: nothing is done beside an engine, and said by the
//! exit code; no old file is written over.

use std::fs::{self, File};

use rustix::fs::{FlockOperation, flock};

use crate::support::{Scratch, Segment, dump};

const DIR: &str = "streams/0/topics/0/partitions/7";

#[test]
fn beside_an_engine_changes_are_refused() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(7, 0, &[2, 2]);
    segment.bytes.extend_from_slice(&[0xA5; 300]);
    segment.index[1].position += 1;
    let log = segment.write(&scratch, DIR);
    let lock = scratch.file("LOCK", b"");
    let path = scratch.path().to_str().expect("UTF-8");
    for held in [&lock, &log] {
        let engine = File::open(held).expect("opened");
        flock(&engine, FlockOperation::LockExclusive).expect("locked");
        for args in [&["repair", path][..], &["repair", "--apply", path]] {
            let ran = dump(args).expect(3);
            assert!(ran.err.contains("held by another process"), "{args:?}: {ran:?}");
        }
        dump(["index", "rebuild", "--apply", path]).expect(3);
        assert_eq!(fs::read(&log).expect("read"), segment.bytes);
        assert!(!log.with_file_name("quarantine").exists());
    }
}

#[test]
fn the_old_index_is_kept_as_it_was() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(7, 0, &[2, 2]);
    segment.index[1].position += 1;
    let log = segment.write(&scratch, DIR);
    let path = scratch.path().to_str().expect("UTF-8");
    dump(["index", "rebuild", path]).expect(1);
    dump(["index", "rebuild", "--apply", path]).expect(0);
    let name = log.with_extension("index");
    let name = name.file_name().expect("a name").to_string_lossy().into_owned();
    let kept = log.with_file_name("quarantine").join(format!("{name}.0"));
    assert_eq!(fs::read(kept).expect("kept"), segment.index_bytes());
    dump(["index", "check", path]).expect(0);
}
