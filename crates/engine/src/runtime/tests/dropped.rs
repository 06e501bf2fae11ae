//! Futures that are dropped half way: the operation goes on, its buffer lives, the shard waits.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use corelog_io::{Clock, File, Open, Spawn};

use super::*;

const CREATE: Open =
    Open { write: true, create_new: true, dsync: false, lock: false, short: false };

/// Polls once; the operation has begun, and nobody will hear of its end.
fn begin<T>(future: impl Future<Output = T>) {
    let polled = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending), "it cannot be done yet");
}

#[test]
fn a_write_whose_future_is_dropped_lands() {
    on_shard("dropped_write", |platform, dir| async move {
        let disk = platform.disk();
        let path = dir.join("file");
        let file = disk.open(&path, CREATE).await.expect("create");
        for block in 0..16 {
            let bytes = pattern(disk, 64 * BLOCK, block as u8);
            begin(file.write_at(bytes, block * 64 * BLOCK as u64));
        }
        // Closing waits for them, although nobody else does.
        file.close().await.expect("close");
        assert_eq!(disk.bytes_held().0, 0, "every buffer came back");
        let written = std::fs::read(&path).expect("it is there");
        for (block, bytes) in written.chunks(64 * BLOCK).enumerate() {
            assert!(bytes == patterned(64 * BLOCK, block as u8), "block {block}");
        }
        assert_eq!(written.len(), 16 * 64 * BLOCK);
    });
}

/// The kernel fills the buffers of reads that nobody waits for, while the shard ends. Freed too
/// early, they corrupt the heap: 16 and 64 KiB reads did so within a few rounds.
#[test]
fn reads_that_nobody_waits_for_end_before_their_executor() {
    for round in 0..5 {
        on_shard(&format!("dropped_reads_{round}"), |platform, dir| async move {
            let disk = platform.disk();
            let file = disk.open(&dir.join("file"), CREATE).await.expect("create");
            file.write_at(pattern(disk, MIB, 1), 0).await.expect("write");
            for at in 0..64 {
                let len = if at % 2 == 0 { 4 * BLOCK } else { 16 * BLOCK };
                begin(file.read_at(at * 4 * BLOCK as u64, len));
            }
            // The handle is dropped with them in flight, and the main future ends here.
        });
    }
}

/// More writes than glommio's rings take at once, begun just before the main future ends: the shard
/// does not leave while one of them is not even submitted.
#[test]
fn a_shard_ends_after_its_writes() {
    const BLOCKS: usize = 400;
    let dir = on_shard("last_writes", |platform, dir| async move {
        let disk = platform.disk();
        let file = disk.open(&dir.join("file"), CREATE).await.expect("create");
        for block in 0..BLOCKS {
            begin(file.write_at(pattern(disk, BLOCK, block as u8), (block * BLOCK) as u64));
        }
    });
    let written = std::fs::read(dir.join("file")).expect("it is there");
    assert_eq!(written.len(), BLOCKS * BLOCK);
    for (block, bytes) in written.chunks(BLOCK).enumerate() {
        assert!(bytes == patterned(BLOCK, block as u8), "block {block}");
    }
}

#[test]
fn a_read_that_waits_for_memory_gives_up_its_place() {
    on_shard("dropped_wait", |platform, dir| async move {
        let disk = platform.disk();
        let file = disk.open(&dir.join("file"), CREATE).await.expect("create");
        file.write_at(pattern(disk, 2 * MIB, 1), 0).await.expect("write");
        let half = file.read_at(0, 2 * MIB).await.expect("half of the budget");
        {
            let mut whole = pin!(file.read_at(0, 4 * MIB));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(whole.as_mut().poll(&mut cx).is_pending(), "it waits for all of it");
            let mut small = pin!(file.read_at(0, BLOCK));
            assert!(small.as_mut().poll(&mut cx).is_pending(), "it waits behind");
        }
        file.read_at(0, BLOCK).await.expect("nobody waits any more");
        drop(half);
        file.close().await.expect("close");
    });
}

/// A task goes on reading while the shard ends: it is told no, and does not keep the shard.
#[test]
fn nothing_begins_on_a_shard_that_ends() {
    let refused = Arc::new(Mutex::new(None));
    let answer = Arc::clone(&refused);
    on_shard("ending", move |platform, dir| {
        let answer = Arc::clone(&answer);
        async move {
            let disk = platform.disk().clone();
            let file = disk.open(&dir.join("file"), CREATE).await.expect("create");
            file.write_at(pattern(&disk, BLOCK, 1), 0).await.expect("write");
            // A lease keeps the shard a while after the main future has ended.
            let lent = disk.lend(&pattern(&disk, BLOCK, 2), 0..BLOCK);
            let clock = platform.clock().clone();
            platform.spawn().spawn(async move {
                let error = loop {
                    match file.read_at(0, BLOCK).await {
                        Ok(_) => clock.sleep(Duration::from_millis(1)).await,
                        Err(error) => break error,
                    }
                };
                *answer.lock().expect("no panic") = Some(error.to_string());
                drop(lent);
            });
        }
    });
    let text = refused.lock().expect("no panic").take().expect("the task was answered");
    assert!(text.contains("the shard is ending"), "{text}");
}
