//! `show` with selections: each against a filter over everything, and with an index that lies.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use corelog_format::{IndexEntry, segment_file_name};
use serde_json::Value;

use crate::support::{Ran, Scratch, Segment, batch, dump, real_partition};

/// `show --ndjson` with these flags.
fn show(path: &Path, flags: &[&str]) -> Ran {
    let args = ["show", "--ndjson"].iter().chain(flags).map(OsStr::new);
    dump(args.chain([path.as_os_str()])).expect(0)
}

fn messages(path: &Path, flags: &[&str]) -> Vec<Value> {
    show(path, &[&["--messages"], flags].concat()).lines()
}

fn number(line: &Value, name: &str) -> u64 {
    line[name].as_u64().expect("a number")
}

#[test]
fn offsets_are_half_open_and_choose_batches_by_overlap() {
    let real = real_partition();
    let all = messages(&real, &[]);
    for (flag, range) in
        [("10..20", 10..20), ("0..1", 0..1), ("1540..", 1540..1548), ("..3", 0..3), ("77", 77..78)]
    {
        let some = messages(&real, &["--offset", flag]);
        assert_eq!(some, all[range.clone()], "{flag}");
        let batches = show(&real, &["--offset", flag]).lines();
        let overlaps = |line: &&Value| {
            let first = number(line, "base_offset");
            first < range.end as u64 && first + number(line, "message_count") > range.start as u64
        };
        let every = show(&real, &[]).lines();
        let expected: Vec<&Value> = every.iter().filter(overlaps).collect();
        assert_eq!(batches.iter().collect::<Vec<_>>(), expected, "{flag}");
    }
    assert!(messages(&real, &["--offset", "1548.."]).is_empty());
    assert!(messages(&real, &["--offset", "5..5"]).is_empty());
}

#[test]
fn times_are_those_of_the_server() {
    let real = real_partition();
    let all = messages(&real, &[]);
    let times: Vec<u64> = all.iter().map(|line| number(line, "base_timestamp")).collect();
    let (from, to) = (times[300], times[900]);
    let expected: Vec<&Value> =
        all.iter().filter(|line| (from..to).contains(&number(line, "base_timestamp"))).collect();
    let some = messages(&real, &["--time", &format!("{from}..{to}")]);
    assert_eq!(some.iter().collect::<Vec<_>>(), expected);
    // The same instants as dates; and everything was stamped before the present.
    let day = messages(&real, &["--time", "2026-11-29T20:22:24Z..2026-11-29T21:22:27+01:00"]);
    assert_eq!(day.len(), 1548);
    assert!(messages(&real, &["--time", "..2026-11-29"]).is_empty());
    assert!(messages(&real, &["--time", "-1us.."]).is_empty());
}

