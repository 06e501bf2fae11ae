//! What a partition's manifest adds: below its mark damage is corruption, wherever it stands.

use corelog_format::{Manifest, Mark, segment_file_name};
use serde_json::{Value, json};

use crate::support::{Scratch, Segment, dump, verify, verify_one};

/// A partition of one segment of three batches, with a manifest and damage in the last batch.
fn torn_with_mark(mark: impl Fn(&Segment) -> usize) -> (Scratch, std::path::PathBuf) {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[2, 2, 2]);
    scratch.file("p/manifest", &segment.manifest_at(mark(&segment)));
    let last = segment.batches[2].clone();
    segment.bytes[last.start + 310] ^= 1;
    let path = segment.write(&scratch, "p");
    (scratch, path)
}

#[test]
fn damage_at_the_tail_is_judged_by_the_mark() {
    for (below, verdict) in [(false, "torn_tail"), (true, "corrupt")] {
        let (scratch, path) =
            torn_with_mark(|s| if below { s.bytes.len() } else { s.batches[2].start });
        // However the partition is named: its file, or its directory.
        for path in [path, scratch.path().join("p")] {
            let report = verify_one(&path, 1);
            assert_eq!((&report["verdict"], &report["batches"]), (&json!(verdict), &json!(2)));
        }
    }
}

/// A log cut exactly between two batches looks whole; the mark knows better.
#[test]
fn a_log_that_ends_before_its_mark_is_corrupt() {
    for tail in [0, 5000, 8 << 20] {
        let scratch = Scratch::new();
        let mut segment = Segment::new(0, 0, &[2, 2, 2]);
        scratch.file("p/manifest", &segment.manifest_at(segment.bytes.len()));
        segment.bytes.truncate(segment.batches[2].start);
        segment.index.truncate(2);
        let path = segment.write(&scratch, "p");
        // Zeros that were never written: a hole, where the file system has holes.
        let file = std::fs::File::options().write(true).open(&path).expect("opened");
        file.set_len((segment.bytes.len() + tail) as u64).expect("longer");
        let report = verify_one(&path, 1);
        assert_eq!((&report["verdict"], &report["batches"]), (&json!("corrupt"), &json!(2)));
        assert_eq!(report["faults"][0]["offset"], 4);
    }
}

#[test]
fn all_of_an_earlier_segment_is_durable_and_nothing_of_a_later_one() {
    let scratch = Scratch::new();
    let first = Segment::new(0, 0, &[2, 2]);
    let second = Segment::new(0, 4, &[2]);
    let third = Segment::new(0, 6, &[1, 1]);
    scratch.file("p/manifest", &second.manifest_at(second.bytes.len()));
    for segment in [&first, &second, &third] {
        segment.write(&scratch, "p");
    }
    let verdicts = |code| -> Vec<Value> {
        verify(&scratch.path().join("p"), code).iter().map(|r| r["verdict"].clone()).collect()
    };
    assert_eq!(verdicts(0), ["clean", "clean", "clean"]);
    // Named by itself the first file has nothing behind it, but the mark is in a later one.
    let mut torn = first.clone();
    torn.bytes.truncate(first.bytes.len() - 1);
    let path = torn.write(&scratch, "p");
    assert_eq!(verify_one(&path, 1)["verdict"], "corrupt");
    first.write(&scratch, "p");
    let mut torn = third.clone();
    torn.bytes.truncate(third.bytes.len() - 1);
    torn.write(&scratch, "p");
    assert_eq!(verdicts(1), ["clean", "clean", "torn_tail"]);
}

/// What stands in the place of a segment is none: a directory, say.
#[test]
fn a_segment_whose_name_something_else_has_is_reported() {
    let scratch = Scratch::new();
    let segment = Segment::new(0, 0, &[2]);
    scratch.file("p/manifest", &segment.manifest_at(segment.bytes.len()));
    let path = segment.write(&scratch, "p");
    std::fs::remove_file(&path).expect("it is there");
    std::fs::create_dir(&path).expect("the name is free");
    let reports = verify(&scratch.path().join("p"), 1);
    assert_eq!((&reports[0]["verdict"], &reports[0]["batches"]), (&json!("corrupt"), &json!(0)));
}

