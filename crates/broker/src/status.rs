//! The error codes of the wire, and which of them the engine's errors are.

use corelog::error::{
    AppendError, CatalogItem, ChangeError, ControlError, FormatErrorKind, GroupError, OffsetError,
    OptionError, PollError, Unavailable, storage,
};

/// What went wrong, as a number of the wire. 0 is success and none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) u32);

/// Declares the codes, and the list of all of them.
macro_rules! codes {
    ($($name:ident = $code:literal,)+) => {
        impl Status {
            $(pub(crate) const $name: Status = Status($code);)+

            /// All that are answered here.
            pub(crate) const ALL: &[Status] = &[$(Status::$name,)+];
        }
    };
}

codes! {
    ERROR = 1,
    INVALID_COMMAND = 3,
    INVALID_FORMAT = 4,
    FEATURE_UNAVAILABLE = 5,
    RESOURCE_NOT_FOUND = 20,
    UNAUTHENTICATED = 40,
    NOT_DONE = 57,
    NOT_ACCEPTED = 58,
    ALREADY_APPLIED = 59,
    STREAM_NOT_FOUND = 1009,
    STREAM_NAME_TAKEN = 1012,
    TOPIC_SIZE = 1019,
    TOO_MANY_STREAMS = 1020,
    TOPIC_NOT_FOUND = 2010,
    TOPIC_NAME_TAKEN = 2013,
    TOO_MANY_PARTITIONS = 2015,
    PARTITIONS_COUNT = 2019,
    TOO_MANY_TOPICS = 2021,
    PARTITION_NOT_FOUND = 3007,
    PARTITION_IDS_EXHAUSTED = 3013,
    OFFSET_NOT_FOUND = 3021,
    MESSAGE_CHECKSUM = 4027,
    BATCH_CHECKSUM = 4039,
    OPTION_KEY = 4041,
    OPTION_VALUE = 4042,
    INVALID_OFFSET = 4100,
    GROUP_NOT_FOUND = 5000,
    GROUP_NAME_TAKEN = 5004,
    NOT_A_MEMBER = 5006,
}

/// Where the reply says that something went wrong: the reference server finds some faults before it
/// carries a change out, and others while it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The header's status; no body.
    Refused(Status),
    /// The result section of the body; the header's status is 0.
    Result(Status),
}

impl Failure {
    /// False for what was not carried out, so that the same request may succeed later.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Failure::Refused(_) => false,
            Failure::Result(status) => ![Status::NOT_DONE, Status::NOT_ACCEPTED].contains(status),
        }
    }
}

/// A change that was not made.
pub(crate) fn of_change(error: &ChangeError) -> Failure {
    let found = |status| Failure::Result(status);
    match error {
        ChangeError::Name(_) => Failure::Refused(Status::INVALID_COMMAND),
        ChangeError::Unknown { what, .. } => found(match what {
            CatalogItem::Stream => Status::STREAM_NOT_FOUND,
            CatalogItem::Topic => Status::TOPIC_NOT_FOUND,
            CatalogItem::Partition => Status::PARTITION_NOT_FOUND,
            CatalogItem::ConsumerGroup => Status::GROUP_NOT_FOUND,
            _ => Status::ERROR,
        }),
        ChangeError::NameTaken { what, .. } => found(match what {
            CatalogItem::Stream => Status::STREAM_NAME_TAKEN,
            CatalogItem::Topic => Status::TOPIC_NAME_TAKEN,
            CatalogItem::ConsumerGroup => Status::GROUP_NAME_TAKEN,
            _ => Status::ERROR,
        }),
        ChangeError::Full { what, .. } => found(match what {
            CatalogItem::Stream => Status::TOO_MANY_STREAMS,
            CatalogItem::Topic => Status::TOO_MANY_TOPICS,
            CatalogItem::Partition => Status::PARTITION_IDS_EXHAUSTED,
            _ => Status::ERROR,
        }),
        ChangeError::PartitionsPerRequest { .. } => Failure::Refused(Status::TOO_MANY_PARTITIONS),
        ChangeError::TooFewPartitions { .. } => found(Status::PARTITIONS_COUNT),
        ChangeError::Option(error) => Failure::Refused(match error {
            OptionError::Unknown { .. } | OptionError::Fixed { .. } => Status::OPTION_KEY,
            OptionError::TopicSize { .. } => Status::TOPIC_SIZE,
            _ => Status::OPTION_VALUE,
        }),
        ChangeError::Config(_) => Failure::Refused(Status::OPTION_VALUE),
        ChangeError::Busy => found(Status::NOT_ACCEPTED),
        ChangeError::Closed => found(Status::NOT_DONE),
        _ => found(Status::ERROR),
    }
}