#[test]
fn ids_keys_and_payloads() {
    let real = real_partition();
    let all = messages(&real, &["--payload", "hex"]);
    let id = all[5]["id"].as_str().expect("text");
    let by_id = messages(&real, &["--id", id, "--payload", "hex"]);
    assert_eq!(by_id, [all[5].clone()]);

    let key = |line: &Value, at: usize| -> (String, String) {
        let header = &line["user_headers"][at];
        let value = match &header["value"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        (header["key"].as_str().expect("a key").to_string(), value)
    };
    let with = all.iter().find(|line| line["user_headers"][0].is_object()).expect("headers");
    for at in 0..with["user_headers"].as_array().expect("a list").len() {
        let (name, value) = key(with, at);
        let has = |line: &&Value, value: Option<&str>| {
            let count = line["user_headers"].as_array().expect("a list").len();
            (0..count).any(|at| {
                let pair = key(line, at);
                pair.0 == name && value.is_none_or(|value| pair.1 == value)
            })
        };
        for (flag, value) in [(name.clone(), None), (format!("{name}={value}"), Some(&value[..]))] {
            let expected: Vec<&Value> = all.iter().filter(|line| has(line, value)).collect();
            let some = messages(&real, &["--key", &flag, "--payload", "hex"]);
            assert_eq!(some.iter().collect::<Vec<_>>(), expected, "{flag}");
            assert!(!some.is_empty(), "{flag}");
        }
        // Another value of a key that is there is not meant.
        let other = format!("{name}={value}77777");
        assert!(messages(&real, &["--key", &other]).is_empty(), "{other}");
    }
    assert!(messages(&real, &["--key", "no such key"]).is_empty());

    // A payload's own first bytes find it; a batch is shown when one of its messages is meant.
    let payload = all[700]["payload"].as_str().expect("hex");
    let escaped: String =
        (0..payload.len()).step_by(2).map(|at| format!("\\x{}", &payload[at..at + 2])).collect();
    let pattern = format!("(?-u)^{escaped}$");
    let found = messages(&real, &["--grep", &pattern, "--payload", "hex"]);
    assert!(found.iter().any(|line| line["offset"] == 700) && found.len() < 1548);
    assert!(found.iter().all(|line| line["payload"] == payload));
    let others = messages(&real, &["--not-grep", &pattern, "--payload", "hex"]);
    assert!(others.iter().all(|line| line["payload"] != payload));
    assert_eq!(found.len() + others.len(), 1548);
    let batches = show(&real, &["--grep", &pattern]).lines();
    let holds_700 = |line: &Value| {
        let first = number(line, "base_offset");
        (first..first + number(line, "message_count")).contains(&700)
    };
    assert!(batches.iter().any(holds_700));
    assert!(batches.len() <= found.len());
}

#[test]
fn payloads_in_every_shape() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[]);
    segment.push(0, &[b"a\x1b\xffz".to_vec(), Vec::new()]);
    let path = segment.write(&scratch, "p");
    let payload = |shape: &str| -> Vec<Value> {
        let lines = messages(&path, &["--payload", shape]);
        assert!(lines.iter().all(|line| line["payload_encoding"] == shape));
        lines.into_iter().map(|mut line| line["payload"].take()).collect()
    };
    assert_eq!(payload("hex"), ["611bff7a", ""]);
    assert_eq!(payload("base64"), ["YRv/eg==", ""]);
    assert_eq!(payload("text"), ["a\u{1b}\u{fffd}z", ""]);
    let text = dump(
        ["show", "--messages", "--payload", "text"]
            .map(OsStr::new)
            .into_iter()
            .chain([path.as_os_str()]),
    )
    .expect(0);
    assert!(text.out.contains(r#" "a\u{1b}"#) && !text.out.contains('\u{1b}'), "{text:?}");
    // Payloads belong to messages.
    dump([OsStr::new("show"), OsStr::new("--payload"), OsStr::new("hex"), path.as_os_str()])
        .expect(2);
}

#[test]
fn reverse_is_the_other_way_round_whatever_is_selected() {
    let scratch = Scratch::new();
    let mut next = 0;
    for batches in [&[3, 1, 4][..], &[1, 5], &[], &[9, 2, 6]] {
        let segment = Segment::new(0, next, batches);
        next = segment.next_offset;
        segment.write(&scratch, "p");
    }
    let ours = scratch.path().join("p");
    for path in [ours, real_partition()] {
        for flags in [
            &[][..],
            &["--messages"],
            &["--messages", "--offset", "3..17"],
            &["--offset", "5"],
            &["--offset", "..4"],
            &["--messages", "--id", "7"],
            &["--time", "1700000000000003..", "--messages"],
        ] {
            let forwards = show(&path, flags).lines();
            let mut backwards = show(&path, &[flags, &["--reverse"]].concat()).lines();
            // What is skipped and what is left out are counted from where it begins.
            let some =
                show(&path, &[flags, &["--reverse", "--skip", "2", "--limit", "3"]].concat());
            assert_eq!(some.lines(), backwards.iter().skip(2).take(3).cloned().collect::<Vec<_>>());
            backwards.reverse();
            assert_eq!(forwards, backwards, "{flags:?}");
        }
    }
}

#[test]
fn damage_is_said_once_in_reverse_as_well() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[2, 2, 2, 2]);
    segment.bytes[segment.batches[1].start + 300] ^= 1;
    let path = segment.write(&scratch, "p");
    let args = ["show", "--ndjson", "--messages", "--reverse"].map(OsStr::new);
    let ran = dump(args.into_iter().chain([path.as_os_str()])).expect(1);
    let offsets: Vec<u64> = ran.lines().iter().map(|line| number(line, "offset")).collect();
    assert_eq!(offsets, [7, 6, 5, 4, 1, 0]);
    assert_eq!(ran.err.matches("damage at").count(), 1, "{ran:?}");
}

