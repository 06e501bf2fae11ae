//! The zoo: a damaged partition for each row of the table of damage, what `verify --json` says of it
//! (compared with `zoo.txt`), and what holds of every repair.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use corelog_format::layout::{Field, batch_header, frame_header};
use corelog_format::{Manifest, Mark, index_file_name, segment_file_name};
use serde_json::Value;

use crate::schema::assert_fits;
use crate::support::{Scratch, Segment, batch, dump};

const PARTITION: u64 = 7;
/// So the partition's place says whose it is.
const DIR: &str = "streams/0/topics/0/partitions/7";

/// Makes one damaged partition.
type Make = Box<dyn Fn(&Scratch)>;

/// Names of the cases and how each is made.
struct Zoo(BTreeMap<String, Make>);

impl Zoo {
    fn add(&mut self, name: impl Into<String>, make: impl Fn(&Scratch) + 'static) {
        let before = self.0.insert(name.into(), Box::new(make));
        assert!(before.is_none(), "two cases of one name");
    }

    /// A case that changes one segment of three batches.
    fn one(&mut self, name: impl Into<String>, change: impl Fn(&mut Segment) + 'static) {
        self.add(name, move |scratch| {
            let mut segment = three();
            change(&mut segment);
            segment.write(scratch, DIR);
        });
    }
}

/// Three batches of two messages.
fn three() -> Segment {
    Segment::new(PARTITION, 0, &[2, 2, 2])
}

fn flip(segment: &mut Segment, number: usize, at: usize) {
    let start = segment.batches[number].start;
    segment.bytes[start + at] ^= 0x10;
}

/// Every field of both headers, in the middle and at the end.
fn fields(zoo: &mut Zoo) {
    let mut each = |record: &str, base: usize, fields: &[Field]| {
        for field in fields {
            for (place, number) in [("middle", 1), ("last", 2)] {
                let at = base + field.at;
                let name = format!("field/{record}.{}/{place}", field.name);
                zoo.one(name, move |segment| flip(segment, number, at));
            }
        }
    };
    each("batch", 0, &batch_header::FIELDS);
    each("frame", batch_header::LEN, &frame_header::FIELDS);
    zoo.one("field/payload/middle", |s| flip(s, 1, batch_header::LEN + frame_header::LEN + 5));
    zoo.one("field/payload/last", |s| flip(s, 2, batch_header::LEN + frame_header::LEN + 5));
}

/// The last batch cut at each boundary, and the same with zeros that were allocated behind it.
fn torn(zoo: &mut Zoo) {
    let len = three().batches[2].len();
    for cut in [0, 1, 52, 255, 256, 257, 303, 304, 305, len / 2 + 99, len - 1] {
        let keep = move |segment: &mut Segment| {
            let start = segment.batches[2].start;
            segment.bytes.truncate(start + cut);
        };
        zoo.one(format!("torn/{cut:03}"), keep);
        zoo.one(format!("torn/{cut:03}/zeros"), move |segment| {
            keep(segment);
            let len = segment.bytes.len() + 5000;
            segment.bytes.resize(len, 0);
        });
    }
    zoo.one("torn/rubbish", |s| s.bytes.extend_from_slice(&[0xA5; 700]));
}

fn zeros(zoo: &mut Zoo) {
    let clear = |from: usize, len: usize| {
        move |segment: &mut Segment| segment.bytes[from..from + len].fill(0)
    };
    let batches = three().batches;
    for (place, number) in [("first", 0), ("middle", 1), ("last", 2)] {
        let range = batches[number].clone();
        zoo.one(format!("zeros/header/{place}"), clear(range.start, 256));
        zoo.one(format!("zeros/batch/{place}"), clear(range.start, range.len()));
        zoo.one(format!("zeros/frames/{place}"), clear(range.start + 256, range.len() - 256));
    }
    zoo.one("zeros/all", |s| s.bytes.fill(0));
    zoo.one("zeros/empty", |s| s.bytes.clear());
    zoo.one("zeros/then_a_byte", |s| {
        s.bytes.resize(s.bytes.len() + 5000, 0);
        s.bytes.push(1);
    });
}

