//! Segments damaged in every way we know of: the verdict, what is still counted, and where.
//!
//! The rule: damage with readable batches behind it is corruption; damage with none is a torn
//! tail; zeros up to the end are no damage. What a manifest adds is in `mark.rs`.

use std::ops::Range;

use corelog_format::segment_file_name;
use serde_json::{Value, json};

use crate::support::{Scratch, Segment, batch, dump, real_log, verify_one};

/// Verifies bytes as a segment that begins with offset 0.
fn judge(bytes: &[u8]) -> Value {
    judge_at(0, bytes)
}

fn judge_at(first_offset: u64, bytes: &[u8]) -> Value {
    let scratch = Scratch::new();
    let path = scratch.file(&segment_file_name(first_offset), bytes);
    let json = dump(["verify", "--json", path.to_str().expect("UTF-8")]);
    let clean = json.json()["files"][0]["verdict"] == "clean";
    verify_one(&path, if clean { 0 } else { 1 })
}

fn assert_verdict(report: &Value, verdict: &str, batches: usize, fault_at: Option<usize>) {
    assert_eq!(report["verdict"], verdict, "{report}");
    assert_eq!(report["batches"], batches, "{report}");
    assert_eq!(
        report["faults"].get(0).map(|fault| &fault["position"]).cloned(),
        fault_at.map(Value::from),
        "{report}"
    );
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 0x10;
    bytes
}

fn zeroed(bytes: &[u8], hole: Range<usize>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[hole].fill(0);
    bytes
}

#[test]
fn a_flip_in_the_middle_of_the_real_segment() {
    // Batch 3 of 20 stands at 462,659; its offset is 1021. The flip is in a payload.
    let report = judge(&flipped(&real_log(), 462_659 + 256 + 48 + 20));
    assert_verdict(&report, "corrupt", 19, Some(462_659));
    assert_eq!(report["messages"], 1548 - 11);
    assert_eq!(report["first_offset"], 0);
    assert_eq!(report["last_offset"], 1547);
    let fault = report["faults"][0].as_object().expect("an object");
    assert_eq!(fault["offset"], 1021);
    assert_eq!(fault["field"], "checksum");
    assert!(fault["expected"].is_string() && fault["found"].is_string());
    let names: Vec<&str> = fault.keys().map(String::as_str).collect();
    let contract = ["position", "offset", "field", "expected", "found"];
    assert_eq!(names, [&contract[..], &["detail", "resumes_at", "resumes_with"]].concat());
    assert_eq!((&fault["resumes_at"], &fault["resumes_with"]), (&json!(467_888), &json!(1032)));
    assert_eq!(report["faults"].as_array().expect("a list").len(), 1);
}

#[test]
fn damage_in_the_last_batch_is_a_torn_tail() {
    let log = real_log();
    let last = 695_483;
    for at in
        [last, last + 8, last + 33, last + 41, last + 48, last + 100, last + 290, log.len() - 1]
    {
        let report = judge(&flipped(&log, at));
        assert_verdict(&report, "torn_tail", 19, Some(last));
        assert_eq!(report["last_offset"], 1525);
        assert_eq!(report["faults"][0]["offset"], 1526);
    }
}

#[test]
fn truncation_at_every_kind_of_place() {
    // Partition 0's header begins with zeros: the first of them alone are no torn batch.
    let segment = Segment::new(5, 0, &[2, 1, 3]);
    let last = segment.batches[2].clone();
    for cut in [1, 255, 256, 300, 303, last.len() - 1] {
        let report = judge(&segment.bytes[..last.start + cut]);
        assert_verdict(&report, "torn_tail", 2, Some(last.start));
    }
    let report = judge(&segment.bytes[..last.start]);
    assert_verdict(&report, "clean", 2, None);
    assert_eq!(report["last_offset"], 2);
}

