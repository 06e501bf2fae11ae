//! The copy that is harmed: after a case only what has changed is copied again.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(super) struct Working {
    pristine: PathBuf,
    dir: PathBuf,
    /// What the files looked like when they were copied, by their path below the directory.
    copied: BTreeMap<PathBuf, Stamp>,
    /// Every path of the original; directories with `None`.
    original: BTreeMap<PathBuf, Option<Metadata>>,
}

/// Differs as soon as a file was touched: nothing can set the change time back.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    len: u64,
    mode: u32,
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Stamp {
        let changed = (meta.ctime(), meta.ctime_nsec());
        Stamp { inode: meta.ino(), len: meta.len(), mode: meta.mode(), changed }
    }
}

impl Working {
    pub(super) fn of(pristine: &Path, dir: PathBuf) -> io::Result<Working> {
        let mut original = BTreeMap::new();
        list(pristine, Path::new(""), &mut original)?;
        fs::create_dir_all(&dir)?;
        let pristine = pristine.to_owned();
        Ok(Working { pristine, dir, copied: BTreeMap::new(), original })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is at `path` or below it is about to be changed, perhaps sooner than its stamp can show.
    pub(super) fn forget(&mut self, path: &Path) {
        self.copied.retain(|copied, _| !copied.starts_with(path));
    }

    /// Makes the copy what the original is.
    pub(super) fn restore(&mut self) -> io::Result<()> {
        let mut there = BTreeMap::new();
        list(&self.dir, Path::new(""), &mut there)?;
        for (path, meta) in &there {
            let is_right = match (self.original.get(path), meta) {
                (Some(Some(_)), Some(meta)) => self.copied.get(path) == Some(&Stamp::of(meta)),
                (Some(None), None) => true,
                _ => false,
            };
            let full = self.dir.join(path);
            if is_right {
                continue;
            }
            self.copied.remove(path);
            match (meta, full.symlink_metadata()) {
                (_, Err(_)) => {}
                (None, Ok(_)) => fs::remove_dir_all(full)?,
                (Some(_), Ok(_)) => fs::remove_file(full)?,
            }
        }
        for (path, meta) in &self.original {
            let full = self.dir.join(path);
            if meta.is_none() {
                fs::create_dir_all(full)?;
            } else if !full.exists() || !self.copied.contains_key(path) {
                fs::copy(self.pristine.join(path), &full)?;
                self.copied.insert(path.clone(), Stamp::of(&full.symlink_metadata()?));
            }
        }
        Ok(())
    }
}

/// Everything below `root`; links are not followed.
fn list(
    root: &Path,
    below: &Path,
    all: &mut BTreeMap<PathBuf, Option<Metadata>>,
) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let path = below.join(entry?.file_name());
        let meta = root.join(&path).symlink_metadata()?;
        if meta.is_dir() {
            all.insert(path.clone(), None);
            list(root, &path, all)?;
        } else {
            all.insert(path, Some(meta));
        }
    }
    Ok(())
}
