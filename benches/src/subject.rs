//! What `run` needs of an engine: the seam between measuring and the engine's public API.

use std::error::Error;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use corelog::machine::Runtime;

use crate::interrupt::Interrupt;

/// Any failure of the engine; printed, never matched.
pub(crate) type EngineError = Box<dyn Error + Send + Sync>;

/// The two topics of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Answered as the run says, when written unless it says otherwise.
    Written,
    /// `enforce_fsync = true`: durable before the answer.
    Durable,
}

/// What a run will ask of an engine, known before it is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) runtime: Runtime,
    pub(crate) shards: u16,
    /// Of [`Topic::Written`].
    pub(crate) partitions: u32,
    /// Of [`Topic::Durable`].
    pub(crate) durable_partitions: u32,
    /// When appends to [`Topic::Written`] are answered.
    pub(crate) ack: Ack,
    /// How the log of [`Topic::Written`] is kept.
    pub(crate) log: LogOptions,
    /// Appends of all producers that are outstanding at once. Limits must have room for them: an
    /// append refused as busy would measure the limit.
    pub(crate) appends_in_flight: usize,
    /// Bytes of them.
    pub(crate) bytes_in_flight: usize,
    /// Most bytes of a poll's reply.
    pub(crate) poll_bytes: usize,
    /// The process that had it open may have been killed: what opening finds is then no error.
    pub(crate) after_kill: bool,
}

/// When an append is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Ack {
    /// In memory, with its offset
    Appended,
    /// In the device, as far as the kernel says
    Written,
    /// Synced
    Durable,
}

impl Ack {
    /// The word for it in every output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Ack::Appended => "appended",
            Ack::Written => "written",
            Ack::Durable => "durable",
        }
    }
}

/// How a topic's logs are kept; None is the engine's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogOptions {
    pub(crate) enforce_fsync: bool,
    pub(crate) preallocate_segments: bool,
    pub(crate) segment_bytes: Option<u64>,
    pub(crate) messages_required_to_save: Option<u32>,
    pub(crate) size_of_messages_required_to_save: Option<u64>,
    pub(crate) flush_after: Option<Duration>,
    /// Bytes of the topic beyond which the oldest sealed segments are deleted.
    pub(crate) max_topic_size: Option<u64>,
    /// Age beyond which sealed segments are deleted.
    pub(crate) message_expiry: Option<Duration>,
    pub(crate) trust_reads: bool,
}

impl LogOptions {
    /// Whether anything is ever deleted.
    pub(crate) fn has_retention(&self) -> bool {
        self.max_topic_size.is_some() || self.message_expiry.is_some()
    }
}

/// Opens engines; the partitions of both topics are there when it returns.
pub(crate) trait Opener: Sync {
    type Engine: Engine;

    /// Opens the data directory `dir` and creates it and the topics if absent. A directory that is
    /// not as a clean close left it is an error; `Interrupted` is one where the user stopped it.
    fn open(
        &self,
        dir: &Path,
        demand: Demand,
        interrupt: &Interrupt,
    ) -> Result<Self::Engine, EngineError>;
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

    /// Reads from `offset` on, at most `bytes_max` bytes, but at least one message if there is one;
    /// waits so long for messages where there are none.
    fn poll(
        &self,
        topic: Topic,
        partition: u32,
        offset: u64,
        bytes_max: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<Self::Records, EngineError>> + Send;

    /// Syncs of log files begun since it was opened; None where it does not tell.
    fn syncs(&self) -> Option<u64>;

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
