//! How shards end: after panics, with leases out, and from other threads' point of view.

use std::sync::mpsc;
use std::thread;

use bytes::Bytes;
use corelog_io::{Clock, File, Open, Spawn};

use super::*;

#[test]
fn a_panic_in_a_task_is_reported_and_the_shard_lives() {
    on_each(|runtime| {
        let dir = fresh_dir(runtime, "task_panic");
        let reports = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&reports);
        let options = RuntimeOptions {
            on_panic: Arc::new(move |shard, text| {
                notes.lock().expect("no panic").push((shard, text.to_owned()));
                panic!("a hook that panics is no reason to die either");
            }),
            ..options(runtime, &dir, 1)
        };
        let main = main_of(|_, platform| async move {
            platform.spawn().spawn(async { panic!("task {}", 1) });
            platform.clock().sleep(Duration::from_millis(1)).await;
            platform.spawn().spawn(async { panic!("task {}", 2) });
            platform.spawn().yield_now().await;
        });
        let threads = ShardThreads::start(options, main).expect("the runtime starts");
        assert_eq!(threads.join(), [ShardEnd::Clean]);
        let want = |n| (0, format!("task panicked: task {n}"));
        assert_eq!(*reports.lock().expect("no panic"), [want(1), want(2)]);
    });
}

#[test]
fn a_panic_in_the_main_future_ends_its_shard_with_its_io_drained() {
    on_each(|runtime| {
        let dir = fresh_dir(runtime, "main_panic");
        let file = dir.join("file");
        let main = main_of(move |shard, platform| {
            let path = file.clone();
            async move {
                if shard == 1 {
                    let how = Open { create_new: true, ..Open::default() };
                    let file = platform.disk().open(&path, how).await.expect("create");
                    let write = file.write_at(pattern(platform.disk(), MIB, 1), 0);
                    let mut write = std::pin::pin!(write);
                    std::future::poll_fn(|cx| {
                        assert!(write.as_mut().poll(cx).is_pending());
                        std::task::Poll::Ready(())
                    })
                    .await;
                    panic!("in the middle of a write");
                }
            }
        });
        let threads =
            ShardThreads::start(options(runtime, &dir, 2), main).expect("the runtime starts");
        let text = "task panicked: in the middle of a write".to_owned();
        assert_eq!(threads.join(), [ShardEnd::Clean, ShardEnd::MainPanicked(text)]);
        assert!(std::fs::read(dir.join("file")).expect("it is there") == patterned(MIB, 1));
    });
}

#[test]
fn bytes_lent_to_threads_come_home() {
    let (send, receive) = mpsc::channel::<Bytes>();
    let reader = thread::spawn(move || {
        for (round, bytes) in (0..200).cycle().zip(receive) {
            assert!(bytes == patterned(4 * BLOCK, round)[BLOCK..3 * BLOCK], "{round}");
        }
    });
    on_shard("lend", move |platform, dir| {
        let send = send.clone();
        async move {
            let disk = platform.disk();
            let how = Open { create_new: true, ..Open::default() };
            let file = disk.open(&dir.join("file"), how).await.expect("create");
            for round in 0..200_u8 {
                // Out of a frozen buffer and out of a read, which is where polls get them from.
                let frozen = pattern(disk, 4 * BLOCK, round);
                file.write_at(frozen.clone(), 0).await.expect("write");
                let lent = if round % 2 == 0 {
                    disk.lend(&frozen, BLOCK..3 * BLOCK)
                } else {
                    disk.lend(&file.read_at(0, 4 * BLOCK).await.expect("read"), BLOCK..3 * BLOCK)
                };
                drop(frozen);
                send.send(lent).expect("the reader listens");
            }
            file.close().await.expect("close");
        }
    });
    reader.join().expect("every byte was as it was written");
}

/// Memory that is lent out runs short, comes back from a thread that knows nothing of the shard,
/// and whoever waits for it goes on.
#[test]
fn a_read_waits_for_leases_of_others() {
    on_shard("lease_wait", |platform, dir| async move {
        let disk = platform.disk();
        let how = Open { create_new: true, ..Open::default() };
        let file = disk.open(&dir.join("file"), how).await.expect("create");
        file.write_at(pattern(disk, 4 * MIB, 1), 0).await.expect("write");
        let lent = disk.lend(&file.read_at(0, 4 * MIB).await.expect("all of it"), 0..1);
        let reader = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            drop(lent);
        });
        assert_eq!(disk.bytes_held().1, 4 * MIB, "nothing is left for another read");
        file.read_at(0, 4 * MIB).await.expect("after the lease has come back");
        reader.join().expect("it does not panic");
        assert_eq!(disk.reclaim(), 0);
        file.close().await.expect("close");
    });
}

#[test]
fn leases_that_stay_out_are_counted_and_stay_readable() {
    on_each(|runtime| {
        let dir = fresh_dir(runtime, "leases_out");
        let out = Arc::new(Mutex::new(None));
        let taken = Arc::clone(&out);
        let main = main_of(move |_, platform| {
            let taken = Arc::clone(&taken);
            async move {
                let bytes = pattern(platform.disk(), BLOCK, 9);
                *taken.lock().expect("no panic") = Some(platform.disk().lend(&bytes, 0..BLOCK));
            }
        });
        let options = RuntimeOptions {
            lease_patience: Duration::from_millis(5),
            ..options(runtime, &dir, 1)
        };
        let threads = ShardThreads::start(options, main).expect("the runtime starts");
        assert_eq!(threads.join(), [ShardEnd::LeasesOut(1)]);
        let bytes = out.lock().expect("no panic").take().expect("it was lent");
        assert!(bytes == patterned(BLOCK, 9), "readable after the executor is gone");
    });
}

/// Whoever has closed the engine may unmount its file system.
#[test]
fn nothing_in_the_directory_stays_open() {
    on_each(|runtime| {
        let dir = fresh_dir(runtime, "all_closed");
        let main = main_of(|_, _| async {});
        let threads =
            ShardThreads::start(options(runtime, &dir, 2), main).expect("the runtime starts");
        assert_eq!(threads.join(), [ShardEnd::Clean, ShardEnd::Clean]);
        let entries = std::fs::read_dir("/proc/self/fd").expect("there is /proc");
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let open: Vec<_> = links.filter(|path| path.starts_with(&dir)).collect();
        assert!(open.is_empty(), "{open:?}");
    });
}

/// Thousands of trips to a file thread and back, each of them a chance for glommio to sleep over
/// the answer (`glommio/timers.rs`): without the pulse this stood still for ever on a busy machine.
#[test]
fn answers_of_file_threads_are_not_slept_over() {
    on_shard("hops", |platform, dir| async move {
        let how = Open { create_new: true, ..Open::default() };
        let file = platform.disk().open(&dir.join("file"), how).await.expect("create");
        for _ in 0..20_000 {
            assert_eq!(file.len().await.expect("length"), 0);
        }
        file.close().await.expect("close");
    });
}