/// A batch that was not appended.
pub(crate) fn of_append(error: &AppendError) -> Status {
    match error {
        AppendError::Refused(error) => match error.kind {
            FormatErrorKind::Checksum { .. } if error.field == "batch_checksum" => {
                Status::BATCH_CHECKSUM
            }
            FormatErrorKind::Checksum { .. } => Status::MESSAGE_CHECKSUM,
            _ => Status::INVALID_COMMAND,
        },
        AppendError::Busy | AppendError::Closed => Status::NOT_ACCEPTED,
        AppendError::UnknownPartition(_) => Status::RESOURCE_NOT_FOUND,
        // Space and descriptors come back, and the client tries again meanwhile.
        AppendError::Storage(
            storage::AppendError::StorageFull(_)
            | storage::AppendError::NoSegment(_)
            | storage::AppendError::NoFile(_)
            | storage::AppendError::Offsets(_),
        ) => Status::NOT_ACCEPTED,
        _ => Status::ERROR,
    }
}

/// A poll that was not served, where the reference server does not answer with an empty one.
pub(crate) fn of_poll(error: &PollError) -> Option<Status> {
    match error {
        PollError::Busy | PollError::Closed => Some(Status::NOT_ACCEPTED),
        PollError::UnknownPartition(_) => Some(Status::PARTITION_NOT_FOUND),
        _ => None,
    }
}

/// An offset that was not stored, deleted or told.
pub(crate) fn of_offset(error: &OffsetError) -> Status {
    match error {
        OffsetError::Storage(error) => match error {
            storage::OffsetError::OutOfRange { .. } => Status::INVALID_OFFSET,
            storage::OffsetError::NothingStored => Status::OFFSET_NOT_FOUND,
            storage::OffsetError::GroupIsGone { .. } => Status::RESOURCE_NOT_FOUND,
            storage::OffsetError::Closed => Status::NOT_ACCEPTED,
            _ => Status::ERROR,
        },
        OffsetError::Unavailable(why) => of_unavailable(why),
        _ => Status::ERROR,
    }
}

/// A request that no shard took.
fn of_unavailable(why: &Unavailable) -> Status {
    match why {
        Unavailable::Busy | Unavailable::Closed => Status::NOT_ACCEPTED,
        Unavailable::UnknownPartition(_) => Status::RESOURCE_NOT_FOUND,
        _ => Status::ERROR,
    }
}

/// Something that the engine was to do or to tell about itself.
pub(crate) fn of_control(error: &ControlError) -> Status {
    match error {
        ControlError::Unavailable(why) => of_unavailable(why),
        _ => Status::ERROR,
    }
}

/// A group that refused a join or a leave.
pub(crate) fn of_group(error: &GroupError) -> Status {
    match error {
        GroupError::Unknown(_) => Status::GROUP_NOT_FOUND,
        GroupError::NotMember(_) => Status::NOT_A_MEMBER,
        GroupError::TooMany { .. } => Status::NOT_ACCEPTED,
        _ => Status::ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client sends the very same request again: a reply that was kept would refuse it for ever.
    #[test]
    fn a_change_that_found_no_room_is_not_the_last_word() {
        for passing in [ChangeError::Busy, ChangeError::Closed] {
            assert!(!of_change(&passing).is_final(), "{passing}");
        }
        assert!(
            !Failure::Result(of_group(&GroupError::TooMany { what: "members", max: 1 })).is_final()
        );
        assert!(of_change(&ChangeError::TooFewPartitions { asked: 2, there: 1 }).is_final());
    }
}