/// The mark is in a later segment; the manifest says where the log begins.
#[test]
fn a_missing_first_segment_is_reported() {
    let scratch = Scratch::new();
    let second = Segment::new(0, 4, &[2]);
    let stored = second.manifest_at(second.bytes.len());
    scratch.file("p/manifest", &stored);
    second.write(&scratch, "p");
    let reports = verify(&scratch.path().join("p"), 1);
    let verdicts: Vec<_> = reports.iter().map(|report| report["verdict"].clone()).collect();
    assert_eq!(verdicts, ["clean", "corrupt"]);
    assert_eq!(reports[1]["faults"][0]["offset"], 0);
    // One that was trimmed away is not missed.
    let picked = Manifest::pick(&stored[..4096], &stored[4096..]).expect("it is sound");
    let trimmed = Manifest { first_offset: 4, ..picked.expect("it is there").0 };
    scratch.file("p/manifest", &[trimmed.encode(), [0; 4096]].concat());
    assert_eq!(verify_one(&scratch.path().join("p"), 0)["verdict"], "clean");
}

#[test]
fn a_durable_segment_that_is_gone_is_reported() {
    let scratch = Scratch::new();
    let first = Segment::new(0, 0, &[2]);
    let second = Segment::new(0, 2, &[2]);
    scratch.file("p/manifest", &second.manifest_at(second.bytes.len()));
    first.write(&scratch, "p");
    let files = verify(&scratch.path().join("p"), 1);
    assert_eq!(files.len(), 2);
    assert_eq!((&files[0]["verdict"], &files[1]["verdict"]), (&json!("clean"), &json!("corrupt")));
    let path = files[1]["path"].as_str().expect("a path");
    assert!(path.ends_with(&segment_file_name(2)), "{path}");
    assert_eq!(files[1]["faults"][0]["found"], "missing");
}

/// The mark is at the start of a segment, so nothing of that one was durable, but all before it was:
/// whether the segment is there, and empty, or not.
#[test]
fn a_log_that_ends_before_the_marks_segment_is_corrupt() {
    let mark = Mark { segment: 6, position: 0, next_offset: 6, last_timestamp: 0 };
    let manifest = Manifest { sequence: 1, incarnation: 1, first_offset: 0, adopted_end: 0, mark };
    for (batches, ends, is_there) in
        [(&[2, 2, 2][..], 6, false), (&[2, 2], 4, false), (&[2, 2], 4, true), (&[], 0, true)]
    {
        let scratch = Scratch::new();
        scratch.file("p/manifest", &[manifest.encode(), [0; 4096]].concat());
        Segment::new(0, 0, batches).write(&scratch, "p");
        if is_there {
            Segment::new(0, 6, &[]).write(&scratch, "p");
        }
        let dir = scratch.path().join("p");
        let dir = dir.to_str().expect("UTF-8");
        let code = i32::from(ends < 6);
        let document = dump(["verify", "--json", dir]).expect(code).json();
        let holes = &document["partitions"][0]["holes"];
        let lost = dump(["repair", "--json", dir]).json()["partitions"][0]["lost"].clone();
        let file = &document["files"][0];
        if ends == 6 {
            assert_eq!((&file["verdict"], holes, &lost), (&json!("clean"), &json!([]), &json!([])));
            continue;
        }
        assert_eq!(file["verdict"], "corrupt", "{ends} {is_there}");
        let fault = &file["faults"][0];
        assert_eq!((&fault["field"], &fault["offset"]), (&json!("next_segment"), &json!(ends)));
        assert_eq!(holes, &json!([{ "from": ends, "to": 6 }]), "{is_there}");
        assert_eq!(&lost, holes, "{is_there}");
    }
}

#[test]
fn the_newer_slot_counts_and_a_torn_one_is_passed_over() {
    let mark = |sequence, position| {
        let mark = Mark { segment: 0, position, next_offset: 6, last_timestamp: 1 };
        Manifest { sequence, incarnation: 1, first_offset: 0, adopted_end: 0, mark }.encode()
    };
    let (scratch, path) = torn_with_mark(|_| 0);
    let slots = |a: &[u8], b: &[u8]| scratch.file("p/manifest", &[a, b].concat());
    let verdict = || verify_one(&path, 1)["verdict"].clone();
    slots(&mark(1, 0), &mark(2, 1 << 20));
    assert_eq!(verdict(), "corrupt");
    slots(&mark(3, 0), &mark(2, 1 << 20));
    assert_eq!(verdict(), "torn_tail");
    let mut torn = mark(3, 0);
    torn[100] ^= 1;
    slots(&torn, &mark(2, 1 << 20));
    assert_eq!(verdict(), "corrupt");
}

