//! Cases of [`File`]: bytes, lengths, locks.

use std::future::poll_fn;
use std::pin::pin;

use super::*;
use crate::IoOp;

pub(super) async fn a_new_file_is_empty<P: Platform>(case: Case<P>) {
    let file = case.create("a").await;
    assert_eq!(file.len().await.expect("length"), 0);
    assert!(file.read_at(0, BLOCK).await.expect("read").as_ref().is_empty());
    file.close().await.expect("close");
    let file = case.open("a", READ).await;
    assert_eq!(file.len().await.expect("length"), 0);
    file.close().await.expect("close");
}

pub(super) async fn reads_end_with_the_file<P: Platform>(case: Case<P>) {
    let file = case.file("a", 2, 7).await;
    let block = BLOCK as u64;
    assert_eq!(file.read_at(0, 2 * BLOCK).await.expect("read").as_ref(), [7; 2 * BLOCK]);
    assert_eq!(file.read_at(block, 4 * BLOCK).await.expect("read").as_ref(), [7; BLOCK]);
    assert!(file.read_at(2 * block, BLOCK).await.expect("read").as_ref().is_empty(), "at the end");
    let far = file.read_at(1000 * block, BLOCK).await.expect("read");
    assert!(far.as_ref().is_empty(), "far beyond the end");
    file.close().await.expect("close");
}

pub(super) async fn an_unaligned_end_is_exact<P: Platform>(case: Case<P>) {
    let file = case.file("a", 3, 7).await;
    file.set_len(5000).await.expect("cut");
    assert_eq!(file.len().await.expect("length"), 5000);
    // 5,000 = 4,096 + 904.
    let lengths =
        [(0, BLOCK, BLOCK), (0, 2 * BLOCK, 5000), (BLOCK, BLOCK, 904), (2 * BLOCK, BLOCK, 0)];
    for (at, asked, expected) in lengths {
        let read = file.read_at(at as u64, asked).await.expect("read");
        assert_eq!(read.as_ref().len(), expected, "{asked} bytes at {at}");
        assert!(read.as_ref().iter().all(|b| *b == 7), "{asked} bytes at {at}");
    }
    file.close().await.expect("close");
}

pub(super) async fn what_is_written_is_read<P: Platform>(case: Case<P>) {
    let file = case.file("a", 4, 1).await;
    file.write_at(case.filled(2, 2), BLOCK as u64).await.expect("overwrite");
    let mut expected = vec![1; 4 * BLOCK];
    expected[BLOCK..3 * BLOCK].fill(2);
    assert_eq!(file.read_at(0, 4 * BLOCK).await.expect("read").as_ref(), expected);
    // Through another handle, at once; and after both were closed.
    let other = case.open("a", READ).await;
    assert_eq!(other.read_at(0, 4 * BLOCK).await.expect("read").as_ref(), expected);
    other.close().await.expect("close");
    file.close().await.expect("close");
    let file = case.open("a", READ).await;
    let read = file.read_at(0, 4 * BLOCK).await.expect("read");
    file.close().await.expect("close");
    assert_eq!(read.as_ref(), expected, "bytes outlive the handle they were read through");
}

pub(super) async fn a_write_past_the_end_leaves_zeros<P: Platform>(case: Case<P>) {
    let file = case.file("a", 1, 1).await;
    file.write_at(case.filled(1, 2), 3 * BLOCK as u64).await.expect("write past the end");
    assert_eq!(file.len().await.expect("length"), 4 * BLOCK as u64);
    let mut expected = vec![0; 4 * BLOCK];
    expected[..BLOCK].fill(1);
    expected[3 * BLOCK..].fill(2);
    assert_eq!(file.read_at(0, 4 * BLOCK).await.expect("read").as_ref(), expected);
    file.close().await.expect("close");
}

pub(super) async fn a_read_of_blocks_in_flight_sees_old_or_new<P: Platform>(case: Case<P>) {
    let file = Rc::new(case.file("a", 16, 1).await);
    let written = Rc::new(Cell::new(0u64));
    let (writer, done) = (Rc::clone(&file), Rc::clone(&written));
    let (even, odd) = (case.filled(16, 2), case.filled(16, 1));
    case.platform.spawn().spawn(async move {
        for round in 0..20 {
            let bytes = if round % 2 == 0 { even.clone() } else { odd.clone() };
            if writer.write_at(bytes, 0).await.is_err() {
                return; // Noticed below: the count does not get there.
            }
            done.set(done.get() + 1);
        }
    });
    while written.get() < 20 {
        let before = written.get();
        let read = file.read_at(0, 16 * BLOCK).await.expect("read");
        assert_eq!(read.as_ref().len(), 16 * BLOCK, "after {before} writes");
        let known = read.as_ref().iter().all(|byte| matches!(byte, 1 | 2));
        assert!(known, "neither old nor new, after {before} writes");
    }
    case.soon("the writer's handle", || Rc::strong_count(&file) == 1).await;
    let read = file.read_at(0, 16 * BLOCK).await.expect("read");
    assert_eq!(read.as_ref(), [1; 16 * BLOCK], "what the last write left");
}

