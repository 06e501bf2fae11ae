//! The way of an operator from a damaged partition to one that serves: `verify` names what is lost,
//! `repair` says what it would do, does it, and the engine opens what it leaves.

use std::fs;
use std::path::{Path, PathBuf};

use corelog::error::{PollError, storage};
use corelog::{Ack, BatchBuilder, Client, Engine, Message, PartitionId, Poll, TopicConfig};
use corelog_crash::judge::small_limits;
use corelog_crash::topics::create_topic;
use corelog_dump::{Verdict, repair, verdicts};
use corelog_format::segment_file_name;

const ID: PartitionId = PartitionId { stream: 0, topic: 0, partition: 0 };
const BATCHES: u64 = 9;
/// Messages of a batch.
const COUNT: u64 = 3;

fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("repair").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("the target is writable");
    dir
}

fn partition(dir: &Path) -> PathBuf {
    dir.join("streams/0/topics/0/partitions/0")
}

fn open(dir: &Path) -> Engine {
    let builder = Engine::builder(dir).runtime(corelog_crash::runtime::chosen());
    let builder = builder.shards(1).pin(false).huge_pages(false);
    builder.limits(small_limits()).open().expect("it opens")
}

fn batch(number: u64) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for _ in 0..COUNT {
        builder.push(Message::new(&[number as u8 + 1; 500])).expect("it fits");
    }
    builder.finish().expect("a batch")
}

/// An engine's partition of batches of equal length, closed. Gives the length.
fn written(dir: &Path) -> usize {
    let engine = open(dir);
    let client = engine.client();
    create_topic(&client, 0, 0, TopicConfig { partitions: 1, ..TopicConfig::default() })
        .expect("created");
    for number in 0..BATCHES {
        client.append_blocking(ID, batch(number), Ack::Durable).expect("appended");
    }
    engine.close_blocking().expect("closed");
    batch(0).len()
}

/// Base offsets that are served, and offsets that are named as damaged: from the first, up to but not with the second.
fn read(client: &Client) -> (Vec<u64>, Vec<(u64, u64)>) {
    let (mut served, mut named, mut at) = (Vec::new(), Vec::new(), 0);
    loop {
        match client.poll_blocking(ID, Poll::offset(at).max_bytes(1 << 20)) {
            Ok(records) if records.is_empty() => return (served, named),
            Ok(records) => {
                for batch in records.batches() {
                    served.push(batch.expect("a batch").header().base_offset);
                }
                at = records.next_offset();
            }
            Err(PollError::Storage(storage::PollError::Corrupt { resume_offset, .. })) => {
                let to = resume_offset.expect("batches follow");
                named.push((at, to));
                at = to;
            }
            Err(error) => panic!("a poll at {at}: {error}"),
        }
    }
}

fn offsets(numbers: impl IntoIterator<Item = u64>) -> Vec<u64> {
    numbers.into_iter().map(|number| number * COUNT).collect()
}

/// TOOL-8.
#[test]
fn from_a_damaged_batch_to_a_partition_that_serves() {
    let dir = scratch("middle");
    let len = written(&dir);
    let log = partition(&dir).join(segment_file_name(0));
    let mut bytes = fs::read(&log).expect("read");
    // The fourth batch.
    bytes[3 * len + 400] ^= 1;
    fs::write(&log, &bytes).expect("written");

    let said = verdicts(&partition(&dir));
    assert_eq!(said.files[0].verdict, Verdict::Corrupt);
    assert_eq!(said.lost, [(9, Some(12))], "what is lost has a name");
    let plan = repair(&partition(&dir), false).expect("nobody holds it");
    assert!(plan.needed && plan.quarantined.is_empty());
    assert_eq!(fs::read(&log).expect("read"), bytes, "a plan changes nothing");
    let done = repair(&partition(&dir), true).expect("nobody holds it");
    assert_eq!(done.lost, [(9, Some(12))]);
    let kept = done.quarantined.iter().map(|path| fs::read(path).expect("it is there"));
    assert!(kept.into_iter().any(|kept| kept == bytes), "the original is kept: {done:?}");

    for life in 0..2 {
        let engine = open(&dir);
        assert!(engine.opened().not_clean.is_empty(), "{:?}", engine.opened());
        let client = engine.client();
        let (served, named) = read(&client);
        let stored = offsets([0, 1, 2].into_iter().chain(4..BATCHES + life));
        assert_eq!((served, named), (stored, vec![(9, 12)]));
        let appended = client.append_blocking(ID, batch(40), Ack::Durable).expect("appended");
        assert_eq!(appended.base_offset, (BATCHES + life) * COUNT);
        engine.close_blocking().expect("closed");
    }
    assert!(!repair(&partition(&dir), false).expect("nobody holds it").needed);
}

#[test]
fn what_was_durable_and_is_gone_is_not_given_again() {
    let dir = scratch("tail");
    let len = written(&dir);
    let log = partition(&dir).join(segment_file_name(0));
    let mut bytes = fs::read(&log).expect("read");
    // All of the last two, which were durable.
    bytes.truncate(7 * len + 100);
    fs::write(&log, &bytes).expect("written");
    let done = repair(&partition(&dir), true).expect("nobody holds it");
    assert_eq!(done.lost, [(7 * COUNT, Some(9 * COUNT))]);
    let engine = open(&dir);
    assert!(engine.opened().not_clean.is_empty(), "{:?}", engine.opened());
    let client = engine.client();
    let appended = client.append_blocking(ID, batch(40), Ack::Durable).expect("appended");
    assert_eq!(appended.base_offset, BATCHES * COUNT);
    let (served, named) = read(&client);
    assert_eq!((served, named), (offsets((0..7).chain([9])), vec![(21, 27)]));
    engine.close_blocking().expect("closed");
}

#[test]
fn an_engine_at_work_is_left_alone() {
    let dir = scratch("held");
    written(&dir);
    let engine = open(&dir);
    for apply in [false, true] {
        let refused = repair(&partition(&dir), apply).expect_err("an engine holds it");
        assert!(refused.contains("held by another process"), "{refused}");
    }
    // Looking has taken nothing away.
    engine.client().append_blocking(ID, batch(1), Ack::Durable).expect("appended");
    engine.close_blocking().expect("closed");
}
