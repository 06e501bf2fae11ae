//! The engine under `run`: its public API and nothing else.

use std::future::Future;
use std::path::Path;

use bytes::Bytes;
use corelog::{Ack, Client, Limits, PartitionId, Poll, TopicConfig};

use crate::subject::{Demand, Engine, EngineError, Opener, Records, Topic};

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

    fn open(&self, dir: &Path, demand: Demand) -> Result<Open, EngineError> {
        let is_new = !dir.exists();
        let builder = corelog::Engine::builder(dir).shards(usize::from(demand.shards));
        let engine = builder.limits(limits(demand)).open()?;
        if let Some((partition, found)) = engine.opened().not_clean.first() {
            let what = format!("{partition} is not as the clean close left it: {found:?}");
            return Err(what.into());
        }
        let client = engine.client();
        if is_new {
            let stream = client.catalog().create_stream("bench").wait()?;
            for topic in [Topic::Written, Topic::Durable] {
                let is_durable = topic == Topic::Durable;
                let config = TopicConfig {
                    partitions: if is_durable { 1 } else { demand.partitions },
                    enforce_fsync: is_durable,
                    ..TopicConfig::default()
                };
                let name = format!("{topic:?}");
                // In the order of their numbers, which are the ids that they get.
                client.catalog().create_topic(stream.id, &name, config).wait()?;
            }
        }
        Ok(Open { engine, client })
    }
}

/// The defaults, raised where the run has more in flight.
fn limits(demand: Demand) -> Limits {
    let Limits {
        mailbox_requests,
        appends_in_flight,
        append_bytes_in_flight,
        poll_bytes,
        client_requests_in_flight,
        client_bytes_in_flight,
        ..
    } = Limits::default();
    Limits {
        mailbox_requests: mailbox_requests.max(demand.appends_in_flight),
        appends_in_flight: appends_in_flight.max(demand.appends_in_flight),
        append_bytes_in_flight: append_bytes_in_flight.max(demand.bytes_in_flight),
        poll_bytes: poll_bytes.max(demand.poll_bytes),
        client_requests_in_flight: client_requests_in_flight.max(demand.appends_in_flight),
        client_bytes_in_flight: client_bytes_in_flight.max(demand.bytes_in_flight),
        ..Limits::default()
    }
}

impl Engine for Open {
    type Records = corelog::Records;

    fn append(
        &self,
        topic: Topic,
        partition: u32,
        batch: Bytes,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        let ack = match topic {
            Topic::Written => Ack::Written,
            Topic::Durable => Ack::Durable,
        };
        // The call takes the place in the order; only the answer is awaited.
        let call = self.client.append(id(topic, partition), batch, ack);
        async move { Ok(call.await.map(drop)?) }
    }

    fn poll(
        &self,
        topic: Topic,
        partition: u32,
        offset: u64,
        bytes_max: usize,
    ) -> impl Future<Output = Result<corelog::Records, EngineError>> + Send {
        let poll = Poll::offset(offset).max_bytes(bytes_max);
        let call = self.client.poll(id(topic, partition), poll);
        async move { Ok(call.await?) }
    }

    fn close(self) -> Result<(), EngineError> {
        drop(self.client);
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
