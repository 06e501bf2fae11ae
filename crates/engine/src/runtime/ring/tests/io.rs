//! Reads and writes: whole, refused, dropped, more than there is room for, and never answered.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use corelog_io::BLOCK;
use tempfile::TempDir;

use super::{executor, poll_once, reached, run, tiny};
use crate::runtime::ring::{Buffer, Executor, File, Options, sleep, spawn, turn_to_io};

fn dir() -> TempDir {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp/ring");
    fs::create_dir_all(&base).expect("the build's file system takes it");
    tempfile::tempdir_in(base).expect("a directory")
}

fn open(path: &Path) -> OwnedFd {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_DIRECT);
    options.open(path).expect("O_DIRECT works here").into()
}

fn filled(len: usize, with: u8) -> Rc<Buffer> {
    let mut buffer = Buffer::alloc(len);
    buffer.as_bytes_mut().fill(with);
    Rc::new(buffer)
}

async fn read(file: &File, at: u64, len: usize) -> Vec<u8> {
    let (count, buffer) = file.read_at(Buffer::alloc(len), at, len).await;
    buffer.as_bytes()[..count.expect("it reads")].to_vec()
}

async fn round_trip(file: &File) {
    for block in 0..8 {
        let written = file.write_at(&filled(BLOCK, block), 0, u64::from(block) * 4096).await;
        assert_eq!(written.expect("it writes"), BLOCK);
    }
    file.fdatasync().await.expect("it syncs");
    for block in 0..8 {
        assert_eq!(read(file, u64::from(block) * 4096, BLOCK).await, [block; BLOCK]);
    }
    // A part of a buffer, and the end of the file.
    let two = filled(2 * BLOCK, 9);
    assert_eq!(file.write_at(&two, BLOCK, 0).await.expect("it writes"), BLOCK);
    let all = read(file, 0, 16 * BLOCK).await;
    assert_eq!((all.len(), all[0], all[BLOCK]), (8 * BLOCK, 9, 1));
    assert_eq!(read(file, 8 * 4096, BLOCK).await, [0; 0]);
}

#[test]
fn bytes_come_back_from_registered_and_other_memory_and_files() {
    for (pool, files) in [(0, 0), (1 << 20, 0), (0, 8), (8 << 20, 8)] {
        let options = Options { pool, files, ..Options::default() };
        let executor = Executor::new(options).expect("a ring");
        assert!(executor.unregistered().is_none(), "{:?}", executor.unregistered());
        let dir = dir();
        executor.run(async {
            let file = File::adopt(open(&dir.path().join("a"))).expect("adopted");
            round_trip(&file).await;
            file.close().expect("it closes");
        });
    }
}

#[test]
fn errors_are_the_kernels_and_the_buffer_comes_back() {
    run(async {
        let dir = dir();
        let file = File::adopt(open(&dir.path().join("a"))).expect("adopted");
        assert_eq!(file.write_at(&filled(BLOCK, 1), 0, 0).await.expect("it writes"), BLOCK);
        let (result, buffer) = file.read_at(Buffer::alloc(BLOCK), 7, BLOCK).await;
        assert_eq!(result.expect_err("not aligned").raw_os_error(), Some(libc::EINVAL));
        assert_eq!(buffer.len(), BLOCK);
        let read_only = fs::File::open(dir.path().join("a")).expect("it opens");
        let file = File::adopt(read_only.into()).expect("adopted");
        let error = file.write_at(&filled(BLOCK, 1), 0, 0).await.expect_err("read only");
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    });
}

#[test]
fn a_full_disk_says_so() {
    run(async {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it opens");
        let file = File::adopt(full.into()).expect("adopted");
        let error = file.write_at(&filled(BLOCK, 1), 0, 0).await.expect_err("full");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    });
}

