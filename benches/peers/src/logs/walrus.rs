//! walrus: a batch always ends in a sync of the files it touched, whatever the schedule; single
//! entries sync each. Silenced by WALRUS_QUIET and pointed at its directory by WALRUS_DATA_DIR,
//! which the parent sets, as both are read from the environment.

use walrus_rust::{FsyncSchedule, ReadConsistency, Walrus};

use super::{Log, Sink};
use crate::Fault;

const TOPIC: &str = "records";

struct Open(Walrus);

fn walrus() -> Result<Walrus, Fault> {
    let reads = ReadConsistency::AtLeastOnce { persist_every: u32::MAX };
    Ok(Walrus::with_consistency_and_schedule(reads, FsyncSchedule::SyncEach)?)
}

pub(super) fn open() -> Result<Box<dyn Log>, Fault> {
    Ok(Box::new(Open(walrus()?)))
}

impl Log for Open {
    fn append(&self, _: u32, _: u64, records: &[&[u8]]) -> Result<(), Fault> {
        match records {
            [record] => self.0.append_for_topic(TOPIC, record)?,
            records => self.0.batch_append_for_topic(TOPIC, records)?,
        }
        Ok(())
    }

    fn sync(&self) -> Result<bool, Fault> {
        // Every append was one.
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        Ok(())
    }
}

pub(super) fn read(sink: Sink<'_>) -> Result<(), Fault> {
    let walrus = walrus()?;
    loop {
        let found = walrus.batch_read_for_topic(TOPIC, 1 << 20, true)?;
        if found.is_empty() {
            return Ok(());
        }
        found.iter().try_for_each(|entry| sink(&entry.data))?;
    }
}
