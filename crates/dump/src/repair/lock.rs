//! Nobody else at work: an engine's locks, looked at for a plan and held for a change.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::discover::Partition;
use crate::failure::Failure;
use crate::live::{self, Held};
use crate::records;

/// Locks that are held until this is dropped.
#[derive(Debug)]
pub(crate) struct Locks {
    _files: Vec<File>,
}

/// Whether the way is free.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It is, for as long as this lives.
    Ours(Locks),
    /// Another process holds this file.
    Others(PathBuf),
}

/// The files whose locks an engine holds while it is at work on the partition: the data directory's,
/// and the logs themselves.
fn lockable(partition: &Partition) -> Vec<PathBuf> {
    let home = records::data_dir(&partition.dir).map(|data| data.join("LOCK"));
    let logs = partition.segments.iter().map(|segment| segment.path.clone());
    home.into_iter().chain(logs).collect()
}

/// A file that an engine holds, if there is one. Takes no lock: for that moment an engine that
/// opens would be refused its own file.
pub(crate) fn holder(partition: &Partition) -> Option<PathBuf> {
    lockable(partition).into_iter().find(|path| live::held_at(path) != Held::No)
}

/// Takes the locks. A file that is not there has none: an engine that comes later finds the logs'.
pub(crate) fn take(partition: &Partition) -> Result<Taken, Failure> {
    let mut files = Vec::new();
    for path in lockable(partition) {
        let file = match open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Failure::io(&path, "open")(error)),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => files.push(file),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Taken::Others(path)),
            Err(errno) => return Err(Failure::io(&path, "lock")(errno.into())),
        }
    }
    Ok(Taken::Ours(Locks { _files: files }))
}

fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    File::options().read(true).custom_flags(nofollow).open(path)
}
