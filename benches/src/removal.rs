//! Removing what a run wrote, many files at a time.
//!
//! A file system that is mounted with `discard` may wait for the device at every file: a thousand
//! partitions, one file after the other, took 12 s on a virtual disk, and a run that was stopped took
//! as long to end. The waits are the device's, so they are done side by side.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Files that are removed at a time.
const AT_A_TIME: usize = 16;

/// Removes a directory and everything below it; links are removed, not followed.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    files_below(path, &mut files);
    let next = AtomicUsize::new(0);
    let remove = || {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            // What cannot be removed, the end meets again, and tells.
            let _ = fs::remove_file(file);
        }
    };
    thread::scope(|scope| {
        for _ in 1..files.len().min(AT_A_TIME) {
            scope.spawn(remove);
        }
        remove();
    });
    fs::remove_dir_all(path)
}

/// What can be seen of them: the end meets the rest again.
fn files_below(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        // Of the entry itself, not of what a link leads to.
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path(), files),
            _ => files.push(entry.path()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::tests::test_dir;

    #[test]
    fn everything_below_goes_and_nothing_that_a_link_leads_to() {
        let place = test_dir("removal");
        let (ours, other) = (place.path().join("round-0"), place.path().join("other"));
        for number in 0..50 {
            let dir = ours.join(format!("streams/{number}"));
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("log"), "x").unwrap();
        }
        fs::create_dir(&other).unwrap();
        fs::write(other.join("precious"), "x").unwrap();
        std::os::unix::fs::symlink(&other, ours.join("streams/link")).unwrap();
        remove_tree(&ours).unwrap();
        assert!(!ours.exists());
        assert!(other.join("precious").exists());
        assert_eq!(remove_tree(&ours).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_dir_all(other).unwrap();
    }
}
