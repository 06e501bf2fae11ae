//! The disk itself: what no rule is about passes through, and what one is about is answered so.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use corelog_crash::hostile::{Answer, Kind, Op, Rule, When};

use crate::support::mounted;

const BLOCK: usize = 4096;

/// Memory of whole blocks that O_DIRECT takes: the bytes, and where the blocks begin.
fn blocks(count: usize, byte: u8) -> (Vec<u8>, usize) {
    let memory = vec![byte; (count + 1) * BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    (memory, start)
}

fn direct(path: &Path) -> File {
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).custom_flags(libc::O_DIRECT);
    how.open(path).expect("O_DIRECT is accepted")
}

#[test]
fn what_no_rule_is_about_passes_through() {
    let mounted = mounted();
    let (point, backing) = (&mounted.point, &mounted.backing);
    fs::create_dir_all(point.join("a/b")).expect("directories can be made");
    let path = point.join("a/b/0.log");
    let file = direct(&path);
    let (memory, start) = blocks(3, 7);
    file.write_all_at(&memory[start..start + 3 * BLOCK], BLOCK as u64).expect("whole blocks");
    file.set_len(3 * BLOCK as u64).expect("it can be cut");
    file.sync_data().expect("it can be synced");
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 5 * BLOCK as u64)
        .expect("space can be reserved");
    let stored = fs::read(backing.join("a/b/0.log")).expect("it is there");
    assert_eq!(stored.len(), 5 * BLOCK);
    assert!(stored[BLOCK..3 * BLOCK].iter().all(|byte| *byte == 7));
    assert!(stored[..BLOCK].iter().chain(&stored[3 * BLOCK..]).all(|byte| *byte == 0));
    assert_eq!(file.metadata().expect("it has a length").len(), 5 * BLOCK as u64);

    fs::rename(point.join("a"), point.join("c")).expect("directories can be renamed");
    fs::write(point.join("c/b/name"), b"below the new name").expect("it is there");
    fs::rename(point.join("c/b/name"), point.join("c/b/0.log")).expect("it replaces");
    assert_eq!(fs::read(backing.join("c/b/0.log")).expect("it is there"), b"below the new name");
    let (mut memory, start) = blocks(1, 0);
    file.read_exact_at(&mut memory[start..start + BLOCK], BLOCK as u64).expect("open, if nameless");
    assert!(memory[start..start + BLOCK].iter().all(|byte| *byte == 7));
    let names: Vec<_> = fs::read_dir(point.join("c/b")).expect("a directory").collect();
    assert_eq!(names.len(), 1, "{names:?}");
    fs::remove_dir_all(point.join("c")).expect("it can be removed");
    assert_eq!(fs::read_dir(backing).expect("a directory").count(), 0);
}

/// One try of each operation, on files that `prepare` has made.
fn attempt(op: Op, point: &Path) -> io::Result<()> {
    let log = point.join("0.log");
    let file = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
    match op {
        Op::Lookup => fs::metadata(point.join("1.log")).map(drop),
        Op::Open => file(&log).map(drop),
        Op::Create => File::create_new(point.join("new.log")).map(drop),
        // One call each: the loops of `read_exact` and the like go on after EINTR.
        Op::Read => file(&log)?.read_at(&mut [0; BLOCK], 0).map(drop),
        Op::Write => file(&log)?.write_at(&[1; BLOCK], 0).map(drop),
        Op::Fsync => rustix::fs::fsync(file(&log)?).map_err(Into::into),
        Op::Fdatasync => rustix::fs::fdatasync(file(&log)?).map_err(Into::into),
        Op::SyncDir => rustix::fs::fsync(File::open(point)?).map_err(Into::into),
        Op::Allocate => {
            let mode = rustix::fs::FallocateFlags::empty();
            rustix::fs::fallocate(file(&log)?, mode, 0, 1 << 16).map_err(Into::into)
        }
        Op::Truncate => rustix::fs::ftruncate(file(&log)?, 5).map_err(Into::into),
        Op::Rename => fs::rename(&log, point.join("renamed.log")),
        Op::Unlink => fs::remove_file(&log),
        Op::MakeDir => fs::create_dir(point.join("dir")),
        Op::List => fs::read_dir(point)?.collect::<io::Result<Vec<_>>>().map(drop),
        Op::StatFs => rustix::fs::statfs(point).map(drop).map_err(Into::into),
        Op::Seek => {
            let seek = rustix::fs::seek(file(&log)?, rustix::fs::SeekFrom::Data(0));
            seek.map(drop).map_err(Into::into)
        }
    }
}

