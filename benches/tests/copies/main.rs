//! How often the bytes of a message are copied on their way: once from a producer's batch to the
//! device, and never from the device, or the memory of the log, to a consumer.
//!
//! Copies are counted, not timed, so this holds on any machine. `scripts/copies.sh` prints the table.
#![cfg(target_arch = "x86_64")]

mod interpose;

use std::fs;
use std::path::Path;

use bytes::Bytes;
use corelog::{Ack, BatchBuilder, Client, Engine, Message, PartitionId, Poll, TopicConfig};

const BATCHES: usize = 48;
const PARTITION: PartitionId = PartitionId { stream: 0, topic: 0, partition: 0 };

/// How far a path may be off what is due: blocks that are written again are copied again. A copy more
/// is far beyond it.
const SLACK: f64 = 0.05;

#[test]
fn messages_are_copied_once_to_the_device_and_never_to_a_consumer() {
    interpose::check();
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("copies");
    let _ = fs::remove_dir_all(&dir);
    let engine = Engine::builder(&dir).shards(1).open().unwrap();
    let client = engine.client();
    let stream = client.catalog().create_stream("copies").wait().unwrap();
    let config = TopicConfig { partitions: 1, ..TopicConfig::default() };
    client.catalog().create_topic(stream.id, "copies", config).wait().unwrap();

    let mut rows = Vec::new();
    for (ack, what) in [
        (Ack::Appended, "append, answered when appended"),
        (Ack::Written, "append, answered when written"),
        (Ack::Durable, "append, answered when durable"),
    ] {
        let sent = batch(1000, 1000);
        let (bytes, copied) = interpose::copied(|| {
            let bytes = append(&client, &sent, ack);
            // What was answered early is copied later, if at all.
            client.flush_blocking(PARTITION, Ack::Written).unwrap();
            bytes
        });
        rows.push((what, 1.0, bytes, copied));
    }
    let small = batch(10, 100);
    let (bytes, copied) = interpose::copied(|| append(&client, &small, Ack::Written));
    rows.push(("append of 10 x 100 B, answered when written", f64::NAN, bytes, copied));

    let appended: u64 = rows.iter().map(|row| row.2).sum();
    let (bytes, copied) = interpose::copied(|| poll_newest(&client));
    rows.push(("poll of what is in memory", 0.0, bytes, copied));
    drop(client);
    engine.close_blocking().unwrap();

    let engine = Engine::builder(&dir).shards(1).open().unwrap();
    let client = engine.client();
    let (bytes, copied) = interpose::copied(|| poll_all(&client));
    assert_eq!(bytes, appended);
    rows.push(("poll from the disk", 0.0, bytes, copied));
    drop(client);
    engine.close_blocking().unwrap();
    fs::remove_dir_all(dir).unwrap();

    println!("| path | bytes | copied | copies of a byte |\n| --- | --- | --- | --- |");
    for (what, _, bytes, copied) in &rows {
        println!("| {what} | {bytes} | {copied} | {:.3} |", *copied as f64 / *bytes as f64);
    }
    for (what, due, bytes, copied) in rows {
        let copies = copied as f64 / bytes as f64;
        // How often a small batch's block is written again depends on the disk.
        if !due.is_nan() {
            let is_due = (copies - due).abs() < SLACK;
            assert!(is_due, "{what}: {copies:.3} copies of a byte, {due} are due");
        }
    }
}

/// A batch of messages that the counter knows.
fn batch(messages: usize, payload: usize) -> Bytes {
    let payload = vec![interpose::PAYLOAD; payload];
    let mut batch = BatchBuilder::new();
    for _ in 0..messages {
        batch.push(Message::new(&payload)).unwrap();
    }
    batch.finish().unwrap().into()
}

/// Appends the batch again and again: the bytes of all.
fn append(client: &Client, batch: &Bytes, ack: Ack) -> u64 {
    for _ in 0..BATCHES {
        client.append_blocking(PARTITION, batch.clone(), ack).unwrap();
    }
    (BATCHES * batch.len()) as u64
}

/// Polls the end of the log again and again: the bytes of all replies.
fn poll_newest(client: &Client) -> u64 {
    let one = |_| {
        let poll = Poll::last(10).max_bytes(64 << 10);
        let records = client.poll_blocking(PARTITION, poll).unwrap();
        records.slices().iter().map(|slice| slice.len() as u64).sum::<u64>()
    };
    (0..1000).map(one).sum()
}

/// Polls from the first message to the end: the bytes of all replies.
fn poll_all(client: &Client) -> u64 {
    let (mut offset, mut bytes) = (0, 0);
    loop {
        let poll = Poll::offset(offset).max_bytes(2 << 20);
        let records = client.poll_blocking(PARTITION, poll).unwrap();
        bytes += records.slices().iter().map(|slice| slice.len() as u64).sum::<u64>();
        if records.next_offset() == offset {
            return bytes;
        }
        offset = records.next_offset();
    }
}
