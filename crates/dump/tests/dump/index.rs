//! The state of an index, and that it never decides a verdict or an exit code.

use corelog_format::IndexEntry;

use crate::schema::assert_fits;
use crate::support::{Scratch, Segment, dump, real_log, real_partition, verify_one};

/// The state that `verify` and `ls` report for a log of five batches beside these index bytes.
fn state(log_batches: usize, index: Option<Vec<u8>>) -> String {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[2, 2, 2, 2, 2]);
    segment
        .bytes
        .truncate(segment.batches.get(log_batches).map_or(segment.bytes.len(), |b| b.start));
    let path = segment.write(&scratch, "p");
    let index_path = path.with_extension("index");
    match index {
        Some(bytes) => std::fs::write(index_path, bytes),
        None => std::fs::remove_file(index_path),
    }
    .expect("changed");
    let report = verify_one(&path, 0);
    assert_eq!(report["verdict"], "clean", "{report}");
    let state = report["index"].as_str().expect("a word").to_string();
    let ran = dump(["ls", path.to_str().expect("UTF-8")]).expect(0);
    assert!(ran.out.contains(&format!(" {state} ")), "{state}: {ran:?}");
    state
}

fn entries() -> Vec<IndexEntry> {
    Segment::new(0, 0, &[2, 2, 2, 2, 2]).index
}

fn bytes(entries: &[IndexEntry]) -> Vec<u8> {
    entries.iter().flat_map(IndexEntry::encode).collect()
}

#[test]
fn an_index_that_tells_the_truth() {
    let all = entries();
    assert_eq!(state(5, Some(bytes(&all))), "ok");
    // Sparse ones do as well: each entry counts, not their number.
    assert_eq!(state(5, Some(bytes(&[all[0], all[3]]))), "ok");
    assert_eq!(state(5, Some(bytes(&all[4..]))), "ok");
    assert_eq!(state(0, Some(Vec::new())), "ok");
}

#[test]
fn an_index_that_is_missing_or_out_of_step() {
    let all = entries();
    assert_eq!(state(5, None), "missing");
    assert_eq!(state(0, None), "missing");
    assert_eq!(state(5, Some(Vec::new())), "stale");
    for cut in [1, 23, 25, 119] {
        assert_eq!(state(5, Some(bytes(&all)[..cut].to_vec())), "stale", "{cut}");
    }
    for zeros in [24, 48, 1000] {
        assert_eq!(state(5, Some([bytes(&all), vec![0; zeros]].concat())), "stale", "{zeros}");
    }
    // Ahead of a log that lost its last batches.
    assert_eq!(state(3, Some(bytes(&all))), "stale");
    assert_eq!(state(0, Some(bytes(&all[1..]))), "stale");
}

#[test]
fn an_index_that_lies() {
    let all = entries();
    let lie = |change: &dyn Fn(&mut Vec<IndexEntry>)| {
        let mut entries = all.clone();
        change(&mut entries);
        state(5, Some(bytes(&entries)))
    };
    assert_eq!(lie(&|e| e[2].position += 1), "bad");
    assert_eq!(lie(&|e| e[2].position -= 1), "bad");
    assert_eq!(lie(&|e| e[2].base_offset += 1), "bad");
    assert_eq!(lie(&|e| e[2].base_timestamp += 1), "bad");
    assert_eq!(lie(&|e| e.swap(1, 2)), "bad");
    assert_eq!(lie(&|e| e.insert(1, e[1])), "bad");
    // Behind the end by position, but not by offset.
    assert_eq!(lie(&|e| e[4].position = 1 << 40), "bad");
    assert_eq!(lie(&|e| e[0].position = u64::MAX), "bad");
}

#[test]
fn zeros_in_the_middle_are_a_lie() {
    let all = entries();
    let zero = IndexEntry { base_offset: 0, base_timestamp: 0, position: 0 };
    assert_eq!(state(5, Some(bytes(&[all[0], zero, all[2]]))), "bad");
    // Nothing but zeros is an index that was never filled in.
    assert_eq!(state(5, Some(bytes(&[zero]))), "stale");
}

#[test]
fn the_index_of_the_real_segment_damaged() {
    let scratch = Scratch::new();
    let path = scratch.file("00000000000000000000.log", &real_log());
    let index = std::fs::read(real_partition().join("00000000000000000000.index")).expect("read");
    let check = |bytes: &[u8]| {
        scratch.file("00000000000000000000.index", bytes);
        verify_one(&path, 0)["index"].clone()
    };
    assert_eq!(check(&index), "ok");
    assert_eq!(check(&index[..40]), "stale");
    let mut lying = index.clone();
    lying[24 + 16] ^= 1;
    assert_eq!(check(&lying), "bad");
}

/// Entries that point into damage cannot be judged; those around it can.
#[test]
fn an_index_beside_a_damaged_log() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[2, 2, 2, 2, 2]);
    segment.bytes[segment.batches[2].start + 300] ^= 1;
    assert_eq!(verify_one(&segment.write(&scratch, "p"), 1)["index"], "ok");
    segment.index[3].base_offset += 1;
    assert_eq!(verify_one(&segment.write(&scratch, "p"), 1)["index"], "bad");
    // Into a torn tail: the index is ahead of what is readable.
    let mut segment = Segment::new(0, 0, &[2, 2, 2]);
    segment.bytes.truncate(segment.bytes.len() - 1);
    assert_eq!(verify_one(&segment.write(&scratch, "p"), 1)["index"], "stale");
}

#[test]
fn an_index_that_is_no_file() {
    let scratch = Scratch::new();
    let path = Segment::new(0, 0, &[2]).write(&scratch, "p");
    let index = path.with_extension("index");
    std::fs::remove_file(&index).expect("removed");
    std::fs::create_dir(&index).expect("a directory");
    let report = verify_one(&path, 0);
    assert_eq!(report["index"], "bad");
    assert_eq!(report["findings"][0]["finding"], "index_unreadable");
}

/// What stands in the file is printed, whatever `check` says about it.
#[test]
fn the_entries_as_they_stand() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[2, 3]);
    segment.index[1].base_offset += 7;
    let path = segment.write(&scratch, "p");
    let index = path.with_extension("index");
    let torn = [bytes(&segment.index), vec![1; 5]].concat();
    std::fs::write(&index, torn).expect("written");
    let log = path.to_str().expect("UTF-8");
    let ran = dump(["index", "show", log]).expect(0);
    let lines: Vec<&str> = ran.out.lines().collect();
    let [first, second] = lines[..] else { panic!("{ran:?}") };
    assert!(first.starts_with("@0 offset 0 time 20"), "{first}");
    assert!(
        second.starts_with(&format!("@{} offset 9 time 20", segment.batches[1].start)),
        "{ran:?}"
    );
    assert!(ran.err.contains("5 bytes are no whole entry"), "{ran:?}");
    let lines = dump(["index", "show", "--ndjson", log]).expect(0).lines();
    for (line, entry) in lines.iter().zip(&segment.index) {
        assert_fits(line, "index-entry");
        assert_eq!(line["base_offset"], entry.base_offset);
        assert_eq!(line["base_timestamp"], entry.base_timestamp);
        assert_eq!(line["position"], entry.position);
    }
    assert_eq!(lines.len(), 2);
    std::fs::remove_file(&index).expect("removed");
    let ran = dump(["index", "show", log]).expect(0);
    assert!(ran.out.is_empty() && ran.err.contains(".index: missing"), "{ran:?}");
}
