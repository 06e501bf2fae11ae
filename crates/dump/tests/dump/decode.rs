//! `decode`: every row of the vectors, and the contract of its lines and exit codes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use corelog_format::{BatchBuilder, HeaderValue, Message, UserHeadersBuilder};
use serde_json::{Value, json};

use crate::support::{Ran, binary, dump, dump_with_input, vectors};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn decode(wire_type: &str, lines: &str) -> Ran {
    dump_with_input(["decode", wire_type], lines.as_bytes()).expect(0)
}

#[test]
fn every_row_of_the_vectors() {
    let rows = fs::read_to_string(vectors().join("wire.jsonl")).expect("the vectors");
    let mut by_type: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).expect("a row");
        by_type.entry(row["type"].as_str().expect("a type").to_string()).or_default().push(row);
    }
    assert_eq!(by_type.len(), 9);
    let mut values = 0;
    for (wire_type, rows) in by_type {
        let lines: Vec<&str> = rows.iter().map(|row| row["hex"].as_str().expect("hex")).collect();
        let answers = decode(&wire_type, &(lines.join("\n") + "\n")).lines();
        assert_eq!(answers.len(), rows.len(), "{wire_type}");
        for (row, answer) in rows.iter().zip(&answers) {
            if row["ok"] == true {
                assert_eq!(*answer, row["value"], "{wire_type} {}", row["hex"]);
                values += 1;
            } else {
                let object = answer.as_object().expect("an object");
                assert!(object.len() == 1 && object["error"].is_string(), "{row} -> {answer}");
            }
        }
    }
    assert_eq!(values, 272);
}

#[test]
fn one_value_from_the_command_line() {
    let ran = dump(["decode", "identifier", "010401000000"]).expect(0);
    assert_eq!(ran.out, "{\"kind\":\"numeric\",\"value\":1}\n");
    assert_eq!(dump(["decode", "user_headers", ""]).expect(0).out, "[]\n");
    // Refusals are on standard output, and exit code 1: of the decoder, and of what is no hex.
    for hex in ["0104010000", "01040100000000", "zz", "0"] {
        let ran = dump(["decode", "identifier", hex]).expect(1);
        assert!(ran.json()["error"].is_string() && ran.err.is_empty(), "{ran:?}");
    }
    let ran = dump(["decode", "no_such_type", "00"]).expect(2);
    assert!(ran.out.is_empty() && ran.err.contains("polling_strategy"), "{ran:?}");
}

#[test]
fn lines_blank_ragged_or_wrong_are_all_answered() {
    let answers = decode("user_headers", "\n  \nxyz\n0\n\r\n").lines();
    let expected = [json!([]), json!([]), json!("error"), json!("error"), json!([])];
    assert_eq!(answers.len(), expected.len());
    for (answer, expected) in answers.iter().zip(expected) {
        match expected {
            Value::String(_) => assert!(answer["error"].is_string(), "{answer}"),
            list => assert_eq!(*answer, list),
        }
    }
    // No end of line at the end of the input, capitals, an end of line of two bytes.
    let answers = decode("optional_partition", "01FFffFFff\r\n0100000000").lines();
    assert_eq!(answers, [json!({"partition_id": u32::MAX}), json!({"partition_id": 0})]);
    assert!(decode("name", "").out.is_empty());
}

#[test]
fn each_line_is_answered_before_the_next_is_sent() {
    let mut child = binary()
        .args(["decode", "polling_strategy"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let answers = BufReader::new(child.stdout.take().expect("a pipe"));
    // A reader of its own, so that an answer that does not come fails the test, not hangs it.
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        answers.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    for value in 0..20_u64 {
        writeln!(stdin, "01{}", hex(&value.to_le_bytes())).expect("sent");
        let answer = receiver.recv_timeout(Duration::from_secs(60)).expect("an answer");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer, json!({"kind": "offset", "value": value}));
    }
    drop(stdin);
    assert!(child.wait().expect("it ends").success());
    reader.join().expect("the reader ends").expect("nothing more is said");
}

#[test]
fn values_that_json_or_their_kind_cannot_hold() {
    let mut block = UserHeadersBuilder::new();
    let mut expected = Vec::new();
    let mut header = |key: &str, value: HeaderValue<'_>, shown: Value| {
        block.push(key, value).expect("a header");
        let mut object = json!({"key": key});
        for (name, value) in shown.as_object().expect("an object") {
            object[name] = value.clone();
        }
        expected.push(object);
    };
    let float64 = |value: Value| json!({"kind": "float64", "value": value});
    header("nan", HeaderValue::Float64(f64::NAN), float64("NaN".into()));
    header("inf", HeaderValue::Float64(f64::INFINITY), float64("Infinity".into()));
    header("-inf", HeaderValue::Float64(f64::NEG_INFINITY), float64("-Infinity".into()));
    header("nan32", HeaderValue::Float32(f32::NAN), json!({"kind": "float32", "value": "NaN"}));
    // A float32 prints the value that it holds, which is not 0.1.
    let tenth = json!({"kind": "float32", "value": 0.10000000149011612});
    header("tenth", HeaderValue::Float32(0.1), tenth);
    let u64_max = json!({"kind": "uint64", "value": u64::MAX});
    header("u64", HeaderValue::Uint64(u64::MAX), u64_max);
    let i128_min = json!({"kind": "int128", "value": i128::MIN.to_string()});
    header("i128", HeaderValue::Int128(i128::MIN), i128_min);
    for (code, bytes, shown) in [
        (11, &[1, 2, 3][..], json!({"kind": "uint32", "invalid": "010203"})),
        (3, &[2], json!({"kind": "bool", "invalid": "02"})),
        (2, &[0xFF], json!({"kind": "string", "invalid": "ff"})),
        (200, &[9], json!({"kind": "unknown", "code": 200, "value": "09"})),
    ] {
        header("k", HeaderValue::from_parts(code, bytes), shown);
    }
    let ran = decode("user_headers", &hex(block.headers().bytes()));
    assert_eq!(ran.lines(), [Value::Array(expected)]);
}

#[test]
fn a_key_that_is_no_string_is_refused_in_a_batch_too() {
    let mut builder = BatchBuilder::new();
    // Key kind 1 (raw), then a uint8: the structure is right, so admission takes it.
    let block = [1, 1, 0, 0, 0, b'k', 9, 1, 0, 0, 0, 7];
    builder.push(Message::new(b"payload").user_headers_block(&block)).expect("structure holds");
    let bytes = builder.finish().expect("a batch");
    let ran = dump(["decode", "batch", &hex(&bytes)]).expect(1);
    let error = ran.json()["error"].as_str().expect("an error").to_string();
    // Batch header, frame header and payload come before the block.
    assert!(error.contains(&format!("byte {}", 256 + 48 + 7)) && error.contains("key"), "{error}");
}
