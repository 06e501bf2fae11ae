//! open-wal: appends are in memory, `commit` writes and syncs them; one writer.

use std::path::Path;
use std::sync::Mutex;

use open_wal::{Lsn, Wal, WalConfig};

use super::{Log, Sink};
use crate::Fault;

struct Open(Mutex<Wal>);

pub(super) fn open(dir: &Path) -> Result<Box<dyn Log>, Fault> {
    let (wal, _) = Wal::open(&dir.join("log"), WalConfig::default())?;
    Ok(Box::new(Open(Mutex::new(wal))))
}

impl Log for Open {
    fn append(&self, _: u32, _: u64, records: &[&[u8]]) -> Result<(), Fault> {
        let mut wal = self.0.lock().expect("nothing panics under this lock");
        for record in records {
            wal.append(record)?;
        }
        wal.commit()?;
        Ok(())
    }

    fn sync(&self) -> Result<bool, Fault> {
        // Every commit was one.
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        Ok(())
    }
}

pub(super) fn read(dir: &Path, sink: Sink<'_>) -> Result<(), Fault> {
    let (wal, _) = Wal::open(&dir.join("log"), WalConfig::default())?;
    let mut reader = wal.reader_from(Lsn(0))?;
    while let Some(record) = reader.next() {
        let (_, record) = record?;
        sink(record)?;
    }
    Ok(())
}
