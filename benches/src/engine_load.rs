//! The engine under `run`: its public API and nothing else.

use std::path::Path;

use bytes::Bytes;
use corelog::{Ack, Client, PartitionId, Poll, TopicConfig};

use crate::subject::{Engine, EngineError, Opener, Records, Topic};

/// The stream that holds both topics.
const STREAM: u32 = 0;

/// Opens Corelog.
pub(crate) struct Corelog;

/// An open engine and the client that producers and consumers share.
pub(crate) struct Open {
    engine: corelog::Engine,
    client: Client,
}

impl Opener for Corelog {
    type Engine = Open;

    fn open(&self, dir: &Path, shards: u16, partitions: u32) -> Result<Open, EngineError> {
        let is_new = !dir.exists();
        let engine = corelog::Engine::builder(dir).shards(usize::from(shards)).open()?;
        let client = engine.client();
        if is_new {
            for topic in [Topic::Written, Topic::Durable] {
                let config = TopicConfig {
                    partitions: if topic == Topic::Durable { 1 } else { partitions },
                    enforce_fsync: topic == Topic::Durable,
                    ..TopicConfig::default()
                };
                client.create_topic_blocking(STREAM, number(topic), config)?;
            }
        }
        Ok(Open { engine, client })
    }
}

impl Engine for Open {
    type Records = corelog::Records;

    async fn append(&self, topic: Topic, partition: u32, batch: Bytes) -> Result<(), EngineError> {
        let ack = match topic {
            Topic::Written => Ack::Written,
            Topic::Durable => Ack::Durable,
        };
        self.client.append(id(topic, partition), batch, ack).await?;
        Ok(())
    }

    async fn poll(
        &self,
        topic: Topic,
        partition: u32,
        offset: u64,
        bytes_max: u64,
    ) -> Result<corelog::Records, EngineError> {
        let poll = Poll::offset(offset).max_bytes(bytes_max);
        Ok(self.client.poll(id(topic, partition), poll).await?)
    }

    fn close(self) -> Result<(), EngineError> {
        Ok(self.engine.close_blocking()?)
    }
}

impl Records for corelog::Records {
    fn slices(&self) -> &[Bytes] {
        corelog::Records::slices(self)
    }

    fn next_offset(&self) -> u64 {
        corelog::Records::next_offset(self)
    }
}

fn id(topic: Topic, partition: u32) -> PartitionId {
    PartitionId { stream: STREAM, topic: number(topic), partition }
}

fn number(topic: Topic) -> u32 {
    match topic {
        Topic::Written => 0,
        Topic::Durable => 1,
    }
}
