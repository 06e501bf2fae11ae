//! The manifest file: the durable mark, kept in two slots so that a torn write loses none.
//!
//! The mark never leads: it is stored only after the sync that it tells of has returned.

use std::path::{Path, PathBuf};

use corelog_format::{Manifest, ManifestError, Mark, SLOT_LEN, Slot};
use corelog_io::{Buf, Disk, File, IoError, Open, Platform};

use crate::Shared;

/// Name of the manifest in a partition's directory: slot A at byte 0, slot B at 4096.
pub const MANIFEST_FILE: &str = "manifest";

/// Where the next manifest goes and what the last one said.
#[derive(Debug, Clone)]
pub(crate) struct Marker {
    path: PathBuf,
    next: Slot,
    manifest: Manifest,
}

/// What a partition's directory says about itself.
pub(crate) enum Found {
    /// No manifest, or one that was never written.
    None,
    /// Both slots are damaged: treated as absent, but reported.
    Damaged,
    Some(Marker),
}

/// How its slots are written.
const WRITE: Open = Open { write: true, dsync: true, create_new: false, lock: false, short: true };

impl Marker {
    /// A marker for a partition that has none, to be stored at once.
    pub(crate) fn new(
        dir: &Path,
        incarnation: u64,
        first_offset: u64,
        adopted_end: u64,
        mark: Mark,
    ) -> Self {
        let manifest = Manifest { sequence: 0, incarnation, first_offset, adopted_end, mark };
        Marker { path: dir.join(MANIFEST_FILE), next: Slot::A, manifest }
    }

    /// Reads the manifest of `dir`. A newer version is an error, damage is not.
    pub(crate) async fn load<D: Disk>(disk: &D, dir: &Path) -> Result<Found, LoadError> {
        let path = dir.join(MANIFEST_FILE);
        let file = match disk.open(&path, Open { short: true, ..Open::default() }).await {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(Found::None),
            Err(error) => return Err(LoadError::Io(error)),
        };
        let slots = read_slots(&file).await.map_err(LoadError::Io)?;
        let picked = Manifest::pick(&slots[0], &slots[1]);
        file.close().await.map_err(LoadError::Io)?;
        match picked {
            Ok(None) => Ok(Found::None),
            Ok(Some((manifest, slot))) => {
                let next = slot.other();
                Ok(Found::Some(Marker { path, next, manifest }))
            }
            Err(ManifestError::BothDamaged { .. }) => Ok(Found::Damaged),
            Err(why) => Err(LoadError::Version(path, why)),
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        self.manifest.mark
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.manifest.incarnation
    }

    pub(crate) fn first_offset(&self) -> u64 {
        self.manifest.first_offset
    }

    pub(crate) fn adopted_end(&self) -> u64 {
        self.manifest.adopted_end
    }

    /// True where the manifest was stored once only: no other slot stands in for it.
    pub(crate) fn is_first(&self) -> bool {
        self.manifest.sequence == 1
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file, with nothing in it (the caller syncs the directory).
    pub(crate) async fn create<D: Disk>(&self, disk: &D) -> Result<(), IoError> {
        self.create_file(disk).await?.close().await
    }

    async fn create_file<D: Disk>(&self, disk: &D) -> Result<D::File, IoError> {
        let how = Open { create_new: true, ..WRITE };
        let file = disk.open(&self.path, how).await?;
        file.set_len(2 * SLOT_LEN as u64).await?;
        file.sync().await?;
        Ok(file)
    }

    /// Stores the manifest with a new mark, durably. After an error the stored mark lags, which is
    /// always allowed.
    pub(crate) async fn store<P: Platform>(
        &mut self,
        shared: &Shared<P>,
        mark: Mark,
    ) -> Result<(), IoError> {
        self.store_trimmed(shared, self.manifest.first_offset, mark).await
    }

    /// Stores the manifest with a new first retained offset and mark, durably, in the slot that
    /// does not hold the last one. Creates the file where it is missing (the caller syncs the
    /// directory). After an error the next store tries the same slot again: what was to be stored
    /// now may count after a crash until then.
    pub(crate) async fn store_trimmed<P: Platform>(
        &mut self,
        shared: &Shared<P>,
        first_offset: u64,
        mark: Mark,
    ) -> Result<(), IoError> {
        assert!(mark.next_offset >= first_offset, "what is trimmed away was durable");
        let file = match shared.open(&self.path, WRITE).await {
            Err(error) if error.is_not_found() => {
                self.create_file(shared.platform().disk()).await?
            }
            opened => opened?,
        };
        let sequence = self.manifest.sequence + 1;
        let manifest = Manifest { sequence, first_offset, mark, ..self.manifest };
        let mut buf = shared.alloc_soon(SLOT_LEN, &self.path).await?;
        buf.as_mut().copy_from_slice(&manifest.encode());
        let at = match self.next {
            Slot::A => 0,
            Slot::B => SLOT_LEN as u64,
        };
        file.write_at(buf.freeze(SLOT_LEN), at).await?;
        file.close().await?;
        self.next = self.next.other();
        self.manifest = manifest;
        Ok(())
    }
}

/// The bytes of both slots. One that the device does not give back counts as damaged, which no
/// content of its own could say.
async fn read_slots<F: File>(file: &F) -> Result<[Vec<u8>; 2], IoError> {
    match file.read_at(0, 2 * SLOT_LEN).await {
        Ok(bytes) => {
            let (a, b) = bytes.as_ref().split_at(bytes.as_ref().len().min(SLOT_LEN));
            return Ok([a.to_vec(), b.to_vec()]);
        }
        Err(error) if !error.is_unreadable() => return Err(error),
        Err(_) => {}
    }
    let mut slots = [Vec::new(), Vec::new()];
    for (at, slot) in [0, SLOT_LEN as u64].into_iter().zip(&mut slots) {
        *slot = match file.read_at(at, SLOT_LEN).await {
            Ok(bytes) => bytes.as_ref().to_vec(),
            Err(error) if error.is_unreadable() => vec![0xff; SLOT_LEN],
            Err(error) => return Err(error),
        };
    }
    Ok(slots)
}

/// Why a manifest could not be read.
pub(crate) enum LoadError {
    Io(IoError),
    Version(PathBuf, ManifestError),
}
