//! Why a consumer group refused.

use std::fmt;

use corelog_shard::{OffsetError, PollError};

use super::{GroupId, Member};

/// A client is no member of a group, or may not do with a partition what it asked for. Nothing was
/// done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// There is no such consumer group.
    Unknown(GroupId),
    /// The client has not joined, or has left, or the engine was opened anew since.
    NotMember(Member),
    /// The partition is another member's, or the topic has no such partition.
    NotOwner {
        /// Who asked.
        member: Member,
        /// For which partition.
        partition: u32,
    },
    /// The partition is the client's, but is to go to another member. It may store offsets in it,
    /// and poll no more.
    Leaving {
        /// Who asked.
        member: Member,
        /// For which partition.
        partition: u32,
    },
    /// As many as the engine allows.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        max: usize,
    },
}

/// A member's poll was not served.
#[derive(Debug)]
#[non_exhaustive]
pub enum GroupPollError {
    /// The group's refusal. Where the partition went to another member while the poll was on its
    /// way, that one gets the messages.
    Group(GroupError),
    /// The partition's.
    Poll(PollError),
}

/// A member's offset was not stored or deleted.
#[derive(Debug)]
#[non_exhaustive]
pub enum GroupOffsetError {
    /// The group's refusal.
    Group(GroupError),
    /// The partition's.
    Offset(OffsetError),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Unknown(group) => write!(f, "there is no {group}; create it first"),
            GroupError::NotMember(Member { group, client }) => {
                write!(f, "{client} is no member of {group}; join it first")
            }
            GroupError::NotOwner { member: Member { group, client }, partition } => write!(
                f,
                "partition {partition} is not that of {client} in {group}; sync, and go on with \
                 the partitions that it has now"
            ),
            GroupError::Leaving { member: Member { group, client }, partition } => write!(
                f,
                "partition {partition} goes from {client} to another member of {group}; store the \
                 offset of what was polled, then sync"
            ),
            GroupError::TooMany { what, max } => write!(
                f,
                "there are {max} {what}, which is the limit; let others leave, or open the engine \
                 with larger `Limits`"
            ),
        }
    }
}

impl std::error::Error for GroupError {}

impl fmt::Display for GroupPollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupPollError::Group(error) => error.fmt(f),
            GroupPollError::Poll(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GroupPollError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            GroupPollError::Group(error) => Some(error),
            GroupPollError::Poll(error) => Some(error),
        }
    }
}

impl fmt::Display for GroupOffsetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupOffsetError::Group(error) => error.fmt(f),
            GroupOffsetError::Offset(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GroupOffsetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            GroupOffsetError::Group(error) => Some(error),
            GroupOffsetError::Offset(error) => Some(error),
        }
    }
}

impl From<GroupError> for GroupPollError {
    fn from(error: GroupError) -> Self {
        GroupPollError::Group(error)
    }
}

impl From<GroupError> for GroupOffsetError {
    fn from(error: GroupError) -> Self {
        GroupOffsetError::Group(error)
    }
}
