//! What a topic is created with.

use std::fmt;
use std::time::Duration;

use corelog_storage::{ConfigError, LogConfig};

/// Stream ids are below this.
pub(crate) const STREAMS_MAX: u32 = 1 << 20;
/// Topic ids are below this, in each stream.
pub(crate) const TOPICS_MAX: u32 = 1 << 12;
/// Partitions of one topic.
pub(crate) const PARTITIONS_MAX: u32 = 1_000_000;
/// Partitions created by one request.
pub(crate) const PARTITIONS_PER_REQUEST_MAX: u32 = 1_000;

/// What a topic is created with: how many partitions, and how each one's log behaves. Stored in the
/// catalog as given, so a later release's other defaults change nothing for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicConfig {
    /// Partitions, 1..=1,000. Default 1.
    pub partitions: u32,
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

/// A topic that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewTopic {
    pub(crate) stream: u32,
    pub(crate) topic: u32,
    pub(crate) config: TopicConfig,
}

/// An id or an option outside of its limits. Nothing was created.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidTopic {
    /// An id or a count.
    Number {
        /// Which one: "stream id", "topic id" or "partitions".
        what: &'static str,
        /// The value that was asked for.
        value: u32,
        /// The smallest allowed value.
        min: u32,
        /// The largest allowed value.
        max: u32,
    },
    /// An option of the log.
    Option(ConfigError),
}

impl NewTopic {
    /// Refuses what is outside of its limits, before anything is touched.
    pub(crate) fn validate(&self) -> Result<(), InvalidTopic> {
        let within = |what, value: u32, min, max| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(InvalidTopic::Number { what, value, min, max })
            }
        };
        within("stream id", self.stream, 0, STREAMS_MAX - 1)?;
        within("topic id", self.topic, 0, TOPICS_MAX - 1)?;
        within("partitions", self.config.partitions, 1, PARTITIONS_PER_REQUEST_MAX)?;
        self.config.log().validate().map_err(InvalidTopic::Option)
    }
}

impl fmt::Display for InvalidTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidTopic::Number { what, value, min, max } => {
                write!(f, "{what} = {value} is not allowed: choose a value from {min} to {max}")
            }
            InvalidTopic::Option(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for InvalidTopic {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            InvalidTopic::Number { .. } => None,
            InvalidTopic::Option(error) => Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named_and_checked_at_both_ends() {
        let ask = |stream, topic, partitions| {
            let config = TopicConfig { partitions, ..TopicConfig::default() };
            NewTopic { stream, topic, config }.validate()
        };
        ask(0, 0, 1).unwrap();
        ask(1_048_575, 4_095, 1_000).unwrap();
        for (asked, names) in [
            (ask(1_048_576, 0, 1), ["stream id = 1048576", "from 0 to 1048575"]),
            (ask(0, 4_096, 1), ["topic id = 4096", "from 0 to 4095"]),
            (ask(0, 0, 0), ["partitions = 0", "from 1 to 1000"]),
            (ask(0, 0, 1_001), ["partitions = 1001", "from 1 to 1000"]),
            (ask(u32::MAX, u32::MAX, u32::MAX), ["stream id = 4294967295", "1048575"]),
        ] {
            let text = asked.unwrap_err().to_string();
            assert!(names.iter().all(|name| text.contains(name)), "{text}");
        }
        let config = TopicConfig { segment_bytes: 1000, ..TopicConfig::default() };
        let text = NewTopic { stream: 0, topic: 0, config }.validate().unwrap_err().to_string();
        assert!(text.contains("segment_size = 1000"), "{text}");
    }

    #[test]
    fn the_log_gets_what_the_topic_was_given() {
        let config = TopicConfig { partitions: 7, enforce_fsync: true, ..TopicConfig::default() };
        assert_eq!(TopicConfig::new(7, &config.log()), config);
    }
}
