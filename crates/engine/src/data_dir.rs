//! The data directory: what lies where, and the few directory operations the engine does itself.
//!
//! ```text
//! {data}/LOCK            held while the engine is open
//! {data}/clock           the clock record
//! {data}/catalog.redb    the catalog
//! {data}/streams/{stream}/topics/{topic}/partitions/{partition}/...
//! {data}/trash/...       directories of partitions that no longer exist
//! ```

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use corelog_io::{IoError, IoOp};
use corelog_shard::PartitionId;

/// The data directory of one engine, as an absolute path: the process may change its working
/// directory while the engine is open.
#[derive(Debug, Clone)]
pub(crate) struct DataDir {
    root: PathBuf,
}

impl DataDir {
    /// The directory at `path`, created with its parents where it is missing. What is created is
    /// durable when this returns.
    pub(crate) fn create(path: &Path) -> Result<DataDir, IoError> {
        let failed = |source| IoError::new(IoOp::CreateDir, path, source);
        let root = std::path::absolute(path).map_err(failed)?;
        create_dirs(&root)?;
        Ok(DataDir { root })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("LOCK")
    }

    pub(crate) fn clock(&self) -> PathBuf {
        self.root.join("clock")
    }

    pub(crate) fn catalog(&self) -> PathBuf {
        self.root.join("catalog.redb")
    }

    pub(crate) fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// Moves the directory of a life of a partition to the trash, durably. Where there is none,
    /// nothing happens.
    pub(crate) fn to_trash(&self, id: PartitionId, incarnation: u64) -> Result<(), IoError> {
        let (from, trash) = (self.partition(id), self.trash());
        create_dirs(&trash)?;
        let PartitionId { stream, topic, partition } = id;
        let name = format!("{stream}-{topic}-{partition}-{incarnation}");
        let mut to = trash.join(&name);
        // A copy of the same life may be there already: keep both.
        for number in 1.. {
            if !to.exists() {
                break;
            }
            to = trash.join(format!("{name}.{number}"));
        }
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed.map_err(|source| IoError::new(IoOp::Rename, &from, source))?,
        }
        sync_dir(&trash)?;
        from.parent().map_or(Ok(()), sync_dir)
    }

    /// The life whose directory the trash holds under `name`.
    pub(crate) fn trashed_life(name: &str) -> Option<u64> {
        let (life, _) = name.split_once('.').unwrap_or((name, ""));
        let mut numbers = life.split('-').map(|number| number.parse::<u64>().ok());
        let (Some(_), Some(_), Some(_), Some(life), None) =
            (numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?, numbers.next())
        else {
            return None;
        };
        Some(life)
    }

    /// The partitions that have a directory, whoever made it. What has no number for a name is no
    /// partition's.
    pub(crate) fn partitions(&self) -> Result<Vec<PartitionId>, IoError> {
        let mut found = Vec::new();
        let streams = self.root.join("streams");
        for stream in numbers_in(&streams)? {
            let topics = streams.join(stream.to_string()).join("topics");
            for topic in numbers_in(&topics)? {
                let partitions = topics.join(topic.to_string()).join("partitions");
                let ids = numbers_in(&partitions)?.into_iter();
                found.extend(ids.map(|partition| PartitionId { stream, topic, partition }));
            }
        }
        Ok(found)
    }

    /// Removes the directories above a partition's that are empty now. As far as it goes: they are
    /// no harm.
    pub(crate) fn remove_empty_above(&self, id: PartitionId) {
        let partition = self.partition(id);
        let above = partition.ancestors().skip(1);
        for dir in above.take_while(|dir| *dir != self.root) {
            if fs::remove_dir(dir).is_err() {
                break;
            }
        }
    }

    /// The directory of a partition. Made of numbers only: no name ever becomes a path.
    pub(crate) fn partition(&self, id: PartitionId) -> PathBuf {
        let PartitionId { stream, topic, partition } = id;
        self.root.join(format!("streams/{stream}/topics/{topic}/partitions/{partition}"))
    }
}

/// The directories in `dir` whose names are numbers as we write them; none where it is missing.
fn numbers_in(dir: &Path) -> Result<Vec<u32>, IoError> {
    let failed = |source| IoError::new(IoOp::List, dir, source);
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u32>().ok());
        if let Some(number) = number
            && name.to_str() == Some(&number.to_string())
            && entry.file_type().map_err(failed)?.is_dir()
        {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes the entries of `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), IoError> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|source| IoError::new(IoOp::SyncDir, dir, source))
}

/// Creates `dir` and the missing directories above it, each durable in its parent.
pub(crate) fn create_dirs(dir: &Path) -> Result<(), IoError> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent();
    if let Some(parent) = parent {
        create_dirs(parent)?;
    }
    match DirBuilder::new().mode(0o755).create(dir) {
        // Not a directory, then: opening it says so.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(IoError::new(IoOp::CreateDir, dir, error)),
        Ok(()) => parent.map_or(Ok(()), sync_dir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_lies_where_the_reference_server_looks_for_it() {
        let dir = DataDir { root: PathBuf::from("/data") };
        let path = dir.partition(PartitionId::new(3, 14, 159));
        assert_eq!(path, Path::new("/data/streams/3/topics/14/partitions/159"));
    }

    #[test]
    fn missing_directories_are_created_and_a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        assert_eq!(DataDir::create(&deep).unwrap().root(), deep);
        DataDir::create(&deep).unwrap();
        std::fs::write(dir.path().join("file"), b"").unwrap();
        let error = DataDir::create(&dir.path().join("file/below")).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::NotADirectory);
        assert!(error.to_string().contains("file/below"), "{error}");
    }
}