#[test]
fn zeros_up_to_the_end_are_no_damage() {
    let segment = Segment::new(0, 0, &[2, 1]);
    for zeros in [1, 255, 256, 4096, 3 << 20] {
        let bytes = [&segment.bytes[..], &vec![0; zeros]].concat();
        let report = judge(&bytes);
        assert_verdict(&report, "clean", 2, None);
        assert_eq!(report["zero_tail"], zeros);
        assert_eq!(report["bytes"], bytes.len());
    }
    for len in [0, 1, 4096] {
        let report = judge(&vec![0; len]);
        assert_verdict(&report, "clean", 0, None);
        assert_eq!((&report["zero_tail"], &report["first_offset"]), (&json!(len), &Value::Null));
    }
}

#[test]
fn a_preallocated_tebibyte_of_hole_is_verified_at_once() {
    let scratch = Scratch::new();
    let segment = Segment::new(0, 0, &[2, 1]);
    let path = segment.write(&scratch, "p");
    let file = std::fs::File::options().write(true).open(&path).expect("opened");
    file.set_len(1 << 40).expect("a sparse file");
    let report = verify_one(&path, 0);
    assert_verdict(&report, "clean", 2, None);
    assert_eq!(report["zero_tail"], (1_u64 << 40) - segment.bytes.len() as u64);
    // With rubbish in front of the hole, the search behind the damage does not read it either.
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 5000], segment.bytes.len() as u64)
        .expect("written");
    let report = verify_one(&path, 1);
    assert_verdict(&report, "torn_tail", 2, Some(segment.bytes.len()));
    let ran = dump(["ls", path.to_str().expect("UTF-8")]).expect(1);
    assert!(ran.out.contains(&format!("broken@{}", segment.bytes.len())), "{ran:?}");
}

#[test]
fn rubbish_at_the_tail_with_and_without_zeros_before_it() {
    let segment = Segment::new(0, 0, &[2, 1]);
    let end = segment.bytes.len();
    for (zeros, rubbish) in [(0, 1), (0, 5000), (1, 1), (300, 1), (5000, 700), (2 << 20, 9)] {
        let bytes = [&segment.bytes[..], &vec![0; zeros], &vec![0xA5; rubbish]].concat();
        let report = judge(&bytes);
        assert_verdict(&report, "torn_tail", 2, Some(end));
        assert_eq!(report["zero_tail"], 0);
    }
}

#[test]
fn a_hole_in_the_middle_hides_only_what_it_covers() {
    let segment = Segment::new(0, 0, &[4, 4, 4, 4, 4, 4]);
    let at = |batch: usize, byte: usize| segment.batches[batch].start + byte;
    for (hole, lost) in [
        (at(2, 0)..at(3, 0), 2..3),
        (at(2, 0)..at(4, 0), 2..4),
        (at(2, 0)..at(2, 256), 2..3),
        (at(2, 250)..at(3, 10), 2..4),
        (at(1, 320)..at(1, 321), 1..2),
        (at(0, 0)..at(1, 0), 0..1),
        (at(0, 0)..at(4, 300), 0..5),
    ] {
        let report = judge(&zeroed(&segment.bytes, hole.clone()));
        assert_verdict(&report, "corrupt", 6 - lost.len(), Some(at(lost.start, 0)));
        assert_eq!(report["messages"], 4 * (6 - lost.len()), "{hole:?}");
        assert_eq!(report["last_offset"], 23);
        let first = if lost.start == 0 { lost.end * 4 } else { 0 };
        assert_eq!(report["first_offset"], first);
    }
    // The same up to the end of the file is not damage: nobody can tell it from a shorter log.
    let report = judge(&zeroed(&segment.bytes, at(4, 0)..segment.bytes.len()));
    assert_verdict(&report, "clean", 4, None);
}

/// Every byte of a header in the middle counts: wrong, it hides its own batch and no other.
#[test]
fn every_byte_of_a_header_in_the_middle() {
    let scratch = Scratch::new();
    let segment = Segment::new(0, 0, &[1, 2, 1, 1]);
    let damaged = segment.batches[1].start;
    for byte in 0..256 + 48 {
        let mut bad = segment.clone();
        bad.bytes[damaged + byte] ^= 1 << (byte % 8);
        let path = bad.write(&scratch, "p");
        let ran = dump(["verify", "--json", path.to_str().expect("UTF-8")]).expect(1);
        assert_verdict(&ran.json()["files"][0], "corrupt", 3, Some(damaged));
    }
}

