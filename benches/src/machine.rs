//! The machine that was measured: a figure without it cannot be compared. Unknown is null.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde_json::{Value, json};

/// Facts about the CPU, kernel, file system and device under `dir`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    pub(crate) cpu_model: Option<String>,
    /// CPUs this process may use.
    pub(crate) cpus: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) kernel: Option<String>,
    pub(crate) transparent_huge_pages: Option<String>,
    pub(crate) cpu_governor: Option<String>,
    pub(crate) file_system: Option<Mount>,
    pub(crate) device: Option<Device>,
    /// What the file system asks of O_DIRECT, in bytes: positions and lengths.
    pub(crate) direct_io_align_bytes: Option<u64>,
}

/// The mount that holds a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `ext4`, `xfs`, ..
    pub(crate) kind: String,
    /// As the kernel lists them: the mount's, then the file system's.
    pub(crate) options: String,
    /// What is mounted, e.g. `/dev/vda`.
    pub(crate) source: String,
}

/// The block device below a file system, as far as sysfs tells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Device {
    pub(crate) name: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) scheduler: Option<String>,
    /// `write back` or `write through`.
    pub(crate) write_cache: Option<String>,
    pub(crate) fua: Option<u64>,
    pub(crate) rotational: Option<u64>,
    pub(crate) logical_block_bytes: Option<u64>,
    pub(crate) physical_block_bytes: Option<u64>,
    pub(crate) requests: Option<u64>,
}

impl Machine {
    /// Looks at the machine and at what is below `dir`.
    pub(crate) fn look(dir: &Path) -> Machine {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
        let stat = statx(CWD, dir, AtFlags::empty(), wanted).ok();
        let device_number = stat.map(|stat| (stat.stx_dev_major, stat.stx_dev_minor));
        Machine {
            cpu_model: read("/proc/cpuinfo").and_then(|text| field(&text, "model name")),
            cpus: thread::available_parallelism().ok().map(|cpus| cpus.get() as u64),
            memory_bytes: read("/proc/meminfo").and_then(|text| kib(&field(&text, "MemTotal")?)),
            kernel: read("/proc/sys/kernel/osrelease"),
            transparent_huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| chosen(&text)),
            cpu_governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            file_system: device_number.and_then(|number| {
                mount(&fs::read_to_string("/proc/self/mountinfo").ok()?, number, dir)
            }),
            device: device_number.and_then(device),
            direct_io_align_bytes: direct_io_align(dir),
        }
    }

    /// The facts as JSON; every key is there, unknown ones null.
    pub(crate) fn to_json(&self) -> Value {
        let mount = self.file_system.as_ref();
        let device = self.device.clone().unwrap_or_default();
        json!({
            "cpu_model": self.cpu_model,
            "cpus": self.cpus,
            "memory_bytes": self.memory_bytes,
            "kernel": self.kernel,
            "transparent_huge_pages": self.transparent_huge_pages,
            "cpu_governor": self.cpu_governor,
            "file_system": mount.map(|mount| &mount.kind),
            "mount_options": mount.map(|mount| &mount.options),
            "mount_source": mount.map(|mount| &mount.source),
            "direct_io_align_bytes": self.direct_io_align_bytes,
            "device": {
                "name": device.name,
                "model": device.model,
                "scheduler": device.scheduler,
                "write_cache": device.write_cache,
                "fua": device.fua,
                "rotational": device.rotational,
                "logical_block_bytes": device.logical_block_bytes,
                "physical_block_bytes": device.physical_block_bytes,
                "requests": device.requests,
            },
        })
    }

    /// The facts on one line, for people.
    pub(crate) fn line(&self) -> String {
        fn or_unknown<T: ToString>(fact: Option<T>) -> String {
            fact.map_or_else(|| "unknown".to_owned(), |fact| fact.to_string())
        }
        let mount = self.file_system.as_ref();
        let device = self.device.as_ref();
        let cpu_model = self.cpu_model.as_deref().unwrap_or("unknown CPU");
        format!(
            "{} x {cpu_model}, Linux {}; {} on {} (scheduler {}, write cache {}, FUA {})",
            or_unknown(self.cpus),
            or_unknown(self.kernel.as_deref()),
            or_unknown(mount.map(|mount| &mount.kind)),
            or_unknown(mount.map(|mount| &mount.source)),
            or_unknown(device.and_then(|device| device.scheduler.as_deref())),
            or_unknown(device.and_then(|device| device.write_cache.as_deref())),
            or_unknown(device.and_then(|device| device.fua)),
        )
    }
}

