//! The catalog's tables in redb. Synchronous file I/O: for the catalog's own thread only.
//!
//! Every change is one transaction, durable when it has returned. The file appears under its name
//! only when it is complete, so a crash during the first open leaves nothing half made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use corelog_io::{IoError, IoOp};
use corelog_shard::PartitionId;
use redb::{
    Builder, Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    TableDefinition, WriteTransaction,
};

use super::record::{PartitionRecord, StreamRecord, TopicRecord};
use super::{CatalogError, Entry, key};
use crate::data_dir::sync_dir;
use crate::topic::NewTopic;

/// The catalog's version: which tables there are and what their keys mean.
const VERSION: u64 = 1;
/// Pages of the catalog in memory.
const CACHE_BYTES: usize = 16 << 20;

/// Numbers of the catalog as a whole.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const STREAMS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("streams");
const TOPICS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("topics");
const PARTITIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("partitions");

const META_VERSION: &str = "version";
/// The incarnation that the next partition gets. Only ever grows.
const META_NEXT_INCARNATION: &str = "next_incarnation";

/// Why a topic was not created.
#[derive(Debug)]
pub(crate) enum CreateFailure {
    Exists,
    Catalog(CatalogError),
}

/// The open catalog file.
#[derive(Debug)]
pub(crate) struct Store {
    database: Database,
    path: PathBuf,
}

