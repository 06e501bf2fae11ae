//! `diff`: equal logs in any files, and the name of the first difference.

use std::path::Path;

use serde_json::Value;

use crate::support::{Ran, Scratch, Segment, dump, real_log, real_partition};

fn diff(a: &Path, b: &Path) -> Ran {
    dump([Path::new("diff"), Path::new("--json"), a, b])
}

fn different(a: &Path, b: &Path) -> Value {
    let text = dump([Path::new("diff"), a, b]).expect(1).out;
    assert!(text.starts_with("they differ"), "{text}");
    let document = diff(a, b).expect(1).json();
    assert_eq!((&document["schema"], &document["equal"]), (&1.into(), &false.into()));
    document
}

#[test]
fn the_same_log_in_other_files() {
    let scratch = Scratch::new();
    let whole = Segment::new(0, 0, &[2, 3, 1, 4]);
    let a = whole.write(&scratch, "a");
    let cut = whole.batches[2].start;
    scratch.file("b/00000000000000000000.log", &whole.bytes[..cut]);
    scratch.file("b/00000000000000000005.log", &whole.bytes[cut..]);
    let mut zeros = whole.clone();
    zeros.bytes.resize(whole.bytes.len() + 70_000, 0);
    let c = zeros.write(&scratch, "c");
    // Zeros at the end of a segment that is not the last one.
    scratch.file("d/00000000000000000000.log", &[&whole.bytes[..cut], &[0; 9000]].concat());
    scratch.file("d/00000000000000000005.log", &whole.bytes[cut..]);
    let (b, d) = (scratch.path().join("b"), scratch.path().join("d"));
    for one in [&a, &b, &c, &d] {
        for other in [&a, &b, &c, &d] {
            let document = diff(one, other).expect(0).json();
            assert_eq!(document["equal"], true);
            assert_eq!(document["bytes"], whole.bytes.len());
        }
    }
    assert!(dump([Path::new("diff"), &a, &b]).expect(0).out.starts_with("the same"));
}

#[test]
fn a_byte_of_the_real_segment() {
    let scratch = Scratch::new();
    let good = real_log();
    let log = |bytes: &[u8]| scratch.file("00000000000000000000.log", bytes);
    // In the second batch: its header, the header of its frame 0, its payload.
    let places = [(426 + 18, "base_timestamp", 1), (426 + 256 + 9, "id", 4), (9549, "payload", 20)];
    for (at, field, offset) in places {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        let document = different(&real_partition(), &log(&bytes));
        let (a, b) = (&document["a"], &document["b"]);
        assert_eq!((&a["position"], &b["position"]), (&at.into(), &at.into()));
        assert_eq!(document["bytes"], at);
        if field != "id" {
            assert_eq!((&a["field"], &a["offset"]), (&field.into(), &offset.into()));
        } else {
            assert_eq!(a["field"], field);
        }
        // The other side does not verify there.
        assert!(
            b["field"].is_null()
                && b["hex"].as_str().expect("hex")[..2] != a["hex"].as_str().expect("hex")[..2]
        );
    }
}

#[test]
fn one_that_goes_on() {
    let scratch = Scratch::new();
    let long = Segment::new(0, 0, &[2, 2, 2]);
    let mut short = long.clone();
    short.bytes.truncate(long.batches[2].start);
    let (a, b) = (long.write(&scratch, "a"), short.write(&scratch, "b"));
    let document = different(&a, &b);
    assert_eq!((&document["a"]["ended"], &document["b"]["ended"]), (&false.into(), &true.into()));
    assert_eq!(document["a"]["offset"], 4);
    // So, too, where zeros follow in place of more batches.
    short.bytes.resize(200_000, 0);
    let c = short.write(&scratch, "c");
    assert_eq!(different(&c, &a)["b"]["offset"], 4);
    let empty = scratch.file("e/00000000000000000000.log", b"");
    assert_eq!(different(&empty, &a)["b"]["offset"], 0);
}

#[test]
fn what_cannot_be_compared() {
    let scratch = Scratch::new();
    let a = Segment::new(0, 0, &[1]).write(&scratch, "streams/0/topics/0/partitions/0");
    Segment::new(1, 0, &[1]).write(&scratch, "streams/0/topics/0/partitions/1");
    assert!(diff(scratch.path(), &a).expect(2).err.contains("one on each side"));
    diff(&a, &scratch.path().join("missing.log")).expect(2);
}
