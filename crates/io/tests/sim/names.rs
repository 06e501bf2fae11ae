//! Directory entries: durable apart from the files they name.

use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use corelog_io::sim::{Fault, Sim, errno};
use corelog_io::{BLOCK, Disk, File, IoOp};

use super::{after_cuts, create, durable_file, filled, poll_once};

/// The paths that are left after `body` and a power cut, for 200 seeds: each outcome once.
fn names_after_cuts(body: impl AsyncFn(&Sim)) -> BTreeSet<Vec<String>> {
    (0..200)
        .map(|seed| {
            let sim = Sim::new(seed);
            sim.run(body(&sim));
            sim.disk().power_cut(seed);
            sim.disk().files().iter().map(|p| p.display().to_string()).collect()
        })
        .collect()
}

fn outcomes<const N: usize>(expected: [&[&str]; N]) -> BTreeSet<Vec<String>> {
    expected.iter().map(|paths| paths.iter().map(|p| (*p).to_owned()).collect()).collect()
}

/// The canary: a protocol that forgets the directory does lose synced bytes.
#[test]
fn a_synced_file_in_a_directory_that_was_not_synced_can_vanish() {
    let left = after_cuts("/a", async |sim| {
        let file = create(sim.disk(), "/a").await;
        file.write_at(filled(sim.disk(), 1, 1), 0).await.expect("write");
        file.sync().await.expect("sync");
    });
    assert!(left.iter().any(Option::is_none), "no seed showed the missing sync_dir");
    assert!(left.iter().flatten().all(|bytes| bytes[..] == [1; BLOCK]), "else it is whole");
}

#[test]
fn each_creation_is_kept_or_not() {
    let seen = names_after_cuts(async |sim| {
        create(sim.disk(), "/a").await;
        create(sim.disk(), "/b").await;
    });
    assert_eq!(seen, outcomes([&[], &["/a"], &["/b"], &["/a", "/b"]]));
}

#[test]
fn a_new_directory_needs_its_parent_synced_too() {
    let seen = names_after_cuts(async |sim| {
        sim.disk().create_dir(Path::new("/d")).await.expect("create directory");
        create(sim.disk(), "/d/a").await;
        sim.disk().sync_dir(Path::new("/d")).await.expect("sync directory");
    });
    assert_eq!(seen, outcomes([&[], &["/d/a"]]));
}

#[test]
fn a_removal_that_was_not_synced_may_be_undone() {
    let seen = names_after_cuts(async |sim| {
        durable_file(sim.disk(), "/a", 1, 1).await;
        sim.disk().remove(Path::new("/a")).await.expect("remove");
    });
    assert_eq!(seen, outcomes([&[], &["/a"]]));
    let seen = names_after_cuts(async |sim| {
        durable_file(sim.disk(), "/a", 1, 1).await;
        sim.disk().remove(Path::new("/a")).await.expect("remove");
        sim.disk().sync_dir(Path::new("/")).await.expect("sync directory");
    });
    assert_eq!(seen, outcomes([&[]]));
}

#[test]
fn a_rename_is_whole_or_nothing_and_wants_both_directories_synced() {
    let moved = async |sim: &Sim, synced: &[&str]| {
        for dir in ["/from", "/to"] {
            sim.disk().create_dir(Path::new(dir)).await.expect("create directory");
        }
        sim.disk().sync_dir(Path::new("/")).await.expect("sync directory");
        durable_file(sim.disk(), "/from/a", 1, 1).await;
        sim.disk().rename(Path::new("/from/a"), Path::new("/to/b")).await.expect("rename");
        for dir in synced {
            sim.disk().sync_dir(Path::new(dir)).await.expect("sync directory");
        }
    };
    let either = outcomes([&["/from/a"], &["/to/b"]]);
    assert_eq!(names_after_cuts(async |sim| moved(sim, &[]).await), either);
    assert_eq!(names_after_cuts(async |sim| moved(sim, &["/to"]).await), either);
    assert_eq!(names_after_cuts(async |sim| moved(sim, &["/from"]).await), either);
    let both = names_after_cuts(async |sim| moved(sim, &["/to", "/from"]).await);
    assert_eq!(both, outcomes([&["/to/b"]]));
}

#[test]
fn replacing_by_rename_leaves_the_old_or_the_new_file_never_neither() {
    let left = after_cuts("/a", async |sim| {
        durable_file(sim.disk(), "/a", 1, 1).await;
        let new = create(sim.disk(), "/a.tmp").await;
        new.write_at(filled(sim.disk(), 2, 2), 0).await.expect("write");
        new.sync().await.expect("sync");
        sim.disk().rename(Path::new("/a.tmp"), Path::new("/a")).await.expect("rename");
    });
    let seen: BTreeSet<Option<Vec<u8>>> = left.into_iter().collect();
    assert_eq!(seen, BTreeSet::from([Some(vec![1; BLOCK]), Some(vec![2; 2 * BLOCK])]));
}