/// A page or a sector of the last write that never arrived is a torn tail in every case
/// (etcd 6515).
#[test]
fn every_subset_of_sectors_of_the_last_batch() {
    let segment = Segment::new(0, 0, &[3, 8]);
    let last = segment.batches[1].clone();
    // Whole sectors that hold a part of the last batch and nothing of the one before.
    let sectors: Vec<Range<usize>> = (last.start.next_multiple_of(512)..last.end)
        .step_by(512)
        .map(|start| start..(start + 512).min(last.end))
        .collect();
    assert!(sectors.len() >= 3, "{sectors:?}");
    let scratch = Scratch::new();
    for subset in 1_u32..1 << sectors.len() {
        let mut torn = segment.clone();
        for (_, sector) in sectors.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1) {
            torn.bytes[sector.clone()].fill(0);
        }
        torn.bytes.resize(torn.bytes.len() + 4096, 0);
        let path = torn.write(&scratch, "p");
        let ran = dump(["verify", "--json", path.to_str().expect("UTF-8")]).expect(1);
        assert_verdict(&ran.json()["files"][0], "torn_tail", 1, Some(last.start));
    }
}

/// The search reads a mebibyte at a time: a header may lie across two of its windows.
#[test]
fn a_batch_behind_more_rubbish_than_a_window_holds() {
    let segment = Segment::new(0, 0, &[2, 2, 2]);
    let (before, behind) = segment.bytes.split_at(segment.batches[0].end);
    for rubbish in [-256, -255, -254, -100, -1, 0, 1, 2, 900_000, 1 << 20] {
        let rubbish = vec![0xA5; ((1 << 20) + rubbish) as usize];
        let report = judge(&[before, &rubbish, behind].concat());
        assert_verdict(&report, "corrupt", 3, Some(before.len()));
    }
}

#[test]
fn two_damaged_places_are_two_faults() {
    let segment = Segment::new(0, 0, &[2, 2, 2, 2, 2, 2]);
    let bytes = flipped(&segment.bytes, segment.batches[1].start + 320);
    let bytes = flipped(&bytes, segment.batches[4].start + 320);
    let report = judge(&bytes);
    assert_verdict(&report, "corrupt", 4, Some(segment.batches[1].start));
    assert_eq!(report["faults"][1]["position"], segment.batches[4].start);
    assert_eq!(report["faults"][1]["offset"], 8);
    // Neighbours are one unreadable place.
    let bytes = flipped(&bytes, segment.batches[2].start + 320);
    let report = judge(&bytes);
    assert_verdict(&report, "corrupt", 3, Some(segment.batches[1].start));
    assert_eq!(report["faults"].as_array().expect("a list").len(), 2);
    // Corruption in the middle and a torn tail: the worse word stands.
    let report = judge(&bytes[..bytes.len() - 1]);
    assert_verdict(&report, "corrupt", 2, Some(segment.batches[1].start));
}

#[test]
fn batches_in_the_wrong_place() {
    let segment = Segment::new(0, 0, &[2, 2, 2, 2]);
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| segment.bytes[segment.batches[i].clone()].to_vec());
    let stranger = batch(9, 2, 1_700_000_000_000_002, &[vec![1], vec![2]]);
    for (name, batches, verdict, readable, fault) in [
        ("one twice at the end", vec![&a, &b, &b], "torn_tail", 2, Some(2)),
        ("one twice in the middle", vec![&a, &b, &b, &c], "corrupt", 3, Some(2)),
        ("another partition's at the end", vec![&a, &stranger], "torn_tail", 1, Some(1)),
        ("another partition's in place of one", vec![&a, &stranger, &c, &d], "corrupt", 3, Some(1)),
        ("one missing", vec![&a, &b, &d], "corrupt", 3, Some(2)),
        ("the first missing", vec![&b, &c, &d], "corrupt", 3, Some(0)),
        ("two exchanged", vec![&a, &c, &b, &d], "corrupt", 3, Some(1)),
    ] {
        let position = fault.map(|i: usize| batches[..i].iter().map(|batch| batch.len()).sum());
        let bytes: Vec<u8> = batches.into_iter().flatten().copied().collect();
        let report = judge(&bytes);
        eprintln!("{name}");
        assert_verdict(&report, verdict, readable, position);
    }
}

