//! The file of the clock record: two slots, written in turn, each write synced.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use corelog_format::{ClockRecord, SLOT_LEN, Slot};
use corelog_io::{IoError, IoOp};
use rustix::fs::OFlags;

use super::ClockError;
use crate::data_dir::sync_dir;

#[derive(Debug)]
pub(super) struct ClockFile {
    file: File,
    path: PathBuf,
    record: ClockRecord,
    slot: Slot,
}

impl ClockFile {
    /// The file at `path` and the ceiling it names; one that is missing is created with ceiling 0.
    pub(super) fn open(path: &Path) -> Result<(ClockFile, u64), ClockError> {
        let file = match open(path, OpenOptions::new().read(true).write(true)) {
            Err(error) if error.is_not_found() => create(path)?,
            other => other?,
        };
        let mut slots = Vec::with_capacity(2 * SLOT_LEN);
        let read =
            io::Read::read_to_end(&mut io::Read::take(&file, 2 * SLOT_LEN as u64), &mut slots);
        read.map_err(|source| IoError::new(IoOp::Read, path, source))?;
        let (a, b) = slots.split_at(SLOT_LEN.min(slots.len()));
        let picked = ClockRecord::pick(a, b)
            .map_err(|why| ClockError::Record { path: path.to_owned(), why })?;
        // No slot was ever written: the file was made by hand, or lost its content to a crash of
        // a file system that does not keep what was synced. Time starts from the system's clock.
        let empty = (ClockRecord { sequence: 0, ceiling_us: 0 }, Slot::B);
        let (record, slot) = picked.unwrap_or(empty);
        Ok((ClockFile { file, path: path.to_owned(), record, slot }, record.ceiling_us))
    }

    /// Makes `ceiling_us` the record. After an error the old one counts, or the new one: both are
    /// above every stamp, as the caller uses a higher ceiling only after success.
    pub(super) fn store(&mut self, ceiling_us: u64) -> Result<(), IoError> {
        let record = ClockRecord { sequence: self.record.sequence + 1, ceiling_us };
        let slot = self.slot.other();
        let at = slot.position();
        let written = self.file.write_all_at(&record.encode(), at);
        written.map_err(|source| IoError::new(IoOp::Write, &self.path, source).at(at))?;
        // A failed sync is not retried as such: the next attempt writes the bytes anew.
        let synced = self.file.sync_data();
        synced.map_err(|source| IoError::new(IoOp::Sync, &self.path, source))?;
        (self.record, self.slot) = (record, slot);
        Ok(())
    }
}

fn open(path: &Path, how: &mut OpenOptions) -> Result<File, IoError> {
    let opened = how.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path);
    let file = opened.map_err(|source| IoError::new(IoOp::Open, path, source))?;
    match file.metadata() {
        // Reading a pipe would wait for ever.
        Ok(meta) if !meta.is_file() => {
            let text = io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
            Err(IoError::new(IoOp::Open, path, text))
        }
        Ok(_) => Ok(file),
        Err(source) => Err(IoError::new(IoOp::Open, path, source)),
    }
}

/// Whole or not at all: a first record that was torn could not be told from a damaged one.
fn create(path: &Path) -> Result<File, IoError> {
    let temporary = path.with_extension("tmp");
    let file = open(
        &temporary,
        OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o644),
    )?;
    let mut slots = [0; 2 * SLOT_LEN];
    slots[..SLOT_LEN].copy_from_slice(&ClockRecord { sequence: 1, ceiling_us: 0 }.encode());
    let written = file.write_all_at(&slots, 0);
    written.map_err(|source| IoError::new(IoOp::Write, &temporary, source))?;
    file.sync_all().map_err(|source| IoError::new(IoOp::Sync, &temporary, source))?;
    let renamed = std::fs::rename(&temporary, path);
    renamed.map_err(|source| IoError::new(IoOp::Rename, &temporary, source))?;
    path.parent().map_or(Ok(()), sync_dir)?;
    Ok(file)
}

#[cfg(test)]
impl ClockFile {
    /// The same record through a handle that cannot write.
    pub(super) fn read_only(self) -> ClockFile {
        ClockFile { file: File::open(&self.path).expect("it was open"), ..self }
    }
}
