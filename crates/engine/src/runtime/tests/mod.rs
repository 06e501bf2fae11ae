//! The runtime on real files: directories under the target directory, O_DIRECT, no mocks.

mod busy;
mod contract;
mod dropped;
mod ends;
mod files;
mod foreign;
mod fuse;
mod handles;
mod lost;
#[path = "../../../tests/real/own_dir.rs"]
mod own_dir;
mod readable;
mod start;
mod timers;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use corelog_io::{BLOCK, Buf, Disk, Platform};

use super::buffer::RealBytes;
use super::choice::Runtime;
use super::direct::{self, DirectIo};
use super::disk::{MemoryLimits, RealDisk};
use super::platform::RealPlatform;
use super::threads::{RuntimeOptions, ShardEnd, ShardMain, ShardThreads};
use crate::observe::Events;

const MIB: usize = 1 << 20;

/// Runs `test` on each runtime.
fn on_each(test: impl Fn(Runtime)) {
    for runtime in Runtime::ALL {
        println!("on {runtime}:");
        test(runtime);
    }
}

/// A directory of the test's own, empty, on the file system of the build.
fn fresh_dir(runtime: Runtime, name: &str) -> PathBuf {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/runtime");
    let dir = own_dir::of_this_run(&base).join(format!("{name}.{runtime}"));
    std::fs::create_dir(&dir).expect("no other test has this name");
    dir.canonicalize().expect("it was just made")
}

/// Small limits: several executors run at once in a test binary.
fn options(runtime: Runtime, dir: &Path, shards: usize) -> RuntimeOptions {
    RuntimeOptions {
        runtime,
        data_dir: dir.to_owned(),
        shards,
        cpus: None,
        pin: false,
        spin: Duration::ZERO,
        anticipate: true,
        direct_io: DirectIo::Required,
        io_memory: MIB,
        huge_pages: true,
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
        events: Events::of_test(),
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

/// Runs `test` on one shard of each runtime, over a fresh directory, and asserts that the shard ended
/// clean.
fn on_shard<F>(name: &str, test: impl Fn(RealPlatform, PathBuf) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + 'static,
{
    let test = Arc::new(test);
    on_each(|runtime| {
        let test = Arc::clone(&test);
        on_shard_of(runtime, name, move |platform, dir| test(platform, dir));
    });
}

/// The same on one runtime; answers the directory.
fn on_shard_of<F>(
    runtime: Runtime,
    name: &str,
    test: impl Fn(RealPlatform, PathBuf) -> F + Send + Sync + 'static,
) -> PathBuf
where
    F: Future<Output = ()> + 'static,
{
    let dir = fresh_dir(runtime, name);
    let of_test = dir.clone();
    let main = main_of(move |_, platform| test(platform, of_test.clone()));
    let threads = ShardThreads::start(options(runtime, &dir, 1), main).expect("the shard starts");
    assert_eq!(threads.join(), [ShardEnd::Clean]);
    dir
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
