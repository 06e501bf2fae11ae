//! What a power cut and a kill keep of bytes and lengths, and what they may take.

use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;

use corelog_io::sim::{Fault, Sim, errno};
use corelog_io::{BLOCK, Disk, File, IoOp};

use super::{DSYNC, WRITE, after_cuts, create, durable_file, filled, open, poll_once, shapes};

#[test]
fn what_was_synced_stays() {
    let left = after_cuts("/a", async |sim| {
        durable_file(sim.disk(), "/a", 3, 1).await;
    });
    assert!(left.iter().all(|bytes| bytes.as_deref() == Some(&[1; 3 * BLOCK])));
}

#[test]
fn what_was_not_synced_is_kept_or_lost_sector_by_sector() {
    let left = after_cuts("/a", async |sim| {
        let file = durable_file(sim.disk(), "/a", 2, 1).await;
        file.write_at(filled(sim.disk(), 2, 2), 0).await.expect("write");
    });
    let mut seen = BTreeSet::new();
    for bytes in left.into_iter().map(|bytes| bytes.expect("the name is durable")) {
        let mut sectors = bytes.chunks(512);
        assert!(sectors.all(|s| s == [1; 512] || s == [2; 512]), "a mixed sector");
        seen.insert(bytes.iter().step_by(512).copied().collect::<Vec<u8>>());
    }
    assert!(seen.contains(&vec![1; 16]), "some cut loses all of it");
    assert!(seen.contains(&vec![2; 16]), "some cut keeps all of it");
    let whole = |block: &[u8]| block.iter().all(|v| *v == block[0]);
    assert!(seen.iter().any(|s| s[0] != s[8] && whole(&s[..8]) && whole(&s[8..])), "4 KiB");
    assert!(seen.iter().any(|s| !whole(&s[..8])), "torn at 512 bytes");
}

#[test]
fn a_seed_is_the_whole_story() {
    let run = || {
        after_cuts("/a", async |sim| {
            let file = durable_file(sim.disk(), "/a", 4, 1).await;
            file.write_at(filled(sim.disk(), 4, 2), 0).await.expect("write");
            file.set_len(5000).await.expect("cut");
        })
    };
    let (first, second) = (run(), run());
    assert!(first == second, "the same seeds left other bytes");
    assert!(first.iter().collect::<BTreeSet<_>>().len() > 10, "seeds hardly differ");
}

#[test]
fn of_two_writes_any_sector_shows_either_or_neither() {
    let left = after_cuts("/a", async |sim| {
        let file = durable_file(sim.disk(), "/a", 1, 1).await;
        file.write_at(filled(sim.disk(), 1, 2), 0).await.expect("write");
        file.write_at(filled(sim.disk(), 1, 3), 0).await.expect("write");
    });
    let seen: BTreeSet<u8> = left.into_iter().flatten().flatten().collect();
    assert_eq!(seen, BTreeSet::from([1, 2, 3]));
}

#[test]
fn a_dsync_write_makes_only_itself_durable() {
    let left = after_cuts("/a", async |sim| {
        let plain = durable_file(sim.disk(), "/a", 3, 1).await;
        let dsync = open(sim.disk(), "/a", DSYNC).await;
        plain.write_at(filled(sim.disk(), 1, 2), 0).await.expect("write A");
        dsync.write_at(filled(sim.disk(), 1, 3), BLOCK as u64).await.expect("write B");
    });
    let left: Vec<Vec<u8>> = left.into_iter().flatten().collect();
    assert!(left.iter().all(|b| b[BLOCK..2 * BLOCK] == [3; BLOCK]), "B was durable");
    assert!(left.iter().any(|b| b[..BLOCK] == [1; BLOCK]), "A was not");
    assert!(left.iter().all(|b| b[2 * BLOCK..] == [1; BLOCK]), "C was never written");
}

#[test]
fn a_dsync_write_on_a_plain_one_of_the_same_block_settles_it() {
    let left = after_cuts("/a", async |sim| {
        let plain = durable_file(sim.disk(), "/a", 1, 1).await;
        let dsync = open(sim.disk(), "/a", DSYNC).await;
        plain.write_at(filled(sim.disk(), 1, 2), 0).await.expect("write");
        dsync.write_at(filled(sim.disk(), 1, 3), 0).await.expect("write");
    });
    assert!(left.iter().flatten().all(|b| b[..] == [3; BLOCK]));
}

