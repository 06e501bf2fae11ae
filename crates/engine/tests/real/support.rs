//! What all tests here share: directories, small engines, batches that can be told apart, and the
//! comparison of what was sent with what came back.

use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use corelog::{
    Appended, BatchBuilder, Client, Engine, EngineBuilder, Limits, Message, PartitionId, Poll,
    Records, TopicConfig,
};
use corelog_format::{BATCH_HEADER_LEN, BatchHeader};

use crate::{chosen, own_dir};

/// The partition that most tests use.
pub(crate) const P: PartitionId = PartitionId::new(0, 0, 0);
/// The producers' time in all batches here.
const ORIGIN_US: u64 = 1_700_000_000_000_000;

/// A directory of the test's own, still to be made, on the file system of the build.
pub(crate) fn fresh_dir(name: &str) -> PathBuf {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR")).join("engine");
    let dir = own_dir::of_this_run(&base).join(name);
    assert!(!dir.exists(), "two tests share the name {name}");
    dir
}

/// Set in a [`child`], to its directory.
const CHILD: &str = "CORELOG_TEST_CHILD_DIR";

/// The directory of the test, where this is a process of its own.
pub(crate) fn child_dir() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// The test `name` (module and function) as a process of its own on `dir`, behind these words.
pub(crate) fn child(name: &str, before: &[&str], dir: &Path) -> Command {
    let binary = std::env::current_exe().expect("it runs");
    let binary = binary.to_str().expect("UTF-8");
    let words = [before, &[binary, name, "--exact", "--nocapture"]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env(CHILD, dir);
    command
}

/// Runs the test `name` again as a [`child`]; its directory where this is that process.
pub(crate) fn in_child(name: &str, before: &[&str]) -> Option<PathBuf> {
    if let Some(dir) = child_dir() {
        return Some(dir);
    }
    let (_, test) = name.split_once("::").expect("the module, then the function");
    let child = child(name, before, &fresh_dir(test)).output().expect("it can be started");
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&child.stdout).contains("1 passed"), "it ran: {said}");
    None
}

/// Small limits: several engines run at once in a test binary.
pub(crate) fn small() -> Limits {
    Limits {
        registered_bytes: 1 << 20,
        write_bytes: 16 << 20,
        read_bytes: 136 << 20,
        cache_bytes: 4 << 20,
        lease_bytes: 4 << 20,
        leases: 256,
        file_threads: 1,
        ..Limits::default()
    }
}

pub(crate) fn builder(dir: &Path, shards: usize) -> EngineBuilder {
    let builder = Engine::builder(dir).runtime(chosen::runtime());
    builder.shards(shards).pin(false).limits(small())
}

/// An engine on a fresh directory with one topic, 0 of stream 0.
pub(crate) fn with_topic(dir: &Path, shards: usize, config: TopicConfig) -> (Engine, Client) {
    let engine = builder(dir, shards).open().expect("a fresh directory opens");
    let client = engine.client();
    create_topic(&client, config);
    (engine, client)
}

/// Creates a topic, the next one of the only stream.
pub(crate) fn create_topic(client: &Client, config: TopicConfig) {
    let catalog = client.catalog();
    if catalog.stream(0).is_none() {
        catalog.create_stream("only").wait().expect("it is the first");
    }
    let name = catalog.topics(0).expect("it is there").len().to_string();
    catalog.create_topic(0, &name, config).wait().expect("the topic is new");
}

/// An engine on what an earlier one has closed cleanly.
pub(crate) fn reopened(dir: &Path, shards: usize) -> (Engine, Client) {
    let engine = builder(dir, shards).open().expect("what was closed opens");
    assert!(engine.opened().not_clean.is_empty(), "{:?}", engine.opened());
    let client = engine.client();
    (engine, client)
}

/// A topic with the smallest segments.
pub(crate) fn small_segments() -> TopicConfig {
    TopicConfig { segment_bytes: 1 << 20, ..TopicConfig::default() }
}

/// A batch of `count` messages whose payloads say `tag` and their number, padded to `len` bytes.
pub(crate) fn batch(tag: u64, count: u32, len: usize) -> Bytes {
    let mut builder = BatchBuilder::new();
    for number in 0..count {
        let mut payload = format!("{tag}/{number}/").into_bytes();
        payload.resize(len.max(payload.len()), b'.');
        let id = u128::from(tag) << 32 | u128::from(number);
        let message = Message::new(&payload).id(id).origin_timestamp(ORIGIN_US);
        builder.push(message).expect("small messages fit");
    }
    builder.finish().expect("there is a message").into()
}

/// A batch that was sent, and the answer to it.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) bytes: Bytes,
    pub(crate) appended: Appended,
}

/// Polls from `offset` to the end, in steps of at most `step` bytes.
pub(crate) fn poll_all(client: &Client, id: PartitionId, offset: u64, step: usize) -> Vec<Vec<u8>> {
    let (mut stored, mut next) = (Vec::new(), offset);
    loop {
        let records = client.poll_blocking(id, Poll::offset(next).max_bytes(step));
        let records = records.expect("what was appended can be polled");
        if records.is_empty() {
            return stored;
        }
        assert_eq!(records.first_offset(), Some(next), "no gap");
        next = records.next_offset();
        stored.extend(batches(&records));
    }
}

/// The whole batches of `records`.
pub(crate) fn batches(records: &Records) -> Vec<Vec<u8>> {
    let bytes = |batch: Result<corelog_shard::RecordBatch<'_>, _>| {
        let batch = batch.expect("a served batch has a header");
        batch.verify().expect("a served batch is whole");
        batch.bytes().to_vec()
    };
    records.batches().map(bytes).collect()
}

/// `stored` is exactly `sent`: every byte but what the owner stamps, and that as it was answered.
pub(crate) fn assert_same(id: PartitionId, sent: &[Sent], stored: &[Vec<u8>]) {
    assert_eq!(stored.len(), sent.len(), "batches");
    for (number, (sent, stored)) in sent.iter().zip(stored).enumerate() {
        assert!(sent.bytes[BATCH_HEADER_LEN..] == stored[BATCH_HEADER_LEN..], "batch {number}");
        let header = BatchHeader::parse(stored).expect("it was verified");
        let asked = BatchHeader::parse(&sent.bytes).expect("it was admitted");
        let Appended { base_offset, base_timestamp, message_count } = sent.appended;
        let want = BatchHeader {
            partition_id: u64::from(id.partition),
            base_offset,
            base_timestamp,
            message_count,
            batch_checksum: header.batch_checksum,
            ..asked
        };
        assert_eq!(header, want, "batch {number}");
    }
}

/// The names in `dir` that end with `ending`, in order.
pub(crate) fn names(dir: &Path, ending: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("the directory is there");
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.expect("an entry").file_name().into_string().expect("our names are ASCII")
    };
    let mut names: Vec<_> = entries.map(name).filter(|name| name.ends_with(ending)).collect();
    names.sort();
    names
}

/// The directory of a partition.
pub(crate) fn partition_dir(dir: &Path, id: PartitionId) -> PathBuf {
    let PartitionId { stream, topic, partition } = id;
    dir.join(format!("streams/{stream}/topics/{topic}/partitions/{partition}"))
}
