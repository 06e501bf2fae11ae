//! The catalog of topic options: which keys there are, of which kind, with which default
//! (encodings.md, "Options block"). Streams and users have none.

use corelog_format::{Compression, HeaderKind, HeaderValue};
use corelog_storage::SEGMENT_BYTES_MAX;

/// The value that stands for "never" in `message_expiry` and for "unlimited" in `max_topic_size`.
pub(crate) const NO_LIMIT: u64 = u64::MAX;

/// A key of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TopicOption {
    CompressionAlgorithm,
    MessageExpiry,
    MaxTopicSize,
    SegmentSize,
    EnforceFsync,
    MessagesRequiredToSave,
    SizeOfMessagesRequiredToSave,
    PreallocateSegments,
}

impl TopicOption {
    /// All, in the order in which they are described.
    pub(crate) const ALL: [TopicOption; 8] = [
        TopicOption::CompressionAlgorithm,
        TopicOption::MessageExpiry,
        TopicOption::MaxTopicSize,
        TopicOption::SegmentSize,
        TopicOption::EnforceFsync,
        TopicOption::MessagesRequiredToSave,
        TopicOption::SizeOfMessagesRequiredToSave,
        TopicOption::PreallocateSegments,
    ];

    /// The option of a key; keys are compared byte for byte.
    pub(crate) fn of_key(key: &str) -> Option<TopicOption> {
        Self::ALL.into_iter().find(|option| option.key() == key)
    }

    pub(crate) const fn key(self) -> &'static str {
        match self {
            TopicOption::CompressionAlgorithm => "compression_algorithm",
            TopicOption::MessageExpiry => "message_expiry",
            TopicOption::MaxTopicSize => "max_topic_size",
            TopicOption::SegmentSize => "segment_size",
            TopicOption::EnforceFsync => "enforce_fsync",
            TopicOption::MessagesRequiredToSave => "messages_required_to_save",
            TopicOption::SizeOfMessagesRequiredToSave => "size_of_messages_required_to_save",
            TopicOption::PreallocateSegments => "preallocate_segments",
        }
    }

    /// True where an update may change it; the others lay out files and are fixed at creation.
    pub(crate) const fn updatable(self) -> bool {
        matches!(
            self,
            TopicOption::CompressionAlgorithm
                | TopicOption::MessageExpiry
                | TopicOption::MaxTopicSize
        )
    }

    /// The default, in the canonical kind.
    pub(crate) const fn default_value(self) -> HeaderValue<'static> {
        match self {
            TopicOption::CompressionAlgorithm => HeaderValue::String(Compression::None.name()),
            TopicOption::MessageExpiry | TopicOption::MaxTopicSize => HeaderValue::Uint64(NO_LIMIT),
            TopicOption::SegmentSize => HeaderValue::Uint64(SEGMENT_BYTES_MAX),
            TopicOption::EnforceFsync | TopicOption::PreallocateSegments => {
                HeaderValue::Bool(false)
            }
            TopicOption::MessagesRequiredToSave => HeaderValue::Uint32(1024),
            TopicOption::SizeOfMessagesRequiredToSave => HeaderValue::Uint64(1 << 20),
        }
    }

    /// What a value must be, for people.
    pub(crate) const fn allowed(self) -> &'static str {
        match self {
            TopicOption::CompressionAlgorithm => "\"none\" or \"gzip\"",
            TopicOption::MessageExpiry => {
                "microseconds, or a duration such as \"7 days\" of at most 4294967295 seconds, or \
                 \"never_expire\""
            }
            TopicOption::MaxTopicSize => {
                "bytes, or a size such as \"10 GiB\", or \"unlimited\"; not less than segment_size"
            }
            TopicOption::SegmentSize => {
                "a multiple of 512 from 1048576 to 1073741824 bytes, or a size such as \"128 MiB\""
            }
            TopicOption::EnforceFsync | TopicOption::PreallocateSegments => "true or false",
            TopicOption::MessagesRequiredToSave => "a number from 1 to 16777216",
            TopicOption::SizeOfMessagesRequiredToSave => {
                "at most 1073741824 bytes, or a size such as \"1 MiB\""
            }
        }
    }

    const fn what_for(self) -> &'static str {
        match self {
            TopicOption::CompressionAlgorithm => {
                "What producers say of their payloads: none or gzip. Stored and told, not acted on"
            }
            TopicOption::MessageExpiry => {
                "Messages older than this are deleted, whole segments at a time: microseconds or a \
                 duration (7 days)"
            }
            TopicOption::MaxTopicSize => {
                "The oldest segments are deleted above this: bytes or a size (10 GiB), at least \
                 segment_size"
            }
            TopicOption::SegmentSize => {
                "A segment of this many bytes is sealed: a multiple of 512 in 1 MiB to 1 GiB"
            }
            TopicOption::EnforceFsync => "An append is answered when it is durable, and not before",
            TopicOption::MessagesRequiredToSave => {
                "So many buffered messages are written at the latest: 1 to 16777216"
            }
            TopicOption::SizeOfMessagesRequiredToSave => {
                "So many buffered bytes are written at the latest: up to 1 GiB"
            }
            TopicOption::PreallocateSegments => {
                "A whole segment is allocated when it begins; segment_size times the partitions is \
                 at most 64 GiB"
            }
        }
    }
}

/// Whose options are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionScope {
    /// Options of topics.
    Topic,
    /// Options of streams: there are none today.
    Stream,
    /// Options of users: there are none today.
    User,
}

/// What is to be known about one option.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct OptionDescription {
    /// The key in an options block.
    pub key: &'static str,
    /// The kind in which it is stored and told.
    pub kind: HeaderKind,
    /// The value in force where nobody asked for another.
    pub default: HeaderValue<'static>,
    /// What it does and what it may be, for people.
    pub description: &'static str,
    /// True where an update of a topic may change it.
    pub updatable: bool,
}

/// The options that `scope` has, in the order in which the reference server tells them.
pub fn describe_options(scope: OptionScope) -> Vec<OptionDescription> {
    match scope {
        OptionScope::Stream | OptionScope::User => Vec::new(),
        OptionScope::Topic => TopicOption::ALL.into_iter().map(describe).collect(),
    }
}

fn describe(option: TopicOption) -> OptionDescription {
    let default = option.default_value();
    OptionDescription {
        key: option.key(),
        kind: default.kind().expect("defaults are of kinds that have a name"),
        default,
        description: option.what_for(),
        updatable: option.updatable(),
    }
}
