//! What a real server and real clients said to one another.

use std::path::{Path, PathBuf};

/// One request and its reply.
pub(crate) struct Exchange {
    pub(crate) connection: u64,
    pub(crate) seq: u64,
    pub(crate) operation: u8,
    pub(crate) code: u32,
    pub(crate) request: Vec<u8>,
    pub(crate) reply: Vec<u8>,
}

fn in_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// All exchanges, in order.
pub(crate) fn exchanges() -> Vec<Exchange> {
    let text = std::fs::read_to_string(in_crate("tests/vectors/exchanges.jsonl")).unwrap();
    text.lines().map(exchange).collect()
}

fn exchange(line: &str) -> Exchange {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    let number = |key: &str| value[key].as_u64().unwrap_or(0);
    let bytes = |key: &str| unhex(value[key].as_str().unwrap());
    Exchange {
        connection: number("connection"),
        seq: number("seq"),
        operation: number("operation") as u8,
        code: number("code") as u32,
        request: bytes("request"),
        reply: bytes("reply"),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

/// The batches of partition 0, as they were stored.
pub(crate) fn batches() -> Vec<Vec<u8>> {
    let log = "../format/tests/vectors/iggy-0.11/partition-0/00000000000000000000.log";
    let log = std::fs::read(in_crate(log)).unwrap();
    let mut rest = &log[..];
    let mut batches = Vec::new();
    while !rest.is_empty() {
        let len = u64::from_le_bytes(rest[32..40].try_into().unwrap()) as usize;
        let (batch, behind) = rest.split_at(len);
        batches.push(batch.to_vec());
        rest = behind;
    }
    batches
}
