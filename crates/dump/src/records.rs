//! What stands beside the segments: a partition's manifest and its stored offsets, and the files of
//! the data directory. None of it makes a verdict; it is told, slot by slot.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use corelog_format::{
    ClockRecord, Manifest, OFFSET_RECORD_LEN, OffsetRecord, OffsetTable, SLOT_LEN, SlotError,
};

use crate::live::{self, Held};

/// No offset table is longer: two slots of 16 MiB.
const TABLE_BYTES_MAX: u64 = 32 << 20;
/// Files of the reference server's stored offsets that are looked at in one directory.
const OFFSET_FILES_MAX: usize = 100_000;

/// How one slot of a record is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SlotIs {
    /// Never written.
    Empty,
    /// Valid, with this sequence.
    Valid(u64),
    /// Not to be used, for this reason.
    Damaged(String),
}

/// A record of two slots: what is there, and the value that counts.
#[derive(Debug)]
pub(crate) enum Stored<T> {
    /// There is no such file.
    Missing,
    /// The file cannot be read, in words.
    Unreadable(String),
    /// There is one: slots A and B.
    Slots([SlotIs; 2], Option<T>),
}

impl<T> Stored<T> {
    /// The word in every output.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Stored::Missing => "missing",
            Stored::Unreadable(_) => "unreadable",
            Stored::Slots(_, Some(_)) => "ok",
            Stored::Slots([SlotIs::Empty, SlotIs::Empty], None) => "empty",
            Stored::Slots(_, None) => "damaged",
        }
    }

    /// What is wrong with it, in words.
    pub(crate) fn troubles(&self) -> Vec<String> {
        match self {
            Stored::Missing => Vec::new(),
            Stored::Unreadable(why) => vec![why.clone()],
            Stored::Slots(slots, _) => {
                let slots = slots.iter().zip(["A", "B"]);
                slots
                    .filter_map(|(slot, name)| match slot {
                        SlotIs::Damaged(why) => Some(format!("slot {name}: {why}")),
                        SlotIs::Empty | SlotIs::Valid(_) => None,
                    })
                    .collect()
            }
        }
    }

    pub(crate) fn value(&self) -> Option<&T> {
        match self {
            Stored::Slots(_, value) => value.as_ref(),
            _ => None,
        }
    }

    /// From the file at `path`, of which `pick` makes a record; slot B begins at `half` of its length.
    /// Each slot is also judged alone, as if the other had never been written.
    fn read(
        path: &Path,
        len_max: u64,
        half: impl Fn(usize) -> usize,
        pick: impl Fn(&[u8], &[u8]) -> Result<Option<T>, SlotError>,
        sequence: impl Fn(&T) -> u64,
    ) -> Stored<T> {
        let bytes = match content(path, len_max) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Stored::Missing,
            Err(error) => return Stored::Unreadable(format!("cannot be read: {error}")),
        };
        let (a, b) = bytes.split_at(half(bytes.len()).min(bytes.len()));
        let b = &b[..b.len().min(a.len())];
        let zeros = |len| vec![0; len];
        let alone = |picked: Result<Option<T>, SlotError>, of: usize| match picked {
            Ok(None) => SlotIs::Empty,
            Ok(Some(record)) => SlotIs::Valid(sequence(&record)),
            Err(SlotError::BothDamaged { faults, .. }) => SlotIs::Damaged(faults[of].to_string()),
            Err(other) => SlotIs::Damaged(other.to_string()),
        };
        let slots = [alone(pick(a, &zeros(a.len())), 0), alone(pick(&zeros(b.len()), b), 1)];
        Stored::Slots(slots, pick(a, b).ok().flatten())
    }
}

/// The content of a small regular file; `None` where there is none. Links are not followed.
fn content(path: &Path, len_max: u64) -> io::Result<Option<Vec<u8>>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(about) if !about.is_file() => return Err(io::Error::other("not a regular file")),
        Ok(about) if about.len() > len_max => {
            return Err(io::Error::other(format!("{} bytes, too long for a record", about.len())));
        }
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(len_max).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The manifest of the partition in `dir`.
pub(crate) fn manifest(dir: &Path) -> Stored<Manifest> {
    let pick = |a: &[u8], b: &[u8]| Ok(Manifest::pick(a, b)?.map(|(manifest, _)| manifest));
    Stored::read(&dir.join("manifest"), 1 << 20, |_| SLOT_LEN, pick, |manifest| manifest.sequence)
}

