//! The dissector in tshark, on captures that the tests write: what it shows is what the decoder of
//! corelog-format reads from the same bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use corelog_format::{Batch, UnverifiedBatch};
use serde_json::Value;

use crate::pcap::{Capture, Connection, RAW_IP, USER0};

/// A recorded request and its reply.
struct Exchange {
    connection: u16,
    operation: u64,
    code: Option<u64>,
    request: Vec<u8>,
    reply: Vec<u8>,
}

/// Exchanges of a real client with the reference server.
fn exchanges() -> Vec<Exchange> {
    let unhex = |value: &Value| -> Vec<u8> {
        let text = value.as_str().expect("hex").as_bytes();
        let digit = |byte: u8| (byte as char).to_digit(16).expect("a digit") as u8;
        text.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    };
    let rows = include_str!("../vectors/exchanges.jsonl").lines();
    rows.map(|row| {
        let row: Value = serde_json::from_str(row).expect("JSON");
        Exchange {
            connection: row["connection"].as_u64().expect("a number") as u16,
            operation: row["operation"].as_u64().expect("a number"),
            code: row["code"].as_u64(),
            request: unhex(&row["request"]),
            reply: unhex(&row["reply"]),
        }
    })
    .collect()
}

/// Batches back to back.
fn batches(mut bytes: &[u8]) -> Vec<Batch<'_>> {
    let mut batches = Vec::new();
    while !bytes.is_empty() {
        let (batch, rest) = UnverifiedBatch::split_first(bytes).expect("a batch");
        batches.push(batch.verify_stored().expect("a recorded batch"));
        bytes = rest;
    }
    batches
}

/// The batches in a frame: of a send behind its metadata, of a poll's reply behind 16 bytes.
fn carried(exchange: &Exchange) -> Vec<Batch<'_>> {
    let body = &exchange.request[256..];
    match (exchange.operation, exchange.code) {
        (160, _) => {
            let metadata: [u8; 4] = body[..4].try_into().expect("four bytes");
            batches(&body[4 + u32::from_le_bytes(metadata) as usize..])
        }
        (2, Some(100)) => batches(&exchange.reply[256 + 16..]),
        _ => Vec::new(),
    }
}

/// Runs tshark with the dissector; of each packet that has them the values of these fields.
fn tshark(capture: &Capture, name: &str, fields: &[&str]) -> Vec<BTreeMap<String, Vec<String>>> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path: PathBuf = dir.join(format!("{name}-{}.pcap", std::process::id()));
    std::fs::write(&path, capture.bytes()).expect("written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/dissectors/corelog.lua");
    let script = format!("lua_script:{}", script.display());
    let mut command = Command::new("tshark");
    command.args(["-n", "-X", &script, "-T", "fields", "-E", "separator=|", "-E", "aggregator=;"]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command.arg("-r").arg(&path).output();
    let output = output.expect("tshark runs; install the package tshark");
    let _ = std::fs::remove_file(&path);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !err.contains("Lua"), "{err}");
    assert!(!out.contains("Lua Error"), "{out}");
    let row = |line: &str| {
        let values = line
            .split('|')
            .map(|value| value.split(';').filter(|v| !v.is_empty()).map(str::to_string).collect());
        fields.iter().map(|field| field.to_string()).zip(values).collect()
    };
    out.lines().map(row).collect()
}

const FIELDS: [&str; 9] = [
    "iggy.operation",
    "iggy.code",
    "iggy.count",
    "corelog.batch.base_offset",
    "corelog.batch.message_count",
    "corelog.message.offset",
    "corelog.message.payload_length",
    "corelog.user_header.key",
    "corelog.malformed",
];