impl Store {
    /// Opens the catalog at `path`; creates an empty one where none is.
    pub(super) fn open(path: &Path, now_us: u64) -> Result<Store, CatalogError> {
        // Not followed: a link that leads nowhere is no reason to begin an empty catalog.
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Err(damaged(path, "it is no regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(lost) = path.parent().and_then(engine_wrote) {
                    let why = format!("it is missing, and {} needs it", lost.display());
                    return Err(damaged(path, &why));
                }
                create(path, now_us)?;
            }
            Err(error) => return Err(IoError::new(IoOp::Open, path, error).into()),
        }
        // The check reads all of it. Without it, a file that was changed by someone else is
        // trusted, and the store may panic over it later.
        let database = builder()
            .set_check_integrity_on_open(true)
            .open(path)
            .map_err(|error| failed(path, error))?;
        let store = Store { database, path: path.to_owned() };
        store.check_version()?;
        Ok(store)
    }

    fn check_version(&self) -> Result<(), CatalogError> {
        let read = self.database.begin_read().map_err(|e| self.failed(e))?;
        let meta = read.open_table(META).map_err(|e| self.failed(e))?;
        let version = meta.get(META_VERSION).map_err(|e| self.failed(e))?.map(|v| v.value());
        match version {
            Some(VERSION) => Ok(()),
            Some(found) if found > VERSION => Err(CatalogError::Newer {
                what: "catalog",
                found: u32::try_from(found).unwrap_or(u32::MAX),
                known: VERSION as u32,
            }),
            found => Err(self.damaged(format!("its version is {found:?}"))),
        }
    }

    /// All partitions with their topics' configurations, in the order of their ids.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, CatalogError> {
        let read = self.database.begin_read().map_err(|e| self.failed(e))?;
        let streams = read.open_table(STREAMS).map_err(|e| self.failed(e))?;
        let topics = read.open_table(TOPICS).map_err(|e| self.failed(e))?;
        let partitions = read.open_table(PARTITIONS).map_err(|e| self.failed(e))?;
        for row in streams.iter().map_err(|e| self.failed(e))? {
            let (_, record) = row.map_err(|e| self.failed(e))?;
            StreamRecord::decode(record.value()).map_err(|e| self.named(e))?;
        }
        let count = partitions.len().map_err(|e| self.failed(e))?;
        // A count out of a file: not believed as a capacity.
        let mut entries = Vec::with_capacity(count.min(1 << 16) as usize);
        for row in topics.iter().map_err(|e| self.failed(e))? {
            let (topic_key, record) = row.map_err(|e| self.failed(e))?;
            let topic = TopicRecord::decode(record.value()).map_err(|e| self.named(e))?;
            let (range, wanted) = (key::partitions_of(topic_key.value()), topic.config.partitions);
            let mut found = 0;
            for row in partitions.range(range).map_err(|e| self.failed(e))? {
                let (partition_key, record) = row.map_err(|e| self.failed(e))?;
                let id = key::partition_id(partition_key.value());
                let incarnation =
                    PartitionRecord::decode(record.value()).map_err(|e| self.named(e))?.incarnation;
                if id.partition != found || found == wanted {
                    return Err(self.damaged(format!("{id} is not in its topic's count")));
                }
                found += 1;
                entries.push(Entry { id, incarnation, config: topic.config.log() });
            }
            if found != wanted {
                let (stream, topic) = key::topic_ids(topic_key.value());
                return Err(self.damaged(format!(
                    "stream {stream}, topic {topic} has {found} of {wanted} partitions"
                )));
            }
        }
        if entries.len() as u64 != count {
            return Err(self.damaged("there are partitions without a topic".to_owned()));
        }
        Ok(entries)
    }

    /// One partition with its topic's configuration; `None` where there is none of this id.
    pub(crate) fn entry(&self, id: PartitionId) -> Result<Option<Entry>, CatalogError> {
        let read = self.database.begin_read().map_err(|e| self.failed(e))?;
        let topics = read.open_table(TOPICS).map_err(|e| self.failed(e))?;
        let partitions = read.open_table(PARTITIONS).map_err(|e| self.failed(e))?;
        let topic = topics.get(key::topic(id.stream, id.topic)).map_err(|e| self.failed(e))?;
        let partition = partitions.get(key::partition(id)).map_err(|e| self.failed(e))?;
        let (Some(topic), Some(partition)) = (topic, partition) else { return Ok(None) };
        let topic = TopicRecord::decode(topic.value()).map_err(|e| self.named(e))?;
        let partition = PartitionRecord::decode(partition.value()).map_err(|e| self.named(e))?;
        Ok(Some(Entry { id, incarnation: partition.incarnation, config: topic.config.log() }))
    }

    /// Creates a topic, and its stream where that is new, in one durable transaction. Answers the
    /// new partitions.
    pub(crate) fn create_topic(
        &self,
        new: &NewTopic,
        now_us: u64,
    ) -> Result<Vec<Entry>, CreateFailure> {
        let write = self.begin().map_err(CreateFailure::Catalog)?;
        let entries = self.add(&write, new, now_us)?;
        let stored = write.commit();
        stored.map_err(|e| CreateFailure::Catalog(self.failed(e)))?;
        Ok(entries)
    }

    fn begin(&self) -> Result<WriteTransaction, CatalogError> {
        let mut write = self.database.begin_write().map_err(|e| self.failed(e))?;
        write.set_durability(Durability::Immediate).map_err(|e| self.failed(e))?;
        Ok(write)
    }

    fn add(
        &self,
        write: &WriteTransaction,
        new: &NewTopic,
        now_us: u64,
    ) -> Result<Vec<Entry>, CreateFailure> {
        let failed = |error: redb::Error| CreateFailure::Catalog(self.failed(error));
        let topic_key = key::topic(new.stream, new.topic);
        let mut topics = write.open_table(TOPICS).map_err(|e| failed(e.into()))?;
        if topics.get(topic_key).map_err(|e| failed(e.into()))?.is_some() {
            return Err(CreateFailure::Exists);
        }
        let record = TopicRecord { created_us: now_us, config: new.config.clone() };
        topics.insert(topic_key, &record.encode()[..]).map_err(|e| failed(e.into()))?;

        let mut streams = write.open_table(STREAMS).map_err(|e| failed(e.into()))?;
        if streams.get(new.stream).map_err(|e| failed(e.into()))?.is_none() {
            let record = StreamRecord { created_us: now_us };
            streams.insert(new.stream, &record.encode()[..]).map_err(|e| failed(e.into()))?;
        }

        let mut meta = write.open_table(META).map_err(|e| failed(e.into()))?;
        let next = meta.get(META_NEXT_INCARNATION).map_err(|e| failed(e.into()))?;
        let next = next.map(|value| value.value());
        let count = u64::from(new.config.partitions);
        // In the year 584,000 at the earliest, or damage.
        let Some((first, behind)) = next.and_then(|first| Some((first, first.checked_add(count)?)))
        else {
            let why = format!("the next incarnation is {next:?}");
            return Err(CreateFailure::Catalog(self.damaged(why)));
        };
        meta.insert(META_NEXT_INCARNATION, behind).map_err(|e| failed(e.into()))?;

        let mut partitions = write.open_table(PARTITIONS).map_err(|e| failed(e.into()))?;
        let mut entries = Vec::with_capacity(new.config.partitions as usize);
        for (partition, incarnation) in (0..new.config.partitions).zip(first..) {
            let id = PartitionId::new(new.stream, new.topic, partition);
            let record = PartitionRecord { incarnation }.encode();
            partitions.insert(key::partition(id), &record[..]).map_err(|e| failed(e.into()))?;
            entries.push(Entry { id, incarnation, config: new.config.log() });
        }
        Ok(entries)
    }

    fn failed(&self, error: impl Into<redb::Error>) -> CatalogError {
        failed(&self.path, error)
    }

    fn damaged(&self, why: String) -> CatalogError {
        CatalogError::Damaged { path: self.path.clone(), why }
    }

    /// A record's error with the file's name in it.
    fn named(&self, error: CatalogError) -> CatalogError {
        match error {
            CatalogError::Damaged { why, .. } => self.damaged(why),
            other => other,
        }
    }
}