/// What consumers have stored in the partition in `dir`.
pub(crate) fn offset_table(dir: &Path) -> Stored<OffsetTable> {
    // Judged together the slots have one length, which alone only the file's half tells.
    let pick = |a: &[u8], b: &[u8]| {
        let len = a.len().max(b.len());
        let whole = |slot: &[u8]| [slot, &vec![0; len - slot.len()]].concat();
        let file = [whole(a), whole(b)].concat();
        Ok(OffsetTable::pick(&file)?.map(|(table, ..)| table))
    };
    let path = dir.join("consumer_offsets");
    Stored::read(&path, TABLE_BYTES_MAX, |len| len / 2, pick, |table| table.sequence)
}

/// The reference server's files of stored offsets in `dir`: how many can be read, how far they
/// reach, and what is wrong with others.
#[derive(Debug, Default)]
pub(crate) struct ReferenceOffsets {
    pub(crate) files: u64,
    pub(crate) highest: Option<u64>,
    pub(crate) troubles: Vec<String>,
}

/// Reads `offsets/consumers` and `offsets/groups`.
pub(crate) fn reference_offsets(dir: &Path) -> ReferenceOffsets {
    let mut found = ReferenceOffsets::default();
    for kind in ["consumers", "groups"] {
        let dir = dir.join("offsets").join(kind);
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        let mut paths: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).take(OFFSET_FILES_MAX).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut trouble = |why: String| found.troubles.push(format!("{kind}/{name}: {why}"));
            match content(&path, 2 * OFFSET_RECORD_LEN as u64) {
                Ok(Some(bytes)) => match OffsetRecord::decode(&bytes) {
                    Ok(record) => {
                        found.files += 1;
                        found.highest = found.highest.max(Some(record.offset));
                    }
                    Err(why) => trouble(why.to_string()),
                },
                Ok(None) => {}
                Err(error) => trouble(format!("cannot be read: {error}")),
            }
        }
    }
    found
}

/// The files of a data directory beside its streams, as far as they tell anything without the
/// engine: the catalog is a store that only the engine opens.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) path: PathBuf,
    pub(crate) lock: Lock,
    pub(crate) clock: Stored<ClockRecord>,
    /// Bytes of the catalog; `None` where there is none.
    pub(crate) catalog_bytes: Option<u64>,
}

/// The lock file of a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// No engine was ever here.
    Missing,
    /// No engine that this process may see has it open.
    Free,
    /// An engine has.
    Held,
}

impl Lock {
    /// The word in every output.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Lock::Missing => "missing",
            Lock::Free => "free",
            Lock::Held => "held",
        }
    }
}

/// The data directory that the partition in `dir` stands in: six names above it.
pub(crate) fn data_dir(dir: &Path) -> Option<PathBuf> {
    let dir = fs::canonicalize(dir).ok()?;
    let mut names = dir.ancestors().skip(1).step_by(2);
    let levels = ["partitions", "topics", "streams"];
    let fits = levels
        .iter()
        .all(|level| names.next().and_then(Path::file_name).is_some_and(|name| name == *level));
    if fits { dir.ancestors().nth(6).map(Path::to_path_buf) } else { None }
}

/// What stands in the data directory at `path`; `None` where it has none of an engine's files.
pub(crate) fn home(path: &Path) -> Option<Home> {
    let about = |name: &str| fs::symlink_metadata(path.join(name)).ok();
    let lock = match about("LOCK") {
        None => Lock::Missing,
        Some(_) if live::held_at(&path.join("LOCK")) == Held::Yes => Lock::Held,
        Some(_) => Lock::Free,
    };
    let pick = |a: &[u8], b: &[u8]| Ok(ClockRecord::pick(a, b)?.map(|(clock, _)| clock));
    let clock =
        Stored::read(&path.join("clock"), 1 << 20, |_| SLOT_LEN, pick, |clock| clock.sequence);
    let catalog_bytes = about("catalog.redb").map(|about| about.len());
    let is_engines =
        lock != Lock::Missing || catalog_bytes.is_some() || !matches!(clock, Stored::Missing);
    is_engines.then(|| Home { path: path.to_path_buf(), lock, clock, catalog_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_knows_its_data_directory() {
        let root = std::env::temp_dir().join(format!("corelog-dump-home-{}", std::process::id()));
        let dir = root.join("streams/1/topics/2/partitions/3");
        fs::create_dir_all(&dir).expect("directories");
        let root = fs::canonicalize(&root).expect("it is there");
        assert_eq!(data_dir(&dir).as_deref(), Some(&*root));
        assert_eq!(data_dir(dir.parent().expect("a parent")), None);
        assert!(home(&root).is_none(), "nothing of an engine is there");
        fs::write(root.join("LOCK"), b"").expect("written");
        let home = home(&root).expect("an engine was there");
        assert_eq!((home.lock, home.clock.word()), (Lock::Free, "missing"));
        fs::remove_dir_all(&root).expect("removed");
    }
}
