//! What a log cost its process and the disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::fs::{major, minor};

/// Counters at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    cpu_us: i64,
    /// Of the whole disk; None where it is not known.
    device_written: Option<u64>,
}

/// What was used between two moments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) cpu_s: f64,
    /// Bytes that the disk took, by whomever; None where it is not known.
    pub(crate) device_written: Option<u64>,
}

impl Counters {
    /// Of this process, and of the disk below `dir`.
    pub(crate) fn now(dir: &Path) -> Counters {
        let usage = getrusage(UsageWho::RUSAGE_SELF);
        let cpu_us = usage.map_or(0, |usage| {
            usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
        });
        Counters { cpu_us, device_written: device_written(dir) }
    }

    pub(crate) fn until(self, later: Counters) -> Used {
        let device = later.device_written.zip(self.device_written);
        Used {
            cpu_s: (later.cpu_us - self.cpu_us) as f64 / 1e6,
            device_written: device.map(|(later, earlier)| later.saturating_sub(earlier)),
        }
    }
}

/// The tenth field of the disk's `stat`, in sectors of 512 bytes.
fn device_written(dir: &Path) -> Option<u64> {
    let device = fs::metadata(dir).ok()?.dev();
    let path = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
    let text = fs::read_to_string(path).ok()?;
    let sectors: u64 = text.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * 512)
}

/// The most memory that this process had, in bytes: `VmHWM`.
pub(crate) fn peak_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// Bytes of the blocks that the files below `dir` have; holes are none.
pub(crate) fn allocated(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let one = |entry: fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => allocated(&entry.path()),
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(one).sum()
}
