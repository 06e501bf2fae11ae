//! Changes of files that a crash may end anywhere: a new file is written aside, synced and renamed
//! to its place, and what stood there is linked into quarantine before.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Ends the name of a file that is not finished; whatever carries it may be removed.
const UNFINISHED: &str = ".repair.tmp";

/// A partition's directory, and its quarantine: the same that the engine uses.
#[derive(Debug)]
pub(crate) struct Place {
    dir: PathBuf,
    quarantine: PathBuf,
}

impl Place {
    /// The directory `dir`, with a quarantine that is durably there and holds nothing unfinished of
    /// ours.
    pub(crate) fn prepare(dir: &Path) -> Result<Place, Failure> {
        let quarantine = dir.join("quarantine");
        match fs::create_dir(&quarantine) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Failure::io(&quarantine, "create")(error));
            }
            _ => sync_dir(dir)?,
        }
        let entries = fs::read_dir(&quarantine).map_err(Failure::io(&quarantine, "list"))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.to_string_lossy().ends_with(UNFINISHED) {
                fs::remove_file(&path).map_err(Failure::io(&path, "remove"))?;
            }
        }
        Ok(Place { dir: dir.to_path_buf(), quarantine })
    }

    /// The path of a file of this name in the partition.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn unfinished(&self, name: &str) -> PathBuf {
        self.quarantine.join(format!("{name}{UNFINISHED}"))
    }

    /// Writes `bytes` for a file that will have this name, durably; [`Place::install`] puts it there.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
        let path = self.unfinished(name);
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
        written.map_err(Failure::io(&path, "write"))?;
        Ok(path)
    }

    /// The same with the bytes `range` of the file at `from`.
    pub(crate) fn copy(
        &self,
        name: &str,
        from: &Path,
        range: &Range<u64>,
    ) -> Result<PathBuf, Failure> {
        let path = self.unfinished(name);
        let copied = copy_range(from, range, &path);
        match copied {
            Ok(()) => Ok(path),
            Err(error) => {
                // Half a copy would take the space that is missing.
                let _ = fs::remove_file(&path);
                Err(Failure::io(&path, "write")(error))
            }
        }
    }

    /// Keeps the file of this name in quarantine, durably, as a second name of the same bytes. One
    /// that is kept already is not kept again. `None` where there is no such file.
    pub(crate) fn keep(&self, name: &str) -> Result<Option<PathBuf>, Failure> {
        let path = self.path(name);
        let about = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            about => about.map_err(Failure::io(&path, "stat"))?,
        };
        let mut count = 0;
        let kept = loop {
            let kept = self.quarantine.join(format!("{name}.{count}"));
            match fs::symlink_metadata(&kept) {
                Ok(there) if (there.dev(), there.ino()) == (about.dev(), about.ino()) => {
                    break kept;
                }
                Ok(_) => count += 1,
                Err(_) => {
                    self.second_name(name, &path, &kept, about.len())?;
                    break kept;
                }
            }
        };
        sync_dir(&self.quarantine)?;
        Ok(Some(kept))
    }

    /// A link, or a copy where the file system has no links.
    fn second_name(&self, name: &str, path: &Path, to: &Path, len: u64) -> Result<(), Failure> {
        if fs::hard_link(path, to).is_ok() {
            return Ok(());
        }
        let copy = self.copy(name, path, &(0..len))?;
        fs::rename(&copy, to).map_err(Failure::io(to, "rename to"))
    }

    /// Puts a finished file in its place; what stands there was kept before, or is lost.
    pub(crate) fn install(&self, finished: &Path, name: &str) -> Result<(), Failure> {
        let to = self.path(name);
        fs::rename(finished, &to).map_err(Failure::io(&to, "rename to"))?;
        sync_dir(&self.dir)?;
        sync_dir(&self.quarantine)
    }

    /// Removes the file of this name, if there is one.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Failure> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::io(&path, "remove")(error))
            }
            _ => sync_dir(&self.dir),
        }
    }

    /// Writes `bytes` over those from `at` on in the file of this name, durably.
    pub(crate) fn overwrite(&self, name: &str, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        use std::os::unix::fs::FileExt;
        let path = self.path(name);
        let file = File::options().write(true).open(&path).map_err(Failure::io(&path, "open"))?;
        let written = file.write_all_at(bytes, at).and_then(|()| file.sync_all());
        written.map_err(Failure::io(&path, "write"))
    }
}

fn copy_range(from: &Path, range: &Range<u64>, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    source.seek(SeekFrom::Start(range.start))?;
    let mut target = File::create(to)?;
    let len = range.end - range.start;
    if io::copy(&mut source.take(len), &mut target)? != len {
        return Err(io::Error::other("the original became shorter while it was copied"));
    }
    target.sync_all()
}

/// Makes the names in a directory durable.
fn sync_dir(dir: &Path) -> Result<(), Failure> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Failure::io(dir, "sync"))
}
