//! File systems of their own on loop devices: full to the last block, and lost while in use.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use corelog_crash::history::Crash;
use corelog_crash::hostile::read_all;
use rustix::mount::UnmountFlags;
use tempfile::TempDir;

use crate::support::{Running, builder, temp_dir, unhurt};

/// A mounted file system in a file. Unmounted when dropped.
struct Small {
    dir: TempDir,
}

fn run(command: &mut Command) {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "this test needs root and loop devices: {command:?}: {text}");
}

impl Small {
    fn new(kind: &str, mib: u64) -> Small {
        let small = Small { dir: temp_dir() };
        fs::create_dir(small.point()).expect("the directory is new");
        let image = File::create(small.image()).expect("it is writable");
        image.set_len(mib << 20).expect("it is sparse");
        run(Command::new(format!("mkfs.{kind}")).arg("-q").arg(small.image()));
        small.mount();
        small
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn point(&self) -> PathBuf {
        self.dir.path().join("point")
    }

    /// Waits for files that the kernel has not closed yet.
    fn unmount(&self) {
        let patience = Instant::now() + Duration::from_secs(20);
        while let Err(error) = rustix::mount::unmount(self.point(), UnmountFlags::empty()) {
            assert!(Instant::now() < patience, "{error}: {:?}", self.open_files());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Files on it that this process has open.
    fn open_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir("/proc/self/fd").expect("there is /proc");
        let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links.filter(|path| path.starts_with(self.point())).collect()
    }

    fn mount(&self) {
        run(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(self.point()));
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: a test that failed may have files open.
        let _ = rustix::mount::unmount(self.point(), UnmountFlags::DETACH);
    }
}

/// Takes all space there is, to the last block.
fn fill(path: &Path) {
    let file = File::create(path).expect("the file system has an inode left");
    let (mut end, mut step) = (0, 1 << 30);
    while step >= 4096 {
        let mode = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(&file, mode, end, step) {
            Ok(()) => end += step,
            Err(_) => step /= 2,
        }
    }
}

fn fills_up_and_gets_space_back(kind: &str, mib: u64) {
    let small = Small::new(kind, mib);
    let (data, filler) = (small.point().join("data"), small.point().join("filler"));
    let running = Running::start(&data, 3);
    let start = running.counts();
    let outcome = running.wait(&start, |_, new| unhurt(new, 4)).and_then(|()| {
        fill(&filler);
        let full = running.counts();
        running.wait(&full, |_, new| new.refused >= 3 && new.polls >= 3)?;
        fs::remove_file(&filler).expect("it is there");
        let space = running.counts();
        running.wait(&space, |_, new| unhurt(new, 4))
    });
    outcome.unwrap_or_else(|behind| panic!("{kind}: {behind}"));
    for (id, seen) in &running.seen {
        let (counts, messages) = (seen.counts(), seen.messages());
        assert_eq!((counts.poisoned, counts.poll_errors), (0, 0), "{kind}: {id}: {messages:?}");
        let place = format!("partitions/{}/", id.partition);
        assert!(messages.iter().all(|text| text.contains(&place)), "{messages:?}");
    }
    running.end(&data, true);
}

#[test]
fn a_full_ext4_refuses_and_goes_on_by_itself() {
    fills_up_and_gets_space_back("ext4", 64);
}

#[test]
fn a_full_xfs_refuses_and_goes_on_by_itself() {
    fills_up_and_gets_space_back("xfs", 320);
}

/// The kernel gives up the file system under the engine, as it does when a device is gone: from then
/// on nothing is read or written any more, and what was not synced is lost.
fn is_lost_and_comes_back(kind: &str, mib: u64) {
    let small = Small::new(kind, mib);
    let data = small.point().join("data");
    let running = Running::start(&data, 4);
    running.traffic.may_reopen(false);
    let start = running.counts();
    let outcome = running.wait(&start, |_, new| unhurt(new, 6)).and_then(|()| {
        // The kernel does not take the right to write away from files that are open.
        let mut remount = Command::new("mount");
        remount.args(["-o", "remount,ro"]).arg(small.point());
        assert!(!remount.output().expect("there is mount").status.success());
        let before = running.counts();
        running.wait(&before, |_, new| unhurt(new, 3))?;
        let lost = running.counts();
        run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(small.point()));
        running.wait(&lost, |_, new| new.poisoned >= 1)
    });
    outcome.unwrap_or_else(|behind| panic!("{kind}: {behind}"));
    let Running { engine, traffic, seen } = running;
    for (id, seen) in &seen {
        let place = format!("topics/{}/partitions/{}/", id.topic, id.partition);
        let messages = seen.messages();
        assert!(messages.iter().any(|text| text.contains(&place)), "{id}: {messages:?}");
    }
    let histories = traffic.stop();
    let closed = engine.close_blocking().expect_err("it cannot be closed in order");
    assert!(closed.to_string().contains("the next opening recovers"), "{closed}");
    let opened = builder(&data).open().err().expect("nothing can be read");
    assert!(opened.to_string().contains("error"), "{opened}");
    small.unmount();
    small.mount();
    let engine = builder(&data).open().unwrap_or_else(|error| panic!("{kind}: {error}"));
    for (id, mut history) in histories.unwrap_or_else(|broken| panic!("{kind}: {broken}")) {
        history.crashed(Crash::PowerCut);
        let read = read_all(&mut history, &engine.client(), id);
        read.unwrap_or_else(|broken| panic!("{kind}: {broken}"));
    }
    engine.close_blocking().expect("nothing is wrong any more");
}

#[test]
fn an_ext4_that_is_lost_ends_in_errors_and_comes_back_with_all_that_was_durable() {
    is_lost_and_comes_back("ext4", 128);
}

#[test]
fn an_xfs_that_is_lost_ends_in_errors_and_comes_back_with_all_that_was_durable() {
    is_lost_and_comes_back("xfs", 320);
}
