//! Every option of a topic does what it says: beside a topic that has the default, what differs is
//! seen from outside. And what a topic takes of the disk.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use corelog::{Ack, Client, Engine, PartitionId, Poll, TopicConfig};
use corelog_format::{Compression, INDEX_ENTRY_LEN};

use crate::support::{P, batch, builder, create_topic, fresh_dir, names, partition_dir, reopened};

/// The topic with the default, and the one beside it.
const PLAIN: PartitionId = P;
const OTHER: PartitionId = PartitionId::new(0, 1, 0);

fn both(name: &str, plain: TopicConfig, other: TopicConfig) -> (Engine, Client, PathBuf) {
    let dir = fresh_dir(&format!("option_{name}"));
    let engine = builder(&dir, 1).open().expect("a fresh directory opens");
    let client = engine.client();
    create_topic(&client, plain);
    create_topic(&client, other);
    (engine, client, dir)
}

fn append(client: &Client, id: PartitionId, tag: u64, len: usize, ack: Ack) -> u64 {
    client.append_blocking(id, batch(tag, 1, len), ack).expect("it fits").base_offset
}

fn segments(dir: &Path, id: PartitionId) -> usize {
    names(&partition_dir(dir, id), ".log").len()
}

/// Waits for what must come about.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A topic that rolls soon and whose buffers wait for long: what is seen is what an option does.
fn calm() -> TopicConfig {
    TopicConfig {
        segment_bytes: 1 << 20,
        flush_after: Duration::from_secs(60),
        ..TopicConfig::default()
    }
}

#[test]
fn every_option_does_what_it_says() {
    // An option that is added here needs a check below.
    let TopicConfig {
        partitions: _,
        compression_algorithm: _,
        message_expiry: _,
        max_topic_size: _,
        segment_bytes: _,
        enforce_fsync: _,
        messages_required_to_save: _,
        size_of_messages_required_to_save: _,
        preallocate_segments: _,
        flush_after: _,
        index_step: _,
        verify_reads: _,
    } = TopicConfig::default();
    partitions_and_compression_are_told();
    what_is_too_old_or_too_much_goes();
    segments_end_and_are_reserved();
    buffers_leave();
    answers_wait_for_the_device();
    indexes_are_dense();
    reads_are_verified();
}

fn partitions_and_compression_are_told() {
    let other = TopicConfig { partitions: 3, compression_algorithm: Compression::Gzip, ..calm() };
    let (engine, client, _) = both("told", calm(), other);
    let told = |topic: u32| client.catalog().topic(0, topic).expect("it is there");
    let config = |topic| told(topic).options.config().clone();
    assert_eq!((config(0).partitions, config(1).partitions), (1, 3));
    assert_eq!(config(0).compression_algorithm, Compression::None);
    assert_eq!(config(1).compression_algorithm, Compression::Gzip);
    let last = PartitionId { partition: 2, ..OTHER };
    assert_eq!(append(&client, last, 1, 10, Ack::Written), 0);
    let unknown = PartitionId { partition: 1, ..PLAIN };
    assert!(client.append_blocking(unknown, batch(1, 1, 10), Ack::Written).is_err());
    engine.close_blocking().expect("nothing is wrong");
}

fn what_is_too_old_or_too_much_goes() {
    let old = TopicConfig { message_expiry: Some(Duration::from_micros(1)), ..calm() };
    let (engine, client, dir) = both("expiry", calm(), old);
    for tag in 0..60 {
        append(&client, PLAIN, tag, 60_000, Ack::Appended);
        append(&client, OTHER, tag, 60_000, Ack::Appended);
    }
    until("all sealed segments go", || segments(&dir, OTHER) == 1);
    assert_eq!(segments(&dir, PLAIN), 4);
    engine.close_blocking().expect("nothing is wrong");

    // Less than a segment and the largest batch is not deleted, so it takes that much.
    let large = TopicConfig { max_topic_size: Some(1 << 20), ..calm() };
    let (engine, client, dir) = both("max_size", calm(), large);
    for tag in 0..75 {
        append(&client, PLAIN, tag, 1 << 20, Ack::Appended);
        append(&client, OTHER, tag, 1 << 20, Ack::Appended);
    }
    until("the oldest segments go", || segments(&dir, OTHER) < 70);
    assert!(segments(&dir, OTHER) >= 64, "and no others");
    assert_eq!(segments(&dir, PLAIN), 75);
    engine.close_blocking().expect("nothing is wrong");
    let _ = fs::remove_dir_all(dir);
}

fn segments_end_and_are_reserved() {
    let larger = TopicConfig { segment_bytes: 2 << 20, ..calm() };
    let (engine, client, dir) = both("segment_size", calm(), larger);
    for tag in 0..60 {
        append(&client, PLAIN, tag, 60_000, Ack::Written);
        append(&client, OTHER, tag, 60_000, Ack::Written);
    }
    assert_eq!((segments(&dir, PLAIN), segments(&dir, OTHER)), (4, 2));
    engine.close_blocking().expect("nothing is wrong");

    let whole = TopicConfig { preallocate_segments: true, ..calm() };
    let (engine, client, dir) = both("preallocate", calm(), whole);
    let len = |id| {
        append(&client, id, 1, 100, Ack::Written);
        let log = partition_dir(&dir, id).join("00000000000000000000.log");
        fs::metadata(log).expect("it is there").len()
    };
    let (plain, whole) = (len(PLAIN), len(OTHER));
    assert!(plain < 1 << 20, "{plain} bytes");
    assert_eq!(whole, 1 << 20);
    engine.close_blocking().expect("nothing is wrong");
}

