//! What `repair` and `index` promise to scripts: nothing is done beside an engine, and said by the
//! exit code; no old file is written over.

use std::fs::{self, File};

use rustix::fs::{FlockOperation, flock};

use crate::support::{Scratch, Segment, batch, dump};

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

/// The first batch is lost, so the log begins elsewhere: its old name goes, and with it the index
/// that would lie about a later file of that name. Both are kept.
#[test]
fn no_index_outlives_the_log_that_it_speaks_of() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(7, 0, &[2, 2]);
    segment.bytes[300] ^= 1;
    let log = segment.write(&scratch, DIR);
    dump(["repair", "--apply", scratch.path().to_str().expect("UTF-8")]).expect(0);
    let dir = log.parent().expect("a directory");
    let name = |first: u64, kind: &str| dir.join(format!("{first:020}.{kind}"));
    assert!(!name(0, "log").exists() && !name(0, "index").exists(), "the old names");
    assert_eq!(fs::read(name(2, "log")).expect("kept"), segment.bytes[segment.batches[1].clone()]);
    assert!(name(2, "index").exists());
    let kept = |kind: &str| dir.join(format!("quarantine/{:020}.{kind}.0", 0));
    assert_eq!(fs::read(kept("log")).expect("kept"), segment.bytes);
    assert_eq!(fs::read(kept("index")).expect("kept"), segment.index_bytes());
}

/// A copy in a directory of its own is all of its log: cut, salvaged and indexed as one.
#[test]
fn a_file_that_is_all_of_its_log_is_repaired() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(7, 40, &[2, 2, 2]);
    let whole = segment.bytes.clone();
    segment.bytes[segment.batches[1].start + 300] ^= 1;
    segment.bytes.extend_from_slice(&[0xA5; 300]);
    let log = segment.write(&scratch, "copy");
    let path = log.to_str().expect("UTF-8");
    let plan = dump(["repair", "--json", path]).expect(1).json();
    assert_eq!(plan["partitions"][0]["actions"][0]["action"], "salvage");
    assert_eq!(fs::read(&log).expect("read"), segment.bytes, "a plan changes nothing");
    let done = dump(["repair", "--apply", path]).expect(0);
    assert!(done.out.contains("offsets 42 to 43 stay lost"), "{done:?}");
    let [first, _, last] = &segment.batches[..] else { panic!("three batches") };
    assert_eq!(fs::read(&log).expect("read"), whole[first.clone()]);
    let second = log.with_file_name(format!("{:020}.log", 44));
    assert_eq!(fs::read(&second).expect("read"), whole[last.clone()]);
    for log in [&log, &second] {
        dump(["verify", log.to_str().expect("UTF-8")]).expect(0);
        dump(["index", "check", log.to_str().expect("UTF-8")]).expect(0);
    }
    let kept = log.with_file_name("quarantine").join(format!("{:020}.log.0", 40));
    assert_eq!(fs::read(kept).expect("kept"), segment.bytes);
    // It has a neighbour now; both together are all of the log again.
    let both = [path, second.to_str().expect("UTF-8")];
    dump(["repair", path]).expect(3);
    dump([&["repair"][..], &both].concat()).expect(0);
}

/// Beside others nobody knows what is right for one: refused, with what to do instead.
#[test]
fn a_file_beside_others_is_not_repaired_on_its_own() {
    let scratch = Scratch::new();
    let mut torn = Segment::new(7, 0, &[2, 2]);
    torn.bytes.pop();
    let beside_manifest = torn.write(&scratch, "a");
    scratch.file("a/manifest", &torn.manifest_at(0));
    let beside_another = torn.write(&scratch, "b");
    Segment::new(7, 4, &[1]).write(&scratch, "b");
    let unnamed = scratch.file("c/copy.log", &torn.bytes);
    let nothing = scratch.file("d/copy.log", b"no batch at all");
    let linked = scratch.path().join("e/00000000000000000000.log");
    fs::create_dir(scratch.path().join("e")).expect("created");
    std::os::unix::fs::symlink(&unnamed, &linked).expect("linked");
    for (path, says) in [
        (&beside_manifest, "the manifest beside it"),
        (&beside_another, "00000000000000000004.log stands beside it"),
        (&unnamed, "rename it to 00000000000000000000.log"),
        (&nothing, "neither does its first batch"),
        (&linked, "it is a link"),
    ] {
        for args in [&["repair"][..], &["repair", "--apply"]] {
            let path = path.to_str().expect("UTF-8");
            let ran = dump([args, &[path]].concat()).expect(3);
            assert!(ran.err.contains(path) && ran.err.contains(says), "{ran:?}");
            assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
        }
        assert!(!path.with_file_name("quarantine").exists());
    }
    assert_eq!(fs::read(&unnamed).expect("read"), torn.bytes);
    let engine = File::open(torn.write(&scratch, "f")).expect("opened");
    flock(&engine, FlockOperation::LockExclusive).expect("locked");
    let held = scratch.path().join("f/00000000000000000000.log");
    let ran = dump(["repair", "--apply", held.to_str().expect("UTF-8")]).expect(3);
    assert!(ran.err.contains("held by another process"), "{ran:?}");
    // An index can be made for a name that says where it begins, and for no other.
    let ran = dump(["index", "rebuild", "--apply", unnamed.to_str().expect("UTF-8")]).expect(1);
    assert!(ran.err.contains("rename it to"), "{ran:?}");
}

/// What a repair makes of damage in a mirror's log: its own batches, and none of those that its
/// messages carry.
#[test]
fn a_repair_salvages_no_batch_out_of_a_payload() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(7, 0, &[2]);
    let time = segment.last_timestamp;
    let carried = |offset| batch(7, offset, time + offset, &[vec![5; 90]]);
    segment.push(7, &[carried(2), carried(3), carried(4)]);
    segment.push(7, &[vec![6; 70]]);
    // The header is gone that says how long it is.
    let start = segment.batches[1].start;
    segment.bytes[start..start + 256].fill(0xA5);
    let log = segment.write(&scratch, DIR);
    let done = dump(["repair", "--json", "--apply", scratch.path().to_str().expect("UTF-8")]);
    let lost = &done.expect(0).json()["partitions"][0]["lost"];
    assert_eq!(*lost, serde_json::json!([{"from": 2, "to": 5}]));
    let second = log.with_file_name(format!("{:020}.log", 5));
    assert_eq!(fs::read(second).expect("read"), segment.bytes[segment.batches[2].clone()]);
}
