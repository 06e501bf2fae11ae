//! The file of the stored offsets, and the reference server's, which are read once.

use std::path::{Path, PathBuf};

use corelog_format::{
    ConsumerKind, OFFSET_ENTRIES_MAX, OFFSET_RECORD_LEN, OffsetEntry, OffsetRecord, OffsetTable,
    SLOT_LEN, Slot, SlotError,
};
use corelog_io::{Buf, Disk, File, IoError, IoOp, Open, Platform};

use crate::Shared;

/// Its name in a partition's directory.
pub(crate) const CONSUMERS_FILE: &str = "consumer_offsets";
/// The next one, while it is made.
pub(crate) const CONSUMERS_TEMPORARY: &str = "consumer_offsets.tmp";
/// Where the reference server keeps its own: a directory for consumers, one for groups.
pub(crate) const REFERENCE_DIR: &str = "offsets";

/// Most bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// Where the next table goes.
#[derive(Debug)]
pub(crate) struct Table {
    dir: PathBuf,
    incarnation: u64,
    sequence: u64,
    next: Slot,
    /// Bytes of each slot; 0 where there is no file.
    slot_len: usize,
    /// A power cut leaves the file as it is now. What an opening finds may be from a killed process,
    /// and on its way to the disk still.
    settled: bool,
}

/// What stands in a partition's directory.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    Stored(Vec<OffsetEntry>),
    /// The reference server's.
    Adopted(Vec<OffsetEntry>),
    /// The disk does not say.
    Unread(IoError),
    /// A newer release wrote it.
    Newer(IoError),
}

/// What of it the partition's directory lists.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Listed {
    /// [`CONSUMERS_FILE`].
    pub(crate) own: bool,
    /// [`REFERENCE_DIR`].
    pub(crate) reference: bool,
}

impl Listed {
    /// Nobody has looked.
    pub(crate) const PERHAPS: Listed = Listed { own: true, reference: true };
}

/// Reads what is stored in `dir`, as far as it is `listed` there: of ten thousand partitions most
/// have nothing. Reads it once more where descriptors had run out and others could give some back.
/// Damage is told by the flag: consumers begin again then.
pub(crate) async fn load<P: Platform>(
    shared: &Shared<P>,
    dir: &Path,
    incarnation: u64,
    listed: Listed,
) -> (Found, Table, bool) {
    let disk = shared.platform().disk();
    match load_once(disk, dir, incarnation, listed).await {
        (Found::Unread(error), ..) if shared.gave_back(&error).await => {
            load_once(disk, dir, incarnation, listed).await
        }
        loaded => loaded,
    }
}

async fn load_once<D: Disk>(
    disk: &D,
    dir: &Path,
    incarnation: u64,
    listed: Listed,
) -> (Found, Table, bool) {
    let mut table = Table {
        dir: dir.to_owned(),
        incarnation,
        sequence: 0,
        next: Slot::A,
        slot_len: 0,
        settled: true,
    };
    if !listed.own {
        let found = match listed.reference {
            true => found_by_reference(disk, dir).await,
            false => Found::Nothing,
        };
        return (found, table, false);
    }
    let path = dir.join(CONSUMERS_FILE);
    let bytes = match read_file(disk, &path, 2 * slot_max() as u64).await {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => {
            return (found_by_reference(disk, dir).await, table, false);
        }
        Err(error) => return (Found::Unread(error), table, false),
    };
    match OffsetTable::pick(&bytes) {
        Ok(None) => (Found::Nothing, table, false),
        Ok(Some((stored, slot, slot_len))) if stored.incarnation == incarnation => {
            table.sequence = stored.sequence;
            table.next = slot.other();
            (table.slot_len, table.settled) = (slot_len, false);
            (Found::Stored(stored.entries), table, false)
        }
        // Of another life: nobody's here.
        Ok(Some(_)) | Err(SlotError::BothDamaged { .. }) => (Found::Nothing, table, true),
        Err(newer) => {
            let source = std::io::Error::other(newer.to_string());
            (Found::Newer(IoError::new(IoOp::Read, &path, source)), table, false)
        }
    }
}

async fn found_by_reference<D: Disk>(disk: &D, dir: &Path) -> Found {
    match adopt(disk, dir).await {
        Ok(entries) if entries.is_empty() => Found::Nothing,
        Ok(entries) => Found::Adopted(entries),
        Err(error) => Found::Unread(error),
    }
}

fn slot_max() -> usize {
    OffsetTable::slot_len(OFFSET_ENTRIES_MAX)
}

/// The bytes of a file of at most `max` bytes; of a longer one nothing, which is no table. A part
/// that the device does not give back counts as damaged.
async fn read_file<D: Disk>(disk: &D, path: &Path, max: u64) -> Result<Vec<u8>, IoError> {
    let file = disk.open(path, Open { short: true, ..Open::default() }).await?;
    let len = file.len().await?;
    let mut bytes = Vec::new();
    while len <= max && (bytes.len() as u64) < len {
        let (at, step) = (bytes.len() as u64, READ_BYTES.min(SLOT_LEN.max(bytes.len())));
        match file.read_at(at, step).await {
            Ok(read) if read.as_ref().is_empty() => break,
            Ok(read) => bytes.extend_from_slice(read.as_ref()),
            Err(error) if error.is_unreadable() => {
                let gone = (step as u64).min(len - at) as usize;
                bytes.resize(bytes.len() + gone, 0xFF);
            }
            Err(error) => return Err(error),
        }
    }
    file.close().await?;
    Ok(bytes)
}

