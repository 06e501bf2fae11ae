//! What can go wrong with the catalog.

use std::fmt;
use std::path::PathBuf;

use corelog_format::FormatError;
use corelog_io::IoError;
use corelog_shard::{ControlError, PartitionId};
use corelog_storage::ConfigError;

use crate::topic::{InvalidTopic, OptionError};

/// The catalog cannot be read or changed. Where a change was asked for, nothing of it was made. But
/// where the engine ends while the disk still fails, the change may be found as a whole by the next
/// opening. Changes work again when the disk does.
#[derive(Debug)]
#[non_exhaustive]
pub enum CatalogError {
    /// The disk failed.
    Io(IoError),
    /// The store below the catalog failed.
    Store(Box<dyn std::error::Error + Send + Sync>),
    /// Written by a newer release; nothing was changed.
    Newer {
        /// What is newer: the catalog or one of its records.
        what: &'static str,
        /// Its version.
        found: u32,
        /// The newest version that this build reads.
        known: u32,
    },
    /// Written by an early release, before streams had names; nothing was changed.
    Older {
        /// Its version.
        found: u32,
    },
    /// Not what a catalog holds.
    Damaged {
        /// The file, where it is known.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// What a change was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatalogItem {
    /// A stream.
    Stream,
    /// A topic of a stream.
    Topic,
    /// A partition of a topic.
    Partition,
    /// A consumer group of a topic.
    ConsumerGroup,
}

impl CatalogItem {
    /// All that there can be of it in one place.
    fn plural(self) -> &'static str {
        match self {
            CatalogItem::Stream => "streams",
            CatalogItem::Topic => "topics of a stream",
            CatalogItem::Partition => "partitions of a topic",
            CatalogItem::ConsumerGroup => "consumer groups of a topic",
        }
    }
}

impl fmt::Display for CatalogItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CatalogItem::Stream => "stream",
            CatalogItem::Topic => "topic",
            CatalogItem::Partition => "partition",
            CatalogItem::ConsumerGroup => "consumer group",
        })
    }
}

/// A stream, topic, partition or consumer group was not created, changed or deleted. But for the
/// last variants nothing was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChangeError {
    /// Not a name: 1 to 255 bytes of UTF-8.
    Name(FormatError),
    /// There is no such stream, topic or consumer group.
    Unknown {
        /// Which of them.
        what: CatalogItem,
        /// As it was asked for: a number, or a name in quotes.
        identifier: String,
    },
    /// Another one has the name.
    NameTaken {
        /// What it is.
        what: CatalogItem,
        /// The name.
        name: String,
        /// Who has it.
        id: u32,
    },
    /// There are as many as there can be.
    Full {
        /// Of what.
        what: CatalogItem,
        /// How many there can be.
        max: u32,
    },
    /// More partitions than one request may name, or none.
    PartitionsPerRequest {
        /// What was asked for.
        asked: u32,
        /// At least so many.
        min: u32,
        /// At most so many.
        max: u32,
    },
    /// More partitions should go than there are.
    TooFewPartitions {
        /// What was asked for.
        asked: u32,
        /// How many there are.
        there: u32,
    },
    /// An option of the topic.
    Option(OptionError),
    /// A setting of the topic's logs that is no option of the specification.
    Config(ConfigError),
    /// Too many requests wait for the catalog. Call again later.
    Busy,
    /// A blocking call on a shard's own thread.
    OnShard,
    /// The engine is closed. What was on its way was done as a whole or not at all.
    Closed,
    /// The catalog failed and nothing was changed: ask again when the disk works. Where the engine
    /// ends before that, the next opening may find the change made, as a whole.
    Catalog(CatalogError),
    /// The change was made, but a partition of it is not served (the first one is named); reopening
    /// it, or the next opening of the engine, tries again.
    Partition {
        /// The partition.
        partition: PartitionId,
        /// Why.
        why: ControlError,
    },
}

impl From<FormatError> for ChangeError {
    fn from(error: FormatError) -> Self {
        ChangeError::Name(error)
    }
}

impl From<OptionError> for ChangeError {
    fn from(error: OptionError) -> Self {
        ChangeError::Option(error)
    }
}

impl From<InvalidTopic> for ChangeError {
    fn from(error: InvalidTopic) -> Self {
        match error {
            InvalidTopic::Option(error) => ChangeError::Option(error),
            InvalidTopic::Config(error) => ChangeError::Config(error),
        }
    }
}

impl From<CatalogError> for ChangeError {
    fn from(error: CatalogError) -> Self {
        ChangeError::Catalog(error)
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Name(error) => write!(f, "not a name: {error}"),
            ChangeError::Unknown { what, identifier } => {
                write!(f, "there is no {what} {identifier}")
            }
            ChangeError::NameTaken { what, name, id } => {
                write!(f, "{what} {id} has the name {name:?} already; choose another")
            }
            ChangeError::Full { what, max } => write!(
                f,
                "there are {max} {} already, which is the limit; delete one first",
                what.plural()
            ),
            ChangeError::PartitionsPerRequest { asked, min, max } => {
                write!(f, "{asked} partitions in one request: ask for {min} to {max}")
            }
            ChangeError::TooFewPartitions { asked, there } => {
                write!(f, "{asked} partitions cannot go: there are {there}")
            }
            ChangeError::Option(error) => error.fmt(f),
            ChangeError::Config(error) => error.fmt(f),
            ChangeError::Busy => f.write_str("too many requests wait for the catalog; call again"),
            ChangeError::OnShard => f.write_str(
                "a blocking call on a shard's own thread would wait for itself; await it instead",
            ),
            ChangeError::Closed => f.write_str("the engine is closed"),
            ChangeError::Catalog(error) => error.fmt(f),
            ChangeError::Partition { partition, why } => {
                write!(f, "the change was made, but {partition} is not served: {why}")
            }
        }
    }
}

impl std::error::Error for ChangeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ChangeError::Name(error) => Some(error),
            ChangeError::Option(error) => Some(error),
            ChangeError::Config(error) => Some(error),
            ChangeError::Catalog(error) => Some(error),
            ChangeError::Partition { why, .. } => Some(why),
            _ => None,
        }
    }
}

impl CatalogError {
    /// Damage that was found; the file's name comes in where it is known.
    pub(super) fn damaged(why: String) -> CatalogError {
        CatalogError::Damaged { path: PathBuf::from("catalog.redb"), why }
    }
}

impl From<IoError> for CatalogError {
    fn from(error: IoError) -> Self {
        CatalogError::Io(error)
    }
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CatalogError::Io(error) => error.fmt(f),
            CatalogError::Store(error) => write!(f, "the catalog's store failed: {error}"),
            CatalogError::Newer { what, found, known } => write!(
                f,
                "the {what} has version {found}, this build reads up to {known}; open it with the \
                 release that wrote it or a newer one"
            ),
            CatalogError::Older { found } => write!(
                f,
                "the catalog has version {found}, of a release before 0.2, which this build does \
                 not read; the logs can be copied into a new topic with that release"
            ),
            CatalogError::Damaged { path, why } => write!(
                f,
                "{} is damaged: {why}; put back a copy of it (the logs were not touched); \
                 without one, move `streams` and it away, create the topics anew, and read the \
                 logs with corelog-dump",
                path.display()
            ),
        }
    }
}

impl std::error::Error for CatalogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CatalogError::Io(error) => Some(error),
            CatalogError::Store(error) => Some(error.as_ref()),
            CatalogError::Newer { .. }
            | CatalogError::Older { .. }
            | CatalogError::Damaged { .. } => None,
        }
    }
}