#[test]
fn each_operation_is_answered_as_its_rule_says_and_works_again() {
    let errors = [
        libc::EIO,
        libc::ENOSPC,
        libc::EDQUOT,
        libc::EROFS,
        libc::EMFILE,
        libc::EINTR,
        libc::EAGAIN,
    ];
    let ops = [
        Op::Lookup,
        Op::Open,
        Op::Create,
        Op::Read,
        Op::Write,
        Op::Fsync,
        Op::Fdatasync,
        Op::SyncDir,
        Op::Allocate,
        Op::Truncate,
        Op::List,
        Op::StatFs,
        Op::Seek,
        Op::MakeDir,
        // The last ones, as they take the file away.
        Op::Rename,
        Op::Unlink,
    ];
    let mounted = mounted();
    for name in ["0.log", "1.log"] {
        fs::write(mounted.backing.join(name), [3; 2 * BLOCK]).expect("it is writable");
    }
    for op in ops {
        if op == Op::Unlink {
            fs::rename(mounted.point.join("renamed.log"), mounted.point.join("0.log"))
                .expect("it was renamed");
        }
        // Whoever opens or names a file through the standard library goes on after EINTR for ever.
        let repeats = matches!(op, Op::Lookup | Op::Open | Op::Create | Op::List);
        for errno in errors.into_iter().filter(|errno| *errno != libc::EINTR || !repeats) {
            mounted.disk.begin(&[Rule::any(op, Answer::Errno(errno))]);
            let answered = attempt(op, &mounted.point).expect_err("there is a rule");
            mounted.disk.end();
            assert_eq!(answered.raw_os_error(), Some(errno), "{op:?}: {answered}");
        }
        let hits = mounted.disk.hits();
        let own: Vec<_> = hits.iter().filter(|(rule, _)| rule.op == op).collect();
        assert!(own.len() >= errors.len() - 1 && own.iter().all(|(_, hits)| *hits > 0), "{own:?}");
        attempt(op, &mounted.point).unwrap_or_else(|error| panic!("{op:?}: {error}"));
    }
}

#[test]
fn transfers_are_cut_short_by_blocks_and_inside_of_them() {
    let mounted = mounted();
    let file = direct(&mounted.point.join("0.log"));
    let (mut memory, start) = blocks(8, 9);
    let bytes = &mut memory[start..start + 8 * BLOCK];
    for (answer, want) in [(Answer::Short, 4 * BLOCK), (Answer::Ragged, 4 * BLOCK + 512)] {
        mounted.disk.begin(&[
            Rule::new(Op::Write, Kind::Log, answer).when(When::Nth(0)),
            Rule::new(Op::Read, Kind::Log, answer).when(When::Nth(0)),
        ]);
        assert_eq!(file.write_at(bytes, 0).expect("a part"), want);
        assert_eq!(file.write_at(bytes, 0).expect("all of it"), 8 * BLOCK);
        assert_eq!(file.read_at(bytes, 0).expect("a part"), want);
        assert_eq!(file.read_at(bytes, 0).expect("all of it"), 8 * BLOCK);
        mounted.disk.end();
    }
}

#[test]
fn what_is_held_or_slow_holds_up_nothing_else_and_ends_with_the_trouble() {
    let mounted = mounted();
    let (held, free) = (direct(&mounted.point.join("0.log")), direct(&mounted.point.join("1.log")));
    mounted.disk.begin(&[
        Rule::new(Op::Fdatasync, Kind::Log, Answer::Held { then: None }).when(When::Nth(0)),
        Rule::new(Op::Fdatasync, Kind::Log, Answer::Held { then: Some(libc::EIO) })
            .when(When::Nth(0)),
        Rule::new(Op::Fdatasync, Kind::Log, Answer::Slow(Duration::from_secs(3600)))
            .when(When::Nth(0)),
    ]);
    std::thread::scope(|scope| {
        let mut waiting = Vec::new();
        // One after the other, each on a handle of its own: who syncs an inode locks it.
        for number in 0..3 {
            let path = mounted.point.join(format!("{number}.held.log"));
            waiting.push(scope.spawn(move || direct(&path).sync_data()));
            let patience = Instant::now() + Duration::from_secs(20);
            while mounted.disk.hits().iter().map(|(_, hits)| hits).sum::<u64>() <= number {
                assert!(Instant::now() < patience, "it never arrived");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(mounted.disk.held(), 2);
        held.sync_data().expect("no rule is left for it");
        free.set_len(BLOCK as u64).expect("nothing is in its way");
        assert!(waiting.iter().all(|one| !one.is_finished()));
        mounted.disk.end();
        let ended: Vec<_> = waiting.into_iter().map(|one| one.join().expect("no panic")).collect();
        assert!(ended[0].is_ok() && ended[2].is_ok(), "{ended:?}");
        let error = ended[1].as_ref().expect_err("it was to fail");
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    });
    assert_eq!(mounted.disk.held(), 0);
}