/// The reference server's files: one a consumer, named by its id. One that is damaged is left out:
/// that consumer begins again, as it would there.
async fn adopt<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<OffsetEntry>, IoError> {
    let mut entries = Vec::new();
    for (kind, name) in
        [(ConsumerKind::Consumer, "consumers"), (ConsumerKind::ConsumerGroup, "groups")]
    {
        let dir = dir.join(REFERENCE_DIR).join(name);
        let names = match disk.list(&dir).await {
            Err(error) if error.is_not_found() => continue,
            listed => listed?,
        };
        for (name, is_dir) in names {
            let id = name.to_str().and_then(|name| name.parse::<u32>().ok());
            let Some(id) = id.filter(|_| !is_dir && entries.len() < OFFSET_ENTRIES_MAX) else {
                continue;
            };
            let bytes = read_file(disk, &dir.join(&name), OFFSET_RECORD_LEN as u64).await?;
            if let Ok(OffsetRecord { offset }) = OffsetRecord::decode(&bytes) {
                entries.push(OffsetEntry { kind, id, offset });
            }
        }
    }
    Ok(entries)
}

impl Table {
    /// Makes durable what was found at the opening. After a failed sync nobody knows what the disk
    /// has: the next store makes a new file then.
    pub(crate) async fn settle<P: Platform>(&mut self, shared: &Shared<P>) -> Result<(), IoError> {
        if self.settled {
            return Ok(());
        }
        let path = self.dir.join(CONSUMERS_FILE);
        let how = Open { write: true, short: true, ..Open::default() };
        match shared.open(&path, how).await {
            // Somebody removed it: it is made again.
            Err(error) if error.is_not_found() => {
                self.slot_len = 0;
                return Err(error);
            }
            opened => {
                let file = opened?;
                if let Err(error) = file.sync().await {
                    self.slot_len = 0;
                    return Err(error);
                }
                file.close().await?;
            }
        }
        // It may have got its name just before the end.
        shared.platform().disk().sync_dir(&self.dir).await?;
        self.settled = true;
        Ok(())
    }

    /// Stores `entries`, ascending, durably: in the slot that does not hold the last ones, or in a
    /// new file with longer slots. After an error the last ones stand.
    pub(crate) async fn store<P: Platform>(
        &mut self,
        shared: &Shared<P>,
        entries: Vec<OffsetEntry>,
    ) -> Result<(), IoError> {
        let need = OffsetTable::slot_len(entries.len());
        if self.slot_len > 0 {
            // Before the only slot is written over that a power cut would surely leave.
            self.settle(shared).await?;
        }
        let sequence = self.sequence + 1;
        let stored = OffsetTable { sequence, incarnation: self.incarnation, entries };
        if need <= self.slot_len {
            let path = self.dir.join(CONSUMERS_FILE);
            let how = Open { write: true, dsync: true, short: true, ..Open::default() };
            match shared.open(&path, how).await {
                // Somebody removed it: it is made again.
                Err(error) if error.is_not_found() => {}
                opened => {
                    let file = opened?;
                    let at = match self.next {
                        Slot::A => 0,
                        Slot::B => self.slot_len as u64,
                    };
                    write(shared, &file, &path, &stored, self.slot_len, at).await?;
                    file.close().await?;
                    (self.sequence, self.next) = (sequence, self.next.other());
                    return Ok(());
                }
            }
        }
        let slot_len = need.max(self.slot_len);
        // Until it is done nobody knows which file stands there, and how long its slots are.
        self.slot_len = 0;
        self.create(shared, &stored, slot_len).await?;
        (self.sequence, self.next, self.slot_len) = (sequence, Slot::B, slot_len);
        self.settled = true;
        Ok(())
    }

    /// A file with slots of `slot_len` bytes takes the place of the one that is there.
    async fn create<P: Platform>(
        &self,
        shared: &Shared<P>,
        stored: &OffsetTable,
        slot_len: usize,
    ) -> Result<(), IoError> {
        let disk = shared.platform().disk();
        let temporary = self.dir.join(CONSUMERS_TEMPORARY);
        match disk.remove(&temporary).await {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        let how =
            Open { write: true, dsync: true, create_new: true, short: true, ..Open::default() };
        let file = shared.open(&temporary, how).await?;
        file.set_len(2 * slot_len as u64).await?;
        write(shared, &file, &temporary, stored, slot_len, 0).await?;
        file.sync().await?;
        file.close().await?;
        disk.rename(&temporary, &self.dir.join(CONSUMERS_FILE)).await?;
        disk.sync_dir(&self.dir).await
    }
}

async fn write<P: Platform>(
    shared: &Shared<P>,
    file: &<P::Disk as Disk>::File,
    path: &Path,
    stored: &OffsetTable,
    slot_len: usize,
    at: u64,
) -> Result<(), IoError> {
    let mut buf = shared.alloc_soon(slot_len, path).await?;
    stored.encode(&mut buf.as_mut()[..slot_len]);
    file.write_at(buf.freeze(slot_len), at).await
}
