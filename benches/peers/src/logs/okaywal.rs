//! okaywal: an entry a batch, a chunk a record; `commit` always syncs, and threads share a sync.
//! Its limits are raised: with the defaults it begins to recycle what was not read yet.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};

use okaywal::{Configuration, Entry, EntryId, LogManager, LogVoid, SegmentReader, WriteAheadLog};

use super::{Log, Sink};
use crate::Fault;

const LOG_BYTES: u32 = 1 << 30;

struct Open(WriteAheadLog);

fn configuration(dir: &Path) -> Configuration {
    Configuration::default_for(dir.join("log"))
        .preallocate_bytes(64 << 20)
        .checkpoint_after_bytes(LOG_BYTES.into())
}

pub(super) fn open(dir: &Path) -> Result<Box<dyn Log>, Fault> {
    Ok(Box::new(Open(configuration(dir).open(LogVoid)?)))
}

impl Log for Open {
    fn append(&self, _: u32, _: u64, records: &[&[u8]]) -> Result<(), Fault> {
        let mut entry = self.0.begin_entry()?;
        for record in records {
            entry.write_chunk(record)?;
        }
        entry.commit()?;
        Ok(())
    }

    fn sync(&self) -> Result<bool, Fault> {
        // Every commit was one.
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        Ok(self.0.shutdown()?)
    }
}

/// Hands on what recovery finds: the only way to read a whole log.
#[derive(Debug)]
struct Recovered(Sender<Vec<u8>>);

impl LogManager for Recovered {
    fn recover(&mut self, entry: &mut Entry<'_>) -> io::Result<()> {
        for chunk in entry.read_all_chunks()?.into_iter().flatten() {
            self.0.send(chunk).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _: EntryId,
        _: &mut SegmentReader,
        _: &WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn read(dir: &Path, sink: Sink<'_>) -> Result<(), Fault> {
    let (found, records) = channel();
    let log = configuration(dir).open(Recovered(found))?;
    // What is there was recovered by now.
    while let Ok(record) = records.try_recv() {
        sink(&record)?;
    }
    Ok(log.shutdown()?)
}
