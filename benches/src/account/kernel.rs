//! The kernel's own counts: rusage, `/proc/self` and a block device's `stat`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

/// Sectors of `/sys/block/*/stat` have 512 bytes, whatever the device's own have.
const SECTOR_BYTES: u64 = 512;

/// All threads of the process, those that ended included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rusage {
    pub(super) user: Duration,
    pub(super) system: Duration,
    pub(super) switches_voluntary: u64,
    pub(super) switches_involuntary: u64,
    pub(super) faults_minor: u64,
    pub(super) faults_major: u64,
}

impl Rusage {
    pub(super) fn now() -> Option<Rusage> {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        let count = |value| u64::try_from(value).unwrap_or(0);
        let time = |time: nix::sys::time::TimeVal| {
            Duration::from_secs(count(time.tv_sec())) + Duration::from_micros(count(time.tv_usec()))
        };
        Some(Rusage {
            user: time(usage.user_time()),
            system: time(usage.system_time()),
            switches_voluntary: count(usage.voluntary_context_switches()),
            switches_involuntary: count(usage.involuntary_context_switches()),
            faults_minor: count(usage.minor_page_faults()),
            faults_major: count(usage.major_page_faults()),
        })
    }
}

/// `/proc/self/io`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Io {
    pub(super) read_calls: u64,
    pub(super) write_calls: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

impl Io {
    pub(super) fn now() -> Option<Io> {
        Io::parse(&fs::read_to_string("/proc/self/io").ok()?)
    }

    pub(super) fn parse(text: &str) -> Option<Io> {
        Some(Io {
            read_calls: number(text, "syscr")?,
            write_calls: number(text, "syscw")?,
            read_bytes: number(text, "read_bytes")?,
            written_bytes: number(text, "write_bytes")?,
        })
    }
}

/// A block device's `stat`, or the difference of two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Write requests that the device ended.
    pub(crate) writes: u64,
    /// Flushes of its cache.
    pub(crate) flushes: u64,
}

impl Device {
    pub(super) fn now(stat: &Path) -> Option<Device> {
        Device::parse(&fs::read_to_string(stat).ok()?)
    }

    /// Fields of Documentation/block/stat: 2 and 6 are sectors read and written, 4 write I/Os, 15
    /// flushes (Linux 5.5; a kernel without them is None here).
    pub(super) fn parse(text: &str) -> Option<Device> {
        let fields: Vec<u64> =
            text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Device {
            read_bytes: fields.get(2)?.checked_mul(SECTOR_BYTES)?,
            written_bytes: fields.get(6)?.checked_mul(SECTOR_BYTES)?,
            writes: *fields.get(4)?,
            flushes: *fields.get(15)?,
        })
    }

    pub(super) fn since(self, begin: Device) -> Device {
        Device {
            read_bytes: self.read_bytes.saturating_sub(begin.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(begin.written_bytes),
            writes: self.writes.saturating_sub(begin.writes),
            flushes: self.flushes.saturating_sub(begin.flushes),
        }
    }

    pub(super) fn and(self, other: Device) -> Device {
        Device {
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            written_bytes: self.written_bytes.saturating_add(other.written_bytes),
            writes: self.writes.saturating_add(other.writes),
            flushes: self.flushes.saturating_add(other.flushes),
        }
    }
}

/// Highest resident memory since it was last set back.
pub(super) fn peak_rss_bytes() -> Option<u64> {
    kib(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}

/// The machine's page cache.
pub(super) fn page_cache_bytes() -> Option<u64> {
    kib(&fs::read_to_string("/proc/meminfo").ok()?, "Cached")
}

/// The value of a line `name: 123 kB`, in bytes.
pub(super) fn kib(text: &str, name: &str) -> Option<u64> {
    number(text, name)?.checked_mul(1024)
}

/// The first number behind `name:` at the beginning of a line.
pub(super) fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key == name).then(|| value.split_whitespace().next()?.parse().ok())?
    })
}
