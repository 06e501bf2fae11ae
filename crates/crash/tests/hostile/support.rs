//! What the tests here share: directories and mounted disks.

use std::path::PathBuf;

use corelog_crash::hostile::Disk;
use tempfile::TempDir;

/// A disk that misbehaves on demand, with directories of its own.
pub(crate) struct Mounted {
    /// First, so that it is unmounted before the directories go.
    pub(crate) disk: Disk,
    /// Where the files really are.
    pub(crate) backing: PathBuf,
    /// Where they are seen.
    pub(crate) point: PathBuf,
    _dir: TempDir,
}

/// A directory below the target directory that goes when dropped.
pub(crate) fn temp_dir() -> TempDir {
    let target = env!("CARGO_TARGET_TMPDIR");
    tempfile::Builder::new().prefix("hostile-").tempdir_in(target).expect("it is writable")
}

/// An empty one.
pub(crate) fn mounted() -> Mounted {
    let dir = temp_dir();
    let (backing, point) = (dir.path().join("backing"), dir.path().join("point"));
    for dir in [&backing, &point] {
        std::fs::create_dir(dir).expect("the directory is new");
    }
    let disk = Disk::mount(&backing, &point).unwrap_or_else(|error| panic!("{error}"));
    Mounted { disk, backing, point, _dir: dir }
}
