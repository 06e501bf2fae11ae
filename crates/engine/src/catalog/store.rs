//! The catalog's tables in redb. Synchronous file I/O: for the catalog's own thread only.
//!
//! Every change is one transaction, durable when it has returned. A file appears under its name
//! only when it is complete, so a crash during the first open leaves nothing half made.
//!
//! After an error the file is not trusted again: what a write or a sync that failed has left in it,
//! and in the kernel's cache, is unknown, and a sync that succeeds later says nothing about it. All
//! rows are written anew beside it, from memory, and take its place before the next change.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use corelog_io::{IoError, IoOp};
use redb::{
    Builder, Database, Durability, ReadableDatabase, ReadableTable, TableDefinition,
    WriteTransaction,
};

use super::record::{GroupRecord, PartitionRecord, StreamRecord, TopicRecord};
use super::row::Row;
use super::{CatalogError, key};
use crate::data_dir::sync_dir;
use crate::observe::Events;

/// The catalog's version: which tables there are and what their keys mean.
const VERSION: u64 = 2;
/// Pages of the catalog in memory.
const CACHE_BYTES: usize = 16 << 20;

/// Numbers of the catalog as a whole.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const STREAMS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("streams");
const TOPICS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("topics");
const PARTITIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("partitions");
const GROUPS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("groups");

const META_VERSION: &str = "version";
/// The first incarnation that was given. Directories of older ones are not this catalog's.
const META_FIRST_INCARNATION: &str = "first_incarnation";
/// The incarnation that the next partition gets. Only ever grows.
const META_NEXT_INCARNATION: &str = "next_incarnation";

/// The catalog file.
#[derive(Debug)]
pub(crate) struct Store {
    /// `None` since a change failed: the file is to be written anew.
    database: RefCell<Option<Database>>,
    path: PathBuf,
    events: Events,
}

