//! wal-db: a pwrite a record, as it has no call for many; `sync` is shared by threads.

use std::path::Path;

use wal_db::Wal;

use super::{Log, Sink};
use crate::Fault;
use crate::work::Class;

struct Open<S: wal_db::WalStore> {
    wal: Wal<S>,
    is_durable: bool,
}

pub(super) fn open(dir: &Path, class: Class) -> Result<Box<dyn Log>, Fault> {
    let wal = Wal::open(dir.join("log"))?;
    Ok(Box::new(Open { wal, is_durable: class.is_durable() }))
}

impl<S: wal_db::WalStore + Send + Sync> Log for Open<S> {
    fn append(&self, _: u32, _: u64, records: &[&[u8]]) -> Result<(), Fault> {
        if let ([record], true) = (records, self.is_durable) {
            return Ok(self.wal.append_and_sync(record).map(drop)?);
        }
        for record in records {
            self.wal.append(record).map(drop)?;
        }
        if self.is_durable {
            self.wal.sync()?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<bool, Fault> {
        self.wal.sync()?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        Ok(())
    }
}

pub(super) fn read(dir: &Path, sink: Sink<'_>) -> Result<(), Fault> {
    let wal = Wal::open(dir.join("log"))?;
    for record in wal.iter()? {
        sink(record?.data())?;
    }
    Ok(())
}
