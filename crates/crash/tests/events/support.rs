//! What the tests here share: a disk that misbehaves on demand, an engine of one shard on it with one
//! topic, and batches.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use corelog::{BatchBuilder, Client, Engine, EngineBuilder, Message, PartitionId, TopicConfig};
use corelog_crash::hostile::{Disk, limits};
use corelog_crash::runtime;
use tempfile::TempDir;

use crate::subscriber;

/// The partition of all tests.
pub(crate) const P: PartitionId = PartitionId::new(0, 0, 0);

/// A mounted disk with the directory of an engine.
pub(crate) struct Mounted {
    /// First, so that it is unmounted before the directories go.
    pub(crate) disk: Disk,
    /// Where the engine is.
    pub(crate) data: PathBuf,
    _dir: TempDir,
}

/// A directory below the target directory that goes when dropped.
pub(crate) fn temp_dir() -> TempDir {
    let target = env!("CARGO_TARGET_TMPDIR");
    tempfile::Builder::new().prefix("events-").tempdir_in(target).expect("it is writable")
}

pub(crate) fn mounted() -> Mounted {
    let dir = temp_dir();
    let (backing, point) = (dir.path().join("backing"), dir.path().join("point"));
    for dir in [&backing, &point] {
        std::fs::create_dir(dir).expect("the directory is new");
    }
    let disk = Disk::mount(&backing, &point).unwrap_or_else(|error| panic!("{error}"));
    Mounted { disk, data: point.join("data"), _dir: dir }
}

/// One shard. What takes a minute is slow: other tests use the machine.
pub(crate) fn builder(data: &Path) -> EngineBuilder {
    subscriber::install();
    let builder = Engine::builder(data)
        .runtime(runtime::chosen())
        .shards(1)
        .pin(false)
        .huge_pages(false)
        .limits(limits());
    builder.slow_io(Duration::from_secs(60))
}

/// An engine with one topic of the smallest segments.
pub(crate) fn with_topic(builder: EngineBuilder) -> (Engine, Client) {
    let engine = builder.open().expect("a healthy disk");
    let client = engine.client();
    client.catalog().create_stream("only").wait().expect("it is the first");
    let config = TopicConfig { segment_bytes: 1 << 20, ..TopicConfig::default() };
    client.catalog().create_topic(0, "topic", config).wait().expect("it is the first");
    (engine, client)
}

/// A batch of one message of `len` bytes.
pub(crate) fn batch(len: usize) -> Bytes {
    let mut builder = BatchBuilder::new();
    builder.push(Message::new(&vec![7; len]).id(1)).expect("it fits");
    builder.finish().expect("there is a message").into()
}

/// Where the log of [`P`] is.
pub(crate) fn log(data: &Path, segment: u64) -> PathBuf {
    partition(data).join(format!("{segment:020}.log"))
}

/// The directory of [`P`].
pub(crate) fn partition(data: &Path) -> PathBuf {
    data.join("streams/0/topics/0/partitions/0")
}
