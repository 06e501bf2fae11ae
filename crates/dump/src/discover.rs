//! From the paths that were named to the segment files behind them, partition by partition.
//!
//! What a user names as a file is taken if it ends in `.log`. What is found in a directory must
//! carry exactly the name of a segment and be a regular file: quarantined copies, leftovers and
//! planted links are named on standard error and never read as data.

use std::ffi::OsStr;
use std::fs::{DirEntry, FileType};
use std::path::{Path, PathBuf};

use corelog_format::{FileKind, parse_file_name};

use crate::failure::{Failure, Shown};
use crate::source::Links;

/// A segment file that a command works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The first offset that its name states; none for a copy under another name.
    pub(crate) named_offset: Option<u64>,
    /// Whether its path may be a symbolic link.
    pub(crate) links: Links,
}

impl Segment {
    /// Whether `failure` says that this file, which was there when its directory was listed, is
    /// gone. One that was named by the user was never listed: there it is an error.
    pub(crate) fn vanished(&self, failure: &Failure) -> bool {
        self.links == Links::Refuse && failure.is_not_found() && self.is_of(failure)
    }

    /// Whether `failure` is about this file, and not about what is made of it.
    pub(crate) fn is_of(&self, failure: &Failure) -> bool {
        failure.path() == Some(&self.path)
    }
}

/// Segment files of one directory, by first offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The directory.
    pub(crate) dir: PathBuf,
    /// The partition's id, where the directory says it: `partitions/{id}`.
    pub(crate) id: Option<u64>,
    /// Its segments: all of them, or the ones that were named.
    pub(crate) segments: Vec<Segment>,
    /// Whether `segments` is all that the directory holds.
    pub(crate) whole: bool,
    /// Entries of the directory that were passed over, one line each.
    pub(crate) ignored: Vec<String>,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// In the order of the paths named; below a directory, by id.
    pub(crate) partitions: Vec<Partition>,
    /// Entries that were passed over, one line each.
    pub(crate) ignored: Vec<String>,
    /// Paths that do not work.
    pub(crate) failures: Vec<Failure>,
}

/// The levels of a data directory: each directory holds one named child or numbered children.
const LEVELS: [&str; 3] = ["streams", "topics", "partitions"];

/// Files beside the segments of a partition that are known, so that nobody is told about them.
/// `quarantine` holds what recovery put aside: copies, and no part of the log.
const KNOWN_IN_PARTITION: [&str; 8] = [
    "manifest",
    "consumer_offsets",
    "consumer_offsets.tmp",
    "offsets",
    "quarantine",
    "superblock.a",
    "superblock.b",
    "purge.gen",
];

/// Files of a data directory in which nothing was stored yet.
const KNOWN_IN_DATA: [&str; 2] = ["LOCK", "catalog.redb"];

/// Finds the segments behind `paths`.
pub(crate) fn discover(paths: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for path in paths {
        let looked = match std::fs::metadata(path) {
            Ok(about) if about.is_dir() => found.directory(path),
            Ok(_) => found.named_file(path),
            Err(source) => Err(Failure::io(path, "open")(source)),
        };
        if let Err(failure) = looked {
            found.failures.push(failure);
        }
    }
    found
}

impl Found {
    fn ignore(&mut self, path: &Path, why: &str) {
        self.ignored.push(format!("{}: ignored, {why}", Shown(path)));
    }

    /// A path that was named and is not a directory. What kind of file it is shows when it is
    /// opened; here only its name counts.
    fn named_file(&mut self, path: &Path) -> Result<(), Failure> {
        let name = path.file_name().unwrap_or_default();
        let named_offset = match name.to_str().and_then(parse_file_name) {
            Some((offset, FileKind::Log)) => Some(offset),
            Some((_, FileKind::Index)) => {
                let why = "an index; name the .log file beside it, its index is checked with it";
                return Err(Failure::not_ours(path, why));
            }
            None if path.extension() == Some(OsStr::new("log")) => None,
            None => {
                let why = "not a segment file: its name does not end in .log";
                return Err(Failure::not_ours(path, why));
            }
        };
        let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let segment = Segment { path: path.to_path_buf(), named_offset, links: Links::Follow };
        match self.partitions.iter_mut().find(|p| p.dir == dir && !p.whole) {
            Some(partition) => partition.add(segment),
            None => self.partitions.push(Partition {
                dir: dir.to_path_buf(),
                id: partition_id(dir),
                segments: vec![segment],
                whole: false,
                ignored: Vec::new(),
            }),
        }
        Ok(())
    }

