//! The probe's files: O_DIRECT, allocated as the engine allocates its segments.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open};

use super::{CeilingError, Step};

/// A new file of `bytes` bytes: allocated but never written, its allocation synced.
///
/// A file that stood there is removed first, so that every measurement meets a fresh layout.
pub(super) fn create(path: &Path, bytes: u64) -> Result<File, CeilingError> {
    remove(path)?;
    let file = open_with(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
    fallocate(&file, FallocateFlags::empty(), 0, bytes)
        .map_err(|error| CeilingError::new(Step::Allocate, path, error.into()))?;
    // Pays for the journal, and for what the removal may discard, before the clock starts.
    file.sync_all().map_err(|error| CeilingError::new(Step::Sync, path, error))?;
    Ok(file)
}

/// An existing file to read and write.
pub(super) fn reopen(path: &Path) -> Result<File, CeilingError> {
    open_with(path, OFlags::RDWR)
}

/// Removes the file; it need not exist.
pub(super) fn remove(path: &Path) -> Result<(), CeilingError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CeilingError::new(Step::Remove, path, error))
        }
        _ => Ok(()),
    }
}

fn open_with(path: &Path, flags: OFlags) -> Result<File, CeilingError> {
    let flags = flags | OFlags::DIRECT | OFlags::CLOEXEC;
    match open(path, flags, Mode::from_raw_mode(0o644)) {
        Ok(descriptor) => Ok(File::from(descriptor)),
        Err(error) => Err(CeilingError::new(Step::OpenDirect, path, error.into())),
    }
}
