//! The error codes of the wire, and which of them the engine's errors are.

use corelog::error::{
    AppendError, CatalogItem, ChangeError, ControlError, FormatErrorKind, GroupError, OffsetError,
    OptionError, PollError, Unavailable, storage,
};

/// What went wrong, as a number of the wire. 0 is success and none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) u32);

impl Status {
    pub(crate) const ERROR: Status = Status(1);
    pub(crate) const INVALID_COMMAND: Status = Status(3);
    pub(crate) const INVALID_FORMAT: Status = Status(4);
    pub(crate) const FEATURE_UNAVAILABLE: Status = Status(5);
    pub(crate) const RESOURCE_NOT_FOUND: Status = Status(20);
    pub(crate) const UNAUTHENTICATED: Status = Status(40);
    pub(crate) const NOT_DONE: Status = Status(57);
    pub(crate) const NOT_ACCEPTED: Status = Status(58);
    pub(crate) const ALREADY_APPLIED: Status = Status(59);
    pub(crate) const STREAM_NOT_FOUND: Status = Status(1009);
    pub(crate) const STREAM_NAME_TAKEN: Status = Status(1012);
    pub(crate) const TOPIC_SIZE: Status = Status(1019);
    pub(crate) const TOO_MANY_STREAMS: Status = Status(1020);
    pub(crate) const TOPIC_NOT_FOUND: Status = Status(2010);
    pub(crate) const TOPIC_NAME_TAKEN: Status = Status(2013);
    pub(crate) const TOO_MANY_PARTITIONS: Status = Status(2015);
    pub(crate) const PARTITIONS_COUNT: Status = Status(2019);
    pub(crate) const TOO_MANY_TOPICS: Status = Status(2021);
    pub(crate) const PARTITION_NOT_FOUND: Status = Status(3007);
    pub(crate) const PARTITION_IDS_EXHAUSTED: Status = Status(3013);
    pub(crate) const OFFSET_NOT_FOUND: Status = Status(3021);
    pub(crate) const MESSAGE_CHECKSUM: Status = Status(4027);
    pub(crate) const BATCH_CHECKSUM: Status = Status(4039);
    pub(crate) const OPTION_KEY: Status = Status(4041);
    pub(crate) const OPTION_VALUE: Status = Status(4042);
    pub(crate) const INVALID_OFFSET: Status = Status(4100);
    pub(crate) const GROUP_NOT_FOUND: Status = Status(5000);
    pub(crate) const GROUP_NAME_TAKEN: Status = Status(5004);
    pub(crate) const NOT_A_MEMBER: Status = Status(5006);
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
