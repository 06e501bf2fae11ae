//! The file system under a directory: what is mounted, how, how full, what O_DIRECT asks of it.

use std::fs;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, statvfs, statx};

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

/// How much a file system holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) total_bytes: u64,
    /// For users without privileges.
    pub(crate) available_bytes: u64,
}

impl Space {
    /// Percent of the whole that is not available.
    pub(crate) fn used_percent(&self) -> f64 {
        let used = self.total_bytes.saturating_sub(self.available_bytes);
        if self.total_bytes == 0 { 0.0 } else { used as f64 / self.total_bytes as f64 * 100.0 }
    }
}

/// What O_DIRECT asks for, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// Of positions and lengths.
    pub(crate) offset: u64,
    /// Of memory.
    pub(crate) memory: u64,
}

/// The mount of the device `number` that holds `dir`.
pub(super) fn of(number: (u32, u32), dir: &Path) -> Option<Mount> {
    find(&fs::read_to_string("/proc/self/mountinfo").ok()?, number, dir)
}

/// The same from a `mountinfo` text. File systems such as btrfs report another device number than
/// their mount does; then the longest mount point that contains the directory decides.
fn find(mountinfo: &str, number: (u32, u32), dir: &Path) -> Option<Mount> {
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

pub(super) fn space(dir: &Path) -> Option<Space> {
    let stat = statvfs(dir).ok()?;
    Some(Space {
        total_bytes: stat.f_blocks.checked_mul(stat.f_frsize)?,
        available_bytes: stat.f_bavail.checked_mul(stat.f_frsize)?,
    })
}

/// What O_DIRECT asks for here: known of files only, so a file of ours in `dir` is asked.
pub(super) fn alignment(dir: &Path) -> Option<Alignment> {
    let mut entries = fs::read_dir(dir).ok()?.filter_map(Result::ok);
    let file = entries.find(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))?;
    let stat = statx(CWD, file.path(), AtFlags::empty(), StatxFlags::DIOALIGN).ok()?;
    let is_known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    (is_known && stat.stx_dio_offset_align > 0).then(|| Alignment {
        offset: u64::from(stat.stx_dio_offset_align),
        memory: u64::from(stat.stx_dio_mem_align),
    })
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
        let find = |number, dir| find(MOUNTINFO, number, Path::new(dir)).unwrap();
        let root = find((254, 0), "/srv/x");
        assert_eq!((root.kind.as_str(), root.source.as_str()), ("ext4", "/dev/vda"));
        assert_eq!(root.options, "rw,relatime;rw,discard");
        // btrfs: the directory's device number is on no line.
        assert_eq!(find((0, 41), "/data/x").kind, "btrfs");
        assert_eq!(find((259, 3), "/data/with space/x").kind, "xfs");
        // A name that only begins like a mount point is not below it.
        assert_eq!(find((254, 0), "/database").kind, "ext4");
        assert_eq!(super::find("", (1, 2), Path::new("/")), None);
    }

    #[test]
    fn a_share_of_nothing_is_nothing() {
        let space = |total_bytes, available_bytes| Space { total_bytes, available_bytes };
        assert_eq!(space(0, 0).used_percent(), 0.0);
        assert_eq!(space(200, 50).used_percent(), 75.0);
        assert_eq!(space(1, 2).used_percent(), 0.0);
    }
}