    /// A directory that was named: any level of a data directory, or any place with segments.
    fn directory(&mut self, dir: &Path) -> Result<(), Failure> {
        if let Some(level) = LEVELS.iter().find(|level| dir.join(level).is_dir()) {
            return self.numbered(&dir.join(level));
        }
        if LEVELS.iter().any(|level| dir.file_name() == Some(OsStr::new(level))) {
            return self.numbered(dir);
        }
        let has = |names: &[&str]| names.iter().any(|name| dir.join(name).exists());
        if has(&KNOWN_IN_DATA) {
            return Ok(());
        }
        let ignored = self.ignored.len();
        self.partition(dir)?;
        let empty = self.partitions.last().is_none_or(|found| found.segments.is_empty());
        if empty && !has(&KNOWN_IN_PARTITION) {
            // Some other directory: what else is in it is no news.
            self.partitions.pop();
            self.ignored.truncate(ignored);
            let why = "no segment files here (20 digits and .log), and no streams, topics or \
                       partitions";
            return Err(Failure::not_ours(dir, why));
        }
        Ok(())
    }

    /// A `streams`, `topics` or `partitions` directory: its numbered children, in order of number.
    fn numbered(&mut self, dir: &Path) -> Result<(), Failure> {
        let is_partitions = dir.file_name() == Some(OsStr::new("partitions"));
        let mut children = Vec::new();
        for (entry, kind) in list(dir)? {
            match entry.file_name().to_str().and_then(decimal) {
                Some(id) if kind.is_dir() => children.push((id, entry.path())),
                Some(_) => self.ignore(&entry.path(), "not a directory"),
                None => self.ignore(&entry.path(), "its name is not an id"),
            }
        }
        children.sort();
        for (_, child) in children {
            // One that cannot be read does not hide the others.
            let looked = match LEVELS.iter().find(|level| child.join(level).is_dir()) {
                _ if is_partitions => self.partition(&child),
                Some(level) => self.numbered(&child.join(level)),
                None => Ok(()),
            };
            if let Err(failure) = looked {
                self.failures.push(failure);
            }
        }
        Ok(())
    }

    /// A directory that holds segments itself.
    fn partition(&mut self, dir: &Path) -> Result<(), Failure> {
        let (mut segments, mut indexes) = (Vec::new(), Vec::new());
        let ignored_before = self.ignored.len();
        for (entry, kind) in list(dir)? {
            let (name, path) = (entry.file_name(), entry.path());
            match name.to_str().and_then(parse_file_name) {
                Some(_) if !kind.is_file() => self.ignore(&path, "not a regular file"),
                Some((offset, FileKind::Log)) => {
                    let named_offset = Some(offset);
                    segments.push(Segment { path, named_offset, links: Links::Refuse });
                }
                Some((offset, FileKind::Index)) => indexes.push((offset, path)),
                None if KNOWN_IN_PARTITION.iter().any(|known| name == *known) => {}
                None => self.ignore(&path, "not the name of a segment file"),
            }
        }
        segments.sort_by_key(|segment| segment.named_offset);
        indexes.retain(|(offset, _)| {
            segments.binary_search_by_key(&Some(*offset), |s| s.named_offset).is_err()
        });
        for (_, path) in indexes {
            self.ignore(&path, "an index without its log");
        }
        let (dir, id) = (dir.to_path_buf(), partition_id(dir));
        let ignored = self.ignored[ignored_before..].to_vec();
        self.partitions.push(Partition { dir, id, segments, whole: true, ignored });
        Ok(())
    }
}

impl Partition {
    /// Adds a segment that was named, once, at its place.
    fn add(&mut self, segment: Segment) {
        if self.segments.contains(&segment) {
            return;
        }
        // Copies without an offset in their name have no order; they stay as they were named,
        // behind the others.
        let key = |s: &Segment| (s.named_offset.is_none(), s.named_offset);
        let place = self.segments.partition_point(|other| key(other) <= key(&segment));
        self.segments.insert(place, segment);
    }
}

/// The entries of a directory with their types, which do not follow symbolic links.
fn list(dir: &Path) -> Result<Vec<(DirEntry, FileType)>, Failure> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(Failure::io(dir, "list"))? {
        let entry = entry.map_err(Failure::io(dir, "list"))?;
        match entry.file_type() {
            Ok(kind) => entries.push((entry, kind)),
            // Gone between the listing and the look at it: an engine works here.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Failure::io(&entry.path(), "stat")(e)),
        }
    }
    entries.sort_by_key(|(entry, _)| entry.file_name());
    Ok(entries)
}

/// The id of the partition whose directory this is, when its place says so: `partitions/7`.
fn partition_id(dir: &Path) -> Option<u64> {
    // A relative name (".", "0") hides the place; its absolute path shows it.
    let dir = std::fs::canonicalize(dir).ok()?;
    (dir.parent()?.file_name()? == "partitions").then(|| decimal(dir.file_name()?.to_str()?))?
}

/// An id as we write it: decimal digits, no sign, no leading zero.
fn decimal(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}