#[test]
fn a_manifest_that_tells_nothing_is_said() {
    let (scratch, path) = torn_with_mark(|s| s.bytes.len());
    let manifest = scratch.path().join("p/manifest");
    let args = ["verify", "--json", path.to_str().expect("UTF-8")];
    // Never written: as if there were none.
    for empty in [&[][..], &[0; 8192]] {
        std::fs::write(&manifest, empty).expect("written");
        let ran = dump(args).expect(1);
        assert!(ran.err.is_empty() && ran.out.contains("torn_tail"), "{ran:?}");
    }
    // Damaged in both slots: recovery has no mark either, and neither have we.
    std::fs::write(&manifest, [7; 8192]).expect("written");
    let ran = dump(args).expect(1);
    assert!(ran.err.contains("manifest") && ran.out.contains("torn_tail"), "{ran:?}");
}

#[test]
fn a_manifest_of_a_newer_version_is_an_error() {
    let (scratch, path) = torn_with_mark(|s| s.bytes.len());
    let mut slot = std::fs::read(scratch.path().join("p/manifest")).expect("read");
    // Version u32 at 16; the checksum u64 at 8 is over what follows it.
    slot[16] = 2;
    let sum = corelog_format::checksum::xxh3(&slot[16..4096]);
    slot[8..16].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(scratch.path().join("p/manifest"), slot).expect("written");
    let ran = dump(["verify", path.to_str().expect("UTF-8")]).expect(2);
    assert!(ran.err.contains("manifest") && ran.err.contains("version 2"), "{ran:?}");
}

#[test]
fn leftovers_below_the_first_retained_offset_are_a_finding() {
    let scratch = Scratch::new();
    let first = Segment::new(0, 0, &[2]);
    let second = Segment::new(0, 2, &[2]);
    let mark = Mark { segment: 2, position: 0, next_offset: 2, last_timestamp: 1 };
    let manifest = Manifest { sequence: 1, incarnation: 1, first_offset: 2, adopted_end: 0, mark };
    scratch.file("p/manifest", &[manifest.encode(), [0; 4096]].concat());
    first.write(&scratch, "p");
    second.write(&scratch, "p");
    let files = verify(&scratch.path().join("p"), 0);
    assert_eq!(files[0]["findings"][0]["finding"], "not_retained");
    assert_eq!(files[1]["findings"], json!([]));
}

/// Recovery refuses both: a mark inside of a batch, and an engine's clock that went back.
#[test]
fn what_cannot_stand_beside_its_mark() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[2, 2]);
    segment.last_timestamp -= 1000;
    segment.push(0, &[vec![1; 50]]);
    segment.push(0, &[vec![1; 50]]);
    let path = segment.write(&scratch, "p");
    let second = segment.batches[1].clone();
    for (mark, verdict, fault) in [
        // Below the mark batches may be adopted from the reference server.
        (segment.bytes.len(), "clean", None),
        (segment.batches[3].start, "clean", None),
        (second.end, "corrupt", Some(("base_timestamp", second.end))),
        (second.start, "corrupt", Some(("base_timestamp", second.end))),
        (second.start + 1, "corrupt", Some(("durable_mark", second.start))),
        (second.end - 1, "corrupt", Some(("durable_mark", second.start))),
    ] {
        scratch.file("p/manifest", &segment.manifest_at(mark));
        let report = verify_one(&path, i32::from(verdict != "clean"));
        assert_eq!(
            (&report["verdict"], &report["batches"]),
            (&json!(verdict), &json!(4)),
            "{mark}"
        );
        let found = report["faults"].get(0).map(|f| (f["field"].as_str(), f["position"].as_u64()));
        assert_eq!(found, fault.map(|(field, at)| (Some(field), Some(at as u64))), "{mark}");
        let back = report["findings"].to_string().contains("time_went_back");
        assert!(back, "{report}");
    }
}
