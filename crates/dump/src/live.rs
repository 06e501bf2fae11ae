//! Is a process holding this file? Asked of /proc/locks, so that asking takes no lock itself.
//!
//! An engine holds an flock on each segment it may still write or cut. Trying the lock would tell
//! as well, but for that moment it would be ours, and an engine that opens just then would be
//! refused its own file: an inspector must not be able to do that.

use std::fs;

/// What is known about the holder of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// Nobody that this process may see has locked it.
    No,
    /// Somebody has.
    Yes,
    /// /proc/locks cannot be read: treat the file as held.
    Unknown,
}

/// Whether a process has an flock on the file with this inode number.
///
/// Compared by inode alone: device numbers in /proc/locks are those of the file system below and
/// differ from stat's on btrfs and overlays. A false yes costs a slower pass, nothing else.
/// Locks of processes outside of our pid namespace are not listed, and those are not seen.
pub(crate) fn held(inode: u64) -> Held {
    match fs::read_to_string("/proc/locks") {
        Ok(locks) if lists(&locks, inode) => Held::Yes,
        Ok(_) => Held::No,
        Err(_) => Held::Unknown,
    }
}

/// Whether the text of /proc/locks has an flock that is held (not merely waited for) on `inode`.
/// A line reads `1: FLOCK  ADVISORY  WRITE 708 fe:00:4294 0 EOF`; a waiter has `->` after `1:`.
fn lists(locks: &str, inode: u64) -> bool {
    locks.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        words.next() == Some("FLOCK")
            && words
                .find(|word| word.matches(':').count() == 2)
                .and_then(|place| place.rsplit(':').next())
                .and_then(|number| number.parse::<u64>().ok())
                == Some(inode)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "1: FLOCK  ADVISORY  WRITE 708 fe:00:4294 0 EOF\n\
                         2: POSIX  ADVISORY  WRITE 709 fe:00:5000 0 EOF\n\
                         3: -> FLOCK  ADVISORY  WRITE 710 fe:00:6000 0 EOF\n";

    #[test]
    fn a_held_flock_is_seen_and_nothing_else() {
        assert!(lists(LOCKS, 4294));
        assert!(!lists(LOCKS, 429), "a prefix of an inode number");
        assert!(!lists(LOCKS, 5000), "a POSIX lock, not an flock");
        assert!(!lists(LOCKS, 6000), "a waiter");
        assert!(!lists("", 1) && !lists("junk\n:::\n", 1));
    }

    #[test]
    fn an_flock_of_our_own_is_seen() {
        use std::os::unix::fs::MetadataExt;
        let path = std::env::temp_dir().join(format!("corelog-dump-live-{}", std::process::id()));
        let file = fs::File::create(&path).expect("a temporary file");
        let inode = file.metadata().expect("metadata").ino();
        assert_ne!(held(inode), Held::Yes);
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("flock");
        assert_ne!(held(inode), Held::No);
        drop(file);
        fs::remove_file(&path).expect("removed");
    }
}
