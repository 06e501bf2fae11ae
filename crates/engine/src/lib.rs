//! (docs to come)
#![deny(unsafe_code)]

mod builder;
mod catalog;
mod client;
mod clock_keeper;
mod context;
mod control;
mod data_dir;
mod engine;
pub mod error;
mod guests;
mod limits;
mod lock;
mod opening;
mod poll;
mod runtime;
mod shard_main;
pub mod stats;
mod topic;

pub use builder::EngineBuilder;
pub use client::Client;
pub use context::ShardContext;
pub use engine::Engine;
pub use limits::Limits;
pub use poll::Poll;
pub use runtime::{DirectIo, HugePageAlloc};
pub use topic::TopicConfig;

pub use corelog_format::{BatchBuilder, Message};
pub use corelog_shard::{Call, PartitionId, Producer, Records};
pub use corelog_storage::{Ack, Appended, Watermarks};
