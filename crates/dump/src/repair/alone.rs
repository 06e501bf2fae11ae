//! Files that were named one by one: a repair takes them where they are all of their log.
//!
//! What is right for a file depends on its neighbours: whose offsets count where two hold the same,
//! where the mark has to stand, what is lost between them. A copy in a directory of its own has
//! none, and is repaired as a log of one file. Beside others it is refused: cut on its own it could
//! lose what they and the manifest say was there.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use corelog_format::{BATCH_HEADER_LEN, BatchHeader, segment_file_name};

use crate::discover::{self, Partition, Segment};
use crate::failure::{Failure, Shown};
use crate::source::{Access, Source};

/// Why a file is not repaired on its own, and what to do instead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotAlone {
    /// A manifest stands beside it.
    Manifest(PathBuf),
    /// This segment stands beside it and was not named.
    Neighbour(PathBuf, PathBuf),
    /// It is a symbolic link, or was moved meanwhile.
    Elsewhere(PathBuf),
    /// Its name does not say where it begins; the name that would, if its first batch says so.
    Unnamed(PathBuf, Option<String>),
}

/// A file whose name does not say where it begins.
pub(super) fn unnamed(path: &Path, first_offset: Option<u64>) -> NotAlone {
    NotAlone::Unnamed(path.to_path_buf(), first_offset.map(segment_file_name))
}

/// The partition as a repair takes it: all of a directory, or the named files where they are all
/// that it holds of a log. Fails where one of them is no file that can be read.
pub(super) fn whole(
    partition: &Partition,
) -> Result<Result<Cow<'_, Partition>, NotAlone>, Failure> {
    if partition.whole {
        return Ok(Ok(Cow::Borrowed(partition)));
    }
    for Segment { path, named_offset, links } in &partition.segments {
        let mut source = Source::open(path, *links, Access::default())?;
        if named_offset.is_none() {
            let header = BatchHeader::parse(source.window(0, BATCH_HEADER_LEN as u64)?);
            return Ok(Err(unnamed(path, header.ok().map(|header| header.base_offset))));
        }
    }
    Ok(beside(partition).map(Cow::Owned))
}

/// The same where the names of all files say where they begin.
fn beside(partition: &Partition) -> Result<Partition, NotAlone> {
    let named = &partition.segments;
    let first = &named[0].path;
    if partition.dir.join("manifest").symlink_metadata().is_ok() {
        return Err(NotAlone::Manifest(first.clone()));
    }
    let found = discover::discover(std::slice::from_ref(&partition.dir));
    let there = found.partitions.into_iter().next();
    let there = there.ok_or_else(|| NotAlone::Elsewhere(first.clone()))?;
    let is_in = |segment: &Segment, list: &[Segment]| {
        list.iter().any(|other| other.named_offset == segment.named_offset)
    };
    if let Some(other) = there.segments.iter().find(|segment| !is_in(segment, named)) {
        return Err(NotAlone::Neighbour(first.clone(), other.path.clone()));
    }
    if let Some(gone) = named.iter().find(|segment| !is_in(segment, &there.segments)) {
        return Err(NotAlone::Elsewhere(gone.path.clone()));
    }
    Ok(there)
}

impl fmt::Display for NotAlone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match self {
            NotAlone::Manifest(path)
            | NotAlone::Neighbour(path, _)
            | NotAlone::Elsewhere(path)
            | NotAlone::Unnamed(path, _) => path,
        };
        write!(f, "{}: not repaired on its own: ", Shown(path))?;
        match self {
            NotAlone::Manifest(_) => f.write_str(
                "the manifest beside it says what was durable; name the partition's directory",
            ),
            NotAlone::Neighbour(_, other) => write!(
                f,
                "{} stands beside it; name the directory, or copy the file to one of its own",
                Shown(other)
            ),
            NotAlone::Elsewhere(_) => f.write_str(
                "it is a link, or not there any more; name the directory that the file is in",
            ),
            NotAlone::Unnamed(_, Some(name)) => {
                write!(f, "its name does not say where it begins; rename it to {name}")
            }
            NotAlone::Unnamed(_, None) => f.write_str(
                "its name does not say where it begins, and neither does its first batch; rename \
                 it to that offset, 20 digits and .log",
            ),
        }
    }
}