#[test]
fn a_dsync_write_carries_the_length_that_reaches_it() {
    let left = after_cuts("/a", async |sim| {
        let plain = durable_file(sim.disk(), "/a", 1, 1).await;
        let dsync = open(sim.disk(), "/a", DSYNC).await;
        plain.allocate(16 * BLOCK as u64).await.expect("allocate");
        dsync.write_at(filled(sim.disk(), 1, 3), 2 * BLOCK as u64).await.expect("inside");
        dsync.write_at(filled(sim.disk(), 1, 4), 16 * BLOCK as u64).await.expect("past the end");
    });
    for bytes in left.iter().flatten() {
        assert_eq!(bytes.len(), 17 * BLOCK);
        assert!(bytes[2 * BLOCK..3 * BLOCK] == [3; BLOCK] && bytes[16 * BLOCK..] == [4; BLOCK]);
        assert!(bytes[3 * BLOCK..16 * BLOCK].iter().all(|b| *b == 0), "allocated reads as zeros");
    }
}

#[test]
fn a_sync_covers_what_returned_before_it_began_and_no_more() {
    let left = after_cuts("/a", async |sim| {
        let file = durable_file(sim.disk(), "/a", 2, 1).await;
        file.write_at(filled(sim.disk(), 1, 2), 0).await.expect("write before");
        // The other write is under way when the sync begins and returns before the sync does.
        sim.disk().inject(Fault::delay(std::time::Duration::from_millis(50)).of(IoOp::Sync));
        let late = file.write_at(filled(sim.disk(), 1, 3), BLOCK as u64);
        let mut late = pin!(late);
        assert!(poll_once(late.as_mut()).await.is_none(), "in flight");
        let mut sync = pin!(file.sync());
        assert!(poll_once(sync.as_mut()).await.is_none(), "in flight");
        late.await.expect("write");
        assert!(poll_once(sync.as_mut()).await.is_none(), "the sync is the slower one");
        sync.await.expect("sync");
    });
    let left: Vec<Vec<u8>> = left.into_iter().flatten().collect();
    assert!(left.iter().all(|b| b[..BLOCK] == [2; BLOCK]), "returned before the sync began");
    assert!(left.iter().any(|b| b[BLOCK..] == [1; BLOCK]), "returned after it began");
}

#[test]
fn after_a_failed_sync_a_later_one_saves_nothing_but_a_rewrite_does() {
    let left = after_cuts("/a", async |sim| {
        let file = durable_file(sim.disk(), "/a", 2, 1).await;
        file.write_at(filled(sim.disk(), 2, 2), 0).await.expect("write");
        let fault = sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Sync));
        let failed = file.sync().await.expect_err("the fault");
        assert_eq!(failed.source.raw_os_error(), Some(errno::EIO));
        assert_eq!(sim.disk().hits(fault), 1);
        file.write_at(filled(sim.disk(), 1, 3), BLOCK as u64).await.expect("write again");
        file.sync().await.expect("as if nothing had happened");
        // Readers are shown the doubtful bytes all the same.
        assert_eq!(file.read_at(0, BLOCK).await.expect("read").as_ref(), [2; BLOCK]);
    });
    let left: Vec<Vec<u8>> = left.into_iter().flatten().collect();
    assert!(left.iter().any(|b| b[..BLOCK] == [1; BLOCK]), "the later sync saved nothing");
    assert!(left.iter().all(|b| b[BLOCK..] == [3; BLOCK]), "what was written again is durable");
}

#[test]
fn a_cut_that_was_not_synced_may_come_back_and_one_that_was_does_not() {
    let cut = async |sim: &Sim, synced: bool| {
        let file = durable_file(sim.disk(), "/a", 3, 1).await;
        file.set_len(5000).await.expect("cut");
        if synced {
            file.sync().await.expect("sync");
        }
        file.set_len(2 * BLOCK as u64).await.expect("grow");
    };
    let shapes = |left: Vec<Option<Vec<u8>>>| shapes(&left);
    let unsynced = shapes(after_cuts("/a", async |sim| cut(sim, false).await));
    let synced = shapes(after_cuts("/a", async |sim| cut(sim, true).await));
    // Length, and whether a byte beyond the cut is zero.
    let full = (3 * BLOCK, Some(1));
    let cut = (5000, None);
    let grown = (2 * BLOCK, Some(0));
    assert_eq!(unsynced, BTreeSet::from([full, cut, grown]));
    assert_eq!(synced, BTreeSet::from([cut, grown]));
}

