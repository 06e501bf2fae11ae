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
//! | one producer that needs its order kept under overload | [`calls::Producer`], from [`Client::producer`] |
//!
//! What most programs need stands here; the rest by subject: [`streams`] (what there is, and its
//! options), [`consumers`] (stored offsets, groups), [`calls`] (what is on its way), [`error`],
//! [`stats`], [`machine`], and [`mod@format`], the bytes themselves.
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
//! [`consumers::Groups`] deals the partitions of a topic to the members of a consumer group, and fences
//! their polls and stores ([`Client::poll_as`], [`Client::store_offset_as`]).
//!
//! # Dropped futures
//!
//! Every call takes its place in the order when it is made, not when its future is first polled.
//! Dropping the future gives up the answer, never the request, and leaves nothing behind:
//!
//! | dropped | what becomes of it |
//! | --- | --- |
//! | `append` | may be stored, or not; where it is, whole and in its place |
//! | `flush` | the flush goes on; nobody hears of its end |
//! | `poll` | what it would have got goes home; with [`Poll::auto_commit`] it may be stored as done all the same |
//! | `poll_as` | over at once for the group; as `poll` otherwise |
//! | `store_offset`, `delete_offset`, `delete_segments` | done, or not |
//! | `watermarks`, `offset`, `figures`, `stats`, `totals` | nothing |
//! | changes of [`streams::Catalog`] | made as a whole, or not at all |
//! | `reopen_partition` | goes on; a partition that could not be opened may stay closed |
//! | [`Engine::run_on_shard`] | the code runs on |
//! | [`Engine::close`] | the engine closes |
//!
//! # At the limits
//!
//! Everything has a limit; none makes a call wait for another one's, or loses what was taken in.
//!
//! | what is used up | what happens |
//! | --- | --- |
//! | requests or bytes in flight, a mailbox ([`Limits`]) | `Busy` at once, nothing was done |
//! | buffers | appends and polls wait; records beyond the leases are copies |
//! | a segment ([`TopicConfig::segment_bytes`]) | it is sealed and another one begun, as `figures` tell; nothing wraps around |
//! | a topic ([`TopicConfig::max_topic_size`], [`TopicConfig::message_expiry`]) | its oldest sealed segments are deleted, never beyond what a consumer has stored, and the first offset moves up |
//! | the disk | `StorageFull` before anything is stamped; with space again appends go on by themselves |
//! | offsets of consumers, memberships | an error that says which |
//!
//! Errors stand in [`error`], one small enum for each call; counters and times in [`stats`], for
//! exporters by the feature `metrics`. What an operator must know goes to `tracing`, see
//! `docs/operations.md`; no subscriber is installed here. What may gain fields or variants is
//! marked `non_exhaustive`; [`Limits`] and [`TopicConfig`] are to be written with
//! `..Default::default()`, as they gain fields too.
#![deny(unsafe_code)]

mod builder;
pub mod calls;
mod catalog;
mod change;
mod client;
mod clock_keeper;
pub mod consumers;
mod context;
mod control;
mod data_dir;
mod engine;
pub mod error;
mod groups;
mod guests;
mod limits;
mod lock;
pub mod machine;
#[cfg(feature = "metrics")]
pub mod metrics;
mod observe;
mod opening;
mod poll;
mod progress;
mod run;
mod runtime;
mod shard_main;
pub mod stats;
pub mod streams;
mod topic;
mod trash;
mod works;

pub use builder::EngineBuilder;
pub use client::Client;
pub use context::ShardContext;
pub use engine::Engine;
pub use limits::Limits;
pub use poll::Poll;
pub use topic::TopicConfig;

pub use corelog_format::{BatchBuilder, Message};
pub use corelog_shard::{PartitionId, Records};
pub use corelog_storage::{Ack, Appended};

pub use corelog_format as format;
