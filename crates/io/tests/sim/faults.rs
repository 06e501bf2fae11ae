//! Faults on demand, limits, damage behind the program's back, and breaches of the contract.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use corelog_io::sim::{Fault, Sim, errno};
use corelog_io::{BLOCK, Buf, Clock, Disk, File, IoError, IoOp, Open};

use super::{DSYNC, WRITE, create, durable_file, filled, open, poll_once};

fn errno_of<T>(result: Result<T, IoError>) -> Option<i32> {
    result.err().and_then(|e| e.source.raw_os_error())
}

#[test]
fn a_fault_meets_the_nth_operation_of_a_kind_on_a_path() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        let a = durable_file(disk, "/a.log", 1, 1).await;
        let b = durable_file(disk, "/b.log", 1, 1).await;
        let fault = disk.inject(Fault::fail(errno::EIO).of(IoOp::Read).on("a.log").from_nth(2));
        assert!(b.read_at(0, BLOCK).await.is_ok(), "another path");
        assert!(a.len().await.is_ok(), "another operation");
        assert!(a.read_at(0, BLOCK).await.is_ok(), "the first");
        let error = a.read_at(0, BLOCK).await.expect_err("the second");
        assert_eq!((error.op, error.at), (IoOp::Read, Some(0)));
        assert_eq!(error.path, Path::new("/a.log"));
        assert!(a.read_at(0, BLOCK).await.is_ok(), "the third");
        assert_eq!((disk.hits(fault), disk.failures(IoOp::Read)), (1, 1));
    });
}

#[test]
fn a_bad_sector_fails_what_touches_it() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        let a = durable_file(disk, "/a.log", 1, 3).await;
        let bad = BLOCK as u64 + 7..BLOCK as u64 + 8;
        disk.inject(Fault::fail(errno::EIO).of(IoOp::Read).over(bad).for_ever());
        assert!(a.read_at(0, BLOCK).await.is_ok(), "before it");
        assert!(a.read_at(2 * BLOCK as u64, BLOCK).await.is_ok(), "behind it");
        assert!(a.len().await.is_ok(), "no bytes at all");
        for (at, blocks) in [(0, 2), (0, 3), (1, 1), (1, 2)] {
            let error = a.read_at(at * BLOCK as u64, blocks * BLOCK).await.expect_err("across it");
            assert!(error.is_unreadable(), "{error}");
        }
    });
}

#[test]
fn only_a_read_of_a_bad_medium_is_unreadable() {
    let error = |op, no| IoError::new(op, "/a.log", std::io::Error::from_raw_os_error(no));
    for no in [errno::EIO, 61, 74, 84, 121] {
        assert!(error(IoOp::Read, no).is_unreadable(), "{no}");
        assert!(!error(IoOp::Open, no).is_unreadable(), "{no}: nothing is known of the bytes");
    }
    for no in [errno::EMFILE, errno::ENOSPC, errno::ESTALE, 6, 67, 110] {
        assert!(!error(IoOp::Read, no).is_unreadable(), "{no}");
    }
}

#[test]
fn a_fault_for_ever_ends_when_it_is_lifted() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        let how = Open { create_new: true, ..Open::default() };
        let full = disk.inject(Fault::fail(errno::EMFILE).of(IoOp::Open).for_ever());
        for _ in 0..3 {
            let refused = disk.open(Path::new("/a"), how).await;
            assert_eq!(errno_of(refused), Some(errno::EMFILE));
            assert!(!disk.exists("/a"), "a failed creation leaves nothing");
        }
        disk.lift(full);
        assert!(disk.open(Path::new("/a"), how).await.is_ok());
    });
}

#[test]
fn a_failed_write_leaves_each_sector_old_or_new() {
    let mut mixed = 0;
    for seed in 0..100 {
        let sim = Sim::new(seed);
        sim.run(async {
            let file = durable_file(sim.disk(), "/a", 2, 1).await;
            sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write));
            let failed = file.write_at(filled(sim.disk(), 2, 2), 0).await;
            assert_eq!(errno_of(failed), Some(errno::EIO));
        });
        let left = sim.disk().contents("/a").expect("there");
        assert!(left.chunks(512).all(|s| s == [1; 512] || s == [2; 512]));
        mixed += usize::from(left.contains(&1) && left.contains(&2));
    }
    assert!(mixed > 30, "only {mixed} of 100 left a part");
}

#[test]
fn a_stalled_operation_goes_on_when_the_fault_is_lifted() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        let file = durable_file(disk, "/a", 1, 1).await;
        let stall = disk.inject(Fault::stall().of(IoOp::Sync));
        let mut sync = pin!(file.sync());
        assert!(poll_once(sync.as_mut()).await.is_none());
        sim.clock().sleep(Duration::from_secs(3600)).await;
        assert!(poll_once(sync.as_mut()).await.is_none(), "an hour later");
        disk.lift(stall);
        sync.await.expect("sync");
    });
}

