//! What a topic is created with: its options by name, by value, and together.

mod error;
mod option;
mod options;
mod value;

use std::fmt;
use std::time::Duration;

use corelog_format::{BATCH_BYTES_MAX, Compression};
use corelog_storage::{ConfigError, LogConfig, Retention};

pub use error::OptionError;
pub(crate) use option::NO_LIMIT;
pub use option::{OptionDescription, OptionScope, describe_options};
pub use options::TopicOptions;

/// Stream ids are below this.
pub(crate) const STREAMS_MAX: u32 = 1 << 20;
/// Topic ids are below this, in each stream.
pub(crate) const TOPICS_MAX: u32 = 1 << 12;
/// Partitions of one topic.
pub(crate) const PARTITIONS_MAX: u32 = 1_000_000;
/// What all partitions of a topic may allocate ahead together, bytes.
pub(crate) const PREALLOCATED_BYTES_MAX: u64 = 64 << 30;
/// Partitions created by one request.
pub(crate) const PARTITIONS_PER_REQUEST_MAX: u32 = 1_000;

/// What a topic is created with: how many partitions, and how each one's log behaves. Stored in the
/// catalog as given, so a later release's other defaults change nothing for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicConfig {
    /// Partitions when the topic is created, 0..=1,000; more can be added. Default 1.
    pub partitions: u32,
    /// What producers say of their payloads. Stored and told; nothing is compressed by it. Default
    /// none.
    pub compression_algorithm: Compression,
    /// Sealed segments whose last batch is older than this are deleted. At least 1 us, whole
    /// microseconds. Default `None`: never.
    pub message_expiry: Option<Duration>,
    /// The oldest sealed segments of a partition are deleted while all its sealed ones have more
    /// bytes than this divided by the partitions (and more than a segment with the largest
    /// message). At least `segment_bytes`. Default `None`: no limit.
    pub max_topic_size: Option<u64>,
    /// A segment that has reached this many bytes is sealed before the next batch. A multiple of
    /// 512 in 1 MiB..=1 GiB. Default 1 GiB.
    pub segment_bytes: u64,
    /// Durable BEFORE an append is answered, whatever ack was asked for; polls end at what is
    /// durable. Default false.
    pub enforce_fsync: bool,
    /// Buffered messages are sent to the device when this many wait, at the latest.
    /// 1..=16,777,216. Default 1,024.
    pub messages_required_to_save: u32,
    /// Buffered bytes are sent to the device when this many wait, at the latest. 1..=1 GiB.
    /// Default 1 MiB.
    pub size_of_messages_required_to_save: u64,
    /// Reserve a whole segment's space when it is created. Default false.
    pub preallocate_segments: bool,
    /// Buffered bytes are sent to the device after this long, at the latest. 1 us..=60 s, whole
    /// microseconds. Default 5 ms.
    pub flush_after: Duration,
    /// One index entry at the first batch that starts at or after each step of log, bytes.
    /// 4 KiB..=1 GiB. Default 64 KiB.
    pub index_step: u64,
    /// Check both checksums of every batch that is read from the disk. Default true; false checks
    /// only the layout.
    pub verify_reads: bool,
}

impl Default for TopicConfig {
    fn default() -> Self {
        TopicConfig::new(1, &LogConfig::default())
    }
}

impl TopicConfig {
    pub(crate) fn new(partitions: u32, log: &LogConfig) -> TopicConfig {
        TopicConfig {
            partitions,
            compression_algorithm: Compression::None,
            message_expiry: None,
            max_topic_size: None,
            segment_bytes: log.segment_bytes,
            enforce_fsync: log.enforce_fsync,
            messages_required_to_save: log.messages_required_to_save,
            size_of_messages_required_to_save: log.size_of_messages_required_to_save,
            preallocate_segments: log.preallocate_segments,
            flush_after: log.flush_after,
            index_step: log.index_step,
            verify_reads: log.verify_reads,
        }
    }

    /// Until when each partition keeps its messages: its part of the topic's size, but never less
    /// than a segment and the longest batch that may come behind it.
    pub(crate) fn retention(&self) -> Retention {
        let least = self.segment_bytes + BATCH_BYTES_MAX;
        let part = |bytes: u64| (bytes / u64::from(self.partitions.max(1))).max(least);
        Retention { expiry: self.message_expiry, sealed_bytes: self.max_topic_size.map(part) }
    }

    pub(crate) fn log(&self) -> LogConfig {
        LogConfig {
            segment_bytes: self.segment_bytes,
            enforce_fsync: self.enforce_fsync,
            messages_required_to_save: self.messages_required_to_save,
            size_of_messages_required_to_save: self.size_of_messages_required_to_save,
            preallocate_segments: self.preallocate_segments,
            flush_after: self.flush_after,
            index_step: self.index_step,
            verify_reads: self.verify_reads,
        }
    }
}

/// A configuration that no topic can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InvalidTopic {
    /// An option of the specification.
    Option(OptionError),
    /// A setting of the logs beside it.
    Config(ConfigError),
}

impl TopicConfig {
    /// Refuses what is outside of its limits, before anything is touched.
    pub(crate) fn validate(&self) -> Result<(), InvalidTopic> {
        self.log().validate().map_err(InvalidTopic::Config)?;
        if let Some(expiry) = self.message_expiry {
            let us = expiry.as_micros();
            let whole = Duration::from_micros(us as u64) == expiry;
            if us == 0 || us >= u128::from(NO_LIMIT) || !whole {
                let (key, found) = ("message_expiry", format!("{expiry:?}"));
                let allowed = "whole microseconds from 1 to 18446744073709551614";
                return Err(InvalidTopic::Option(OptionError::Value { key, found, allowed }));
            }
        }
        self.check_together().map_err(InvalidTopic::Option)
    }
}

impl fmt::Display for InvalidTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidTopic::Option(error) => error.fmt(f),
            InvalidTopic::Config(error) => error.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
