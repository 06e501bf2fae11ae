//! Why options are refused. Nothing was created or changed.

use std::fmt;

use super::PREALLOCATED_BYTES_MAX;

/// An options block, or a [`TopicConfig`](crate::TopicConfig), that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionError {
    /// A key that is not in the catalog.
    Unknown {
        /// The key.
        key: String,
    },
    /// A key that only a creation may have.
    Fixed {
        /// The key.
        key: &'static str,
    },
    /// A value of another kind, of unknown text or outside of its limits.
    Value {
        /// Its key.
        key: &'static str,
        /// What was found.
        found: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A topic that may not be as large as one segment of it.
    TopicSize {
        /// What was asked for, bytes.
        max_topic_size: u64,
        /// A segment, bytes.
        segment_size: u64,
    },
    /// More would be allocated ahead than is allowed.
    Preallocation {
        /// A segment, bytes.
        segment_size: u64,
        /// How many of them: one a partition.
        partitions: u32,
    },
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::Unknown { key } => {
                write!(f, "topics have no option {key:?}; `describe_options` tells which there are")
            }
            OptionError::Fixed { key } => {
                write!(f, "{key} is fixed when a topic is created; create another topic")
            }
            OptionError::Value { key, found, allowed } => {
                write!(f, "{key} = {found} is not allowed: choose {allowed}")
            }
            OptionError::TopicSize { max_topic_size, segment_size } => write!(
                f,
                "max_topic_size = {max_topic_size} is less than segment_size = {segment_size}: \
                 the active segment always stays"
            ),
            OptionError::Preallocation { segment_size, partitions } => write!(
                f,
                "preallocate_segments with {partitions} partitions of {segment_size} bytes would \
                 allocate more than {PREALLOCATED_BYTES_MAX} bytes: choose smaller segments or \
                 fewer partitions"
            ),
        }
    }
}

impl std::error::Error for OptionError {}
