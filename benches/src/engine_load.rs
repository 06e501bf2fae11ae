//! The engine under `run`: its public API and nothing else.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use corelog::{Client, Limits, PartitionId, Poll, TopicConfig};

use crate::interrupt::Interrupt;
use crate::subject::{Ack, Demand, Engine, EngineError, LogOptions, Opener, Records, Topic};

/// The stream that holds both topics.
const STREAM: u32 = 0;

/// Partitions that one request creates.
const CREATED_AT_ONCE: u32 = 50;

/// Opens Corelog.
pub(crate) struct Corelog;

/// An open engine and the client that producers and consumers share.
pub(crate) struct Open {
    engine: corelog::Engine,
    client: Client,
    /// Of [`Topic::Written`].
    ack: corelog::Ack,
}

impl Opener for Corelog {
    type Engine = Open;

    fn open(&self, dir: &Path, demand: Demand, interrupt: &Interrupt) -> Result<Open, EngineError> {
        let is_new = !dir.exists();
        let builder = corelog::Engine::builder(dir).runtime(demand.runtime);
        let builder = builder.shards(usize::from(demand.shards));
        let engine = builder.limits(limits(&demand)).open()?;
        for (partition, found) in &engine.opened().not_clean {
            if demand.after_kill && found.is_ok() {
                continue;
            }
            let what = format!("{partition} is not as the clean close left it: {found:?}");
            return Err(what.into());
        }
        let client = engine.client();
        if is_new {
            client.catalog().create_stream("bench").wait()?;
            // In the order of their numbers, which are the ids that they get.
            for topic in [Topic::Written, Topic::Durable] {
                create(&client, topic, &config(topic, &demand), interrupt)?;
            }
        }
        let ack = match demand.ack {
            Ack::Appended => corelog::Ack::Appended,
            Ack::Written => corelog::Ack::Written,
            Ack::Durable => corelog::Ack::Durable,
        };
        Ok(Open { engine, client, ack })
    }
}

/// Creates a topic, its partitions some at a time: each is files and syncs, and the user may stop it
/// in between.
fn create(
    client: &Client,
    topic: Topic,
    config: &TopicConfig,
    interrupt: &Interrupt,
) -> Result<(), EngineError> {
    let catalog = client.catalog();
    let mut created = config.partitions.min(CREATED_AT_ONCE);
    let first = TopicConfig { partitions: created, ..config.clone() };
    catalog.create_topic(STREAM, &format!("{topic:?}"), first).wait()?;
    while created < config.partitions {
        interrupt.check()?;
        let more = (config.partitions - created).min(CREATED_AT_ONCE);
        catalog.add_partitions(STREAM, number(topic), more).wait()?;
        created += more;
    }
    Ok(())
}

fn config(topic: Topic, demand: &Demand) -> TopicConfig {
    let default = TopicConfig::default();
    if topic == Topic::Durable {
        let partitions = demand.durable_partitions;
        return TopicConfig { partitions, enforce_fsync: true, ..default };
    }
    let log: &LogOptions = &demand.log;
    TopicConfig {
        partitions: demand.partitions,
        enforce_fsync: log.enforce_fsync,
        preallocate_segments: log.preallocate_segments,
        segment_bytes: log.segment_bytes.unwrap_or(default.segment_bytes),
        messages_required_to_save: log
            .messages_required_to_save
            .unwrap_or(default.messages_required_to_save),
        size_of_messages_required_to_save: log
            .size_of_messages_required_to_save
            .unwrap_or(default.size_of_messages_required_to_save),
        flush_after: log.flush_after.unwrap_or(default.flush_after),
        max_topic_size: log.max_topic_size,
        message_expiry: log.message_expiry,
        verify_reads: !log.trust_reads,
        ..default
    }
}

/// The defaults, raised where the run has more in flight.
fn limits(demand: &Demand) -> Limits {
    let Limits {
        mailbox_requests,
        appends_in_flight,
        append_bytes_in_flight,
        polls_in_flight,
        poll_bytes,
        client_requests_in_flight,
        client_bytes_in_flight,
        ..
    } = Limits::default();
    Limits {
        mailbox_requests: mailbox_requests.max(demand.appends_in_flight),
        appends_in_flight: appends_in_flight.max(demand.appends_in_flight),
        append_bytes_in_flight: append_bytes_in_flight.max(demand.bytes_in_flight),
        // Consumers beside producers wait at every partition.
        polls_in_flight: polls_in_flight.max(demand.appends_in_flight),
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
            Topic::Written => self.ack,
            Topic::Durable => corelog::Ack::Durable,
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
        wait: Duration,
    ) -> impl Future<Output = Result<corelog::Records, EngineError>> + Send {
        let poll = Poll::offset(offset).max_bytes(bytes_max).max_wait(wait);
        let call = self.client.poll(id(topic, partition), poll);
        async move { Ok(call.await?) }
    }

    fn syncs(&self) -> Option<u64> {
        let stats = self.client.stats_blocking().ok()?;
        let partitions = stats.shards.iter().flat_map(|shard| &shard.partitions);
        Some(partitions.map(|(_, stats)| stats.syncs).sum())
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