#[test]
fn a_write_after_a_cut_is_not_zeroed_by_it() {
    let left = after_cuts("/a", async |sim| {
        let file = durable_file(sim.disk(), "/a", 2, 1).await;
        file.set_len(100).await.expect("cut");
        file.write_at(filled(sim.disk(), 2, 2), 0).await.expect("write");
        file.sync().await.expect("sync");
    });
    assert!(left.iter().all(|bytes| bytes.as_deref() == Some(&[2; 2 * BLOCK])));
}

#[test]
fn a_cut_that_is_kept_zeroes_only_what_was_there_before_it() {
    let left = after_cuts("/a", async |sim| {
        let file = durable_file(sim.disk(), "/a", 1, 1).await;
        file.set_len(1024).await.expect("cut");
        file.write_at(filled(sim.disk(), 1, 2), 0).await.expect("write");
    });
    let left: BTreeSet<Vec<u8>> = left.into_iter().flatten().collect();
    assert!(left.contains(&vec![2; BLOCK]), "both kept");
    assert!(left.contains(&vec![1; BLOCK]), "neither kept");
    assert!(left.contains(&vec![1; 1024]), "the cut kept");
    let cut_and_grown = [vec![1; 1024], vec![0; BLOCK - 1024]].concat();
    assert!(left.contains(&cut_and_grown), "both lengths kept, and no sector of the write");
    let cut_then_written =
        |bytes: &Vec<u8>| bytes.len() == BLOCK && [0, 2].iter().all(|b| bytes[1024..].contains(b));
    assert!(left.iter().any(cut_then_written), "the cut kept, and sectors written after it");
}

#[test]
fn a_length_that_a_failed_sync_left_in_doubt_stays_there() {
    let left = after_cuts("/a", async |sim| {
        let file = durable_file(sim.disk(), "/a", 1, 1).await;
        file.allocate(4 * BLOCK as u64).await.expect("allocate");
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Sync));
        file.sync().await.expect_err("the fault");
        file.sync().await.expect("as if nothing had happened");
    });
    let lens: BTreeSet<usize> = left.iter().flatten().map(Vec::len).collect();
    assert_eq!(lens, BTreeSet::from([BLOCK, 4 * BLOCK]));
}

#[test]
fn what_lay_beyond_a_lost_length_does_not_come_back_when_the_file_grows() {
    let mut shorter = 0;
    for seed in 0..100 {
        let sim = Sim::new(seed);
        sim.run(async {
            let file = durable_file(sim.disk(), "/a", 2, 1).await;
            file.set_len(5000).await.expect("cut");
            file.sync().await.expect("sync");
            file.write_at(filled(sim.disk(), 3, 2), BLOCK as u64).await.expect("write");
        });
        sim.disk().power_cut(seed);
        if sim.disk().contents("/a").expect("there").len() != 5000 {
            continue;
        }
        shorter += 1;
        let grown = sim.run(async {
            let file = open(sim.disk(), "/a", WRITE).await;
            file.set_len(4 * BLOCK as u64).await.expect("grow");
            file.read_at(0, 4 * BLOCK).await.expect("read").as_ref().to_vec()
        });
        assert!(grown[5000..].iter().all(|b| *b == 0), "seed {seed}");
    }
    assert!(shorter > 10, "the length was lost only {shorter} times");
}

#[test]
fn a_kill_keeps_all_that_returned_and_a_cut_after_it_does_not() {
    let mut lost = 0;
    for seed in 0..50 {
        let sim = Sim::new(seed);
        sim.run(async {
            let file = durable_file(sim.disk(), "/a", 1, 1).await;
            file.write_at(filled(sim.disk(), 1, 2), 0).await.expect("write");
            create(sim.disk(), "/b").await;
        });
        sim.disk().process_kill(seed);
        assert_eq!(sim.disk().contents("/a").expect("there"), [2; BLOCK]);
        assert!(sim.disk().exists("/b"), "names stay, too");
        sim.disk().power_cut(seed);
        let left = sim.disk().contents("/a").expect("there");
        lost += usize::from(left != [2; BLOCK]);
    }
    assert!(lost > 10, "a kill must not make anything durable: {lost} of 50 lost");
}

