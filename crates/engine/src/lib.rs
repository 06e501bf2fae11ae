//! A storage engine for message brokers: an append-only log a partition, a core a shard, files past
//! the page cache, and one byte layout from the producer to the disk and back.
//!
//! ```
//! use corelog::{Ack, BatchBuilder, Engine, Message, PartitionId, Poll, TopicConfig};
//!
//! # let parent = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tmp");
//! # std::fs::create_dir_all(parent)?;
//! # let dir = tempfile::tempdir_in(parent)?;
//! # let dir = dir.path().join("data");
//! let engine = Engine::builder(dir).shards(1).open()?;
//! let client = engine.client();
//! let stream = client.catalog().create_stream("shop").wait()?;
//! client.catalog().create_topic(stream.id, "orders", TopicConfig::default()).wait()?;
//!
//! let mut batch = BatchBuilder::new();
//! batch.push(Message::new(b"hello"))?;
//! batch.push(Message::new(b"world").id(7))?;
//! let partition = PartitionId::new(stream.id, 0, 0);
//! let appended = client.append_blocking(partition, batch.finish()?, Ack::Durable)?;
//! assert_eq!((appended.base_offset, appended.message_count), (0, 2));
//!
//! let records = client.poll_blocking(partition, Poll::offset(1))?;
//! for batch in records.batches() {
//!     for frame in batch?.open()?.frames() {
//!         assert_eq!(frame.payload(), b"world");
//!     }
//! }
//! drop(records); // gives its memory back to the shard
//! engine.close_blocking()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The ways in
//!
//! | from | with |
//! | --- | --- |
//! | a thread that may wait | [`Client`], the `.._blocking` calls |
//! | a task of any async runtime | [`Client`], the calls without; each answers a future |
//! | code on a shard (a broker's connections) | [`ShardContext`], from [`Engine::run_on_shard`] |
//! | one producer that needs its order kept under overload | [`Producer`], from [`Client::producer`] |
//!
//! # What an answer is worth
//!
//! | ack | the batch is | survives | polls see it |
//! | --- | --- | --- | --- |
//! | [`Ack::Appended`] | in the shard's memory, with its offset | nothing yet; it goes to the device within `flush_after` | yes |
//! | [`Ack::Written`] | in the device, as far as the kernel says | the end of the process | yes |
//! | [`Ack::Durable`] | synced after it was written | power loss | yes |
//!
//! A topic with `enforce_fsync` raises every ack to `Durable`, and polls end at what is durable
//! there.
//!
//! # The life of a batch
//!
//! | step | where | what happens | how it can refuse |
//! | --- | --- | --- | --- |
//! | bytes arrive | any thread, any runtime, or a shard | viewed, not copied | `Refused` |
//! | admission | the same thread | one pass: layout, counts, reserved zeros, user headers, all checksums | `Refused`: field and byte; nothing is stored |
//! | shuffle | the same thread | partition -> owning shard | |
//! | mailbox | one a shard | the one crossing; the bytes move by reference | `Busy`: full; never blocks a shard |
//! | owner | the shard | stamps partition, offset and time, and the batch checksum anew | `UnknownPartition`, `StorageFull`, `Poisoned`, `Closed` |
//! | appender | storage | the one copy, into the aligned tail buffer | a pool that is used up: it waits |
//! | file | the disk | O_DIRECT writes, several in flight, and group sync | the first I/O error is kept: `Poisoned` |
//! | index | storage | `written`, then `durable` move; waiting appends are answered | |
//! | poll | the shard | from the tail in memory or from the disk, verified, cut to size | `Corrupt`: segment and position |
//! | reply | the caller | views of the shard's memory; dropping them gives it back | |
//!
//! # Consumers
//!
//! [`Client::catalog`] leads to streams, topics, partitions and consumer groups, by id or name.
//! What a consumer or a group is done with is an offset that it stores in the partition
//! ([`Client::store_offset`], [`Poll::auto_commit`]); [`Poll::next`] goes on behind it, and
//! [`Poll::max_wait`] waits for messages without asking again and again. Reading moves nothing by
//! itself.
//!
//! [`Groups`] deals the partitions of a topic to the members of a consumer group, and fences
//! their polls and stores ([`Client::poll_as`], [`Client::store_offset_as`]).
//!
//! # Dropped futures
//!
//! Every call takes its place in the order when it is made. Dropping its future gives up the
//! answer, not the request: a dropped append may be stored, a dropped poll sends home what it would
//! have got.
//!
//! Errors stand in [`error`], one small enum for each call; counters in [`stats`].
#![deny(unsafe_code)]

mod builder;
mod catalog;
mod change;
mod client;
mod clock_keeper;
mod context;
mod control;
mod data_dir;
mod engine;
pub mod error;
mod groups;
mod guests;
mod limits;
mod lock;
mod opening;
mod poll;
mod runtime;
mod shard_main;
pub mod stats;
mod streams;
mod topic;
mod trash;
mod works;

pub use builder::EngineBuilder;
pub use change::Change;
pub use client::Client;
pub use context::ShardContext;
pub use engine::Engine;
pub use groups::{
    Assignment, ClientId, GroupDetails, GroupId, Groups, Member, MemberInfo, MemberPoll,
    MemberStore,
};
pub use limits::Limits;
pub use poll::Poll;
pub use runtime::{DirectIo, HugePageAlloc};
pub use streams::{Catalog, GroupInfo, Ident, StreamInfo, TopicInfo};
pub use topic::{OptionDescription, OptionScope, TopicConfig, TopicOptions, describe_options};

/// The types of the wire that a broker takes requests apart with.
pub mod wire {
    pub use corelog_format::checksum::xxh3;
    pub use corelog_format::{Consumer, Name, OptionalPartition, PollingKind, PollingStrategy};
}

pub use corelog_format::{
    BatchBuilder, Compression, ConsumerKind, Identifier, Message, MessagesKey, OptionsBlock,
    Partitioning,
};
pub use corelog_shard::{Call, PartitionId, Producer, Records, Scope};
pub use corelog_storage::{Ack, Appended, ConsumerKey, Figures, Trimmed, Watermarks};
