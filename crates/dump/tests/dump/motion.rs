//! Every command that reads, beside a real engine that appends, rolls and lets retention delete:
//! files grow, are cut where they are sealed, and are gone, and no command fails for it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use corelog::{Ack, BatchBuilder, Client, Engine, Message, PartitionId, TopicConfig};

use crate::support::{Scratch, dump};

const SEGMENT_BYTES: u64 = 1 << 20;
/// Six segments, then the oldest goes.
const TOPIC_BYTES: u64 = 6 * SEGMENT_BYTES;
/// A payload: seventy batches of one fill a segment.
const PAYLOAD_BYTES: usize = 15_000;
/// Rolls that the commands have to see.
const ROLLS: u64 = 60;

/// Appends until told to stop; gives the number of messages.
fn append(client: &Client, stop: &AtomicBool) -> u64 {
    let partition = PartitionId::new(0, 0, 0);
    let mut batch = BatchBuilder::new();
    let mut messages = 0;
    while !stop.load(Ordering::Relaxed) {
        batch.push(Message::new(&[messages as u8 | 1; PAYLOAD_BYTES])).expect("fits");
        let bytes = batch.finish().expect("a batch");
        client.append_blocking(partition, bytes, Ack::Written).expect("appended");
        messages += 1;
    }
    messages
}

fn engine(dir: &Path) -> Engine {
    let engine = Engine::builder(dir).shards(1).pin(false).open().expect("opened");
    let catalog = engine.client().catalog();
    let config = TopicConfig {
        segment_bytes: SEGMENT_BYTES,
        max_topic_size: Some(TOPIC_BYTES),
        preallocate_segments: true,
        ..TopicConfig::default()
    };
    catalog.create_stream("s").wait().expect("a stream");
    catalog.create_topic("s", "t", config).wait().expect("a topic");
    engine
}

#[test]
fn no_command_fails_beside_an_engine_that_rolls() {
    let scratch = Scratch::new();
    let engine = engine(scratch.path());
    let client = engine.client();
    let dir = scratch.path().join("streams/0/topics/0/partitions/0");
    let dir = dir.to_str().expect("UTF-8");
    let commands = [
        &["ls", dir][..],
        &["show", dir],
        &["show", "--reverse", dir],
        &["show", "--messages", "--payload", "none", dir],
        &["stats", "--json", dir],
        &["extract", "--format", "ndjson", "--payload", "none", dir],
        &["extract", "--pipe", "cat >/dev/null", dir],
        &["verify", dir],
        &["index", "check", dir],
        &["diff", dir, dir],
        &["--direct", "show", dir],
        &["--no-mmap", "ls", dir],
    ];
    let stop = AtomicBool::new(false);
    let (mut runs, mut failed) = (0, BTreeMap::new());
    let messages = std::thread::scope(|scope| {
        let appender = scope.spawn(|| append(&client, &stop));
        // A segment's name is the number of its first message.
        let rolls = || dump(["ls", dir]).out.matches(".log").count() as u64;
        while rolls() < 3 {}
        let first = newest(dir);
        while newest(dir) < first + ROLLS * SEGMENT_BYTES / PAYLOAD_BYTES as u64 {
            for command in commands {
                let ran = dump(command);
                runs += 1;
                // What is compared grows, and an index comes later than its log.
                let may = match command[0] {
                    "diff" => ran.code < Some(2) || ran.err.contains("run the command again"),
                    "index" => ran.code < Some(2),
                    _ => ran.code == Some(0),
                };
                if !may {
                    failed.entry(command.join(" ")).or_insert(ran);
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        appender.join().expect("it appends")
    });
    assert!(failed.is_empty(), "{runs} runs, {messages} messages: {failed:#?}");
    engine.close_blocking().expect("closed");
}

/// The first offset of the newest segment.
fn newest(dir: &str) -> u64 {
    let names = std::fs::read_dir(dir).expect("listed").flatten().map(|entry| entry.file_name());
    let offset = |name: std::ffi::OsString| -> Option<u64> {
        name.to_str()?.strip_suffix(".log")?.parse().ok()
    };
    names.filter_map(offset).max().unwrap_or(0)
}
