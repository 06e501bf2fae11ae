//! Data directories that are missing, taken, or not usable: a clear error that names them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use corelog::error::{LockError, OpenError};
use corelog::{Ack, TopicConfig};

use crate::support::{P, batch, builder, fresh_dir, reopened, with_topic};

fn refused(dir: &Path) -> OpenError {
    let error = builder(dir, 1).open().map(drop).expect_err("it must be refused");
    let text = error.to_string();
    assert!(text.contains(&dir.display().to_string()), "the directory is named: {text}");
    error
}

#[test]
fn a_missing_directory_is_created_with_its_parents() {
    let dir = fresh_dir("missing").join("a/b/c");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    client.append_blocking(P, batch(1, 1, 1), Ack::Durable).expect("it fits");
    engine.close_blocking().expect("nothing is wrong");
    reopened(&dir, 1).0.close_blocking().expect("nothing is wrong");
}

#[test]
fn a_file_in_the_place_of_the_directory_is_named() {
    let dir = fresh_dir("a_file");
    fs::write(&dir, b"not a directory").expect("the target is writable");
    let text = refused(&dir).to_string();
    assert!(text.contains("Not a directory"), "{text}");
    let text = refused(&dir.join("below")).to_string();
    assert!(text.contains("Not a directory"), "{text}");
    fs::remove_file(&dir).expect("it is there");
}

/// A read-only mount of a directory, until it is dropped.
struct ReadOnly {
    dir: PathBuf,
}

impl ReadOnly {
    fn mount(dir: PathBuf) -> ReadOnly {
        let mount = |arguments: &[&str]| {
            let status = Command::new("mount").args(arguments).arg(&dir).status();
            let mounted = status.is_ok_and(|status| status.success());
            assert!(mounted, "this test needs root, to mount {} read-only", dir.display());
        };
        let path = dir.to_str().expect("the target directory is UTF-8");
        mount(&["--bind", path]);
        let mounted = ReadOnly { dir: dir.clone() };
        mount(&["-o", "remount,bind,ro"]);
        mounted
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.dir).status();
    }
}

#[test]
fn a_read_only_directory_is_refused_and_opens_when_it_is_writable_again() {
    let dir = fresh_dir("read_only");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    client.append_blocking(P, batch(1, 1, 1), Ack::Durable).expect("it fits");
    engine.close_blocking().expect("nothing is wrong");
    let mounted = ReadOnly::mount(dir.clone());
    let text = refused(&dir).to_string();
    assert!(text.contains("Read-only file system"), "{text}");
    drop(mounted);
    reopened(&dir, 1).0.close_blocking().expect("nothing is wrong");
}

#[test]
fn one_directory_has_one_engine_and_two_directories_have_two() {
    let (one, two) = (fresh_dir("engine_one"), fresh_dir("engine_two"));
    let (first, first_client) = with_topic(&one, 1, TopicConfig::default());
    let (second, second_client) = with_topic(&two, 1, TopicConfig::default());
    for tag in 0..10 {
        first_client.append_blocking(P, batch(tag, 1, 1), Ack::Written).expect("it fits");
        second_client.append_blocking(P, batch(tag, 1, 1), Ack::Written).expect("it fits");
    }
    let here = std::process::id();
    let error = refused(&one);
    assert!(
        matches!(&error, OpenError::Lock(LockError::Held { pid: Some(pid), .. }) if *pid == here),
        "{error}"
    );
    // Without the lock file too, and under another name of the directory.
    fs::remove_file(one.join("LOCK")).expect("it is there");
    assert!(matches!(refused(&one), OpenError::Lock(LockError::Held { .. })));
    let link = fresh_dir("engine_link");
    std::os::unix::fs::symlink(&one, &link).expect("the target is writable");
    assert!(matches!(refused(&link), OpenError::Lock(LockError::Held { .. })));
    fs::remove_file(&link).expect("it is there");
    first.close_blocking().expect("nothing is wrong");
    reopened(&one, 1).0.close_blocking().expect("nothing is wrong");
    second.close_blocking().expect("nothing is wrong");
}

/// What fails after the shards have started ends them again: the next attempt finds all free.
#[test]
fn a_failed_opening_leaves_nothing_running() {
    let dir = fresh_dir("failed_opening");
    fs::create_dir_all(dir.join("catalog.redb")).expect("the target is writable");
    let error = builder(&dir, 2).open().map(drop).expect_err("a directory is no catalog");
    assert!(matches!(error, OpenError::Catalog(_)), "{error}");
    assert!(error.to_string().contains("catalog.redb"), "{error}");
    fs::remove_dir(dir.join("catalog.redb")).expect("it is empty");
    fs::write(dir.join("clock"), [0xEE; 8192]).expect("it can be written");
    let error = builder(&dir, 2).open().map(drop).expect_err("this is no clock record");
    assert!(matches!(error, OpenError::Clock(_)), "{error}");
    fs::remove_file(dir.join("clock")).expect("it is there");
    let (engine, _client) = with_topic(&dir, 2, TopicConfig::default());
    engine.close_blocking().expect("nothing is wrong");
}
