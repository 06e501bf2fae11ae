//! The batch rows of `tests/vectors/wire.jsonl`, which were made from the specification alone.

use corelog_format::{Batch, UnverifiedBatch};
use serde_json::Value;

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits");
    (0..text.len()).step_by(2).map(digits).collect()
}

fn number(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.parse().expect("a decimal string"),
        value => value.as_u64().expect("a number"),
    }
}

fn same(batch: &Batch<'_>, value: &Value, line: usize) {
    let header = batch.header();
    let fields = [
        ("partition_id", header.partition_id),
        ("base_offset", header.base_offset),
        ("base_timestamp", header.base_timestamp),
        ("origin_timestamp", header.origin_timestamp),
        ("batch_length", header.batch_length),
        ("batch_checksum", header.batch_checksum),
        ("message_count", header.message_count.into()),
    ];
    for (name, found) in fields {
        assert_eq!(found, number(&value[name]), "line {line}: {name}");
    }
    let messages = value["messages"].as_array().expect("a list");
    assert_eq!(batch.frames().len(), messages.len(), "line {line}");
    for (frame, message) in batch.frames().zip(messages) {
        assert_eq!(frame.id().to_string(), message["id"].as_str().expect("a string"));
        let offset = header.base_offset + u64::from(frame.offset_delta());
        assert_eq!(offset, number(&message["offset"]), "line {line}");
        let origin = header.origin_timestamp + u64::from(frame.timestamp_delta());
        assert_eq!(origin, number(&message["origin_timestamp"]), "line {line}");
        assert_eq!(frame.payload().len() as u64, number(&message["payload_length"]));
        let keys: Result<Vec<_>, _> =
            frame.user_headers().iter().map(|pair| pair.map(|(key, _)| key.to_owned())).collect();
        let expected: Vec<_> = message["user_headers"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|h| h["key"].as_str().expect("a string").to_owned())
            .collect();
        assert_eq!(keys.expect("string keys"), expected, "line {line}");
    }
}

#[test]
fn every_batch_row_is_read_as_it_says() {
    let text = include_str!("../vectors/wire.jsonl");
    let (mut good, mut bad) = (0, 0);
    for (line, text) in text.lines().enumerate() {
        let row: Value = serde_json::from_str(text).expect("a JSON object");
        if row["type"] != "batch" {
            continue;
        }
        let bytes = unhex(row["hex"].as_str().expect("hex is a string"));
        let verified = UnverifiedBatch::new(&bytes).and_then(UnverifiedBatch::verify);
        let stored = UnverifiedBatch::new(&bytes).and_then(UnverifiedBatch::verify_stored);
        if row["ok"] == true {
            same(&verified.expect("a good row"), &row["value"], line + 1);
            same(&stored.expect("a good row"), &row["value"], line + 1);
            good += 1;
        } else {
            let note = row["note"].as_str().unwrap_or("");
            assert!(verified.is_err() && stored.is_err(), "line {}: {note}", line + 1);
            bad += 1;
        }
    }
    assert_eq!((good, bad), (30, 91));
}