#[test]
fn lost_misdirected_and_flipped_answers_are_ok_and_wrong() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        let file = durable_file(disk, "/a", 4, 1).await;
        disk.inject(Fault::lose_write());
        file.write_at(filled(disk, 1, 2), 0).await.expect("so it says");
        assert_eq!(disk.contents("/a").expect("there"), [1; 4 * BLOCK]);
        disk.inject(Fault::misdirect_write(2));
        file.write_at(filled(disk, 1, 3), 0).await.expect("so it says");
        let bytes = disk.contents("/a").expect("there");
        assert!(bytes[..2 * BLOCK] == [1; 2 * BLOCK] && bytes[2 * BLOCK..3 * BLOCK] == [3; BLOCK]);
        disk.inject(Fault::flip_read());
        let read = file.read_at(0, BLOCK).await.expect("read");
        let wrong: u32 = read.as_ref().iter().map(|b| (b ^ 1).count_ones()).sum();
        assert_eq!(wrong, 1, "bits turned over");
        assert_eq!(file.read_at(0, BLOCK).await.expect("read").as_ref(), [1; BLOCK]);
    });
}

#[test]
fn a_device_that_errs_in_the_place_knows_of_no_full_disk() {
    for dsync in [false, true] {
        let sim = Sim::new(1);
        sim.run(async {
            let disk = sim.disk();
            drop(durable_file(disk, "/a", 2, 1).await);
            let file = open(disk, "/a", Open { dsync, ..WRITE }).await;
            disk.set_capacity(disk.used());
            disk.inject(Fault::misdirect_write(1));
            file.write_at(filled(disk, 2, 2), 0).await.expect("so it says");
            let bytes = disk.contents("/a").expect("there");
            assert_eq!(bytes.len(), 2 * BLOCK, "nothing beyond the space that there is");
            assert!(bytes[..BLOCK] == [1; BLOCK] && bytes[BLOCK..] == [2; BLOCK]);
            let beyond = file.write_at(filled(disk, 1, 3), 2 * BLOCK as u64).await;
            assert!(beyond.expect_err("in its place it is the file system's matter").is_full());
        });
    }
}

#[test]
fn a_full_disk_takes_what_fits_and_recovers_when_space_returns() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        disk.set_capacity(4 * BLOCK as u64);
        let file = create(disk, "/a").await;
        assert!(file.allocate(5 * BLOCK as u64).await.expect_err("five blocks of four").is_full());
        assert_eq!(file.len().await.expect("length"), 0, "a refused allocation changes nothing");
        file.allocate(3 * BLOCK as u64).await.expect("three blocks of four");
        file.write_at(filled(disk, 3, 1), 0).await.expect("reserved space is there");
        assert_eq!(disk.used(), 3 * BLOCK as u64);
        let short = file.write_at(filled(disk, 2, 2), 3 * BLOCK as u64).await;
        assert!(short.expect_err("one block of two fits").is_full());
        assert_eq!(file.len().await.expect("length"), 4 * BLOCK as u64, "a short write landed");
        file.set_len(BLOCK as u64).await.expect("cut");
        assert_eq!(disk.used(), BLOCK as u64);
        let other = create(disk, "/b").await;
        other.write_at(filled(disk, 3, 3), 0).await.expect("three blocks of four are free");
        disk.remove(Path::new("/b")).await.expect("remove");
        assert_eq!(disk.used(), 4 * BLOCK as u64, "an open file keeps its space");
        other.close().await.expect("close");
        assert_eq!(disk.used(), BLOCK as u64);
        // The same where a file is taken away, or others are planted, behind the program's back.
        let open = open(disk, "/a", Open::default()).await;
        disk.delete("/a").expect("delete");
        disk.put("/c", &[1; BLOCK]).expect("plant");
        drop(file);
        assert_eq!(disk.used(), 2 * BLOCK as u64);
        drop(open);
        assert_eq!(disk.used(), BLOCK as u64);
    });
}