#[test]
fn changes_of_one_name_keep_their_order() {
    let seen = names_after_cuts(async |sim| {
        durable_file(sim.disk(), "/a", 1, 1).await;
        sim.disk().rename(Path::new("/a"), Path::new("/old")).await.expect("rename");
        create(sim.disk(), "/a").await;
    });
    assert_eq!(seen, outcomes([&["/a"], &["/old"], &["/a", "/old"]]));
    // The new, empty /a is never kept without the rename that made room for it.
    for seed in 0..200 {
        let sim = Sim::new(seed);
        sim.run(async {
            durable_file(sim.disk(), "/a", 1, 1).await;
            sim.disk().rename(Path::new("/a"), Path::new("/old")).await.expect("rename");
            create(sim.disk(), "/a").await;
        });
        sim.disk().power_cut(seed);
        let kept = ["/a", "/old"].map(|p| sim.disk().contents(p).unwrap_or_default());
        assert!(kept.contains(&vec![1; BLOCK]), "seed {seed}: the renamed file is nowhere");
    }
    let sim = Sim::new(1);
    sim.run(async {
        durable_file(sim.disk(), "/a", 1, 1).await;
        sim.disk().rename(Path::new("/a"), Path::new("/old")).await.expect("rename");
        create(sim.disk(), "/a").await;
        sim.disk().sync_dir(Path::new("/")).await.expect("sync directory");
    });
    sim.disk().power_cut(1);
    assert_eq!(sim.disk().contents("/old").expect("there"), [1; BLOCK]);
}

#[test]
fn after_a_failed_directory_sync_a_later_one_saves_nothing() {
    let seen = names_after_cuts(async |sim| {
        create(sim.disk(), "/a").await;
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::SyncDir));
        sim.disk().sync_dir(Path::new("/")).await.expect_err("the fault");
        create(sim.disk(), "/b").await;
        sim.disk().sync_dir(Path::new("/")).await.expect("as if nothing had happened");
    });
    assert_eq!(seen, outcomes([&["/b"], &["/a", "/b"]]));
}

#[test]
fn a_directory_sync_covers_what_returned_before_it_began_and_no_more() {
    let seen = names_after_cuts(async |sim| {
        let disk = sim.disk();
        create(disk, "/a").await;
        disk.inject(Fault::delay(Duration::from_millis(50)).of(IoOp::SyncDir));
        let mut sync = pin!(disk.sync_dir(Path::new("/")));
        assert!(poll_once(sync.as_mut()).await.is_none(), "in flight");
        create(disk, "/b").await;
        assert!(poll_once(sync.as_mut()).await.is_none(), "the sync is the slower one");
        sync.await.expect("sync directory");
    });
    assert_eq!(seen, outcomes([&["/a"], &["/a", "/b"]]));
}

#[test]
fn whole_directories_move_with_what_is_in_them() {
    let sim = Sim::new(1);
    sim.run(async {
        let disk = sim.disk();
        for dir in ["/d", "/d/e", "/trash"] {
            disk.create_dir(Path::new(dir)).await.expect("create directory");
        }
        create(disk, "/d/e/a").await;
        disk.rename(Path::new("/d"), Path::new("/trash/1")).await.expect("rename");
        assert!(disk.exists("/trash/1/e/a") && !disk.exists("/d"));
        // Linux's answers to moves that cannot be.
        let errno = |r: Result<(), corelog_io::IoError>| r.unwrap_err().source.raw_os_error();
        let into_itself = disk.rename(Path::new("/trash"), Path::new("/trash/1/t")).await;
        assert_eq!(errno(into_itself), Some(errno::EINVAL));
        disk.create_dir(Path::new("/d")).await.expect("create directory");
        let onto_full = disk.rename(Path::new("/d"), Path::new("/trash")).await;
        assert_eq!(errno(onto_full), Some(errno::ENOTEMPTY));
        create(disk, "/f").await;
        let onto_dir = disk.rename(Path::new("/f"), Path::new("/d")).await;
        assert_eq!(errno(onto_dir), Some(errno::EISDIR));
        let onto_file = disk.rename(Path::new("/d"), Path::new("/f")).await;
        assert_eq!(errno(onto_file), Some(errno::ENOTDIR));
        assert_eq!(errno(disk.remove(Path::new("/d")).await), Some(errno::EISDIR));
    });
}