/// A log of 40 batches, of which one holds whole batches in its payloads (as a mirror's log does)
/// that even go on where the log does; and the entries that name those.
struct Mirror {
    segment: Segment,
    inner: Vec<IndexEntry>,
}

impl Mirror {
    fn new() -> Mirror {
        let mut segment = Segment::new(5, 0, &[3; 20]);
        let outer = segment.next_offset;
        let time = segment.last_timestamp;
        let mut chain = Vec::new();
        let mut starts = Vec::new();
        for number in 0..4 {
            starts.push((chain.len(), outer - 8 + 3 * number));
            let payloads = [b"not".to_vec(), b"this".to_vec(), b"log".to_vec()];
            chain.extend_from_slice(&batch(5, outer - 8 + 3 * number, time + number, &payloads));
        }
        // The last of them ends where the outer batch ends: behind it the log goes on.
        let position = segment.bytes.len();
        segment.push(5, &[b"x".to_vec(), b"y".to_vec(), b"z".to_vec(), chain.clone()]);
        let inside = segment.bytes.len() - chain.len();
        assert!(inside > position);
        let inner = starts
            .iter()
            .zip(0..)
            .map(|((at, base_offset), number)| IndexEntry {
                base_offset: *base_offset,
                base_timestamp: time + number,
                position: (inside + at) as u64,
            })
            .collect();
        for _ in 0..20 {
            segment.push(5, &[b"behind".to_vec(), b"it".to_vec()]);
        }
        Mirror { segment, inner }
    }
}

/// Whatever stands in an index, every question has the answer that it has without one.
#[test]
fn a_lying_index_hides_nothing() {
    let Mirror { segment, inner } = Mirror::new();
    let honest = segment.index.clone();
    let changed = |change: &dyn Fn(&mut Vec<IndexEntry>)| {
        let mut entries = honest.clone();
        change(&mut entries);
        entries
    };
    let each =
        |change: &dyn Fn(&mut IndexEntry)| changed(&|entries| entries.iter_mut().for_each(change));
    let lies = [
        ("honest", honest.clone()),
        ("every third", honest.iter().step_by(3).copied().collect()),
        ("one inside a payload", changed(&|e| e[20] = inner[2])),
        ("all inside a payload", inner.clone()),
        ("honest, then inside", [&honest[..18], &inner].concat()),
        ("inside, then honest", [&inner, &honest[21..]].concat()),
        ("positions up", each(&|e| e.position += 1)),
        ("positions down", each(&|e| e.position = e.position.saturating_sub(256))),
        ("offsets down", each(&|e| e.base_offset = e.base_offset.saturating_sub(3))),
        ("offsets up", each(&|e| e.base_offset += 3)),
        ("times", each(&|e| e.base_timestamp += 1)),
        ("reversed", changed(&|e| e.reverse())),
        (
            "shifted",
            changed(&|e| {
                for at in (1..e.len()).rev() {
                    e[at].position = e[at - 1].position;
                }
            }),
        ),
        (
            "the last for all",
            changed(&|e| {
                let last = e[e.len() - 1];
                e.iter_mut().for_each(|entry| *entry = IndexEntry { base_offset: 0, ..last });
            }),
        ),
        ("far away", each(&|e| e.position = u64::MAX)),
        ("zeros", each(&|e| *e = IndexEntry { base_offset: 0, base_timestamp: 0, position: 0 })),
    ];
    let scratch = Scratch::new();
    let name = segment_file_name(0);
    let log = scratch.file(&format!("partitions/5/{name}"), &segment.bytes);
    // A manifest that says that all is ours lets times be looked up as well.
    scratch.file("partitions/5/manifest", &segment.manifest_at(0));
    let questions = questions(&segment);
    fs::write(log.with_extension("index"), b"").expect("written");
    let answers: Vec<String> = questions.iter().map(|q| ask(&log, q)).collect();
    assert!(answers.iter().any(|answer| answer.is_empty()) && answers[0].lines().count() > 60);
    for (lie, entries) in lies {
        let bytes: Vec<u8> = entries.iter().flat_map(IndexEntry::encode).collect();
        fs::write(log.with_extension("index"), bytes).expect("written");
        for (question, answer) in questions.iter().zip(&answers) {
            assert_eq!(&ask(&log, question), answer, "{lie}: {question:?}");
        }
    }
}

