//! Many partitions on one core, and the crossing between cores.
//!
//! The life of a request, file by file:
//!
//! | step | file |
//! | --- | --- |
//! | bytes are verified where they arrive, and take their share of the limits | `client`, `producer`, `limits` |
//! | the shuffle: which shard owns the partition | `placement` |
//! | the one crossing, and the wake of a shard that sleeps | `mailbox`, `wake`, `request` |
//! | the owner hands it to its partition | `shard`, `partitions`, `life`, `tasks` |
//! | a poll waits for messages, until it has some, its time is over or its caller gives up | `waits` |
//! | the answer comes back, or `Closed` where the shard is gone | `reply`, `slab`, `free`, `records` |
//! | who waits for it on a shard is woken there | `home`, `here` |
//! | how long that took, what has happened, how much of it | `timing`, `stats`, `figures` |
//!
//! [`Shards::new`] makes the outside and a [`Seat`] for each shard. On its own thread each seat
//! becomes a [`Shard`], which runs until it is closed. [`Client`]s append and poll from any thread,
//! [`ShardContext`]s from the shards themselves.
//!
//! One shard on the simulated platform, used from the same thread:
//!
//! ```
//! use corelog_format::{BatchBuilder, Message};
//! use corelog_io::{Platform, Spawn, sim};
//! use corelog_shard::{ClientLimits, CopyOut, PartitionId, Shard, ShardLimits, Shards};
//! use corelog_storage::{Ack, From, LogConfig, Place, PollQuery, SharedLimits};
//!
//! sim::run(1, |platform| async move {
//!     let (shards, seats) = Shards::new(1, &ShardLimits::default());
//!     for seat in seats {
//!         let shard = Shard::new(seat, platform.clone(), CopyOut, SharedLimits::default());
//!         platform.spawn().spawn(shard.run());
//!     }
//!     let partition = PartitionId::new(0, 0, 0);
//!     let (root, dir) = ("/".into(), "/0".into());
//!     let place = Place { root, dir, partition_id: 0, incarnation: 1 };
//!     shards.open(partition, place, LogConfig::default()).await.unwrap();
//!
//!     let mut batch = BatchBuilder::new();
//!     batch.push(Message::new(b"hello").id(1)).unwrap();
//!     let client = shards.client(&ClientLimits::default());
//!     let bytes = batch.finish().unwrap().into();
//!     let appended = client.append(partition, bytes, Ack::Durable).await.unwrap();
//!     assert_eq!(appended.base_offset, 0);
//!
//!     let query = PollQuery::new(From::First, 10, 1 << 20);
//!     let records = client.poll(partition, query).await.unwrap();
//!     let first = records.batches().next().unwrap().unwrap();
//!     assert_eq!(first.open().unwrap().frames().next().unwrap().payload(), b"hello");
//!     shards.close_all(0).await.unwrap();
//! });
//! ```
//!
//! A shard never blocks. Nothing here knows a runtime: disk, clock and tasks come through the
//! traits of `corelog-io`, real or simulated, and buffers leave their shard through [`Lend`].
#![forbid(unsafe_code)]

mod client;
mod context;
mod error;
mod figures;
mod free;
mod here;
mod home;
mod life;
mod limits;
mod mailbox;
mod partitions;
mod placement;
mod producer;
mod records;
mod reopen;
mod reply;
mod request;
mod retention;
mod shard;
mod shards;
mod slab;
mod stats;
mod sync;
mod tasks;
mod thread;
mod timing;
mod waits;
mod wake;

pub use client::{AppendCall, Client, FlushCall, PollCall, WatermarksCall};
pub use context::ShardContext;
pub use error::{
    AppendError, ControlError, FailureReason, OffsetError, PartitionFailure, PollError, Unavailable,
};
pub use figures::Scope;
pub use here::glance;
pub use limits::{ClientLimits, ShardLimits};
pub use placement::PartitionId;
pub use producer::Producer;
pub use records::{Batches, CopyOut, Lend, RecordBatch, Records};
pub use reply::Call;
pub use request::Follow;
pub use shard::Shard;
pub use shards::{Seat, Shards};
pub use stats::{CloseReport, ShardStats};
pub use thread::ShardThread;
pub use timing::{Observer, ShardNotice, Ticks, Took};
