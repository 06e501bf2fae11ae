//! What all tests here share: directories, small engines, batches that can be told apart.

use std::path::PathBuf;

use corelog::{BatchBuilder, Engine, EngineBuilder, Limits, Message, PartitionId};

/// A directory of the test's own, empty, on the file system of the build.
pub(crate) fn fresh_dir(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("engine").join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir).expect("an earlier run's directory can go");
    }
    std::fs::create_dir_all(dir.parent().expect("it has one")).expect("the target is writable");
    dir
}

/// Small limits: several engines run at once in a test binary.
pub(crate) fn small() -> Limits {
    Limits {
        registered_bytes: 1 << 20,
        write_bytes: 16 << 20,
        read_bytes: 128 << 20,
        cache_bytes: 4 << 20,
        lease_bytes: 4 << 20,
        leases: 256,
        file_threads: 1,
        ..Limits::default()
    }
}

pub(crate) fn builder(dir: &std::path::Path, shards: usize) -> EngineBuilder {
    Engine::builder(dir).shards(shards).pin(false).limits(small())
}

/// The partition that most tests use.
pub(crate) const P: PartitionId = PartitionId::new(0, 0, 0);

/// A batch of `count` messages whose payloads say `tag` and their number, padded to `len` bytes.
pub(crate) fn batch(tag: u64, count: u32, len: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for number in 0..count {
        let mut payload = format!("{tag}/{number}/").into_bytes();
        payload.resize(len.max(payload.len()), b'.');
        let message = Message::new(&payload).id(u128::from(tag) << 32 | u128::from(number));
        builder.push(message.origin_timestamp(1_700_000_000_000_000)).expect("small messages fit");
    }
    builder.finish().expect("there is a message")
}
