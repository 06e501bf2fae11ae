//! Cases of [`Disk`]: names, directories, links.

use std::ffi::OsString;

use super::*;
use std::io::ErrorKind::{AlreadyExists, NotFound};

pub(super) async fn open_says_what_is_missing_or_there<P: Platform>(case: Case<P>) {
    let (here, gone) = (case.path("a"), case.path("gone"));
    case.file("a", 1, 1).await.close().await.expect("close");
    assert_error(case.disk().open(&gone, READ).await, &gone, NotFound);
    assert_error(case.disk().open(&gone, WRITE).await, &gone, NotFound);
    assert_error(case.disk().open(&here, CREATE).await, &here, AlreadyExists);
    let file = case.open("a", READ).await;
    assert_eq!(file.read_at(0, BLOCK).await.expect("read").as_ref(), [1; BLOCK], "left alone");
    file.close().await.expect("close");
    let nowhere = case.path("no/such/directory");
    assert_error(case.disk().open(&nowhere, CREATE).await, &nowhere, NotFound);
    let missing = case.disk().open(&gone, READ).await.err().expect("still missing");
    assert!(missing.is_not_found() && !missing.is_full());
}

pub(super) async fn directories_are_made_once<P: Platform>(case: Case<P>) {
    let dir = case.path("d");
    case.disk().create_dir(&dir).await.expect("create");
    case.file("d/a", 1, 1).await.close().await.expect("close");
    case.disk().create_dir(&dir).await.expect("create what is there");
    assert_eq!(case.disk().list(&dir).await.expect("list"), [(OsString::from("a"), false)]);
    let deep = case.path("no/such");
    assert_error(case.disk().create_dir(&deep).await, &deep, NotFound);
    let file = case.path("d/a");
    assert!(case.disk().create_dir(&file).await.is_err(), "a file is in the way");
}

pub(super) async fn only_empty_directories_are_removed<P: Platform>(case: Case<P>) {
    let dir = case.path("d");
    assert_error(case.disk().remove_dir(&dir).await, &dir, NotFound);
    case.disk().create_dir(&dir).await.expect("create");
    case.file("d/a", 1, 1).await.close().await.expect("close");
    let file = case.path("d/a");
    assert!(case.disk().remove_dir(&dir).await.is_err(), "something is in it");
    assert!(case.disk().remove_dir(&file).await.is_err(), "it is a file");
    assert_eq!(case.disk().list(&dir).await.expect("list"), [(OsString::from("a"), false)]);
    case.disk().remove(&file).await.expect("remove");
    case.disk().remove_dir(&dir).await.expect("it is empty");
    assert_error(case.disk().list(&dir).await, &dir, NotFound);
    case.disk().create_dir(&dir).await.expect("create it again");
}

pub(super) async fn list_tells_names_and_kinds<P: Platform>(case: Case<P>) {
    let dir = case.path("d");
    assert_error(case.disk().list(&dir).await, &dir, NotFound);
    case.disk().create_dir(&dir).await.expect("create");
    assert!(case.disk().list(&dir).await.expect("list").is_empty());
    let mut expected = Vec::new();
    for i in 0..40 {
        let name = format!("{i:020}.log");
        case.create(&format!("d/{name}")).await.close().await.expect("close");
        expected.push((OsString::from(name), false));
    }
    for name in ["sub", "with space and ü"] {
        case.disk().create_dir(&dir.join(name)).await.expect("create");
        expected.push((OsString::from(name), true));
    }
    let mut listed = case.disk().list(&dir).await.expect("list");
    listed.sort();
    assert_eq!(listed, expected);
    let file = dir.join("00000000000000000000.log");
    assert!(case.disk().list(&file).await.is_err(), "a file has no list");
}