#[test]
fn more_operations_than_the_ring_has_room_for_all_end() {
    // 2 entries, 64 completions; the kernel gets 56 at a time.
    for pool in [0, 1 << 20] {
        let (dir, executor) = (dir(), tiny(pool));
        executor.run(async {
            let file = Rc::new(File::adopt(open(&dir.path().join("a"))).expect("adopted"));
            let ended = Rc::new(Cell::new(0));
            for block in 0..1_000_u64 {
                let (file, ended) = (Rc::clone(&file), Rc::clone(&ended));
                spawn(async move {
                    let written = file.write_at(&filled(BLOCK, block as u8), 0, block * 4096).await;
                    assert_eq!(written.expect("it writes"), BLOCK);
                    ended.set(ended.get() + 1);
                });
            }
            while ended.get() < 1_000 {
                sleep(Duration::from_millis(1)).await;
            }
            for block in 0..1_000_u64 {
                assert_eq!(read(&file, block * 4096, BLOCK).await, [block as u8; BLOCK]);
            }
        });
    }
}

/// Pipes whose reads wait until something is written.
struct Pipe {
    reader: File,
    writer: fs::File,
}

fn pipe() -> Pipe {
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    Pipe { reader: File::adopt(reader).expect("adopted"), writer: writer.into() }
}

