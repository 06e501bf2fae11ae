//! The block device under a file system, as far as sysfs tells.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, stat};
use serde_json::{Value, json};

use super::text::{chosen, read, read_number};

/// Sysfs counts device sizes in these, whatever the device's sectors are.
const SECTOR_BYTES: u64 = 512;

/// A block device. All None where the file system has none: in memory, over a network.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Device {
    pub(crate) name: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) firmware: Option<String>,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) scheduler: Option<String>,
    /// `write back` or `write through`.
    pub(crate) write_cache: Option<String>,
    pub(crate) fua: Option<u64>,
    pub(crate) rotational: Option<u64>,
    pub(crate) logical_block_bytes: Option<u64>,
    pub(crate) physical_block_bytes: Option<u64>,
    pub(crate) requests: Option<u64>,
    pub(crate) request_bytes_max: Option<u64>,
    pub(crate) read_ahead_bytes: Option<u64>,
    pub(crate) discard: Option<bool>,
    /// Largest write that is whole or not at all after a power loss.
    pub(crate) atomic_write_bytes_max: Option<u64>,
    /// What it stands on itself: the members of a RAID, the disk below an encrypted one.
    pub(crate) stands_on: Option<Vec<String>>,
    pub(crate) temperature_celsius: Option<f64>,
}

/// The directory in sysfs of the whole disk that holds `dir`. None for memory and networks.
pub(crate) fn device_dir(dir: &Path) -> Option<PathBuf> {
    let stat = rustix::fs::statx(
        CWD,
        dir,
        rustix::fs::AtFlags::empty(),
        rustix::fs::StatxFlags::BASIC_STATS,
    )
    .ok()?;
    let number = (stat.stx_dev_major, stat.stx_dev_minor);
    disk_of(number).or_else(|| {
        // btrfs and overlays have device numbers of no device: what is mounted has one.
        let source = super::mount::of(number, dir)?.source;
        let device = source.starts_with("/dev/").then(|| stat_device(&source)).flatten()?;
        disk_of(device)
    })
}

fn stat_device(path: &str) -> Option<(u32, u32)> {
    let number = stat(path).ok()?.st_rdev;
    Some((rustix::fs::major(number), rustix::fs::minor(number)))
}

/// A partition has its disk's queue and counters.
fn disk_of(number: (u32, u32)) -> Option<PathBuf> {
    let own = fs::canonicalize(format!("/sys/dev/block/{}:{}", number.0, number.1)).ok()?;
    let is_partition = own.join("partition").exists();
    if is_partition { own.parent().map(Path::to_owned) } else { Some(own) }
}

impl Device {
    /// Reads the directory of a disk in sysfs.
    pub(super) fn read(disk: &Path) -> Device {
        let queue = |name: &str| disk.join("queue").join(name);
        let number = |name: &str| read_number(queue(name));
        let kib = |name: &str| number(name)?.checked_mul(1024);
        Device {
            name: disk.file_name().and_then(|name| Some(name.to_str()?.to_owned())),
            model: read(disk.join("device/model")).map(|model| model.trim().to_owned()),
            firmware: read(disk.join("device/firmware_rev"))
                .or_else(|| read(disk.join("device/rev")))
                .map(|revision| revision.trim().to_owned()),
            size_bytes: read_number(disk.join("size"))
                .and_then(|sectors| sectors.checked_mul(SECTOR_BYTES)),
            scheduler: read(queue("scheduler")).map(|text| chosen(&text).unwrap_or(text)),
            write_cache: read(queue("write_cache")),
            fua: number("fua"),
            rotational: number("rotational"),
            logical_block_bytes: number("logical_block_size"),
            physical_block_bytes: number("physical_block_size"),
            requests: number("nr_requests"),
            request_bytes_max: kib("max_sectors_kb"),
            read_ahead_bytes: kib("read_ahead_kb"),
            discard: number("discard_max_bytes").map(|bytes| bytes > 0),
            atomic_write_bytes_max: number("atomic_write_unit_max_bytes"),
            stands_on: stands_on(&disk.join("slaves")),
            temperature_celsius: temperature(disk),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "model": self.model,
            "firmware": self.firmware,
            "size_bytes": self.size_bytes,
            "scheduler": self.scheduler,
            "write_cache": self.write_cache,
            "fua": self.fua,
            "rotational": self.rotational,
            "logical_block_bytes": self.logical_block_bytes,
            "physical_block_bytes": self.physical_block_bytes,
            "requests": self.requests,
            "request_bytes_max": self.request_bytes_max,
            "read_ahead_bytes": self.read_ahead_bytes,
            "discard": self.discard,
            "atomic_write_bytes_max": self.atomic_write_bytes_max,
            "stands_on": self.stands_on,
            "temperature_celsius": self.temperature_celsius,
        })
    }
}

fn stands_on(slaves: &Path) -> Option<Vec<String>> {
    let entries = fs::read_dir(slaves).ok()?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    Some(names)
}

/// The first sensor of the drive; NVMe drives and, with the module `drivetemp`, SATA ones have one.
fn temperature(disk: &Path) -> Option<f64> {
    let sensors = ["device", "device/hwmon"].map(|place| disk.join(place));
    let found = sensors.iter().filter_map(|place| fs::read_dir(place).ok()).flatten();
    found.filter_map(Result::ok).find_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.starts_with("hwmon").then_some(())?;
        Some(read_number(entry.path().join("temp1_input"))? as f64 / 1000.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_of_sysfs() {
        let place = crate::place::tests::test_dir("machine-device");
        let disk = place.path().join("nvme9n1");
        for (file, text) in [
            ("device/model", "Disk of tests   \n"),
            ("device/firmware_rev", "7.1 \n"),
            ("device/hwmon3/temp1_input", "41850\n"),
            ("size", "2000\n"),
            ("queue/scheduler", "[none] mq-deadline kyber\n"),
            ("queue/write_cache", "write back\n"),
            ("queue/fua", "1\n"),
            ("queue/max_sectors_kb", "128\n"),
            ("queue/discard_max_bytes", "0\n"),
            ("queue/nr_requests", "many\n"),
            ("slaves/sdb/x", ""),
            ("slaves/sda/x", ""),
        ] {
            let path = disk.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let expected = Device {
            name: Some("nvme9n1".into()),
            model: Some("Disk of tests".into()),
            firmware: Some("7.1".into()),
            size_bytes: Some(1_024_000),
            scheduler: Some("none".into()),
            write_cache: Some("write back".into()),
            fua: Some(1),
            request_bytes_max: Some(131_072),
            discard: Some(false),
            stands_on: Some(vec!["sda".into(), "sdb".into()]),
            temperature_celsius: Some(41.85),
            ..Device::default()
        };
        assert_eq!(Device::read(&disk), expected);
        fs::remove_dir_all(disk).unwrap();
        let unknown = Device { name: Some("gone".into()), ..Device::default() };
        assert_eq!(Device::read(&place.path().join("gone")), unknown);
    }
}