/// What the row of a packet with these batches must show.
fn assert_shows(row: &BTreeMap<String, Vec<String>>, batches: &[Batch<'_>]) {
    let texts = |values: Vec<u64>| values.iter().map(u64::to_string).collect::<Vec<_>>();
    let headers = || batches.iter().map(Batch::header);
    let frames = || batches.iter().flat_map(|b| b.frames().map(|f| (b.header().base_offset, f)));
    let keys: Vec<String> = frames()
        .flat_map(|(_, frame)| {
            let pairs = frame.user_headers().iter();
            pairs.map(|pair| pair.expect("sound").0.to_string()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(row["corelog.batch.base_offset"], texts(headers().map(|h| h.base_offset).collect()));
    let counts = headers().map(|h| u64::from(h.message_count)).collect();
    assert_eq!(row["corelog.batch.message_count"], texts(counts));
    let offsets = frames().map(|(base, f)| base + u64::from(f.offset_delta())).collect();
    assert_eq!(row["corelog.message.offset"], texts(offsets));
    let lengths = frames().map(|(_, f)| f.payload().len() as u64).collect();
    assert_eq!(row["corelog.message.payload_length"], texts(lengths));
    assert_eq!(row["corelog.user_header.key"], keys);
    assert_eq!(row["corelog.malformed"], [""; 0]);
}

#[test]
fn sends_and_polls_of_a_real_client_are_taken_apart() {
    let exchanges = exchanges();
    let mut capture = Capture::new(RAW_IP);
    let mut connections = BTreeMap::new();
    for exchange in &exchanges {
        let number = exchange.connection;
        let connection = connections.entry(number).or_insert_with(|| Connection::new(number));
        capture.send(connection, true, &exchange.request);
        capture.send(connection, false, &exchange.reply);
    }
    let rows = tshark(&capture, "exchanges", &FIELDS);
    // Packets that end a frame: each request and each reply, in order.
    let frames: Vec<_> = rows.iter().filter(|row| !row["iggy.operation"].is_empty()).collect();
    assert_eq!(frames.len(), 2 * exchanges.len());
    let mut with_batches = 0;
    for (exchange, pair) in exchanges.iter().zip(frames.chunks(2)) {
        let [request, reply] = pair else { panic!("two frames") };
        assert_eq!(request["iggy.operation"], [exchange.operation.to_string()]);
        let code: Vec<String> = exchange.code.iter().map(u64::to_string).collect();
        assert_eq!((&request["iggy.code"], &reply["iggy.code"]), (&code, &code));
        let batches = carried(exchange);
        let (shown, other) = match exchange.operation {
            160 => (request, reply),
            _ => (reply, request),
        };
        assert_shows(shown, &batches);
        assert_shows(other, &[]);
        if !batches.is_empty() {
            let messages: u32 = batches.iter().map(|b| b.header().message_count).sum();
            assert_eq!(shown["iggy.count"], [messages.to_string()]);
            with_batches += 1;
        }
    }
    assert!(with_batches >= 4, "{with_batches}");
}

#[test]
fn raw_batches_are_taken_apart_and_broken_ones_named() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../format/tests/vectors/iggy-0.11/partition-0/00000000000000000000.log");
    let log = std::fs::read(log).expect("the recorded segment");
    let batches = batches(&log);
    let small: Vec<_> = batches.iter().filter(|batch| batch.bytes().len() < 60_000).collect();
    let mut capture = Capture::new(USER0);
    small.iter().for_each(|batch| capture.packet(batch.bytes()));
    let first = small[0].bytes();
    capture.packet(&first[..first.len() - 1]);
    capture.packet(&[0xFF; 300]);
    // Lengths inside that do not fit, and a count that is one too many.
    let mut count = first.to_vec();
    count[48] += 1;
    capture.packet(&count);
    let rows = tshark(&capture, "raw", &FIELDS);
    assert!(small.len() >= 10 && rows.len() == small.len() + 3);
    for (row, batch) in rows.iter().zip(&small) {
        assert_shows(row, std::slice::from_ref(*batch));
    }
    for row in &rows[small.len()..] {
        assert!(!row["corelog.malformed"].is_empty(), "{row:?}");
    }
}
