//! The engine on each file system and sector size that it is likely to meet: loop devices with 512
//! and 4096 byte sectors, ext4, xfs and btrfs, tmpfs, overlay. Needs root, and says so.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use corelog::machine::DirectIo;
use corelog::{Ack, Engine, TopicConfig};

use crate::small_disk;
use crate::support::{
    P, Sent, assert_same, batch, builder, create_topic, fresh_dir, names, partition_dir, poll_all,
    small_segments,
};

fn engine(dir: &Path) -> Engine {
    // Where O_DIRECT is refused the page cache will do: that is what is shown then.
    builder(dir, 1).direct_io(DirectIo::Preferred).open().expect("it opens")
}

/// A life: appends of all lengths and levels over some segments, read back while it runs, after a
/// close, and after an engine that was dropped without one.
fn live(disk: &Path, what: &str) {
    for enforce_fsync in [false, true] {
        let dir = disk.join(format!("data-{enforce_fsync}"));
        let mut sent = Vec::new();
        for round in 0..3_u64 {
            let running = engine(&dir);
            let client = running.client();
            if round == 0 {
                let config = TopicConfig { enforce_fsync, ..small_segments() };
                create_topic(&client, config);
            }
            assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
            for number in 0..40_u64 {
                let tag = round << 32 | number;
                let bytes = batch(tag, 1 + number as u32 % 4, (number as usize * 1_709) % 30_000);
                let ack = if number % 3 == 0 { Ack::Durable } else { Ack::Written };
                let appended = client.append_blocking(P, bytes.clone(), ack);
                let appended = appended.unwrap_or_else(|error| panic!("{what}: {error}"));
                sent.push(Sent { bytes, appended });
            }
            assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
            match round {
                1 => drop(running),
                _ => running.close_blocking().expect("nothing is wrong"),
            }
        }
        let logs = names(&partition_dir(&dir, P), ".log");
        assert!(logs.len() > 1, "{what}: segments were rolled: {logs:?}");
    }
}

/// Makes a file system below a directory of its own, lives on it, and takes it away.
fn try_on(what: &str, make: impl Fn(&Path) -> (std::path::PathBuf, small_disk::Mounted)) {
    let dir = fresh_dir(&format!("file_systems_{}", what.replace(' ', "_")));
    let (disk, mounted) = make(&dir);
    live(&disk, what);
    drop(mounted);
    fs::remove_dir_all(&dir).expect("nothing is mounted in it any more");
}

#[test]
fn ext4_on_both_sector_sizes_will_do() {
    for sector in [512, 4096] {
        let make = |dir: &Path| small_disk::on_sectors(dir, "ext4", &[], 400, sector);
        try_on(&format!("ext4 {sector}"), make);
    }
}

#[test]
fn xfs_on_both_sector_sizes_will_do() {
    for sector in [512, 4096] {
        let make = |dir: &Path| small_disk::on_sectors(dir, "xfs", &[], 400, sector);
        try_on(&format!("xfs {sector}"), make);
    }
}

#[test]
fn btrfs_tmpfs_and_overlay_will_do() {
    try_on("btrfs", |dir| small_disk::on_sectors(dir, "btrfs", &[], 400, 4096));
    try_on("tmpfs", |dir| small_disk::tmpfs(dir, 64));
    try_on("overlay", |dir| small_disk::overlay(dir, 400));
}

/// Space is reserved with the file's length: a length that grew with each append would be one more
/// thing for every sync to store. What is reserved keeps within the segment and a batch, and goes
/// when the segment is sealed.
#[test]
fn reserved_space_is_part_of_the_length_and_goes_with_the_seal() {
    const SEGMENT: u64 = 1 << 20;
    const BATCH: u64 = 60_000 + 304;
    for preallocate_segments in [false, true] {
        let dir = fresh_dir(&format!("reserved_{preallocate_segments}"));
        let running = builder(&dir, 1).open().expect("a fresh directory opens");
        let client = running.client();
        let config = TopicConfig { preallocate_segments, ..small_segments() };
        create_topic(&client, config);
        let logs = partition_dir(&dir, P);
        let (mut last, mut lengths) = (String::new(), Vec::new());
        for tag in 0..60 {
            client.append_blocking(P, batch(tag, 1, 60_000), Ack::Written).expect("it fits");
            let all = names(&logs, ".log");
            let (active, sealed) = all.split_last().expect("there is a segment");
            let seen = fs::metadata(logs.join(active)).expect("it is there");
            assert!(seen.blocks() * 512 <= SEGMENT + BATCH + 4096, "{} blocks", seen.blocks());
            if *active != last {
                (last, lengths) = (active.clone(), Vec::new());
            }
            if lengths.last() != Some(&seen.len()) {
                lengths.push(seen.len());
            }
            assert!(lengths.len() <= 6, "a few steps, not one an append: {lengths:?}");
            assert!(!preallocate_segments || lengths.len() <= 2, "{lengths:?}");
            for name in sealed {
                let seen = fs::metadata(logs.join(name)).expect("it is there");
                assert_eq!(seen.len() % BATCH, 0, "cut to its batches: {}", seen.len());
                assert!(seen.blocks() * 512 <= seen.len() + 8192, "{} blocks", seen.blocks());
            }
        }
        running.close_blocking().expect("nothing is wrong");
    }
}
