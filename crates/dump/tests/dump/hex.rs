//! `hex`: what was asked for is found, sound or damaged, and what is wrong is marked.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Ran, Scratch, Segment, binary, dump, real_partition, with_path};

fn hex(args: &[&str], path: &Path) -> Ran {
    dump(with_path(&[&["hex"], args].concat(), path))
}

fn field<'a>(document: &'a Value, name: &str) -> Vec<&'a Value> {
    let fields = document["fields"].as_array().expect("a list");
    fields.iter().filter(|field| field["field"] == name).collect()
}

#[test]
fn a_message_by_its_offset_and_its_byte() {
    let real = real_partition();
    let shown = dump(with_path(&["show", "--messages", "--ndjson", "--offset", "23"], &real));
    let message = shown.expect(0).lines().remove(0);
    for all in [&[][..], &["--all"]] {
        let args = [&["--json", "--offset", "23"], all].concat();
        let document = hex(&args, &real).expect(0).json();
        assert_eq!(document["schema"], 1);
        assert_eq!(document["position"], message["batch_position"]);
        let ids: Vec<&str> =
            field(&document, "id").iter().map(|id| id["value"].as_str().expect("text")).collect();
        let id = message["id"].as_str().expect("text");
        match all.is_empty() {
            true => assert_eq!(ids, [id]),
            false => assert!(ids.len() == 1000 && ids.contains(&id)),
        }
        assert!(
            document["fields"].as_array().expect("a list").iter().all(|f| f["wrong"].is_null())
        );
    }
    // The same message by a byte of its payload, in one file.
    let document = hex(&["--json", "--offset", "23"], &real).expect(0).json();
    let at = field(&document, "payload")[0]["position"].as_u64().expect("a number") + 1;
    let by_byte = hex(&["--json", "--at", &at.to_string()], &real).expect(0);
    assert_eq!(by_byte.json(), document);
}

#[test]
fn damage_is_shown_where_it_stands() {
    let scratch = Scratch::new();
    let good = Segment::new(3, 100, &[2, 2, 2]);
    let second = good.batches[1].clone();
    let wrong_in = |change: &dyn Fn(&mut [u8]), field_name: &str| {
        let mut segment = good.clone();
        change(&mut segment.bytes[second.clone()]);
        let path = segment.write(&scratch, "partitions/3");
        for args in [["--json", "--offset", "102"], ["--json", "--at", &second.start.to_string()]] {
            let ran = hex(&args, &path).expect(1);
            assert!(ran.err.contains("damage at"), "{ran:?}");
            let document = ran.json();
            assert_eq!(document["position"], second.start as u64);
            let marked = field(&document, field_name);
            assert!(marked.iter().any(|field| field["wrong"].is_string()), "{field_name}: {ran:?}");
        }
    };
    // What the header says, what the checksums say, and rubbish.
    wrong_in(&|batch| batch[0] ^= 1, "batch_checksum");
    wrong_in(&|batch| batch[8] ^= 1, "batch_checksum");
    wrong_in(&|batch| batch[33] ^= 0x40, "batch_length");
    wrong_in(&|batch| batch[39] ^= 0x80, "batch_length");
    wrong_in(&|batch| batch[40] ^= 1, "batch_checksum");
    wrong_in(&|batch| batch[48] ^= 1, "message_count");
    wrong_in(&|batch| batch[60] ^= 1, "reserved");
    wrong_in(&|batch| batch[52] ^= 1, "idempotent_producer");
    wrong_in(&|batch| batch[256] ^= 1, "checksum");
    wrong_in(&|batch| batch[310] ^= 1, "checksum");
    wrong_in(&|batch| batch[296] ^= 1, "reserved");
    // A sound batch in a place where another belongs.
    let mut misplaced = good.clone();
    let other = crate::support::batch(9, 102, 1, &[b"x".to_vec()]);
    drop(misplaced.bytes.splice(second.clone(), other));
    let path = misplaced.write(&scratch, "partitions/3");
    let document = hex(&["--json", "--offset", "102"], &path).expect(1).json();
    let wrong = field(&document, "partition_id")[0]["wrong"].as_str().expect("marked");
    assert!(wrong.contains("expected 3, found 9"), "{wrong}");
    wrong_in(&|batch| batch.fill(0xA5), "batch_length");
    // For people: carets and the word, whatever the colours.
    let text = hex(&["--at", &second.start.to_string()], &scratch.path().join("partitions/3"));
    assert!(text.expect(1).out.contains("^^ ^^ ^^ ^^ ^^ ^^ ^^ ^^"));
}

