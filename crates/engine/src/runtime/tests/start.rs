//! Starting: what is refused, in which words, and what is left behind.

use corelog_io::{File, Open};

use super::fuse::NoDirect;
use super::*;
use crate::runtime::direct::DirectIoError;
use crate::runtime::pages::{PoolPages, SmallBecause};
use crate::runtime::placement::Place;
use crate::runtime::start_error::StartError;

fn nothing() -> ShardMain {
    main_of(|_, _| async {})
}

fn start_error(options: RuntimeOptions) -> StartError {
    match ShardThreads::start(options, nothing()) {
        Err(error) => error,
        Ok(threads) => panic!("it started: {:?}", threads.join()),
    }
}

#[test]
fn every_shard_runs_and_gets_its_number() {
    on_each(|runtime| {
        let dir = fresh_dir(runtime, "numbers");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&seen);
        let main = main_of(move |shard, platform| {
            let notes = Arc::clone(&notes);
            async move {
                assert!(platform.disk().is_direct());
                notes.lock().expect("no panic").push(shard);
            }
        });
        let threads = ShardThreads::start(options(runtime, &dir, 3), main)
            .expect("three shards on any machine");
        assert!(threads.facts().direct);
        assert_eq!(threads.join(), vec![ShardEnd::Clean; 3]);
        let mut seen = seen.lock().expect("no panic").clone();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
        assert_eq!(std::fs::read_dir(&dir).expect("it exists").count(), 0, "no probe file is left");
    });
}

#[test]
fn pinned_shards_get_a_cpu_each_and_their_pools_huge_pages() {
    on_each(|runtime| {
        let dir = fresh_dir(runtime, "pinned");
        let options = RuntimeOptions { pin: true, io_memory: 8 * MIB, ..options(runtime, &dir, 1) };
        let threads = ShardThreads::start(options, nothing()).expect("the runtime starts");
        let facts = threads.facts().shards[0];
        let alone = std::thread::available_parallelism().expect("it is known").get() == 1;
        assert_eq!(facts.place == Place::Anywhere, alone, "{facts:?}");
        // Whether there are huge pages is the machine's; that they were asked for is ours.
        assert!(
            !matches!(
                facts.pages,
                PoolPages::Small(SmallBecause::NotWanted | SmallBecause::PoolSize)
            ),
            "{facts:?}"
        );
        assert_eq!(threads.join(), [ShardEnd::Clean]);
    });
}

#[test]
fn a_directory_that_is_missing_is_named() {
    on_each(|runtime| {
        let dir = fresh_dir(runtime, "missing").join("nowhere");
        let error = start_error(options(runtime, &dir, 1));
        let StartError::DirectIo(DirectIoError::Failed { dir: named, source, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(named, &dir);
        assert_eq!(source.raw_os_error(), Some(libc::ENOENT));
        assert!(error.to_string().contains(&dir.display().to_string()), "{error}");
    });
}

fn mount(dir: &Path) -> NoDirect {
    NoDirect::mount(dir).unwrap_or_else(|error| {
        panic!(
            "this test mounts a file system of its own ({error}): run it as root, where /dev/fuse \
             is (`modprobe fuse`; in a container `--device /dev/fuse --cap-add SYS_ADMIN`)"
        )
    })
}

/// A file system that refuses O_DIRECT: a clear refusal where it is required, a fallback that says
/// so where it is preferred.
#[test]
fn a_file_system_without_direct_io() {
    on_each(|runtime| {
        let dir = fresh_dir(runtime, "fuse");
        let mounted = mount(&dir);
        let refused = start_error(options(runtime, &dir, 1));
        assert!(
            matches!(&refused, StartError::DirectIo(DirectIoError::Refused { step: "open", .. })),
            "{refused:?}"
        );
        let text = refused.to_string();
        for part in [&dir.display().to_string(), "(fuse)", "DirectIo::Preferred", "os error 22"] {
            assert!(text.contains(part), "{part} is not in: {text}");
        }

        on_buffered_shard(runtime, &dir);
        drop(mounted);
    });
}

fn on_buffered_shard(runtime: Runtime, dir: &Path) {
    let path = dir.join("file");
    let main = main_of(move |_, platform| {
        let path = path.clone();
        async move { use_buffered(&platform, &path).await }
    });
    let options = RuntimeOptions { direct_io: DirectIo::Preferred, ..options(runtime, dir, 1) };
    let threads = ShardThreads::start(options, main).expect("buffered handles will do");
    assert!(!threads.facts().direct);
    assert_eq!(threads.join(), [ShardEnd::Clean]);
}

async fn use_buffered(platform: &RealPlatform, path: &Path) {
    let disk = platform.disk();
    assert!(!disk.is_direct());
    let how = Open { create_new: true, ..Open::default() };
    let file = disk.open(path, how).await.expect("create");
    file.write_at(pattern(disk, 16 * BLOCK, 5), 0).await.expect("write");
    // This file system has no fallocate: zeros are written, and what is there stays.
    let len = 3 * MIB as u64 + 100;
    file.allocate(len).await.expect("allocate");
    assert_eq!(file.len().await.expect("length"), len);
    let read = file.read_at(0, 32 * BLOCK).await.expect("read");
    assert!(read.as_ref()[..16 * BLOCK] == patterned(16 * BLOCK, 5));
    assert!(read.as_ref()[16 * BLOCK..].iter().all(|byte| *byte == 0));
    file.set_len(10 * BLOCK as u64 + 7).await.expect("cut");
    let read = file.read_at(0, 32 * BLOCK).await.expect("read");
    assert!(read.as_ref() == &patterned(16 * BLOCK, 5)[..10 * BLOCK + 7]);
    file.sync().await.expect("sync");
    file.close().await.expect("close");
}
