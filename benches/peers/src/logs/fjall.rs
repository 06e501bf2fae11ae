//! fjall: a key-value store, so it also keeps an index and rewrites what it was given; keys are
//! producer and number. Its memory goes to the journal's file with `PersistMode::Buffer`.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Log, Sink};
use crate::Fault;
use crate::work::Class;

struct Open {
    db: Database,
    records: Keyspace,
    mode: PersistMode,
}

fn database(dir: &Path) -> Result<(Database, Keyspace), Fault> {
    let db = Database::builder(dir.join("db")).open()?;
    let records = db.keyspace("records", KeyspaceCreateOptions::default)?;
    Ok((db, records))
}

pub(super) fn open(dir: &Path, class: Class) -> Result<Box<dyn Log>, Fault> {
    let (db, records) = database(dir)?;
    let mode = if class.is_durable() { PersistMode::SyncData } else { PersistMode::Buffer };
    Ok(Box::new(Open { db, records, mode }))
}

impl Log for Open {
    fn append(&self, producer: u32, first: u64, records: &[&[u8]]) -> Result<(), Fault> {
        let mut batch = self.db.batch().durability(Some(self.mode));
        for (number, record) in (first..).zip(records) {
            let mut key = [0; 12];
            key[..4].copy_from_slice(&producer.to_be_bytes());
            key[4..].copy_from_slice(&number.to_be_bytes());
            batch.insert(&self.records, key.as_slice(), *record);
        }
        Ok(batch.commit()?)
    }

    fn sync(&self) -> Result<bool, Fault> {
        self.db.persist(PersistMode::SyncData)?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        Ok(())
    }
}

pub(super) fn read(dir: &Path, sink: Sink<'_>) -> Result<(), Fault> {
    let (_db, records) = database(dir)?;
    for entry in records.iter() {
        let (_, record) = entry.into_inner()?;
        sink(&record)?;
    }
    Ok(())
}