#[test]
fn a_file_under_another_segments_name() {
    let segment = Segment::new(0, 100, &[2, 2]);
    assert_verdict(&judge_at(100, &segment.bytes), "clean", 2, None);
    for wrong in [0, 99, 101, 5000] {
        let report = judge_at(wrong, &segment.bytes);
        assert_verdict(&report, "corrupt", 2, Some(0));
        let fault = json!({
            "position": 0, "offset": wrong, "field": "base_offset", "expected": wrong, "found": 100,
            "detail": format!("base_offset at byte 8: expected {wrong}, found 100"),
            "resumes_at": 0, "resumes_with": 100
        });
        assert_eq!(report["faults"], json!([fault]));
    }
}

/// A mirror's payloads hold whole batches. Behind damage they are not what is looked for.
#[test]
fn batches_inside_of_a_damaged_payload_are_not_counted() {
    let mut segment = Segment::new(0, 0, &[1]);
    let inner = batch(0, 50, 1_700_000_000_000_500, &[vec![1; 100], vec![2; 100]]);
    segment.push(0, &[[&[7; 30][..], &inner, &inner].concat()]);
    segment.push(0, &[vec![3; 60]]);
    let bytes = flipped(&segment.bytes, segment.batches[1].start + 256 + 48 + 10);
    let report = judge(&bytes);
    assert_verdict(&report, "corrupt", 2, Some(segment.batches[1].start));
    assert_eq!((&report["messages"], &report["last_offset"]), (&json!(2), &json!(2)));
}

/// A mirror's log: one of its batches carries whole batches of the same partition, one a message, with
/// the very offsets that its own messages have. Whatever is damaged of it, what is read behind is
/// the log's and nothing that a message carries.
#[test]
fn batches_inside_of_payloads_never_pass_for_the_logs() {
    let time = 1_700_000_000_000_500;
    let mut segment = Segment::new(0, 0, &[2]);
    let carried: Vec<Vec<u8>> = (2..6).map(|o| batch(0, o, time + o, &[vec![9; 120]])).collect();
    segment.push(0, &carried);
    for _ in 0..3 {
        segment.push(0, &[vec![3; 60], vec![4; 61]]);
    }
    let [first, outer, rest @ ..] = &segment.batches[..] else { panic!("five batches") };
    let frames = outer.start + 256;
    let frame_len = 48 + carried[0].len();
    let header = outer.start..frames;
    let behind = rest[0].start..rest[0].start + 256;
    let last = frames + 3 * frame_len + 100;
    for (name, harmed, also) in [
        ("the header", header.clone(), None),
        ("its length", outer.start + 32..outer.start + 40, None),
        ("the header, and a message", header.clone(), Some(frames + 300..frames + 310)),
        ("the header, and a message's header", outer.start..frames + 48, None),
        ("a message, and the batch behind", frames + 60..frames + 61, Some(behind)),
        ("the header, and the last message", header, Some(last..last + 10)),
    ] {
        let mut bytes = segment.bytes.clone();
        let also_behind = also.as_ref().is_some_and(|also| also.start >= rest[0].start);
        for range in [Some(harmed), also].into_iter().flatten() {
            bytes[range].iter_mut().for_each(|byte| *byte ^= 0x55);
        }
        let lost = 1 + usize::from(also_behind);
        let report = judge(&bytes);
        eprintln!("{name}");
        assert_verdict(&report, "corrupt", 5 - lost, Some(first.end));
        let resumes = report["faults"][0]["resumes_at"].as_u64().map(|at| at as usize);
        assert_eq!(resumes, Some(rest[lost - 1].start), "{name}: {report}");
    }
    // A tail that a crash tore, with zeros behind it that were allocated: still a torn tail.
    for cut in [300, 420, frame_len + 400, 2 * frame_len + 300, 3 * frame_len] {
        let mut bytes = segment.bytes[..frames + cut].to_vec();
        bytes.resize(bytes.len() + 5000, 0);
        let report = judge(&bytes);
        assert_verdict(&report, "torn_tail", 1, Some(first.end));
    }
}