#[test]
fn what_recovery_reads_after_a_kill_its_sync_makes_durable() {
    for seed in 0..100 {
        let sim = Sim::new(seed);
        let halted = sim.run_until_halt(u64::MAX, async {
            let file = durable_file(sim.disk(), "/a", 4, 1).await;
            sim.disk().inject(Fault::halt().of(IoOp::Write));
            file.write_at(filled(sim.disk(), 4, 2), 0).await
        });
        assert!(halted.is_none(), "the write was under way");
        sim.disk().process_kill(seed);
        let read = sim.run(async {
            let file = open(sim.disk(), "/a", WRITE).await;
            let read = file.read_at(0, 4 * BLOCK).await.expect("read").as_ref().to_vec();
            file.sync().await.expect("sync");
            read
        });
        sim.disk().power_cut(seed);
        assert!(sim.disk().contents("/a").expect("there") == read, "seed {seed}");
    }
}

#[test]
fn writes_in_flight_land_in_part_at_a_kill_and_at_a_cut() {
    for power in [false, true] {
        let mut mixed = 0;
        for seed in 0..100 {
            let sim = Sim::new(seed);
            let halted = sim.run_until_halt(u64::MAX, async {
                let file = durable_file(sim.disk(), "/a", 4, 1).await;
                sim.disk().inject(Fault::halt().of(IoOp::Write));
                file.write_at(filled(sim.disk(), 4, 2), 0).await
            });
            assert!(halted.is_none());
            match power {
                true => sim.disk().power_cut(seed),
                false => sim.disk().process_kill(seed),
            }
            let left = sim.disk().contents("/a").expect("there");
            assert!(left.chunks(512).all(|s| s == [1; 512] || s == [2; 512]));
            mixed += usize::from(left.contains(&1) && left.contains(&2));
        }
        assert!(mixed > 30, "power {power}: only {mixed} of 100 left a part of the write");
    }
}

#[test]
fn a_read_of_blocks_in_flight_sees_each_sector_old_or_new() {
    let sim = Sim::new(5);
    let seen: BTreeSet<u8> = sim.run(async {
        let file = durable_file(sim.disk(), "/a", 2, 1).await;
        sim.disk().inject(Fault::delay(std::time::Duration::from_secs(1)).of(IoOp::Write));
        let mut write = pin!(file.write_at(filled(sim.disk(), 1, 2), 0));
        assert!(poll_once(write.as_mut()).await.is_none());
        let read = file.read_at(0, 2 * BLOCK).await.expect("read");
        let read = read.as_ref();
        assert!(read[..BLOCK].chunks(512).all(|s| s == [1; 512] || s == [2; 512]));
        assert_eq!(read[BLOCK..], [1; BLOCK], "the block beside it");
        write.await.expect("write");
        read[..BLOCK].iter().copied().collect()
    });
    assert_eq!(seen, BTreeSet::from([1, 2]), "of eight sectors, some old and some new");
}

#[test]
fn handles_of_an_ended_life_are_stale_and_the_disk_is_not() {
    let sim = Sim::new(3);
    sim.run(async {
        let file = durable_file(sim.disk(), "/a", 1, 1).await;
        let mut write = pin!(file.write_at(filled(sim.disk(), 1, 2), 0));
        assert!(poll_once(write.as_mut()).await.is_none());
        sim.disk().power_cut(1);
        let stale = |e: corelog_io::IoError| e.source.raw_os_error() == Some(errno::ESTALE);
        assert!(stale(write.await.expect_err("in flight at the cut")));
        assert!(stale(file.sync().await.expect_err("a handle of the last life")));
        assert!(stale(file.read_at(0, BLOCK).await.expect_err("a handle of the last life")));
        let file = open(sim.disk(), "/a", WRITE).await;
        assert_eq!(file.len().await.expect("length"), BLOCK as u64);
        assert!(sim.disk().list(Path::new("/")).await.is_ok());
    });
}