fn damaged(path: &Path, why: &str) -> CatalogError {
    CatalogError::Damaged { path: path.to_owned(), why: why.to_owned() }
}

/// The manifest of a partition below `data_dir`, where there is one: an engine with a catalog wrote
/// it. The reference server's files, which are adopted, have none.
fn engine_wrote(data_dir: &Path) -> Option<PathBuf> {
    let below = |dir: PathBuf| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let topics = below(data_dir.join("streams")).flat_map(|stream| below(stream.join("topics")));
    let partitions = topics.flat_map(|topic| below(topic.join("partitions")));
    partitions.map(|partition| partition.join("manifest")).find(|path| path.is_file())
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn create(path: &Path, now_us: u64) -> Result<(), CatalogError> {
    let temporary = path.with_extension("tmp");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(IoError::new(IoOp::Remove, &temporary, error).into());
        }
        _ => {}
    }
    let made = fill(&temporary, now_us).map_err(|error| failed(&temporary, error));
    made?;
    let synced = fs::File::open(&temporary).and_then(|file| file.sync_all());
    synced.map_err(|source| IoError::new(IoOp::Sync, &temporary, source))?;
    let renamed = fs::rename(&temporary, path);
    renamed.map_err(|source| IoError::new(IoOp::Rename, &temporary, source))?;
    path.parent().map_or(Ok(()), sync_dir)?;
    Ok(())
}

/// The tables of an empty catalog.
///
/// Incarnations begin at the time of creation: after a catalog was lost and a new one is made, no
/// old directory passes for a partition of the new one.
fn fill(path: &Path, now_us: u64) -> Result<(), redb::Error> {
    let database = builder().create(path)?;
    let write = database.begin_write()?;
    {
        let mut meta = write.open_table(META)?;
        meta.insert(META_VERSION, VERSION)?;
        meta.insert(META_NEXT_INCARNATION, now_us.max(1))?;
        write.open_table(STREAMS)?;
        write.open_table(TOPICS)?;
        write.open_table(PARTITIONS)?;
    }
    write.commit()?;
    database.close()?;
    Ok(())
}

/// redb's error in our words. Those of the disk keep the number that the system gave.
fn failed(path: &Path, error: impl Into<redb::Error>) -> CatalogError {
    match error.into() {
        redb::Error::Io(source) if source.raw_os_error().is_some() => {
            CatalogError::Io(IoError::new(IoOp::Write, path, source))
        }
        redb::Error::Io(source) => {
            CatalogError::Damaged { path: path.to_owned(), why: source.to_string() }
        }
        redb::Error::Corrupted(why) => CatalogError::Damaged { path: path.to_owned(), why },
        error @ (redb::Error::TableDoesNotExist(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }) => {
            CatalogError::Damaged { path: path.to_owned(), why: error.to_string() }
        }
        redb::Error::UpgradeRequired(found) => CatalogError::Damaged {
            path: path.to_owned(),
            why: format!("its store has the format {found}, which this build does not read"),
        },
        other => CatalogError::Store(Box::new(other)),
    }
}