/// The last batch of a mirror, torn where a crash may: anywhere, with zeros that were allocated behind
/// it or not, or with a sector that never arrived. What its messages carry whole, up to the tear, is
/// no batch of this log, whatever offset it has.
#[test]
fn a_torn_message_that_carries_a_whole_batch_stays_a_torn_tail() {
    let scratch = Scratch::new();
    let time = 1_700_000_000_000_500;
    // The offsets that come next in this log, others, and those that lost ones might have.
    for carried in [2, 3, 4, 900] {
        let inner = batch(0, carried, time, &[vec![9; 90]]);
        let follows = batch(0, carried + 1, time + 1, &[vec![8; 70]]);
        let mut segment = Segment::new(0, 0, &[2]);
        let messages = [
            vec![5; 33],
            [&[7; 30][..], &inner, &follows, &[6; 900]].concat(),
            inner.clone(),
            [&inner[..], &[6; 700]].concat(),
        ];
        segment.push(0, &messages);
        let last = segment.batches[1].clone();
        let torn_at = |bytes: &[u8], what: &str| {
            let path = scratch.file(&segment_file_name(0), bytes);
            let ran = dump(["verify", "--json", path.to_str().expect("UTF-8")]).expect(1);
            eprintln!("{carried} {what}");
            assert_verdict(&ran.json()["files"][0], "torn_tail", 1, Some(last.start));
        };
        for cut in (257..last.len()).step_by(37) {
            let cut_off = &segment.bytes[..last.start + cut];
            torn_at(cut_off, &format!("cut at {cut}"));
            torn_at(&[cut_off, &[0; 5000]].concat(), &format!("cut at {cut}, zeros behind"));
        }
        let sectors = (last.start + 256).next_multiple_of(512)..last.end;
        for sector in sectors.step_by(512) {
            let hole = sector..(sector + 512).min(last.end);
            let with_hole = zeroed(&segment.bytes, hole);
            torn_at(&[&with_hole[..], &[0; 5000]].concat(), &format!("no sector {sector}"));
        }
    }
}

/// Damage that a search behind it must not mistake for what a payload carries: batches that stand
/// twice, elsewhere, or not in their place. All that can be read is.
#[test]
fn what_does_not_stand_in_its_place_is_read_all_the_same() {
    let segment = Segment::new(0, 0, &[2, 3, 2, 1, 2]);
    let [first, second, third, fourth, _] = &segment.batches[..] else { panic!("five batches") };
    let put =
        |at: usize, bytes: &[u8]| [&segment.bytes[..at], bytes, &segment.bytes[at..]].concat();
    let without =
        |hole: Range<usize>| [&segment.bytes[..hole.start], &segment.bytes[hole.end..]].concat();
    let damaged_copy = {
        let mut copy = segment.bytes[second.clone()].to_vec();
        copy[..256].fill(0x77);
        copy
    };
    // What stands there twice says which one it is, and is damaged behind that.
    let torn_copy = flipped(&segment.bytes[second.clone()], 300);
    let put_and_damage_the_fourth =
        |bytes: &[u8]| flipped(&put(third.start, bytes), fourth.start + bytes.len() + 300);
    let torn_first = flipped(&segment.bytes[first.clone()], 300);
    let headless_copy = flipped(&segment.bytes[third.clone()], 118);
    let put_and_tear_the_end = |bytes: &[u8]| {
        let whole = put(third.start, bytes);
        whole[..whole.len() - 40].to_vec()
    };
    let twice = segment.bytes[first.clone()].to_vec();
    for (name, bytes, batches, fault) in [
        ("rubbish between", put(third.start, &[0xA5; 700]), 5, third.start),
        ("a second copy", put(third.start, &segment.bytes[second.clone()]), 5, third.start),
        ("a damaged second copy", put(third.start, &damaged_copy), 5, third.start),
        // Its header says that it reaches over the next one, which reaches further.
        ("the end of one is missing", without(second.end - 40..second.end), 4, second.start),
        ("the middle is missing", without(second.end - 400..second.end - 300), 4, second.start),
        ("the end of one, and the header behind", without(second.end - 40..third.start + 9), 3, {
            second.start
        }),
        (
            "one twice, and the end of the next is missing",
            [&twice[..], &without(second.end - 40..second.end)].concat(),
            4,
            first.end,
        ),
        ("a few bytes, and damage behind", put_and_damage_the_fourth(&[0xA5; 9]), 4, third.start),
        ("a torn copy, and damage behind", put_and_damage_the_fourth(&torn_copy), 4, third.start),
        // What stands behind it does not follow it, but is due.
        ("a torn copy of the first", put_and_damage_the_fourth(&torn_first), 4, third.start),
        // The frames behind a header that says nothing lead to the batch itself, which is due.
        ("a copy ahead, its header damaged", put_and_damage_the_fourth(&headless_copy), 4, {
            third.start
        }),
        // What follows does not lead to the end: it may be a payload's, and is better than nothing.
        ("rubbish between, and a torn end", put_and_tear_the_end(&[0xA5; 400]), 4, third.start),
    ] {
        eprintln!("{name}");
        assert_verdict(&judge(&bytes), "corrupt", batches, Some(fault));
    }
}

