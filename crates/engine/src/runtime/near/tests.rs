//! On the file system of the target directory. Where that is none of those, nothing is near.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;

use corelog_io::IoOp;
use tempfile::TempDir;

use super::*;

fn dir() -> TempDir {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    fs::create_dir_all(&base).expect("it is writable");
    // The name without `..`, which the engine's paths do not have either.
    tempfile::tempdir_in(base.canonicalize().expect("it is there")).expect("a directory")
}

/// A directory with a file of five bytes in it.
fn with_file() -> Option<(TempDir, Near, PathBuf)> {
    let dir = dir();
    let file = dir.path().join("a");
    fs::write(&file, [1; 5]).expect("it is new");
    let Some(near) = Near::of(dir.path()) else {
        eprintln!("left out: {} is on another file system than ext4", dir.path().display());
        return None;
    };
    Some((dir, near, file))
}

const LOCKED: Open =
    Open { write: true, lock: true, create_new: false, dsync: false, short: false };

#[test]
fn a_file_that_is_known_is_opened_and_locked() {
    let Some((_dir, near, file)) = with_file() else { return };
    let opened = near.open(&file, LOCKED).expect("it is in memory");
    let (fd, len) = opened.expect("nothing is wrong with it");
    assert_eq!(len, 5);
    let flags = rustix::fs::fcntl_getfl(&fd).expect("it is open");
    assert!(flags.contains(OFlags::DIRECT | OFlags::RDWR) && !flags.contains(OFlags::NONBLOCK));
    let second = near.open(&file, LOCKED).expect("it is in memory").expect_err("it is locked");
    assert_eq!(second.op, IoOp::Lock);
    drop(fd);
    near.open(&file, LOCKED).expect("it is in memory").expect("it is free again");
}

#[test]
fn everything_else_is_left_to_a_file_thread() {
    let Some((dir, near, file)) = with_file() else { return };
    let new = Open { create_new: true, ..LOCKED };
    assert!(near.open(&dir.path().join("b"), new).is_none() && !dir.path().join("b").exists());
    assert!(near.open(&dir.path().join("absent"), LOCKED).is_none());
    let link = dir.path().join("link");
    symlink(&file, &link).expect("it is new");
    assert!(near.open(&link, LOCKED).is_none(), "a link to a file");
    // /proc is a file system of its own, and in memory.
    let out = dir.path().join("out");
    symlink("/proc/self", &out).expect("it is new");
    let read = Open { write: false, lock: false, ..LOCKED };
    assert!(near.open(&out.join("status"), read).is_none(), "another file system");
    assert!(near.open(Path::new("/etc/passwd"), read).is_none(), "elsewhere");
    assert!(Near::of(Path::new("/proc/self")).is_none());
    assert!(Near::of(&file).is_none(), "no directory");
}

#[test]
fn a_file_without_a_name_and_one_of_another_file_system_are_closed_elsewhere() {
    let Some((_dir, near, file)) = with_file() else { return };
    let open = File::open(&file).expect("it is there");
    assert!(near.can_close(open.as_fd()));
    fs::remove_file(&file).expect("it is there");
    assert!(!near.can_close(open.as_fd()), "its blocks go with the descriptor");
    let other = File::open("/proc/self/status").expect("it is there");
    assert!(!near.can_close(other.as_fd()));
}
