//! What `run` needs of an engine: the seam between measuring and the engine's public API.

use std::error::Error;
use std::future::Future;
use std::path::Path;

use bytes::Bytes;

/// Any failure of the engine; printed, never matched.
pub(crate) type EngineError = Box<dyn Error + Send + Sync>;

/// The two topics of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// `enforce_fsync = false`, appends answered when written.
    Written,
    /// `enforce_fsync = true`: durable before the answer.
    Durable,
}

/// What a run will ask of an engine, known before it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) shards: u16,
    /// Of [`Topic::Written`]; [`Topic::Durable`] has one.
    pub(crate) partitions: u32,
    /// Appends of all producers that are outstanding at once. Limits must have room for them: an
    /// append refused as busy would measure the limit.
    pub(crate) appends_in_flight: usize,
    /// Bytes of them.
    pub(crate) bytes_in_flight: usize,
    /// Most bytes of a poll's reply.
    pub(crate) poll_bytes: usize,
}

/// Opens engines; the partitions of both topics are there when it returns.
pub(crate) trait Opener: Sync {
    type Engine: Engine;

    /// Opens the data directory `dir` and creates it and the topics if absent. A directory that is
    /// not as a clean close left it is an error.
    fn open(&self, dir: &Path, demand: Demand) -> Result<Self::Engine, EngineError>;
}

/// An open engine. Futures may be awaited on any thread.
pub(crate) trait Engine: Sync {
    /// A reply to a poll.
    type Records: Records;

    /// Appends a producer's batch. It takes its place in the partition's order now, not when the
    /// future is first polled; the future ends when the topic's promise holds.
    fn append(
        &self,
        topic: Topic,
        partition: u32,
        batch: Bytes,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;

    /// Reads from `offset` on, at most `bytes_max` bytes, but at least one message if there is one.
    fn poll(
        &self,
        topic: Topic,
        partition: u32,
        offset: u64,
        bytes_max: usize,
    ) -> impl Future<Output = Result<Self::Records, EngineError>> + Send;

    /// Ends it cleanly; nothing it opened stays open.
    fn close(self) -> Result<(), EngineError>;
}

/// Batches back to back in views that may be cut anywhere; empty when there is nothing to read.
pub(crate) trait Records: Send {
    /// The views, in order.
    fn slices(&self) -> &[Bytes];

    /// The offset to poll next: one past the last message in the views.
    fn next_offset(&self) -> u64;
}