#[test]
fn buffers_and_open_files_have_limits() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        disk.buffers().set_limit(2 * BLOCK);
        let bytes = disk.alloc(BLOCK).expect("within the limit").freeze(BLOCK);
        assert!(disk.alloc(2 * BLOCK).is_none());
        drop(bytes);
        let fresh = disk.alloc(2 * BLOCK).expect("all of it is back");
        assert!(fresh.as_ref().iter().all(|b| *b != 0), "fresh memory holds garbage");
        drop(fresh);
        // What a write was given is in use until the write ends, whoever dropped what.
        let file = create(disk, "/w").await;
        {
            let mut write = pin!(file.write_at(filled(disk, 2, 1), 0));
            assert!(poll_once(write.as_mut()).await.is_none());
        }
        assert!(disk.alloc(BLOCK).is_none());
        sim.clock().sleep(Duration::from_secs(1)).await;
        assert!(disk.alloc(BLOCK).is_some());
        drop(file);
        disk.set_open_files_max(1);
        let a = create(disk, "/a").await;
        let how = Open { create_new: true, ..Open::default() };
        let refused = disk.open(Path::new("/b"), how).await;
        assert_eq!(errno_of(refused), Some(errno::EMFILE));
        drop(a);
        create(disk, "/b").await;
        assert_eq!(disk.open_files(), 0, "dropped handles are closed");
    });
}

#[test]
fn an_open_nobody_waits_for_leaves_no_handle_and_no_lock() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        durable_file(disk, "/a", 1, 1).await;
        let locked = Open { lock: true, ..WRITE };
        {
            let mut dropped_in_flight = pin!(disk.open(Path::new("/a"), locked));
            assert!(poll_once(dropped_in_flight.as_mut()).await.is_none());
        }
        sim.clock().sleep(Duration::from_secs(1)).await;
        assert_eq!(disk.open_files(), 0);
        {
            let mut dropped_when_done = pin!(disk.open(Path::new("/a"), locked));
            assert!(poll_once(dropped_when_done.as_mut()).await.is_none());
            sim.clock().sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(disk.open_files(), 0);
        assert!(disk.open(Path::new("/a"), locked).await.is_ok());
    });
}

#[test]
fn a_lock_outlives_its_handle_while_a_write_is_in_flight() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        let locked = Open { lock: true, ..WRITE };
        drop(durable_file(disk, "/a", 1, 1).await);
        let file = open(disk, "/a", locked).await;
        disk.inject(Fault::delay(Duration::from_secs(1)).of(IoOp::Write));
        {
            let mut write = pin!(file.write_at(filled(disk, 1, 2), 0));
            assert!(poll_once(write.as_mut()).await.is_none());
        }
        drop(file);
        let refused = disk.open(Path::new("/a"), locked).await.err().expect("still locked");
        assert_eq!(refused.op, IoOp::Lock);
        assert_eq!(refused.source.kind(), std::io::ErrorKind::WouldBlock);
        sim.clock().sleep(Duration::from_secs(2)).await;
        assert_eq!(disk.contents("/a").expect("there"), [2; BLOCK], "the write landed");
        assert!(disk.open(Path::new("/a"), locked).await.is_ok());
    });
}

#[test]
fn damage_in_a_hole_takes_space() {
    let sim = Sim::new(2);
    let disk = sim.disk();
    sim.run(async {
        let how = Open { write: true, create_new: true, ..Open::default() };
        let file = disk.open(Path::new("/a"), how).await.expect("it is new");
        file.set_len(3 * BLOCK as u64).await.expect("it grows");
        file.close().await.expect("nothing is wrong");
    });
    assert_eq!((disk.used(), disk.named_bytes()), (0, 0));
    disk.flip_bit("/a", BLOCK as u64 + 1, 0).expect("it is within");
    assert_eq!((disk.used(), disk.named_bytes()), (BLOCK as u64, BLOCK as u64));
}

#[test]
fn damage_is_durable_and_planted_files_are_there() {
    let sim = Sim::new(1);
    let disk = sim.disk();
    disk.put("/deep/down/a", &[1; 5000]).expect("plant");
    disk.flip_bit("/deep/down/a", 4999, 7).expect("flip");
    disk.zero("/deep/down/a", 10..20).expect("zero");
    disk.overwrite("/deep/down/a", 4095, &[7, 8]).expect("overwrite");
    let mut expected = vec![1; 5000];
    expected[4999] = 1 ^ 0x80;
    expected[10..20].fill(0);
    expected[4095..4097].copy_from_slice(&[7, 8]);
    disk.power_cut(1);
    assert_eq!(disk.contents("/deep/down/a").expect("there"), expected);
    assert_eq!(disk.durable_contents("/deep/down/a").expect("there"), expected);
    assert_eq!(disk.files(), [Path::new("/deep/down/a")]);
    disk.truncate("/deep/down/a", 4096).expect("cut");
    sim.run(async {
        let file = open(disk, "/deep/down/a", Open::default()).await;
        assert_eq!(file.len().await.expect("length"), 4096);
    });
    assert_eq!(disk.used(), BLOCK as u64);
    disk.delete("/deep/down/a").expect("delete");
    disk.power_cut(2);
    assert!(!disk.exists("/deep/down/a") && disk.exists("/deep/down"));
}

