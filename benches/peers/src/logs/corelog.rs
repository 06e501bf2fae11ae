//! Corelog: a shard, a partition, batches built by the producer's thread; on each of its runtimes.
//!
//! Written means that the device has it, past the page cache: more than the others' page cache,
//! and paid for in this class. Where answers are durable the topic has `enforce_fsync`, which is
//! what it is for.

use std::path::Path;

use corelog::machine::Runtime;
use corelog::{Ack, BatchBuilder, Client, Engine, Message, PartitionId, Poll, TopicConfig};

use super::{Log, Sink};
use crate::Fault;
use crate::work::Class;

const PARTITION: PartitionId = PartitionId { stream: 0, topic: 0, partition: 0 };

struct Open {
    engine: Engine,
    client: Client,
    ack: Ack,
}

pub(super) fn open(
    dir: &Path,
    class: Class,
    runtime: Runtime,
    enforce_fsync: bool,
) -> Result<Box<dyn Log>, Fault> {
    let engine = Engine::builder(dir.join("data")).shards(1).runtime(runtime).open()?;
    let client = engine.client();
    let stream = client.catalog().create_stream("peers").wait()?;
    let config = TopicConfig { partitions: 1, enforce_fsync, ..TopicConfig::default() };
    client.catalog().create_topic(stream.id, "records", config).wait()?;
    let ack = if class.is_durable() { Ack::Durable } else { Ack::Written };
    Ok(Box::new(Open { engine, client, ack }))
}

impl Log for Open {
    fn append(&self, _: u32, _: u64, records: &[&[u8]]) -> Result<(), Fault> {
        let bytes = records.iter().map(|record| record.len() + 64).sum();
        let mut batch = BatchBuilder::with_capacity(bytes);
        for record in records {
            batch.push(Message::new(record))?;
        }
        self.client.append_blocking(PARTITION, batch.finish()?, self.ack)?;
        Ok(())
    }

    fn sync(&self) -> Result<bool, Fault> {
        self.client.flush_blocking(PARTITION, Ack::Durable)?;
        Ok(true)
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        drop(self.client);
        Ok(self.engine.close_blocking()?)
    }
}

pub(super) fn read(dir: &Path, sink: Sink<'_>) -> Result<(), Fault> {
    let engine = Engine::builder(dir.join("data")).shards(1).open()?;
    let client = engine.client();
    let mut offset = 0;
    loop {
        let records = client.poll_blocking(PARTITION, Poll::offset(offset).max_bytes(1 << 20))?;
        for batch in records.batches() {
            for frame in batch?.open()?.frames() {
                sink(frame.payload())?;
            }
        }
        if records.next_offset() == offset {
            break;
        }
        offset = records.next_offset();
    }
    drop(client);
    Ok(engine.close_blocking()?)
}
