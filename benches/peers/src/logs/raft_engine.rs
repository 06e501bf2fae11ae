//! raft-engine: entries of a Raft group for each producer, as it wants contiguous indexes of one;
//! compression off, as others have none; recycling as it is by default.

use std::path::Path;

use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};

use super::{Log, Sink};
use crate::Fault;
use crate::work::{Class, Work};

/// Entries are protobuf messages; the record's own number is its index.
#[derive(Clone)]
struct Record;

impl MessageExt for Record {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        let number = entry.value[8..16].try_into().expect("8 bytes");
        // Groups begin at 1.
        u64::from_le_bytes(number) + 1
    }
}

/// Of no producer.
const END_GROUP: u64 = u64::MAX;

struct Open {
    engine: Engine,
    is_durable: bool,
}

fn engine(dir: &Path) -> Result<Engine, Fault> {
    let config = Config {
        dir: dir.join("log").display().to_string(),
        batch_compression_threshold: ReadableSize(0),
        ..Config::default()
    };
    Ok(Engine::open(config)?)
}

pub(super) fn open(dir: &Path, class: Class) -> Result<Box<dyn Log>, Fault> {
    Ok(Box::new(Open { engine: engine(dir)?, is_durable: class.is_durable() }))
}

impl Log for Open {
    fn append(&self, producer: u32, _: u64, records: &[&[u8]]) -> Result<(), Fault> {
        let entry = |record: &&[u8]| {
            let mut entry = BytesValue::new();
            entry.value = record.to_vec();
            entry
        };
        let entries: Vec<BytesValue> = records.iter().map(entry).collect();
        let mut batch = LogBatch::default();
        batch.add_entries::<Record>(u64::from(producer) + 1, &entries)?;
        self.engine.write(&mut batch, self.is_durable)?;
        Ok(())
    }

    fn sync(&self) -> Result<bool, Fault> {
        // Not `Engine::sync`: that is a write of nothing, which syncs nothing.
        let mut end = LogBatch::default();
        end.put(END_GROUP, b"end".to_vec(), b"end".to_vec())?;
        self.engine.write(&mut end, true)?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        Ok(())
    }
}

pub(super) fn read(dir: &Path, _: Class, work: Work, sink: Sink<'_>) -> Result<(), Fault> {
    const AT_ONCE: u64 = 1000;
    let engine = engine(dir)?;
    for group in 1..=u64::from(work.producers) {
        let end = engine.last_index(group).map_or(0, |last| last + 1);
        let mut next = engine.first_index(group).unwrap_or(0);
        while next < end {
            let mut entries = Vec::new();
            let upto = end.min(next + AT_ONCE);
            engine.fetch_entries_to::<Record>(group, next, upto, None, &mut entries)?;
            entries.iter().try_for_each(|entry| sink(&entry.value))?;
            next = upto;
        }
    }
    Ok(())
}
