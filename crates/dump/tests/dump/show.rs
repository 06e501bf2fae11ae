//! `show`: the shapes of its lines, what it does at damage, and that it streams.

use std::process::Command;

use corelog_format::{BatchBuilder, HeaderValue, Message, admit, segment_file_name};
use serde_json::json;

use crate::support::{Scratch, Segment, dump, real_log};

#[test]
fn the_lines_of_a_batch_and_of_its_messages() {
    let scratch = Scratch::new();
    let mut builder = BatchBuilder::new();
    let headers = [("k", HeaderValue::Uint8(7)), ("text", HeaderValue::String("a\u{1b}[0m"))];
    let first = Message::new(b"four").id(u128::MAX).origin_timestamp(1_000_002);
    builder.push(first.headers(&headers)).expect("fits");
    builder.push(Message::new(b"").id(2).origin_timestamp(1_000_000)).expect("fits");
    let mut bytes = builder.finish().expect("a batch");
    let header = admit(&bytes).expect("our own").stamp(3, 50, 5_000_000);
    bytes[..256].copy_from_slice(&header);
    let path = scratch.file(&segment_file_name(50), &bytes);
    let path = path.to_str().expect("UTF-8");

    let batch = dump(["show", "--ndjson", path]).expect(0).lines();
    let checksum = u64::from_le_bytes(bytes[40..48].try_into().expect("eight bytes"));
    let expected = json!({
        "schema": 1, "path": path, "position": 0, "partition_id": 3, "base_offset": 50,
        "base_timestamp": 5_000_000, "origin_timestamp": 1_000_000, "batch_length": bytes.len(),
        "batch_checksum": checksum.to_string(), "message_count": 2
    });
    assert_eq!(batch, [expected]);

    let messages = dump(["show", "--ndjson", "--messages", path]).expect(0).lines();
    let place =
        json!({"schema": 1, "partition_id": 3, "batch_position": 0, "base_timestamp": 5_000_000});
    let mut expected = [
        json!({
            "id": u128::MAX.to_string(), "offset": 50, "origin_timestamp": 1_000_002,
            "payload_length": 4, "user_headers": [
                {"key": "k", "kind": "uint8", "value": 7},
                {"key": "text", "kind": "string", "value": "a\u{1b}[0m"}
            ]
        }),
        json!({
            "id": "2", "offset": 51, "origin_timestamp": 1_000_000, "payload_length": 0,
            "user_headers": []
        }),
    ];
    for message in &mut expected {
        for (name, value) in place.as_object().expect("an object") {
            message[name] = value.clone();
        }
    }
    assert_eq!(messages, expected);

    // For people: times as dates, and nothing that drives a terminal.
    let text = dump(["show", "--messages", path]).expect(0).out;
    assert!(text.starts_with("offset 50 time 1970-01-01T00:00:05.000000Z "), "{text}");
    assert!(text.contains("\"k\"=7") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn damage_is_said_and_passed() {
    let scratch = Scratch::new();
    let mut segment = Segment::new(0, 0, &[3, 3, 3, 3]);
    segment.bytes[segment.batches[1].start + 300] ^= 1;
    let path = segment.write(&scratch, "p");
    let path = path.to_str().expect("UTF-8");
    let ran = dump(["show", "--ndjson", "--messages", path]).expect(1);
    let offsets: Vec<u64> =
        ran.lines().iter().map(|line| line["offset"].as_u64().expect("a number")).collect();
    assert_eq!(offsets, [0, 1, 2, 6, 7, 8, 9, 10, 11]);
    let damage = format!("damage at {}", segment.batches[1].start);
    assert!(ran.err.contains(path) && ran.err.contains(&damage), "{ran:?}");
    // What stands before the damage is shown without ever meeting it.
    assert!(dump(["show", "--messages", "--limit", "3", path]).expect(0).err.is_empty());
}

/// 64 MiB of segment through an address space of 32 MiB: what is shown does not stay in memory.
#[test]
fn memory_does_not_grow_with_the_file() {
    let scratch = Scratch::new();
    let one = real_log();
    let mut segment = Segment::new(0, 0, &[]);
    while segment.bytes.len() < 64 << 20 {
        let payloads: Vec<Vec<u8>> = one.chunks(60_000).take(8).map(<[u8]>::to_vec).collect();
        segment.push(0, &payloads);
    }
    let path = segment.write(&scratch, "p");
    for verb in ["show", "verify", "ls"] {
        // Of virtual memory, the program's own included; verify's threads have stacks as well.
        let limit = if verb == "verify" { 65_536 } else { 32_768 };
        let script = format!("ulimit -v {limit} && exec \"$@\"");
        let output = Command::new("sh")
            .args(["-c", &script, "sh", env!("CARGO_BIN_EXE_corelog-dump"), verb])
            .arg(&path)
            .args(["--no-mmap"])
            .output()
            .expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{verb}: {:?} {err}", output.status);
        let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
        let expected = match verb {
            "show" => segment.batches.len(),
            "verify" => 1,
            _ => 2,
        };
        assert_eq!(lines, expected, "{verb}");
    }
}