fn written(client: &Client, id: PartitionId) -> u64 {
    client.watermarks_blocking(id).expect("it is open").written()
}

/// What nobody waits for goes to the device by one of three thresholds; without it, it waits.
fn buffers_leave() {
    for (name, other) in [
        ("messages", TopicConfig { messages_required_to_save: 10, ..calm() }),
        ("size", TopicConfig { size_of_messages_required_to_save: 1_000, ..calm() }),
        ("flush_after", TopicConfig { flush_after: Duration::from_millis(1), ..calm() }),
    ] {
        let (engine, client, _) = both(name, calm(), other);
        for tag in 0..10 {
            append(&client, PLAIN, tag, 100, Ack::Appended);
            append(&client, OTHER, tag, 100, Ack::Appended);
        }
        until(name, || written(&client, OTHER) > 0);
        assert_eq!(written(&client, PLAIN), 0, "{name}");
        engine.close_blocking().expect("nothing is wrong");
    }
}

fn answers_wait_for_the_device() {
    let synced = TopicConfig { enforce_fsync: true, ..calm() };
    let (engine, client, _) = both("enforce_fsync", calm(), synced);
    let durable = |id| {
        append(&client, id, 1, 100, Ack::Appended);
        client.watermarks_blocking(id).expect("it is open").durable()
    };
    assert_eq!((durable(PLAIN), durable(OTHER)), (0, 1));
    engine.close_blocking().expect("nothing is wrong");
}

fn indexes_are_dense() {
    let dense = TopicConfig { index_step: 4096, ..calm() };
    let (engine, client, dir) = both("index_step", calm(), dense);
    for tag in 0..100 {
        append(&client, PLAIN, tag, 5_000, Ack::Appended);
        append(&client, OTHER, tag, 5_000, Ack::Appended);
    }
    engine.close_blocking().expect("nothing is wrong");
    let entries = |id| {
        let index = partition_dir(&dir, id).join("00000000000000000000.index");
        fs::read(index).expect("it is there").len() / INDEX_ENTRY_LEN
    };
    assert_eq!((entries(PLAIN), entries(OTHER)), (9, 100));
}

/// A payload is damaged on the disk: it is found, or served as it stands where that was asked for.
fn reads_are_verified() {
    let (engine, client, dir) =
        both("verify_reads", calm(), TopicConfig { verify_reads: false, ..calm() });
    for id in [PLAIN, OTHER] {
        // So many that an opening looks at the last ones only.
        for tag in 0..40 {
            append(&client, id, tag, 5_000, Ack::Appended);
        }
    }
    engine.close_blocking().expect("nothing is wrong");
    for id in [PLAIN, OTHER] {
        let log = partition_dir(&dir, id).join("00000000000000000000.log");
        let log = fs::OpenOptions::new().write(true).open(log).expect("it is there");
        log.write_all_at(&[0xEE; 4], 3_000).expect("it can be written");
    }
    let (engine, client) = reopened(&dir, 1);
    let first = Poll::first().max_messages(2);
    assert!(client.poll_blocking(PLAIN, first).is_err());
    assert_eq!(client.poll_blocking(OTHER, first).expect("nobody looked").messages(), 2);
    engine.close_blocking().expect("nothing is wrong");
}

/// Blocks that the files of a partition take, in bytes.
fn taken(dir: &Path) -> u64 {
    let files = names(dir, "").into_iter().map(|name| fs::metadata(dir.join(name)));
    files.map(|file| file.expect("it is there").blocks() * 512).sum()
}

/// What is reserved ahead stays within the segment, what is sealed holds its batches alone, and a
/// partition that writes nothing takes next to nothing.
#[test]
fn a_file_takes_its_segment_and_an_idle_partition_next_to_nothing() {
    for enforce_fsync in [false, true] {
        for preallocate_segments in [false, true] {
            let name = format!("space_{enforce_fsync}_{preallocate_segments}");
            let busy = TopicConfig { enforce_fsync, preallocate_segments, ..calm() };
            let idle = TopicConfig { partitions: 1_000, ..busy.clone() };
            let (engine, client, dir) = both(&name, busy, idle);
            let log = partition_dir(&dir, PLAIN);
            for tag in 0..60 {
                append(&client, PLAIN, tag, 60_000, Ack::Written);
                let logs = names(&log, ".log");
                let (active, sealed) = logs.split_last().expect("there is always one");
                let blocks = |file: &String| {
                    let file = fs::metadata(log.join(file)).expect("it is there");
                    (file.blocks() * 512, file.len())
                };
                let (taken, len) = blocks(active);
                let most = (1 << 20) + (64 << 10);
                assert!(taken <= most && len <= most, "{name}: {taken} of {len} bytes");
                for (taken, len) in sealed.iter().map(blocks) {
                    assert!(taken <= len.next_multiple_of(4096), "{name}: {taken} of {len} bytes");
                    assert!(len >= 1 << 20, "{name}: {len} bytes");
                }
            }
            for partition in [0, 1, 500, 999] {
                let taken = taken(&partition_dir(&dir, PartitionId { partition, ..OTHER }));
                // The manifest's two slots.
                assert!(taken <= 8_192, "{name}: {taken} bytes of an idle partition");
            }
            engine.close_blocking().expect("nothing is wrong");
        }
    }
}
