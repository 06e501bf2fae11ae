//! commitlog: one writer, and no call that syncs data (`flush` is the file's, which does nothing),
//! so it stands in the first class only.

use std::path::Path;
use std::sync::Mutex;

use commitlog::message::{MessageBuf, MessageSet};
use commitlog::{CommitLog, LogOptions, ReadLimit};

use super::{Log, Sink};
use crate::Fault;

/// Above the largest batch.
const BATCH_BYTES_MAX: usize = 8 << 20;

struct Open(Mutex<CommitLog>);

fn log(dir: &Path) -> Result<CommitLog, Fault> {
    let mut options = LogOptions::new(dir.join("log"));
    options.message_max_bytes(BATCH_BYTES_MAX);
    Ok(CommitLog::new(options)?)
}

pub(super) fn open(dir: &Path) -> Result<Box<dyn Log>, Fault> {
    Ok(Box::new(Open(Mutex::new(log(dir)?))))
}

impl Log for Open {
    fn append(&self, _: u32, _: u64, records: &[&[u8]]) -> Result<(), Fault> {
        let mut buffer: MessageBuf = records.iter().collect();
        let mut log = self.0.lock().expect("nothing panics under this lock");
        log.append(&mut buffer).map_err(|error| format!("{error:?}"))?;
        Ok(())
    }

    fn sync(&self) -> Result<bool, Fault> {
        Ok(false)
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        Ok(())
    }
}

pub(super) fn read(dir: &Path, sink: Sink<'_>) -> Result<(), Fault> {
    let log = log(dir)?;
    let mut offset = 0;
    loop {
        let limit = ReadLimit::max_bytes(1 << 20);
        let found = log.read(offset, limit).map_err(|error| format!("{error:?}"))?;
        let before = offset;
        for message in found.iter() {
            sink(message.payload())?;
            offset = message.offset() + 1;
        }
        if offset == before {
            return Ok(());
        }
    }
}
