//! The directory a run works in: ours by its marker, locked, and cleaned up after.
//!
//! A benchmark that is pointed at the wrong directory must not hurt it: DIR has to be absent, empty
//! or marked by an earlier run, and only entries with our names are ever removed from it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock, fstatvfs};

use crate::removal::remove_tree;

/// The file that makes a directory ours.
const MARKER: &str = "corelog-bench.marker";

/// What it holds.
const MARKER_TEXT: &str = "This directory belongs to corelog-bench, which removes what it finds.\n";

/// Entries of ours start with one of these.
const OURS: [&str; 3] = ["ceiling", "contents", "round-"];

/// A directory to work in. Dropping it removes what the run left there, unless it is to be kept.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    /// Holds the lock.
    marker: File,
    made_directory: bool,
    keep: bool,
}

impl Place {
    /// Takes `dir`, or a fresh directory under the working directory when None.
    pub fn take(dir: Option<&Path>, keep: bool) -> Result<Place, PlaceError> {
        let Some(dir) = dir else {
            let name = fresh_name();
            let path = std::path::absolute(&name)
                .map_err(|source| PlaceError::new(Path::new(&name), Why::Make(source)))?;
            fs::create_dir(&path).map_err(|source| PlaceError::new(&path, Why::Make(source)))?;
            return mark(path, true, keep);
        };
        let path =
            std::path::absolute(dir).map_err(|source| PlaceError::new(dir, Why::Make(source)))?;
        let made_directory = match fs::read_dir(&path) {
            Ok(mut entries) => {
                if entries.next().is_some() && !is_marked(&path) {
                    return Err(PlaceError::new(&path, Why::NotOurs));
                }
                false
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&path)
                    .map_err(|source| PlaceError::new(&path, Why::Make(source)))?;
                true
            }
            Err(source) => return Err(PlaceError::new(&path, Why::Look(source))),
        };
        let place = mark(path, made_directory, keep)?;
        place.remove_ours().map_err(|source| PlaceError::new(place.path(), Why::Clean(source)))?;
        Ok(place)
    }

    /// Takes a directory that an earlier run kept, and leaves everything in it as it is.
    pub fn revisit(dir: &Path) -> Result<Place, PlaceError> {
        let path =
            std::path::absolute(dir).map_err(|source| PlaceError::new(dir, Why::Look(source)))?;
        if !is_marked(&path) {
            return Err(PlaceError::new(&path, Why::NotKept));
        }
        mark(path, false, true)
    }

    /// The directory that says what the kept files hold, made on first use.
    pub fn contents_dir(&self) -> Result<PathBuf, PlaceError> {
        let path = self.path.join("contents");
        fs::create_dir_all(&path).map_err(|source| PlaceError::new(&path, Why::Make(source)))?;
        Ok(path)
    }

    /// Where it is, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the files stay.
    pub fn keeps(&self) -> bool {
        self.keep
    }

    /// Keeps the files after all: bytes in them are wrong, and somebody will want to look.
    pub fn keep_evidence(&mut self) {
        self.keep = true;
    }

    /// The probe's directory, made on first use.
    pub fn ceiling_dir(&self) -> Result<PathBuf, PlaceError> {
        let path = self.path.join("ceiling");
        fs::create_dir_all(&path).map_err(|source| PlaceError::new(&path, Why::Make(source)))?;
        Ok(path)
    }

    /// The engine's data directory of a round; the engine makes it.
    pub fn round_dir(&self, round: u32) -> PathBuf {
        self.path.join(format!("round-{round}"))
    }

    /// Removes a round's data directory, unless it is to be kept.
    pub fn remove_round(&self, round: u32) -> Result<(), PlaceError> {
        if self.keep {
            return Ok(());
        }
        let path = self.round_dir(round);
        remove_tree(&path).map_err(|source| PlaceError::new(&path, Why::Clean(source)))
    }

    /// Flushes the file system, so that the next phase starts from a quiet device: what the last
    /// one left to write back, journal or discard is paid off the clock.
    pub fn settle(&self) -> Result<(), PlaceError> {
        rustix::fs::syncfs(&self.marker)
            .map_err(|error| PlaceError::new(&self.path, Why::Settle(error.into())))
    }

    /// Refuses when the file system has less than `bytes` available. `lower` names the flag that
    /// asks for less, where there is one.
    pub fn need_space(&self, bytes: u64, lower: Option<&'static str>) -> Result<(), PlaceError> {
        let available = self.available()?;
        if available < bytes {
            let why = Why::NoSpace { needed: bytes, available, lower };
            return Err(PlaceError::new(&self.path, why));
        }
        Ok(())
    }

    /// Bytes that the file system has available.
    pub fn available(&self) -> Result<u64, PlaceError> {
        let stat = fstatvfs(&self.marker)
            .map_err(|error| PlaceError::new(&self.path, Why::Look(error.into())))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn remove_ours(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_ours =
                name.to_str().is_some_and(|name| OURS.iter().any(|our| name.starts_with(our)));
            // `file_type` does not follow links, and neither does `remove_tree`.
            if is_ours && entry.file_type()?.is_dir() {
                remove_tree(&entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        let cleaned = self.remove_ours().and_then(|()| fs::remove_file(self.path.join(MARKER)));
        if let Err(error) = cleaned {
            eprintln!("corelog-bench: cannot clean up {}: {error}", self.path.display());
        } else if self.made_directory {
            // Not empty when somebody put something beside our files: theirs, so it stays.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

fn mark(path: PathBuf, made_directory: bool, keep: bool) -> Result<Place, PlaceError> {
    let failed = |source| PlaceError::new(&path, Why::Make(source));
    let mut marker = File::options()
        .read(true)
        .append(true)
        .create(true)
        .open(path.join(MARKER))
        .map_err(failed)?;
    match flock(&marker, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(PlaceError::new(&path, Why::InUse)),
        locked => locked.map_err(|error| PlaceError::new(&path, Why::Make(error.into())))?,
    }
    if marker.metadata().map_err(failed)?.len() == 0 {
        marker.write_all(MARKER_TEXT.as_bytes()).map_err(failed)?;
    }
    Ok(Place { path, marker, made_directory, keep })
}

fn is_marked(path: &Path) -> bool {
    let Ok(file) = File::open(path.join(MARKER)) else { return false };
    let mut text = String::new();
    let read = file.take(MARKER_TEXT.len() as u64 + 1).read_to_string(&mut text);
    read.is_ok() && text == MARKER_TEXT
}

/// A name that no other run uses: process and time.
fn fresh_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("corelog-bench-{}-{}.tmp", std::process::id(), now.as_nanos())
}

/// The directory cannot be worked in.
#[derive(Debug)]
pub struct PlaceError {
    path: PathBuf,
    why: Why,
}

#[derive(Debug)]
enum Why {
    NotOurs,
    NotKept,
    InUse,
    Make(io::Error),
    Look(io::Error),
    Clean(io::Error),
    Settle(io::Error),
    NoSpace { needed: u64, available: u64, lower: Option<&'static str> },
}

impl PlaceError {
    fn new(path: &Path, why: Why) -> PlaceError {
        PlaceError { path: path.to_owned(), why }
    }
}

impl fmt::Display for PlaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.why {
            Why::NotOurs => write!(
                f,
                "{path} is not empty and not a directory of corelog-bench (it holds no {MARKER}); \
                 name an empty or absent directory"
            ),
            Why::NotKept => write!(
                f,
                "{path} was not kept by corelog-bench (it holds no {MARKER}); name the --dir of a \
                 run with --keep"
            ),
            Why::InUse => write!(
                f,
                "{path} is in use by another corelog-bench; wait for its end or name another --dir"
            ),
            Why::Make(source) => write!(f, "cannot make {path}: {source}"),
            Why::Look(source) => write!(f, "cannot look into {path}: {source}"),
            Why::Clean(source) => write!(f, "cannot clean up {path}: {source}"),
            Why::Settle(source) => write!(f, "cannot flush the file system of {path}: {source}"),
            Why::NoSpace { needed, available, lower } => write!(
                f,
                "{} needed in {path} and {} available; {}name another --dir",
                crate::size::human(*needed),
                crate::size::human(*available),
                lower.map_or(String::new(), |flag| format!("lower {flag} or "))
            ),
        }
    }
}

impl std::error::Error for PlaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.why {
            Why::Make(source) | Why::Look(source) | Why::Clean(source) | Why::Settle(source) => {
                Some(source)
            }
            Why::NotOurs | Why::NotKept | Why::InUse | Why::NoSpace { .. } => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A place under the build's own directory: a real file system that supports O_DIRECT.
    pub(crate) fn test_dir(name: &str) -> Place {
        Place::take(Some(&outside(name).join("place")), false).unwrap()
    }

    /// An empty directory for the test `name`, in `target/tmp`.
    fn outside(name: &str) -> PathBuf {
        let binary = std::env::current_exe().unwrap();
        let target = binary.ancestors().nth(3).expect("target/PROFILE/deps/BINARY");
        let path = target.join("tmp/corelog-bench").join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What a run leaves in its place.
    fn work_in(place: &Place) {
        fs::write(place.ceiling_dir().unwrap().join("sequential-0"), "x").unwrap();
        fs::create_dir_all(place.round_dir(3).join("streams")).unwrap();
    }

    #[test]
    fn an_absent_directory_is_made_and_removed() {
        let path = outside("place-absent").join("a/b");
        let place = Place::take(Some(&path), false).unwrap();
        work_in(&place);
        assert_eq!(names(&path), ["ceiling", MARKER, "round-3"]);
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn an_empty_directory_is_left_empty() {
        let path = outside("place-empty");
        let place = Place::take(Some(&path), false).unwrap();
        work_in(&place);
        drop(place);
        assert!(names(&path).is_empty());
    }

    #[test]
    fn a_directory_that_is_not_ours_is_refused_and_left_alone() {
        let path = outside("place-foreign");
        fs::create_dir(path.join("round-1")).unwrap();
        let error = Place::take(Some(&path), false).unwrap_err();
        assert!(error.to_string().contains("not empty and not a directory of"), "{error}");
        assert_eq!(names(&path), ["round-1"]);

        // A file with the marker's name and other words in it is no marker.
        fs::write(path.join(MARKER), "mine").unwrap();
        assert!(matches!(Place::take(Some(&path), false).unwrap_err().why, Why::NotOurs));
        assert_eq!(fs::read_to_string(path.join(MARKER)).unwrap(), "mine");
    }

    #[test]
    fn a_file_is_no_directory() {
        let path = outside("place-file").join("file");
        fs::write(&path, "x").unwrap();
        assert!(matches!(Place::take(Some(&path), false).unwrap_err().why, Why::Look(_)));
    }

    #[test]
    fn kept_files_stay_until_the_next_run_and_what_is_not_ours_for_ever() {
        let path = outside("place-kept");
        let place = Place::take(Some(&path), true).unwrap();
        work_in(&place);
        place.remove_round(3).unwrap();
        drop(place);
        assert_eq!(names(&path), ["ceiling", MARKER, "round-3"]);

        fs::create_dir(path.join("photos")).unwrap();
        fs::write(path.join("round-table.txt"), "x").unwrap();
        let place = Place::take(Some(&path), false).unwrap();
        assert_eq!(names(&path), [MARKER, "photos", "round-table.txt"]);
        work_in(&place);
        place.remove_round(3).unwrap();
        assert!(!place.round_dir(3).exists());
        drop(place);
        assert_eq!(names(&path), ["photos", "round-table.txt"]);
    }

    #[test]
    fn one_run_at_a_time() {
        let path = outside("place-locked");
        let place = Place::take(Some(&path), false).unwrap();
        assert!(matches!(Place::take(Some(&path), false).unwrap_err().why, Why::InUse));
        drop(place);
        Place::take(Some(&path), false).unwrap();
    }

    #[test]
    fn a_disk_that_is_too_small_is_refused_before_the_run() {
        let place = test_dir("place-space");
        place.need_space(1, None).unwrap();
        let error = place.need_space(u64::MAX, Some("--total")).unwrap_err().to_string();
        assert!(error.contains("lower --total or name another --dir"), "{error}");
        let error = place.need_space(u64::MAX, None).unwrap_err().to_string();
        assert!(!error.contains("lower") && error.contains("; name another --dir"), "{error}");
    }
}