/// Batches that stand where they do not belong.
fn misplaced(zoo: &mut Zoo) {
    let insert = |segment: &mut Segment, at: usize, bytes: Vec<u8>| {
        segment.bytes.splice(at..at, bytes);
    };
    zoo.one("duplicate/middle", move |s| {
        let range = s.batches[1].clone();
        insert(s, range.end, s.bytes[range].to_vec());
    });
    zoo.one("duplicate/last", move |s| {
        let range = s.batches[2].clone();
        insert(s, range.end, s.bytes[range].to_vec());
    });
    zoo.one("duplicate/all", |s| s.bytes.extend_from_within(..));
    let payloads = || vec![vec![3; 80], vec![4; 80]];
    zoo.one("foreign/between", move |s| {
        let (at, time) = (s.batches[1].start, s.last_timestamp);
        insert(s, at, batch(8, 2, time, &payloads()));
    });
    zoo.one("foreign/instead", move |s| {
        let (range, time) = (s.batches[1].clone(), s.index[1].base_timestamp);
        s.bytes.splice(range, batch(8, 2, time, &payloads()));
    });
    zoo.one("foreign/last", move |s| {
        let (offset, time) = (s.next_offset, s.last_timestamp + 1);
        s.bytes.extend(batch(8, offset, time, &payloads()));
    });
    zoo.add("foreign/all", |scratch| {
        Segment::new(8, 0, &[2, 2]).write(scratch, DIR);
    });
    zoo.add("foreign/offsets", |scratch| {
        let bytes = Segment::new(PARTITION, 50, &[2, 2]).bytes;
        scratch.file(&format!("{DIR}/{}", segment_file_name(0)), &bytes);
    });
    zoo.one("hole/middle", |s| {
        let range = s.batches[1].clone();
        s.bytes.drain(range);
    });
    zoo.one("hole/first", |s| {
        let range = s.batches[0].clone();
        s.bytes.drain(range);
    });
    zoo.add("hole/segment", |scratch| {
        three().write(scratch, DIR);
        Segment::new(PARTITION, 10, &[2]).write(scratch, DIR);
    });
    zoo.add("overlap/segment", |scratch| {
        three().write(scratch, DIR);
        Segment::new(PARTITION, 4, &[2, 2]).write(scratch, DIR);
    });
    zoo.add("swapped/segments", |scratch| {
        let (first, second) = (three(), Segment::new(PARTITION, 6, &[2, 2]));
        scratch.file(&format!("{DIR}/{}", segment_file_name(0)), &second.bytes);
        scratch.file(&format!("{DIR}/{}", segment_file_name(6)), &first.bytes);
    });
}

/// Indexes that lie, each in its own way.
fn indexes(zoo: &mut Zoo) {
    zoo.one("index/position", |s| s.index[1].position += 1);
    zoo.one("index/offset", |s| s.index[1].base_offset += 1);
    zoo.one("index/time", |s| s.index[1].base_timestamp += 1);
    zoo.one("index/order", |s| s.index.swap(0, 1));
    zoo.one("index/twice", |s| s.index.insert(1, s.index[1]));
    zoo.one("index/ahead", |s| {
        let mut last = s.index[2];
        (last.position, last.base_offset) = (last.position + 9_000, last.base_offset + 40);
        s.index.push(last);
    });
    zoo.one("index/empty", |s| s.index.clear());
    let bytes = |name: &'static str, change: fn(&mut Vec<u8>)| {
        let name = format!("index/{name}");
        (name, move |scratch: &Scratch| {
            let segment = three();
            segment.write(scratch, DIR);
            let mut index = segment.index_bytes();
            change(&mut index);
            scratch.file(&format!("{DIR}/{}", index_file_name(0)), &index);
        })
    };
    for (name, make) in [
        bytes("padded", |index| index.resize(4096, 0)),
        bytes("cut", |index| index.truncate(60)),
        bytes("rubbish", |index| index.fill(0x5A)),
    ] {
        zoo.add(name, make);
    }
    zoo.add("index/missing", |scratch| {
        let path = three().write(scratch, DIR);
        fs::remove_file(path.with_extension("index")).expect("it is there");
    });
    zoo.add("index/directory", |scratch| {
        let path = three().write(scratch, DIR).with_extension("index");
        fs::remove_file(&path).expect("it is there");
        fs::create_dir(&path).expect("the name is free");
    });
}