fn ask(log: &Path, question: &[String]) -> String {
    let flags = ["show", "--ndjson", "--messages"].map(OsStr::new).into_iter();
    dump(flags.chain(question.iter().map(OsStr::new)).chain([log.as_os_str()])).expect(0).out
}

fn questions(segment: &Segment) -> Vec<Vec<String>> {
    let mut questions = vec![vec!["--reverse".to_string()]];
    let offsets = [0, 1, 3, 50, 52, 53, 55, 58, 59, 60, 61, 63, 64, 65, 66, 90, 102, 103, 104, 200];
    for offset in offsets {
        questions.push(vec!["--offset".into(), format!("{offset}")]);
        questions.push(vec!["--offset".into(), format!("..{offset}"), "--reverse".into()]);
    }
    for number in [0, 1, 17, 19, 20, 21, 22, 39, 40] {
        let time = segment.index.get(number).map_or(u64::MAX, |entry| entry.base_timestamp);
        questions.push(vec!["--time".into(), format!("{time}..")]);
        questions.push(vec!["--time".into(), format!("..{time}"), "--reverse".into()]);
    }
    questions
}

/// The reference server's clock may go back: its index is not asked for times, and nothing is left
/// out behind a batch that is later than what was asked for.
#[test]
fn time_that_went_back_hides_nothing() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[]);
    for time in [100, 300, 50, 200, 400] {
        segment.last_timestamp = time - 1;
        segment.push(0, &[b"x".to_vec()]);
    }
    let path = segment.write(&scratch, "p");
    let at = |flag: &str| -> Vec<u64> {
        messages(&path, &["--time", flag]).iter().map(|line| number(line, "offset")).collect()
    };
    assert_eq!(at("..150"), [0, 2]);
    assert_eq!(at("200.."), [1, 3, 4]);
    assert_eq!(at("150..250"), [3]);
}

#[test]
fn what_cannot_be_asked_is_a_usage_error() {
    let real = real_partition();
    for flags in [
        ["--offset", "9..3"],
        ["--offset", "x"],
        ["--time", "tomorrow.."],
        ["--time", "5"],
        ["--id", "x1"],
        ["--key", "=x"],
        ["--grep", "("],
        ["--payload", "yaml"],
        ["--color", "blue"],
    ] {
        let args = ["show"].iter().chain(&flags).map(OsStr::new).chain([real.as_os_str()]);
        let ran = dump(args).expect(2);
        assert!(ran.out.is_empty() && ran.err.contains(flags[0]), "{ran:?}");
    }
}

/// Colours on demand, never in a pipe by themselves.
#[test]
fn colours() {
    let real = real_partition();
    let coloured = |flags: &[&str]| {
        let args = ["show", "--limit", "1"].iter().chain(flags).map(OsStr::new);
        dump(args.chain([real.as_os_str()])).expect(0).out.contains('\u{1b}')
    };
    assert!(!coloured(&[]));
    assert!(coloured(&["--color", "always"]));
    assert!(!coloured(&["--color", "never"]));
}
