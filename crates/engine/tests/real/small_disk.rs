//! A small ext4 of a test's own, in a file, mounted through a loop device.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mount that ends with this.
pub(crate) struct Mounted {
    point: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a test that failed may have files open.
        let _ = Command::new("umount").arg("-l").arg(&self.point).status();
    }
}

fn run(command: &mut Command) {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "this test needs root and loop devices: {command:?}: {text}");
}

/// An ext4 of `mib` MiB below `dir`: where it is mounted, and its end.
pub(crate) fn ext4(dir: &Path, mib: u64) -> (PathBuf, Mounted) {
    let (image, point) = (dir.join("image"), dir.join("disk"));
    fs::create_dir_all(&point).expect("the target is writable");
    let file = File::create(&image).expect("the image can be created");
    file.set_len(mib << 20).expect("it is sparse");
    run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image));
    run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&point));
    let mounted = Mounted { point: point.clone() };
    (point, mounted)
}

/// Fills the file system of `path` with a file of that name, to its last block.
pub(crate) fn fill(path: &Path) {
    let mut file = File::create(path).expect("the file system has an inode left");
    for chunk in [1 << 20, 4096] {
        let bytes = vec![1; chunk];
        while file.write_all(&bytes).is_ok() {}
    }
    // What is on its way may find no space either.
    let _ = file.sync_all();
}

/// Makes `file` immutable, or mutable again: the kernel refuses writes to it also through handles
/// that are open.
pub(crate) fn refuse_writes(file: &Path, refuse: bool) {
    run(Command::new("chattr").arg(if refuse { "+i" } else { "-i" }).arg(file));
}