pub(super) async fn many_writes_at_once<P: Platform>(case: Case<P>) {
    const WRITES: usize = 64;
    let file = Rc::new(case.create("a").await);
    file.allocate((WRITES * 2 * BLOCK) as u64).await.expect("allocate");
    let write = |i: usize| {
        let (file, bytes) = (Rc::clone(&file), case.filled(2, i as u8 + 1));
        async move { file.write_at(bytes, (i * 2 * BLOCK) as u64).await }
    };
    for answer in case.all((0..WRITES).map(write).collect()).await {
        answer.expect("one of many writes");
    }
    let read = |i: usize| {
        let file = Rc::clone(&file);
        async move { (i, file.read_at((i * 2 * BLOCK) as u64, 2 * BLOCK).await) }
    };
    for (i, answer) in case.all((0..WRITES).map(read).collect()).await {
        let fill = [i as u8 + 1; 2 * BLOCK];
        assert_eq!(answer.expect("one of many reads").as_ref(), fill, "write {i}");
    }
}

pub(super) async fn large_transfers_are_whole<P: Platform>(case: Case<P>) {
    const BLOCKS: usize = 256;
    let mut buf = case.buffer(BLOCKS);
    for (i, word) in buf.as_mut().chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(i as u64).to_le_bytes());
    }
    let bytes = buf.freeze(BLOCKS * BLOCK);
    let file = case.create("a").await;
    file.write_at(bytes.clone(), 0).await.expect("write 1 MiB");
    let read = file.read_at(0, BLOCKS * BLOCK).await.expect("read 1 MiB");
    assert!(read.as_ref() == bytes.as_ref(), "1 MiB came back changed");
    file.close().await.expect("close");
}

pub(super) async fn allocate_reserves_and_reads_as_zeros<P: Platform>(case: Case<P>) {
    let file = case.file("a", 1, 1).await;
    file.allocate(8 * BLOCK as u64).await.expect("allocate");
    assert_eq!(file.len().await.expect("length"), 8 * BLOCK as u64);
    let mut expected = vec![0; 8 * BLOCK];
    expected[..BLOCK].fill(1);
    assert_eq!(file.read_at(0, 8 * BLOCK).await.expect("read").as_ref(), expected);
    file.allocate(2 * BLOCK as u64).await.expect("allocate less");
    assert_eq!(file.len().await.expect("length"), 8 * BLOCK as u64, "never shorter");
    file.write_at(case.filled(1, 2), 4 * BLOCK as u64).await.expect("write");
    expected[4 * BLOCK..5 * BLOCK].fill(2);
    assert_eq!(file.read_at(0, 8 * BLOCK).await.expect("read").as_ref(), expected);
    file.close().await.expect("close");
}

pub(super) async fn set_len_cuts_and_grows_with_zeros<P: Platform>(case: Case<P>) {
    let file = case.file("a", 3, 1).await;
    file.set_len(5000).await.expect("cut");
    file.set_len(3 * BLOCK as u64).await.expect("grow");
    assert_eq!(file.len().await.expect("length"), 3 * BLOCK as u64);
    let mut expected = vec![0; 3 * BLOCK];
    expected[..5000].fill(1);
    assert_eq!(file.read_at(0, 3 * BLOCK).await.expect("read").as_ref(), expected);
    file.set_len(0).await.expect("cut all");
    assert_eq!(file.len().await.expect("length"), 0);
    file.set_len(BLOCK as u64).await.expect("grow");
    assert_eq!(file.read_at(0, BLOCK).await.expect("read").as_ref(), [0; BLOCK]);
    file.close().await.expect("close");
}