impl Store {
    /// Opens the catalog at `path`; creates an empty one where none is.
    pub(super) fn open(path: &Path, now_us: u64, events: Events) -> Result<Store, CatalogError> {
        // Not followed: a link that leads nowhere is no reason to begin an empty catalog.
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Err(damaged(path, "it is no regular file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(lost) = path.parent().and_then(engine_wrote) {
                    let why = format!("it is missing, and {} needs it", lost.display());
                    return Err(damaged(path, &why));
                }
                create(path, &empty(now_us))?;
            }
            Err(error) => return Err(IoError::new(IoOp::Open, path, error).into()),
        }
        let database = open(path)?;
        let store = Store { database: RefCell::new(None), path: path.to_owned(), events };
        store.check_version(&database)?;
        store.database.replace(Some(database));
        Ok(store)
    }

    fn check_version(&self, database: &Database) -> Result<(), CatalogError> {
        let read = database.begin_read().map_err(|e| self.failed(e))?;
        let meta = read.open_table(META).map_err(|e| self.failed(e))?;
        let version = meta.get(META_VERSION).map_err(|e| self.failed(e))?.map(|v| v.value());
        match version {
            Some(VERSION) => Ok(()),
            Some(found) if found > VERSION => Err(CatalogError::Newer {
                what: "catalog",
                found: u32::try_from(found).unwrap_or(u32::MAX),
                known: VERSION as u32,
            }),
            Some(found @ 1..VERSION) => Err(CatalogError::Older { found: found as u32 }),
            found => Err(self.damaged(format!("its version is {found:?}"))),
        }
    }

    /// All rows, in the order that [`super::model::Model::load`] wants.
    pub(super) fn rows(&self) -> Result<Vec<Row>, CatalogError> {
        let database = self.database.borrow();
        let database = database.as_ref().expect("rows are read before anything is changed");
        let read = database.begin_read().map_err(|e| self.failed(e))?;
        let mut rows = Vec::new();
        let meta = read.open_table(META).map_err(|e| self.failed(e))?;
        let number = |key| {
            let value = meta.get(key).map_err(|e| self.failed(e))?.map(|value| value.value());
            value.ok_or_else(|| self.damaged(format!("it has no {key}")))
        };
        let (first, next) = (number(META_FIRST_INCARNATION)?, number(META_NEXT_INCARNATION)?);
        if first > next {
            return Err(self.damaged(format!("its next incarnation, {next}, is before {first}")));
        }
        rows.extend([Row::FirstIncarnation(first), Row::NextIncarnation(next)]);

        let streams = read.open_table(STREAMS).map_err(|e| self.failed(e))?;
        for row in streams.iter().map_err(|e| self.failed(e))? {
            let (id, record) = row.map_err(|e| self.failed(e))?;
            let record = StreamRecord::decode(record.value()).map_err(|e| self.named(e))?;
            rows.push(Row::Stream { id: id.value(), record: Some(record) });
        }
        let topics = read.open_table(TOPICS).map_err(|e| self.failed(e))?;
        for row in topics.iter().map_err(|e| self.failed(e))? {
            let (topic, record) = row.map_err(|e| self.failed(e))?;
            let (stream, id) = key::topic_ids(topic.value());
            let record = TopicRecord::decode(record.value()).map_err(|e| self.named(e))?;
            rows.push(Row::Topic { stream, id, record: Some(record) });
        }
        let partitions = read.open_table(PARTITIONS).map_err(|e| self.failed(e))?;
        for row in partitions.iter().map_err(|e| self.failed(e))? {
            let (partition, record) = row.map_err(|e| self.failed(e))?;
            let record = PartitionRecord::decode(record.value()).map_err(|e| self.named(e))?;
            let id = key::partition_id(partition.value());
            rows.push(Row::Partition { id, record: Some(record) });
        }
        let groups = read.open_table(GROUPS).map_err(|e| self.failed(e))?;
        for row in groups.iter().map_err(|e| self.failed(e))? {
            let (group, record) = row.map_err(|e| self.failed(e))?;
            let (stream, topic, id) = key::group_ids(group.value());
            let record = GroupRecord::decode(record.value()).map_err(|e| self.named(e))?;
            rows.push(Row::Group { stream, topic, id, record: Some(record) });
        }
        Ok(rows)
    }

    /// Writes `rows` in one durable transaction: all of them or none. `all` gives every row as it
    /// stands without them.
    ///
    /// After an error the file may hold them, as a whole, until it is written anew; that is tried
    /// at once, and again with each change.
    pub(super) fn commit(
        &self,
        rows: &[Row],
        all: impl Fn() -> Vec<Row>,
    ) -> Result<(), CatalogError> {
        // Put back only when all is well: a panic leaves nothing that is half done behind either.
        let database = match self.database.take() {
            Some(database) => database,
            None => self.renewed(&all())?,
        };
        let changed = change(&database, rows);
        if let Err(error) = &changed {
            drop(database);
            self.events.catalog_failed(&self.path, error);
            self.database.replace(self.renewed(&all()).ok());
        } else {
            self.database.replace(Some(database));
        }
        changed.map_err(|error| self.failed(error))
    }

    /// A file of `rows` in place of the one that is there.
    fn renewed(&self, rows: &[Row]) -> Result<Database, CatalogError> {
        let renewed = create(&self.path, rows).and_then(|()| open(&self.path));
        match &renewed {
            Ok(_) => self.events.catalog_renewed(&self.path),
            Err(error) => self.events.catalog_not_renewed(&self.path, error),
        }
        renewed
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

/// Writes `rows` in one durable transaction.
fn change(database: &Database, rows: &[Row]) -> Result<(), redb::Error> {
    let mut write = database.begin_write()?;
    write.set_durability(Durability::Immediate)?;
    // In two steps: what counts is whole before it counts, so that damage to it, after a kill, is
    // not taken for a change that was cut off and undone without a word.
    write.set_two_phase_commit(true);
    put(&write, rows)?;
    Ok(write.commit()?)
}

fn put(write: &WriteTransaction, rows: &[Row]) -> Result<(), redb::Error> {
    let mut meta = write.open_table(META)?;
    let mut streams = write.open_table(STREAMS)?;
    let mut topics = write.open_table(TOPICS)?;
    let mut partitions = write.open_table(PARTITIONS)?;
    let mut groups = write.open_table(GROUPS)?;
    for row in rows {
        match row {
            Row::FirstIncarnation(first) => drop(meta.insert(META_FIRST_INCARNATION, first)?),
            Row::NextIncarnation(next) => drop(meta.insert(META_NEXT_INCARNATION, next)?),
            Row::Stream { id, record: None } => drop(streams.remove(id)?),
            Row::Stream { id, record: Some(record) } => {
                streams.insert(id, &record.encode()[..])?;
            }
            Row::Topic { stream, id, record: None } => {
                topics.remove(key::topic(*stream, *id))?;
            }
            Row::Topic { stream, id, record: Some(record) } => {
                topics.insert(key::topic(*stream, *id), &record.encode()[..])?;
            }
            Row::Partition { id, record: None } => {
                partitions.remove(key::partition(*id))?;
            }
            Row::Partition { id, record: Some(record) } => {
                partitions.insert(key::partition(*id), &record.encode()[..])?;
            }
            Row::Group { stream, topic, id, record: None } => {
                groups.remove(key::group(*stream, *topic, *id))?;
            }
            Row::Group { stream, topic, id, record: Some(record) } => {
                groups.insert(key::group(*stream, *topic, *id), &record.encode()[..])?;
            }
        }
    }
    Ok(())
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

fn open(path: &Path) -> Result<Database, CatalogError> {
    // The check reads all of it. Without it, a file that was changed by someone else is trusted,
    // and the store may panic over it later.
    let opened = builder().set_check_integrity_on_open(true).open(path);
    opened.map_err(|error| failed(path, error))
}

/// A catalog of `rows` under that name, complete and durable, whatever was there.
fn create(path: &Path, rows: &[Row]) -> Result<(), CatalogError> {
    let temporary = path.with_extension("tmp");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(IoError::new(IoOp::Remove, &temporary, error).into());
        }
        _ => {}
    }
    let made = fill(&temporary, rows).map_err(|error| failed(&temporary, error));
    made?;
    let synced = fs::File::open(&temporary).and_then(|file| file.sync_all());
    synced.map_err(|source| IoError::new(IoOp::Sync, &temporary, source))?;
    let renamed = fs::rename(&temporary, path);
    renamed.map_err(|source| IoError::new(IoOp::Rename, &temporary, source))?;
    path.parent().map_or(Ok(()), sync_dir)?;
    Ok(())
}

/// The rows of an empty catalog.
///
/// Incarnations begin at the time of creation: after a catalog was lost and a new one is made, no
/// old directory passes for a partition of the new one.
fn empty(now_us: u64) -> [Row; 2] {
    [Row::FirstIncarnation(now_us.max(1)), Row::NextIncarnation(now_us.max(1))]
}

fn fill(path: &Path, rows: &[Row]) -> Result<(), redb::Error> {
    let database = builder().create(path)?;
    let write = database.begin_write()?;
    write.open_table(META)?.insert(META_VERSION, VERSION)?;
    put(&write, rows)?;
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
