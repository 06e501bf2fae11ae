//! The rows of `tests/vectors/wire.jsonl`.

use serde_json::Value;

/// One line of the file.
pub(crate) struct Row {
    pub(crate) line: usize,
    pub(crate) kind: String,
    pub(crate) bytes: Vec<u8>,
    /// The decoded value of a good row; bad rows have none.
    pub(crate) value: Option<Value>,
    /// What is wrong with a bad row.
    pub(crate) note: String,
}

/// All rows, in order.
pub(crate) fn all() -> Vec<Row> {
    let text = include_str!("../vectors/wire.jsonl");
    text.lines().enumerate().map(|(index, line)| parse(index + 1, line)).collect()
}

/// The inputs of the good rows, without batches (which have tests of their own).
pub(crate) fn good() -> impl Iterator<Item = Row> {
    all().into_iter().filter(|row| row.value.is_some() && row.kind != "batch")
}

fn parse(line: usize, text: &str) -> Row {
    let row: Value = serde_json::from_str(text).expect("a JSON object");
    let ok = row["ok"].as_bool().expect("ok is a bool");
    let note = row["note"].as_str().unwrap_or("").to_owned();
    assert_eq!(ok, row.get("value").is_some(), "line {line}");
    Row {
        line,
        kind: row["type"].as_str().expect("type is a string").to_owned(),
        bytes: unhex(row["hex"].as_str().expect("hex is a string")),
        value: row.get("value").cloned(),
        note,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "odd number of digits");
    let digit = |index| u8::from_str_radix(&text[index..index + 2], 16).expect("hex digits");
    (0..text.len()).step_by(2).map(digit).collect()
}