/// What stands beside the segments.
fn beside(zoo: &mut Zoo) {
    let marked = |position: usize, damage: fn(&mut Vec<u8>)| {
        move |scratch: &Scratch| {
            let segment = three();
            segment.write(scratch, DIR);
            let mut manifest = segment.manifest_at(position);
            damage(&mut manifest);
            scratch.file(&format!("{DIR}/manifest"), &manifest);
        }
    };
    let end = three().bytes.len();
    let inside = three().batches[1].start + 5;
    zoo.add("manifest/fine", marked(end, |_| {}));
    zoo.add("manifest/mark_inside_a_batch", marked(inside, |_| {}));
    zoo.add("manifest/mark_behind_the_end", marked(end + 900, |_| {}));
    zoo.add("manifest/one_slot_damaged", marked(end, |bytes| bytes[4096] = 1));
    zoo.add("manifest/both_damaged", marked(end, |bytes| bytes.fill(1)));
    zoo.add("manifest/empty", marked(end, Vec::clear));
    zoo.add("manifest/other_segment_missing", |scratch| {
        three().write(scratch, DIR);
        let mark = Mark { segment: 6, position: 700, next_offset: 9, last_timestamp: 1 };
        let manifest =
            Manifest { sequence: 4, incarnation: 1, first_offset: 0, adopted_end: 0, mark };
        let bytes = [manifest.encode(), [0; 4096]].concat();
        scratch.file(&format!("{DIR}/manifest"), &bytes);
    });
    zoo.add("offsets/damaged", |scratch| {
        three().write(scratch, DIR);
        scratch.file(&format!("{DIR}/consumer_offsets"), &[3; 8192]);
        scratch.file(&format!("{DIR}/offsets/groups/1"), &[3; 16]);
    });
    zoo.add("offsets/beyond_the_end", |scratch| {
        three().write(scratch, DIR);
        scratch.file(&format!("{DIR}/offsets/consumers/1"), &77_u64.to_le_bytes());
    });
    zoo.add("names", |scratch| {
        three().write(scratch, DIR);
        for name in ["00000000000000000006.log.gz", "00000000000000000006.log.tmp", "x.log"] {
            scratch.file(&format!("{DIR}/{name}"), b"none");
        }
        fs::create_dir(scratch.path().join(DIR).join(segment_file_name(9))).expect("created");
    });
}

fn zoo() -> Zoo {
    let mut zoo = Zoo(BTreeMap::new());
    for part in [fields, torn, zeros, misplaced, indexes, beside] {
        part(&mut zoo);
    }
    zoo
}

/// The document without what differs from run to run.
fn verified(scratch: &Scratch) -> Value {
    let path = scratch.path().to_str().expect("UTF-8");
    let ran = dump(["verify", "--json", path]);
    let document = ran.json();
    assert_fits(&document, "verify");
    let is_clean = document["files"].as_array().expect("a list").iter();
    let is_clean = is_clean.into_iter().all(|file| file["verdict"] == "clean");
    assert_eq!(ran.code, Some(i32::from(!is_clean)), "{document}");
    serde_json::from_str(&document.to_string().replace(path, ".")).expect("JSON")
}

#[test]
fn what_verify_says_of_every_kind_of_damage() {
    let mut text = String::new();
    for (name, make) in zoo().0 {
        let scratch = Scratch::new();
        make(&scratch);
        let document = verified(&scratch);
        writeln!(text, "{name}").expect("a String grows");
        for list in ["files", "partitions"] {
            for item in document[list].as_array().expect("a list") {
                writeln!(text, "    {item}").expect("a String grows");
            }
        }
    }
    let expected = include_str!("zoo.txt");
    if text != expected {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("zoo.txt");
        fs::write(&path, &text).expect("written");
        let differs = text.lines().zip(expected.lines()).find(|(a, b)| a != b);
        panic!("not as in zoo.txt; {} is how it is now: {differs:?}", path.display());
    }
}

/// Batches that verify, by what verify counts.
fn readable(document: &Value) -> u64 {
    let files = document["files"].as_array().expect("a list").iter();
    files.map(|file| file["batches"].as_u64().expect("a number")).sum()
}

/// A repair keeps every readable batch once, leaves nothing to do, and leaves nothing but holes.
#[test]
fn repairs_keep_what_is_readable_and_leave_only_holes() {
    let mut repaired = 0;
    for (name, make) in zoo().0 {
        let scratch = Scratch::new();
        make(&scratch);
        let path = scratch.path().to_str().expect("UTF-8");
        let before = verified(&scratch);
        let plan = dump(["repair", "--json", path]);
        assert_eq!(before, verified(&scratch), "{name}: a plan changed something");
        let plan = plan.json();
        assert_fits(&plan, "repair");
        let done = dump(["repair", "--apply", "--json", path]).expect(0).json();
        assert_fits(&done, "repair");
        assert_eq!(done["partitions"][0]["actions"], plan["partitions"][0]["actions"], "{name}");
        let actions = plan["partitions"][0]["actions"].as_array().expect("a list").len();
        repaired += u32::from(actions > 0);
        let again = dump(["repair", path]).expect(0);
        assert!(again.out.contains("nothing to repair"), "{name}: {again:?}");
        let after = verified(&scratch);
        // Twice the same batch is one too many; two whole files that disagree are left alone.
        let twice =
            ["duplicate/", "swapped/", "overlap/"].iter().any(|kind| name.starts_with(kind));
        assert!(twice || readable(&after) == readable(&before), "{name}: {before}\n{after}");
        for file in after["files"].as_array().expect("a list") {
            assert!(file["index"] == "ok" || file["batches"] == 0, "{name}: {file}");
            for fault in file["faults"].as_array().expect("a list") {
                let field = fault["field"].as_str().expect("a name");
                assert!(["next_segment", "segment"].contains(&field), "{name}: {file}");
            }
        }
    }
    assert!(repaired > 60, "{repaired}");
}
