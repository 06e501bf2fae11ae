//! Small file systems of a test's own, in files, mounted through loop devices. Needs root.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Mounts, and the loop device below them, that end with this.
pub(crate) struct Mounted {
    /// The first was mounted first.
    points: Vec<PathBuf>,
    device: Option<String>,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a test that failed may have files open.
        for point in self.points.iter().rev() {
            let _ = Command::new("umount").arg("-l").arg(point).status();
        }
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").arg("-d").arg(device).status();
        }
    }
}

/// Runs a program to its end and gives what it printed.
fn run(command: &mut Command) -> String {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "this test needs root and loop devices: {command:?}: {text}");
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}

/// An ext4 of `mib` MiB below `dir`: where it is mounted, and its end.
pub(crate) fn ext4(dir: &Path, mib: u64) -> (PathBuf, Mounted) {
    let (point, mounted) = on_sectors(dir, "ext4", &["-m", "0"], mib, 512);
    (point, mounted)
}

/// A file system of `kind` and `mib` MiB below `dir`, on a device with sectors of `sector` bytes:
/// where it is mounted, and its end. `options` are for its making.
pub(crate) fn on_sectors(
    dir: &Path,
    kind: &str,
    options: &[&str],
    mib: u64,
    sector: u32,
) -> (PathBuf, Mounted) {
    let (image, point) = (dir.join("image"), dir.join("disk"));
    fs::create_dir_all(&point).expect("the target is writable");
    let file = File::create(&image).expect("the image can be created");
    file.set_len(mib << 20).expect("it is sparse");
    let size = sector.to_string();
    let mut losetup = Command::new("losetup");
    let device = run(losetup.args(["--find", "--show", "--sector-size", &size]).arg(&image));
    let mut mounted = Mounted { points: Vec::new(), device: Some(device.clone()) };
    run(Command::new(format!("mkfs.{kind}")).arg("-q").args(options).arg(&device));
    run(Command::new("mount").args(["-t", kind, &device]).arg(&point));
    mounted.points.push(point.clone());
    (point, mounted)
}

/// A tmpfs below `dir`: where it is mounted, and its end.
pub(crate) fn tmpfs(dir: &Path, mib: u64) -> (PathBuf, Mounted) {
    let point = dir.join("disk");
    fs::create_dir_all(&point).expect("the target is writable");
    let options = format!("size={mib}m");
    run(Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&point));
    (point.clone(), Mounted { points: vec![point], device: None })
}

/// An overlay on an ext4 below `dir`: where it is mounted, and the end of both.
pub(crate) fn overlay(dir: &Path, mib: u64) -> (PathBuf, Mounted) {
    let (below, mut mounted) = ext4(dir, mib);
    let point = dir.join("overlay");
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| below.join(name));
    for part in [&lower, &upper, &work, &point] {
        fs::create_dir_all(part).expect("it is writable");
    }
    let [lower, upper, work] = [&lower, &upper, &work].map(|path| path.display());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    run(Command::new("mount").args(["-t", "overlay", "-o", &options, "overlay"]).arg(&point));
    mounted.points.push(point.clone());
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
