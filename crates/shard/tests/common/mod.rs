//! What the tests of the shard share: batches, places, and shards on the simulated platform.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::PathBuf;

use bytes::Bytes;
use corelog_format::{BatchBuilder, Message};
use corelog_io::sim::{Sim, SimPlatform};
use corelog_io::{Platform, Spawn};
use corelog_shard::{
    ClientLimits, CopyOut, PartitionId, Records, Seat, Shard, ShardLimits, Shards,
};
use corelog_storage::{From, LogConfig, Place, PollQuery, SharedLimits};

/// A producer batch of one message for each number.
pub(crate) fn batch(numbers: impl IntoIterator<Item = u64>) -> Bytes {
    let mut builder = BatchBuilder::new();
    for number in numbers {
        builder.push(Message::new(&number.to_le_bytes()).id(number.into())).unwrap();
    }
    builder.finish().unwrap().into()
}

/// The numbers of [`batch`], out of verified records.
pub(crate) fn numbers(records: &Records) -> Vec<u64> {
    let mut numbers = Vec::new();
    for batch in records.batches() {
        let batch = batch.unwrap();
        let verified = batch.verify().unwrap();
        numbers
            .extend(verified.frames().map(|f| u64::from_le_bytes(f.payload().try_into().unwrap())));
    }
    numbers
}

/// Everything from `offset` on, as far as one poll goes.
pub(crate) fn from(offset: u64) -> PollQuery {
    PollQuery::new(From::Offset(offset), u32::MAX, usize::MAX)
}

/// Partition `partition` of the one topic of most tests.
pub(crate) fn id(partition: u32) -> PartitionId {
    PartitionId::new(1, 2, partition)
}

/// Where it lives.
pub(crate) fn place(partition: PartitionId) -> Place {
    Place {
        root: PathBuf::from("/"),
        dir: PathBuf::from(format!("/{}-{}", partition.topic, partition.partition)),
        partition_id: partition.partition,
        incarnation: 1,
    }
}

pub(crate) fn config() -> LogConfig {
    LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() }
}

/// A shard that copies what it serves.
pub(crate) fn shard(seat: Seat, sim: &Sim) -> Shard<SimPlatform, CopyOut> {
    Shard::new(seat, sim.platform().clone(), CopyOut, SharedLimits::default())
}

/// `count` running shards.
pub(crate) fn running(sim: &Sim, count: usize, limits: &ShardLimits) -> Shards {
    let (shards, seats) = Shards::new(count, limits);
    for seat in seats {
        sim.platform().spawn().spawn(shard(seat, sim).run());
    }
    shards
}

/// Shards with the partitions `0..partitions` open.
pub(crate) async fn opened(sim: &Sim, count: usize, partitions: u32) -> Shards {
    let shards = running(sim, count, &ShardLimits::default());
    for partition in 0..partitions {
        shards.open(id(partition), place(id(partition)), config()).await.unwrap();
    }
    shards
}

pub(crate) async fn close(shards: &Shards) {
    for index in 0..shards.count() {
        let report = shards.close_all(index).await.unwrap();
        assert!(report.failed.is_empty(), "{report:?}");
    }
}

pub(crate) fn limits(requests_in_flight: usize, bytes_in_flight: usize) -> ClientLimits {
    ClientLimits { requests_in_flight, bytes_in_flight }
}