/// Damage that takes several batches: of them the one is shown that was asked for, where those in front
/// of it say how long they are.
#[test]
fn the_right_one_of_several_damaged_batches() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(3, 100, &[2, 2, 2, 2]);
    let batches = segment.batches.clone();
    for batch in &batches[1..3] {
        segment.bytes[batch.start + 310] ^= 1;
    }
    let path = segment.write(&scratch, "partitions/3");
    for (batch, offsets) in [(&batches[1], [102, 103]), (&batches[2], [104, 105])] {
        let by_offset = offsets.map(|offset| ["--offset".to_string(), offset.to_string()]);
        let by_byte = [batch.start, batch.end - 1].map(|at| ["--at".to_string(), at.to_string()]);
        for [flag, value] in by_offset.into_iter().chain(by_byte) {
            let ran = hex(&["--json", &flag, &value], &path).expect(1);
            assert!(ran.err.contains(&format!("damage at {}", batches[1].start)), "{ran:?}");
            let document = ran.json();
            assert_eq!(document["position"], batch.start as u64, "{flag} {value}");
            assert!(field(&document, "checksum").iter().any(|field| field["wrong"].is_string()));
        }
    }
}

#[test]
fn what_is_not_there_is_said() {
    let scratch = Scratch::new();
    let segment = Segment::new(0, 0, &[2, 2]);
    let path = segment.write(&scratch, "p");
    for args in [["--offset", "4"], ["--at", "1000000"]] {
        let ran = hex(&args, &path).expect(2);
        assert!(ran.out.is_empty() && ran.err.contains(args[1]), "{ran:?}");
    }
    // A byte of which file?
    Segment::new(0, 4, &[1]).write(&scratch, "p");
    assert!(
        hex(&["--at", "0"], &scratch.path().join("p")).expect(2).err.contains("name that file")
    );
    hex(&["--offset", "4"], &scratch.path().join("p")).expect(0);
    for args in [&[][..], &["--offset", "1", "--at", "1"]] {
        assert!(hex(args, &path).expect(2).err.contains("--offset"));
    }
}

#[test]
fn records_of_an_index_and_a_manifest() {
    let scratch = Scratch::new();
    let segment = Segment::new(0, 0, &[2, 2, 2]);
    let index = segment.write(&scratch, "p").with_extension("index");
    let document = hex(&["--json", "--at", "47"], &index).expect(0).json();
    assert_eq!(document["position"], 24);
    assert_eq!(field(&document, "base_offset")[0]["value"], "2");
    assert_eq!(field(&document, "position")[0]["value"], segment.batches[1].start.to_string());
    let manifest = scratch.file("p/manifest", &segment.manifest_at(77));
    let document = hex(&["--json", "--at", "0"], &manifest).expect(0).json();
    assert_eq!(field(&document, "mark_position")[0]["value"], "77");
    hex(&["--at", "9999"], &manifest).expect(2);
}

/// What is printed was read before: a file that is cut meanwhile does not turn into zeros on the way
/// out, and is no reason to fail.
#[test]
fn a_file_that_is_cut_while_it_is_printed() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[]);
    segment.push(0, &[vec![0xA7; 400_000], vec![0xB8; 400_000]]);
    let path = segment.write(&scratch, "p");
    let args = ["--all", "--offset", "1"];
    let undisturbed = hex(&args, &path).expect(0);
    let mut child = binary()
        .args(with_path(&[&["hex"], &args[..]].concat(), &path))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut out = child.stdout.take().expect("a pipe");
    // More than a pipe and a buffer hold is to come: it waits in the middle of the batch.
    let mut text = vec![0; 1000];
    out.read_exact(&mut text).expect("it prints");
    File::options().write(true).open(&path).and_then(|file| file.set_len(0)).expect("cut");
    out.read_to_end(&mut text).expect("it goes on");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(text == undisturbed.out.as_bytes(), "{} bytes", text.len());
}
