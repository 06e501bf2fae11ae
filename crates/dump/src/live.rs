//! Is a process holding this file? Asked of /proc/locks, so that asking takes no lock itself.
//!
//! An engine holds an flock on each segment it may still write or cut. Trying the lock would tell
//! as well, but for that moment it would be ours, and an engine that opens just then would be
//! refused its own file: an inspector must not be able to do that.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::io::Errno;

/// What is known about the holder of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// Nobody that this process may see has locked it.
    No,
    /// Somebody has.
    Yes,
    /// Neither /proc/locks nor the file can be asked: treat the file as held.
    Unknown,
}

/// Whether a process has an flock on this file.
///
/// Locks of processes outside of our pid namespace are not listed, and those are not seen.
pub(crate) fn held(file: &File) -> Held {
    listed(statx(file, "", AtFlags::EMPTY_PATH, asked()))
}

/// [`held`], of the file of this name, or of the link itself; one that is not there is held by
/// nobody.
pub(crate) fn held_at(path: &Path) -> Held {
    listed(match statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, asked()) {
        Err(Errno::NOENT) => return Held::No,
        about => about,
    })
}

fn asked() -> StatxFlags {
    StatxFlags::INO | StatxFlags::MNT_ID
}

fn listed(about: Result<Statx, Errno>) -> Held {
    let (Ok(about), Ok(locks)) = (about, fs::read_to_string("/proc/locks")) else {
        return Held::Unknown;
    };
    let inode = Inode {
        number: about.stx_ino,
        device: (about.stx_dev_major, about.stx_dev_minor),
        mount: (about.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(about.stx_mnt_id),
    };
    let mounts = || fs::read_to_string("/proc/self/mountinfo").ok();
    if inode.is_listed(&locks, mounts) { Held::Yes } else { Held::No }
}

/// A device, major and minor.
type Device = (u32, u32);

/// A file, as far as it can be told from others.
#[derive(Debug, Clone, Copy)]
struct Inode {
    number: u64,
    /// As stat says.
    device: Device,
    /// None before Linux 5.8.
    mount: Option<u64>,
}

impl Inode {
    /// Whether the text of /proc/locks has a lock on it. Disks that were formatted alike have the
    /// same inode numbers, so the device must fit as well; where it is not known what the file
    /// system calls it there, any lock on the number may be on this file.
    fn is_listed(self, locks: &str, mounts: impl FnOnce() -> Option<String>) -> bool {
        let mut devices = devices_of(locks, self.number).peekable();
        // Rarely more than one file has the number: the mounts are not read for nothing.
        if devices.peek().is_none() {
            return false;
        }
        let known = self.mount.and_then(|mount| device_of_mount(&mounts()?, mount));
        devices.any(|device| known.is_none_or(|known| device == known || device == self.device))
    }
}

/// The devices on which the text of /proc/locks has an flock that is held (not merely waited for) on
/// this inode. A line reads `1: FLOCK  ADVISORY  WRITE 708 fe:00:4294 0 EOF`, the device in
/// hexadecimal; a waiter has `->` after `1:`.
fn devices_of(locks: &str, inode: u64) -> impl Iterator<Item = Device> {
    locks.lines().filter_map(move |line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        if words.next() != Some("FLOCK") {
            return None;
        }
        let place = words.find(|word| word.matches(':').count() == 2)?;
        let (device, number) = place.rsplit_once(':')?;
        let (major, minor) = device.split_once(':')?;
        let hex = |text| u32::from_str_radix(text, 16).ok();
        (number.parse() == Ok(inode)).then_some((hex(major)?, hex(minor)?))
    })
}

/// What the file system of a mount calls its device in /proc/locks. That is not what stat says on
/// btrfs. A line reads `27 1 254:0 / / rw,relatime - ext4 /dev/vda rw`.
fn device_of_mount(mounts: &str, mount: u64) -> Option<Device> {
    mounts.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        if words.next()?.parse() != Ok(mount) {
            return None;
        }
        let (major, minor) = words.nth(1)?.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "1: FLOCK  ADVISORY  WRITE 708 fe:00:4294 0 EOF\n\
                         2: POSIX  ADVISORY  WRITE 709 fe:00:5000 0 EOF\n\
                         3: -> FLOCK  ADVISORY  WRITE 710 fe:00:6000 0 EOF\n\
                         4: FLOCK  ADVISORY  READ 711 08:1f:4294 0 EOF\n";

    #[test]
    fn a_held_flock_is_seen_and_nothing_else() {
        let devices = |locks, inode| devices_of(locks, inode).collect::<Vec<_>>();
        assert_eq!(devices(LOCKS, 4294), [(254, 0), (8, 31)]);
        assert_eq!(devices(LOCKS, 429), [], "a prefix of an inode number");
        assert_eq!(devices(LOCKS, 5000), [], "a POSIX lock, not an flock");
        assert_eq!(devices(LOCKS, 6000), [], "a waiter");
        assert!(devices("", 1).is_empty() && devices("junk\n:::\n1: FLOCK 1:2\n", 1).is_empty());
    }

    #[test]
    fn the_device_of_a_mount_is_found() {
        let mounts = "22 27 0:21 / /proc rw - proc proc rw\n27 1 254:0 / / rw - ext4 /dev/vda rw\n";
        assert_eq!(device_of_mount(mounts, 27), Some((254, 0)));
        assert_eq!(device_of_mount(mounts, 22), Some((0, 21)));
        assert_eq!(device_of_mount(mounts, 2), None);
        assert_eq!(device_of_mount("junk\n27\n27 1 x:y /\n", 27), None);
    }

    #[test]
    fn another_disks_file_with_the_same_number_is_not_this_one() {
        const MOUNTS: &str = "27 1 254:0 / / rw - ext4 /dev/vda rw\n\
                              31 1 8:16 / /b rw - ext4 /dev/sdb rw\n\
                              40 1 8:31 / /c rw - btrfs /dev/sdc rw\n";
        let is_listed = |device, mount| {
            Inode { number: 4294, device, mount }.is_listed(LOCKS, || Some(MOUNTS.to_owned()))
        };
        assert!(is_listed((254, 0), Some(27)));
        assert!(!is_listed((8, 16), Some(31)));
        // What stat says is the subvolume's, the lock names the file system's.
        assert!(is_listed((0, 44), Some(40)));
        // Nobody knows: it may be.
        assert!(is_listed((8, 16), None) && is_listed((8, 16), Some(99)));
        let alone = Inode { number: 4295, device: (254, 0), mount: Some(27) };
        assert!(!alone.is_listed(LOCKS, || panic!("no lock has this number")));
    }

    #[test]
    fn an_flock_of_our_own_is_seen() {
        let name = format!("corelog-dump-live-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = fs::File::create(&path).expect("a temporary file");
        assert_eq!((held(&file), held_at(&path)), (Held::No, Held::No));
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("flock");
        assert_eq!((held(&file), held_at(&path)), (Held::Yes, Held::Yes));
        drop(file);
        fs::remove_file(&path).expect("removed");
        assert_eq!(held_at(&path), Held::No);
    }
}