#[test]
fn a_dropped_read_keeps_its_buffer_until_the_kernel_is_done() {
    let executor = tiny(16 * BLOCK);
    executor.run(async {
        let Pipe { reader, mut writer } = pipe();
        let reader = Rc::new(reader);
        let mut reads: Vec<_> = (0..16)
            .map(|_| {
                let reader = Rc::clone(&reader);
                Box::pin(async move { reader.read_at(Buffer::alloc(BLOCK), u64::MAX, BLOCK).await })
            })
            .collect();
        for read in &mut reads {
            assert!(!poll_once(read).await);
        }
        // Those that are with the kernel, and those in the backlog if there were any.
        turn_to_io().await;
        drop(reads);
        drop(reader);
        // The pool is used up by buffers that nobody sees any more: these are not of it.
        let mut others: Vec<_> = (0..16).map(|_| Buffer::alloc(BLOCK)).collect();
        assert!(others.iter().all(|buffer| buffer.memory().registered().is_none()));
        others.iter_mut().for_each(|buffer| buffer.as_bytes_mut().fill(7));
        writer.write_all(&[1; 16 * BLOCK]).expect("it takes that much");
        let start = Instant::now();
        loop {
            turn_to_io().await;
            let free: Vec<_> = (0..16).map(|_| Buffer::alloc(BLOCK)).collect();
            if free.iter().all(|buffer| buffer.memory().registered().is_some()) {
                break;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the buffers do not come back");
        }
        assert!(others.iter().all(|buffer| buffer.as_bytes() == [7; BLOCK]));
        let error = writer.write_all(&[1]).expect_err("the last read closed the reader");
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_read_that_never_ends_is_cancelled_with_the_executor() {
    let executor = tiny(1 << 20);
    let (writer, start) = executor.run(async {
        let Pipe { reader, writer } = pipe();
        let reader = Rc::new(reader);
        // Some of them wait for room in the ring.
        for _ in 0..100 {
            let reader = Rc::clone(&reader);
            spawn(async move {
                let (result, _) = reader.read_at(Buffer::alloc(BLOCK), u64::MAX, BLOCK).await;
                panic!("it has ended with {result:?}");
            });
        }
        turn_to_io().await;
        (writer, Instant::now())
    });
    drop(executor);
    assert!(start.elapsed() < Duration::from_secs(8), "cancelled, not waited for");
    let error = (&writer).write_all(&[1]).expect_err("the reader was closed");
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn a_write_goes_on_when_its_future_is_dropped() {
    let dir = dir();
    let path = dir.path().join("a");
    run(async {
        let file = File::adopt(open(&path)).expect("adopted");
        let bytes = filled(1 << 20, 5);
        let mut write = Box::pin(file.write_at(&bytes, 0, 0));
        assert!(!poll_once(&mut write).await);
        drop(write);
        assert_eq!(Rc::strong_count(&bytes), 2, "the operation holds the bytes");
        drop(bytes);
    });
    assert!(fs::read(&path).expect("it reads") == vec![5; 1 << 20]);
}

#[test]
fn a_file_is_closed_once_by_whoever_is_last() {
    let dir = dir();
    run(async {
        let fd = open(&dir.path().join("a"));
        let number = fd.as_raw_fd();
        let file = File::adopt(fd).expect("adopted");
        assert_eq!(file.as_fd().as_raw_fd(), number);
        let bytes = filled(BLOCK, 1);
        let mut write = Box::pin(file.write_at(&bytes, 0, 0));
        assert!(!poll_once(&mut write).await);
        drop(write);
        file.close().expect("the write closes it");
        let path = format!("/proc/self/fd/{number}");
        assert!(fs::symlink_metadata(&path).is_ok(), "open as long as the write");
        let ended = Cell::new(false);
        while !ended.get() {
            turn_to_io().await;
            ended.set(Rc::strong_count(&bytes) == 1);
        }
        let target = fs::read_link(&path).ok();
        assert!(target.is_none_or(|target| !target.ends_with("a")), "it is open still");
    });
}

#[test]
fn places_of_registered_files_go_round() {
    let dir = dir();
    let executor = tiny(0);
    executor.run(async {
        for round in 0..10 {
            // One has the only place, the other works without.
            let one = File::adopt(open(&dir.path().join("a"))).expect("adopted");
            let two = File::adopt(open(&dir.path().join("b"))).expect("adopted");
            assert_eq!((one.is_registered(), two.is_registered()), (true, false));
            let (ones, twos) = (filled(BLOCK, round), filled(BLOCK, round + 100));
            assert_eq!(one.write_at(&ones, 0, 0).await.expect("it writes"), BLOCK);
            assert_eq!(two.write_at(&twos, 0, 0).await.expect("it writes"), BLOCK);
            assert_eq!(read(&one, 0, BLOCK).await, [round; BLOCK]);
            assert_eq!(read(&two, 0, BLOCK).await, [round + 100; BLOCK]);
        }
    });
}

#[test]
fn files_and_buffers_outlive_their_executor() {
    let dir = dir();
    let executor = tiny(1 << 20);
    let (file, bytes) = executor.run(async {
        (File::adopt(open(&dir.path().join("a"))).expect("adopted"), filled(BLOCK, 3))
    });
    drop(executor);
    assert_eq!(bytes.as_bytes(), [3; BLOCK]);
    run(async {
        // The executor of before is gone, and this one is another.
        let error = file.write_at(&bytes, 0, 0).await.expect_err("its executor is gone");
        assert!(error.to_string().contains("ended"), "{error}");
    });
    assert!(File::adopt(open(&dir.path().join("b"))).is_err(), "no executor on this thread");
}

#[test]
fn a_lone_write_is_one_call() {
    let dir = dir();
    let executor = executor();
    let file = executor.run(async { File::adopt(open(&dir.path().join("a"))).expect("adopted") });
    let before = executor.enters();
    executor.run(async {
        let bytes = filled(BLOCK, 1);
        for _ in 0..100 {
            assert_eq!(file.write_at(&bytes, 0, 0).await.expect("it writes"), BLOCK);
        }
    });
    let calls = executor.enters() - before;
    assert!((100..=110).contains(&calls), "{calls} calls for a hundred writes");
    file.close().expect("it closes");
}

#[test]
fn io_goes_on_beside_a_task_that_never_waits() {
    let dir = dir();
    run(async {
        let ended = Rc::new(Cell::new(0));
        let (file, theirs) = (open(&dir.path().join("a")), Rc::clone(&ended));
        spawn(async move {
            let file = File::adopt(file).expect("adopted");
            let bytes = filled(BLOCK, 1);
            for _ in 0..100 {
                assert_eq!(file.write_at(&bytes, 0, 0).await.expect("it writes"), BLOCK);
                theirs.set(theirs.get() + 1);
            }
        });
        reached(&ended, 100).await;
    });
}