pub(super) async fn a_dsync_handle_writes_what_others_read<P: Platform>(case: Case<P>) {
    let plain = case.file("a", 4, 1).await;
    let dsync = case.open("a", Open { dsync: true, ..WRITE }).await;
    dsync.write_at(case.filled(1, 2), BLOCK as u64).await.expect("write inside");
    dsync.write_at(case.filled(1, 3), 4 * BLOCK as u64).await.expect("write at the end");
    let mut expected = vec![1; 5 * BLOCK];
    expected[BLOCK..2 * BLOCK].fill(2);
    expected[4 * BLOCK..].fill(3);
    assert_eq!(plain.read_at(0, 5 * BLOCK).await.expect("read").as_ref(), expected);
    dsync.close().await.expect("close");
    plain.close().await.expect("close");
    let created = Open { dsync: true, ..CREATE };
    let file = case.open("b", created).await;
    file.write_at(case.filled(1, 4), 0).await.expect("write");
    assert_eq!(file.read_at(0, BLOCK).await.expect("read").as_ref(), [4; BLOCK]);
    file.close().await.expect("close");
}

pub(super) async fn sync_is_ok<P: Platform>(case: Case<P>) {
    let file = case.create("a").await;
    file.sync().await.expect("sync nothing");
    file.write_at(case.filled(1, 1), 0).await.expect("write");
    file.allocate(4 * BLOCK as u64).await.expect("allocate");
    file.sync().await.expect("sync");
    file.sync().await.expect("sync again");
    file.close().await.expect("close");
}

const LOCKED: Open = Open { lock: true, ..WRITE };

#[track_caller]
fn assert_locked<T>(result: Result<T, IoError>) {
    let Err(error) = result else { panic!("a second handle got the lock") };
    assert_eq!((error.op, error.source.kind()), (IoOp::Lock, io::ErrorKind::WouldBlock), "{error}");
}

pub(super) async fn a_lock_excludes_until_it_is_closed<P: Platform>(case: Case<P>) {
    let first = case.open("a", Open { lock: true, ..CREATE }).await;
    assert_locked(case.disk().open(&case.path("a"), LOCKED).await);
    // Advisory: who does not ask for the lock gets in. Of one file: others are free.
    case.open("a", WRITE).await.close().await.expect("close");
    let other = case.open("b", Open { lock: true, ..CREATE }).await;
    assert_locked(case.disk().open(&case.path("a"), LOCKED).await);
    first.close().await.expect("close");
    let second = case.open("a", LOCKED).await;
    assert_locked(case.disk().open(&case.path("a"), LOCKED).await);
    second.close().await.expect("close");
    other.close().await.expect("close");
}

/// Opens with the lock as soon as a handle that was dropped has given it back.
async fn locked_soon<P: Platform>(case: &Case<P>, name: &str) -> FileOf<P> {
    let path = case.path(name);
    for _ in 0..SOON.as_millis() {
        match case.disk().open(&path, LOCKED).await {
            Ok(file) => return file,
            Err(error) => assert_eq!(error.op, IoOp::Lock, "{error}"),
        }
        case.platform.clock().sleep(Duration::from_millis(1)).await;
    }
    panic!("the lock of a dropped handle did not come back");
}

pub(super) async fn a_dropped_handle_gives_its_lock_back<P: Platform>(case: Case<P>) {
    drop(case.file("a", 1, 1).await);
    let first = case.open("a", LOCKED).await;
    first.write_at(case.filled(1, 2), 0).await.expect("write");
    drop(first);
    let second = locked_soon(&case, "a").await;
    assert_eq!(second.read_at(0, BLOCK).await.expect("read").as_ref(), [2; BLOCK]);
    second.close().await.expect("close");
}

pub(super) async fn operations_in_flight_end_before_the_lock_is_free<P: Platform>(case: Case<P>) {
    for round in 0..10 {
        let name = format!("a{round}");
        drop(case.file(&name, 16, 1).await);
        let file = case.open(&name, LOCKED).await;
        {
            let mut write = pin!(file.write_at(case.filled(16, 2), 0));
            let mut read = pin!(file.read_at(0, 16 * BLOCK));
            poll_fn(|cx| {
                let _started = (write.as_mut().poll(cx), read.as_mut().poll(cx));
                Poll::Ready(())
            })
            .await;
        }
        drop(file);
        // Whoever has the lock now writes last: nothing of the dropped write may land on it.
        let file = locked_soon(&case, &name).await;
        file.write_at(case.filled(16, 3), 0).await.expect("write");
        case.platform.clock().sleep(Duration::from_millis(5)).await;
        let read = file.read_at(0, 16 * BLOCK).await.expect("read");
        assert_eq!(read.as_ref(), [3; 16 * BLOCK], "an older write landed late");
        file.close().await.expect("close");
    }
}
