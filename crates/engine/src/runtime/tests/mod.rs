//! The runtime on real files: directories under the target directory, O_DIRECT, no mocks.

mod files;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corelog_io::{BLOCK, Buf, Disk, Platform};

use super::buffer::RealBytes;
use super::direct::DirectIo;
use super::disk::{MemoryLimits, RealDisk};
use super::executor::{Runtime, RuntimeOptions, ShardEnd, ShardMain};
use super::platform::RealPlatform;

const MIB: usize = 1 << 20;

/// A directory of the test's own, empty, on the file system of the build.
fn fresh_dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/runtime").join(name);
    let dir = std::path::absolute(dir).expect("the working directory exists");
    if dir.exists() {
        std::fs::remove_dir_all(&dir).expect("an earlier run's directory can go");
    }
    std::fs::create_dir_all(&dir).expect("the target directory is writable");
    dir
}

/// Small limits: several executors run at once in a test binary.
fn options(dir: &Path, shards: usize) -> RuntimeOptions {
    RuntimeOptions {
        data_dir: dir.to_owned(),
        shards,
        cpus: None,
        pin: false,
        direct_io: DirectIo::Required,
        io_memory: MIB,
        memory: MemoryLimits {
            write_bytes: 4 * MIB,
            read_bytes: 4 * MIB,
            lease_slots: 64,
            lease_bytes: 4 * MIB,
        },
        file_threads: 1,
        lease_patience: Duration::from_secs(5),
        floor: Arc::new(AtomicU64::new(0)),
        ceiling: Arc::new(AtomicU64::new(0)),
        on_panic: Arc::new(|shard, text| panic!("shard {shard}: {text}")),
        on_end: Arc::new(|_| ()),
    }
}

/// A shard's main future out of a test's closure.
fn main_of<F>(test: impl Fn(usize, RealPlatform) -> F + Send + Sync + 'static) -> ShardMain
where
    F: Future<Output = ()> + 'static,
{
    Arc::new(move |shard, platform| Box::pin(test(shard, platform)))
}

/// Runs `test` on one shard over a fresh directory and asserts that the shard ended clean.
fn on_shard<F>(name: &str, test: impl Fn(RealPlatform, PathBuf) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let dir = fresh_dir(name);
    let options = options(&dir, 1);
    let main = main_of(move |_, platform| test(platform, dir.clone()));
    let runtime = Runtime::start(options, main).expect("the runtime starts");
    assert_eq!(runtime.join(), [ShardEnd::Clean]);
}

/// A frozen buffer of `len` bytes that differ by place and by `seed`.
fn pattern(disk: &RealDisk, len: usize, seed: u8) -> RealBytes {
    let mut buf = disk.alloc(len).expect("the budget has room");
    fill(buf.as_mut(), seed);
    buf.freeze(len)
}

fn fill(bytes: &mut [u8], seed: u8) {
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = seed ^ (at % 251) as u8 ^ (at / BLOCK) as u8;
    }
}

fn patterned(len: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, seed);
    bytes
}

#[test]
fn every_shard_runs_and_gets_its_number() {
    let dir = fresh_dir("numbers");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let main = main_of(move |shard, platform| {
        let notes = Arc::clone(&notes);
        async move {
            assert!(platform.disk().is_direct());
            notes.lock().expect("no panic").push(shard);
        }
    });
    let runtime = Runtime::start(options(&dir, 3), main).expect("three shards on any machine");
    assert!(runtime.facts().direct);
    assert_eq!(runtime.join(), vec![ShardEnd::Clean; 3]);
    let mut seen = seen.lock().expect("no panic").clone();
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2]);
    assert_eq!(std::fs::read_dir(&dir).expect("it exists").count(), 0, "no probe file is left");
}