pub(super) async fn rename_replaces_a_file<P: Platform>(case: Case<P>) {
    let (from, to) = (case.path("new"), case.path("old"));
    let old = case.file("old", 1, 1).await;
    case.file("new", 2, 2).await.close().await.expect("close");
    case.disk().rename(&from, &to).await.expect("rename");
    assert_error(case.disk().open(&from, READ).await, &from, NotFound);
    let new = case.open("old", READ).await;
    assert_eq!(new.read_at(0, 4 * BLOCK).await.expect("read").as_ref(), [2; 2 * BLOCK]);
    new.close().await.expect("close");
    let replaced = old.read_at(0, 4 * BLOCK).await.expect("read");
    assert_eq!(replaced.as_ref(), [1; BLOCK], "open since before it was replaced");
    old.close().await.expect("close");
    assert_error(case.disk().rename(&from, &to).await, &from, NotFound);
}

pub(super) async fn rename_moves_a_directory<P: Platform>(case: Case<P>) {
    for dir in ["d", "trash"] {
        case.disk().create_dir(&case.path(dir)).await.expect("create");
    }
    let open = case.file("d/a", 1, 1).await;
    let (from, to) = (case.path("d"), case.path("trash/d-1"));
    case.disk().rename(&from, &to).await.expect("rename");
    assert_error(case.disk().list(&from).await, &from, NotFound);
    assert_eq!(case.disk().list(&to).await.expect("list"), [(OsString::from("a"), false)]);
    // A handle follows its file, not its path.
    open.write_at(case.filled(1, 2), 0).await.expect("write");
    let moved = case.open("trash/d-1/a", READ).await;
    assert_eq!(moved.read_at(0, BLOCK).await.expect("read").as_ref(), [2; BLOCK]);
    moved.close().await.expect("close");
    assert_eq!(open.len().await.expect("length"), BLOCK as u64);
    open.close().await.expect("close");
}

pub(super) async fn a_removed_file_stays_readable<P: Platform>(case: Case<P>) {
    let path = case.path("a");
    let old = case.file("a", 1, 1).await;
    case.disk().remove(&path).await.expect("remove");
    assert_error(case.disk().open(&path, READ).await, &path, NotFound);
    let new = case.file("a", 2, 2).await;
    assert_eq!(old.read_at(0, 4 * BLOCK).await.expect("read").as_ref(), [1; BLOCK]);
    assert_eq!(old.len().await.expect("length"), BLOCK as u64, "of the file, not of the path");
    old.close().await.expect("close");
    assert_eq!(new.len().await.expect("length"), 2 * BLOCK as u64);
    new.close().await.expect("close");
    let gone = case.path("gone");
    assert_error(case.disk().remove(&gone).await, &gone, NotFound);
    let dir = case.path("d");
    case.disk().create_dir(&dir).await.expect("create");
    assert!(case.disk().remove(&dir).await.is_err(), "remove is for files");
}

pub(super) async fn sync_dir_wants_a_directory<P: Platform>(case: Case<P>) {
    case.disk().sync_dir(&case.dir).await.expect("an empty directory");
    case.create("a").await.close().await.expect("close");
    case.disk().sync_dir(&case.dir).await.expect("after a creation");
    case.disk().remove(&case.path("a")).await.expect("remove");
    case.disk().sync_dir(&case.dir).await.expect("after a removal");
    let gone = case.path("gone");
    assert_error(case.disk().sync_dir(&gone).await, &gone, NotFound);
}

pub(super) async fn links_are_not_followed<P: Platform>(case: Case<P>, make_link: MakeLink<'_>) {
    case.file("a", 1, 1).await.close().await.expect("close");
    let link = case.path("link");
    make_link(&case.path("a"), &link).expect("make a symbolic link");
    for how in [READ, WRITE, CREATE] {
        let opened = case.disk().open(&link, how).await;
        assert!(opened.is_err(), "{how:?} went through a symbolic link");
    }
    let dangling = case.path("dangling");
    make_link(&case.path("nowhere"), &dangling).expect("make a symbolic link");
    assert!(case.disk().open(&dangling, CREATE).await.is_err(), "created through a link");
    assert!(case.disk().open(&case.path("nowhere"), READ).await.is_err(), "nothing was created");
    // Removing it removes the link, and listing it does not take it for a file.
    let listed = case.disk().list(&case.dir).await.expect("list");
    assert!(listed.contains(&(OsString::from("link"), true)));
    case.disk().remove(&link).await.expect("remove the link");
    case.open("a", READ).await.close().await.expect("the target is untouched");
}
