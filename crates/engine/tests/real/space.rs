//! What is deleted gives its space back to the file system, a small ext4 that says how much is free:
//! a file that somebody keeps open would not.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use corelog::{Ack, Client, Engine, PartitionId, Poll, Records, TopicConfig};
use corelog_format::{HeaderValue, OptionsBuilder};

use crate::small_disk::{self, Mounted};
use crate::support::{P, batch, batches, fresh_dir, small_segments, with_topic};

/// Appended to each partition: ten segments and more.
const BATCHES: u64 = 180;
const BATCH_BYTES: usize = 60_000;
/// Ten segments.
const MUCH: u64 = 10 << 20;

struct Disk {
    data: PathBuf,
    point: PathBuf,
    _mounted: Mounted,
}

fn disk(name: &str) -> Disk {
    let (point, mounted) = small_disk::ext4(&fresh_dir(name), 128);
    Disk { data: point.join("data"), point, _mounted: mounted }
}

fn free(point: &Path) -> u64 {
    let stat = rustix::fs::statvfs(point).expect("it is mounted");
    stat.f_bfree * stat.f_frsize
}

/// Waits until so much is free.
fn until_free(point: &Path, bytes: u64, what: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while free(point) < bytes {
        assert!(Instant::now() < end, "{what}: {} of {bytes} bytes are free", free(point));
        thread::sleep(Duration::from_millis(20));
    }
}

fn fill(client: &Client, id: PartitionId) {
    for tag in 0..BATCHES {
        client.append_blocking(id, batch(tag, 1, BATCH_BYTES), Ack::Written).expect("it fits");
    }
    client.flush_blocking(id, Ack::Durable).expect("nothing is wrong");
}

/// An engine with a topic of `partitions`, each filled, and each read once, so that files are open.
fn filled(disk: &Disk, partitions: u32) -> (Engine, Client) {
    let config = TopicConfig { partitions, ..small_segments() };
    let (engine, client) = with_topic(&disk.data, 1, config);
    for partition in 0..partitions {
        let id = PartitionId { partition, ..P };
        fill(&client, id);
        for tag in (0..BATCHES).step_by(8) {
            let poll = Poll::offset(tag).max_messages(1);
            assert_eq!(client.poll_blocking(id, poll).expect("it is there").messages(), 1);
        }
    }
    (engine, client)
}

/// The first messages of a partition, read from the disk and lent out.
fn lent(client: &Client) -> (Records, Vec<Vec<u8>>) {
    let records = client.poll_blocking(P, Poll::first().max_bytes(600_000)).expect("it is there");
    let bytes = batches(&records);
    assert!(!bytes.is_empty());
    (records, bytes)
}

#[test]
fn deleted_segments_and_those_that_are_old() {
    let disk = disk("space_segments");
    let (engine, client) = filled(&disk, 1);
    let before = free(&disk.point);
    let (records, bytes) = lent(&client);
    let deleted = client.delete_segments(P, 5).wait().expect("nothing is wrong");
    assert_eq!(deleted.segments, 5);
    assert_eq!(batches(&records), bytes, "what is lent out stays as it was");
    drop(records);
    until_free(&disk.point, before + (5 << 20), "deleted segments");

    let before = free(&disk.point);
    let mut patch = OptionsBuilder::new();
    patch.push("message_expiry", HeaderValue::String("1us")).expect("it fits");
    client.catalog().update_topic(0, 0, "0", &patch.block()).wait().expect("it may be changed");
    until_free(&disk.point, before + (4 << 20), "what is old");
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn emptied_topics_and_those_that_are_deleted() {
    let disk = disk("space_topics");
    let (engine, client) = filled(&disk, 3);
    let catalog = client.catalog();
    let full = free(&disk.point);
    let (records, bytes) = lent(&client);
    catalog.remove_partitions(0, 0, 1).wait().expect("there are three");
    until_free(&disk.point, full + MUCH, "a partition that was removed");
    catalog.purge_topic(0, 0).wait().expect("it is there");
    assert_eq!(batches(&records), bytes, "what is lent out stays as it was");
    drop(records);
    until_free(&disk.point, full + 3 * MUCH, "a topic that was emptied");

    fill(&client, P);
    let full = free(&disk.point);
    let (records, bytes) = lent(&client);
    catalog.delete_topic(0, 0).wait().expect("it is there");
    assert_eq!(batches(&records), bytes, "what is lent out stays as it was");
    drop(records);
    until_free(&disk.point, full + MUCH, "a topic that was deleted");

    crate::support::create_topic(&client, small_segments());
    fill(&client, P);
    let full = free(&disk.point);
    catalog.delete_stream(0).wait().expect("it is there");
    until_free(&disk.point, full + MUCH, "a stream that was deleted");
    assert!(!disk.data.join("streams/0").exists());
    engine.close_blocking().expect("nothing is wrong");
    assert_eq!(fs::read_dir(disk.data.join("trash")).expect("it is there").count(), 0);
}