#[test]
fn offsets_at_the_ends_of_their_range() {
    for first in [(1 << 32) - 3, (1 << 63) - 3, u64::MAX - 5] {
        let segment = Segment::new(0, first, &[2, 3]);
        let report = judge_at(first, &segment.bytes);
        assert_verdict(&report, "clean", 2, None);
        assert_eq!(report["last_offset"], first + 4);
        let report = judge_at(first, &flipped(&segment.bytes, 300));
        assert_verdict(&report, "corrupt", 1, Some(0));
    }
    // The last message's offset would be beyond u64: not a batch of any log.
    let past = batch(0, u64::MAX - 1, 5, &[vec![1], vec![2], vec![3]]);
    assert_eq!(judge_at(u64::MAX - 1, &past)["batches"], 0);
}

#[test]
fn what_the_reference_server_lets_through_is_a_finding() {
    let mut segment = Segment::new(0, 0, &[2]);
    segment.last_timestamp -= 1000;
    segment.push(0, &[vec![1; 50]]);
    let report = judge(&segment.bytes);
    assert_verdict(&report, "clean", 2, None);
    let finding = &report["findings"][0];
    assert_eq!(finding["finding"], "time_went_back");
    assert_eq!(
        (&finding["position"], &finding["offset"]),
        (&json!(segment.batches[1].start), &json!(2))
    );
}

/// Bytes made to look like a header at every 256th place, each of a batch that spans nearly all of
/// the file and fails only at its checksum: n candidates of n bytes. The search ends all the same,
/// and says what it did not look at.
#[test]
fn a_file_made_to_cost_more_ends_the_search() {
    const HEADERS: usize = 16_384;
    let len = HEADERS * 256 + (HEADERS + 1) * 48 + 256;
    let mut bytes = vec![0_u8; len];
    let mut batch_length = 0;
    for i in (0..HEADERS).rev() {
        // Its one frame: 48 bytes of the next header, then "user headers" as long as that batch.
        batch_length = if i + 1 == HEADERS { 304 } else { 304 + batch_length };
        let at = i * 256;
        bytes[at + 8..at + 16].copy_from_slice(&(i as u64).to_le_bytes());
        bytes[at + 32..at + 40].copy_from_slice(&(batch_length as u64).to_le_bytes());
        bytes[at + 48] = 1;
    }
    // The first says nothing, or all the others would be its own bytes.
    bytes[200] = 1;
    let report = judge(&bytes);
    assert_verdict(&report, "corrupt", 0, Some(0));
    let findings = report["findings"].to_string();
    assert!(findings.contains("unchecked"), "{findings}");
}

#[test]
fn rubbish_of_any_kind_is_judged() {
    let mut state = 1_u64;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    for len in [1, 7, 255, 256, 257, 4096, 300_000] {
        let bytes: Vec<u8> = (0..len).map(|_| random() | 1).collect();
        assert_verdict(&judge(&bytes), "torn_tail", 0, Some(0));
        let mostly_zeros: Vec<u8> =
            bytes.iter().map(|b| if b % 64 == 1 { *b } else { 0 }).chain([1]).collect();
        assert_verdict(&judge(&mostly_zeros), "torn_tail", 0, Some(0));
    }
}