#[test]
fn the_trace_tells_what_began_and_ended_when() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        let file = durable_file(disk, "/a", 1, 1).await;
        disk.rename(Path::new("/a"), Path::new("/b")).await.expect("rename");
        let dsync = open(disk, "/b", DSYNC).await;
        dsync.write_at(filled(disk, 1, 1), 0).await.expect("write");
        let trace = disk.trace();
        let ops: Vec<IoOp> = trace.iter().map(|e| e.op).collect();
        use IoOp::{Open, Rename, Sync, SyncDir, Write};
        assert_eq!(ops, [Open, Write, Sync, SyncDir, Rename, Open, Write]);
        let (write, sync) = (&trace[1], &trace[2]);
        assert!(write.ended < Some(sync.begun) && Some(write.begun) < write.ended);
        assert_eq!((write.at, write.len, write.dsync), (Some(0), BLOCK, false));
        assert_eq!(trace[4].to.as_deref(), Some(Path::new("/b")));
        assert!(trace[6].dsync);
        assert_eq!((disk.count(Write), disk.bytes(Write)), (2, 2 * BLOCK as u64));
        disk.clear_trace();
        let mut sync = pin!(file.sync());
        assert!(poll_once(sync.as_mut()).await.is_none());
        assert_eq!((disk.trace().len(), disk.trace()[0].ended), (1, None));
        sync.await.expect("sync");
        assert!(disk.trace()[0].ended.is_some());
        assert_eq!(disk.count(Write), 2, "counts are not cleared");
    });
}

/// Runs `body`, which must panic over a breach of the contract, and answers what it said.
fn breach(body: impl AsyncFn(&Sim)) -> String {
    let sim = Sim::new(1);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sim.run(body(&sim))));
    assert!(caught.is_err(), "the breach went unnoticed");
    let mut broken = sim.disk().take_violations();
    assert_eq!(broken.len(), 1);
    broken.remove(0)
}

#[test]
fn breaches_of_the_contract_panic_and_say_what() {
    let said = breach(async |sim| {
        let file = durable_file(sim.disk(), "/a", 1, 1).await;
        let _ = file.read_at(100, BLOCK).await;
    });
    assert!(said.contains("/a: read of 4096 bytes at 100: both must be multiples"), "{said}");
    let said = breach(async |sim| {
        let file = durable_file(sim.disk(), "/a", 1, 1).await;
        let _ = file.read_at(0, 0).await;
    });
    assert!(said.contains("read of 0 bytes"), "{said}");
    let said = breach(async |sim| {
        let file = durable_file(sim.disk(), "/a", 1, 1).await;
        let other = open(sim.disk(), "/a", DSYNC).await;
        let mut first = pin!(file.write_at(filled(sim.disk(), 2, 2), 0));
        assert!(poll_once(first.as_mut()).await.is_none());
        // Beside it is fine, through whatever handle; on it is not.
        let mut beside = pin!(other.write_at(filled(sim.disk(), 1, 2), 2 * BLOCK as u64));
        assert!(poll_once(beside.as_mut()).await.is_none());
        let _ = other.write_at(filled(sim.disk(), 1, 2), BLOCK as u64).await;
    });
    assert!(said.contains("while one of 8192 bytes at 0 is in flight"), "{said}");
    let said = breach(async |sim| {
        drop(durable_file(sim.disk(), "/a", 1, 1).await);
        let file = open(sim.disk(), "/a", Open::default()).await;
        let _ = file.write_at(filled(sim.disk(), 1, 2), 0).await;
    });
    assert!(said.contains("opened for reading"), "{said}");
    let said = breach(async |sim| {
        let file = durable_file(sim.disk(), "/a", 1, 1).await;
        {
            let mut write = pin!(file.write_at(filled(sim.disk(), 1, 2), 0));
            assert!(poll_once(write.as_mut()).await.is_none());
        }
        let _ = file.close().await;
    });
    assert!(said.contains("closed with 1 operations in flight"), "{said}");
    let said = breach(async |sim| {
        let file = durable_file(sim.disk(), "/a", 1, 1).await;
        let mut write = pin!(file.write_at(filled(sim.disk(), 2, 2), 0));
        assert!(poll_once(write.as_mut()).await.is_none());
        let _ = file.set_len(0).await;
    });
    assert!(said.contains("cut to 0 bytes while a write at 0"), "{said}");
    let said = breach(async |sim| {
        let _ = sim.disk().alloc(BLOCK + 1);
    });
    assert!(said.contains("alloc(4097)"), "{said}");
}