/// The text of a small kernel file without its last newline; None when absent, unreadable or empty.
fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim_end().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The value after `name:` on the first line that begins with it.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Bytes of `123 kB`, which the kernel means as KiB.
fn kib(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The word in brackets of a kernel choice such as `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// The mount of the device `number` that holds `dir`, from a `mountinfo` text. File systems such
/// as btrfs report another device number than their mount does; then the longest mount point that
/// contains the directory decides.
fn mount(mountinfo: &str, number: (u32, u32), dir: &Path) -> Option<Mount> {
    let wanted = format!("{}:{}", number.0, number.1);
    let candidates = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        // id parent major:minor root point options [optional..] - kind source super-options
        let (device, point, options) = (left.get(2)?, left.get(4)?, left.get(5)?);
        let point = point.replace("\\040", " ");
        let holds_dir = dir.starts_with(&point);
        let mount = Mount {
            kind: (*right.first()?).to_owned(),
            source: (*right.get(1)?).to_owned(),
            options: format!("{options};{}", right.get(2)?),
        };
        holds_dir.then_some(((*device == wanted, point.len()), mount))
    });
    candidates.max_by_key(|(rank, _)| *rank).map(|(_, mount)| mount)
}

/// The block device of a number; a partition has its disk's queue. None for memory and networks.
fn device(number: (u32, u32)) -> Option<Device> {
    let link = format!("/sys/dev/block/{}:{}", number.0, number.1);
    let own = fs::canonicalize(link).ok()?;
    let disk = if own.join("partition").exists() { own.parent()?.to_owned() } else { own };
    let queue = |name: &str| -> PathBuf { disk.join("queue").join(name) };
    let number = |name: &str| read(queue(name)).and_then(|text| text.parse().ok());
    Some(Device {
        name: disk.file_name().and_then(|name| Some(name.to_str()?.to_owned())),
        model: read(disk.join("device/model")),
        scheduler: read(queue("scheduler")).and_then(|text| chosen(&text)),
        write_cache: read(queue("write_cache")),
        fua: number("fua"),
        rotational: number("rotational"),
        logical_block_bytes: number("logical_block_size"),
        physical_block_bytes: number("physical_block_size"),
        requests: number("nr_requests"),
    })
}

/// The alignment that O_DIRECT asks for on this file system: known of files only, so a file of
/// ours in `dir` is asked.
fn direct_io_align(dir: &Path) -> Option<u64> {
    let file = fs::read_dir(dir).ok()?.filter_map(Result::ok);
    let file = file.into_iter().find(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))?;
    let stat = statx(CWD, file.path(), AtFlags::empty(), StatxFlags::DIOALIGN).ok()?;
    let known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    (known && stat.stx_dio_offset_align > 0).then(|| u64::from(stat.stx_dio_offset_align))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 22 0:24 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=24684096k
31 22 0:40 /sub /data rw,noatime - btrfs /dev/vdb rw,space_cache=v2
32 22 259:3 / /data/with\\040space rw - xfs /dev/nvme0n1p3 rw";

    #[test]
    fn a_directory_is_on_the_mount_that_holds_it() {
        let find = |number, dir| mount(MOUNTINFO, number, Path::new(dir)).unwrap();
        let root = find((254, 0), "/srv/x");
        assert_eq!((root.kind.as_str(), root.source.as_str()), ("ext4", "/dev/vda"));
        assert_eq!(root.options, "rw,relatime;rw,discard");
        // btrfs: the directory's device number is on no line.
        assert_eq!(find((0, 41), "/data/x").kind, "btrfs");
        assert_eq!(find((259, 3), "/data/with space/x").kind, "xfs");
        // A name that only begins like a mount point is not below it.
        assert_eq!(find((254, 0), "/database").kind, "ext4");
        assert_eq!(mount("", (1, 2), Path::new("/")), None);
    }

    #[test]
    fn kernel_texts() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("none"), None);
        assert_eq!(kib("24684096 kB"), Some(25_276_514_304));
        assert_eq!(field("a : 1\nmodel name\t: X Y\n", "model name").as_deref(), Some("X Y"));
        assert_eq!(field("model names: X", "model name"), None);
    }

    #[test]
    fn unknown_is_null_and_every_key_is_there() {
        let unknown = Machine::default().to_json();
        let here = crate::place::tests::test_dir("machine");
        let known = Machine::look(here.path()).to_json();
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&unknown), keys(&known));
        assert_eq!(keys(&unknown["device"]), keys(&known["device"]));
        for (key, value) in unknown.as_object().unwrap() {
            assert!(key == "device" || value.is_null(), "{key}: {value}");
        }
        assert!(known["kernel"].is_string() && known["file_system"].is_string(), "{known}");
    }
}
