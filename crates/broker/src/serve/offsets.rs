//! What consumers and groups have stored.

use corelog::error::GroupOffsetError;

use super::{Answered, Here, groups};
use crate::answer::{Answer, put_u32, put_u64};
use crate::command::{OffsetPath, StoreOffset, Undecodable};
use crate::session::Session;
use crate::status::{self, Failure, Status};
use corelog::consumers::{ConsumerKey, ConsumerKind, GroupId, Member};
use corelog::{Ack, PartitionId};

/// One of all faults of a target: the reference server does not tell them apart.
const NO_TARGET: Failure = Failure::Refused(Status::RESOURCE_NOT_FOUND);

/// Whose offset in which partition.
struct Target {
    partition: PartitionId,
    /// The group, where it is one's.
    group: Option<GroupId>,
    who: ConsumerKey,
}

pub(super) async fn store(here: &Here, session: &Session, body: &[u8]) -> Answered {
    let command = StoreOffset::decode(body).map_err(|Undecodable| NO_TARGET)?;
    put(here, session, &command.path, Some(command.offset)).await
}

pub(super) async fn delete(here: &Here, session: &Session, body: &[u8]) -> Answered {
    let path = OffsetPath::decode_delete(body).map_err(|Undecodable| NO_TARGET)?;
    put(here, session, &path, None).await
}

/// Stores an offset, or deletes what is stored where there is none. Durable before it is answered: a
/// consumer that goes on behind it must not find itself in front of it after a power cut.
async fn put(
    here: &Here,
    session: &Session,
    path: &OffsetPath<'_>,
    offset: Option<u64>,
) -> Answered {
    let Target { partition, group, who } = target(here, path).ok_or(NO_TARGET)?;
    let Here { shard, groups, .. } = here;
    let (number, ack) = (partition.partition, Ack::Durable);
    let done = match group {
        None => {
            let call = match offset {
                Some(offset) => shard.store_offset(partition, who, offset, ack),
                None => shard.delete_offset(partition, who, ack),
            };
            call.await.map_err(|error| status::of_offset(&error))
        }
        Some(group) => {
            let member = member(session, group)?;
            let call = match offset {
                Some(offset) => shard.store_offset_as(groups, member, number, offset, ack),
                None => shard.delete_offset_as(groups, member, number, ack),
            };
            call.await.map_err(of_member)
        }
    };
    done.map(|()| Answer::done(&[])).map_err(Failure::Refused)
}

/// Nothing where nothing is stored, and where there is no such topic or group.
pub(super) async fn get(here: &Here, body: &[u8]) -> Answered {
    let Ok(mut path) = OffsetPath::decode(body) else { return Ok(Answer::empty()) };
    path.partition.get_or_insert(0);
    let Some(Target { partition, who, .. }) = target(here, &path) else {
        return match here.topic(path.topic) {
            // The topic is there, and so is the group of one: its partition is not.
            Ok(_) if is_known(here, &path) => Err(Failure::Refused(Status::PARTITION_NOT_FOUND)),
            _ => Ok(Answer::empty()),
        };
    };
    let stored = here.shard.offset(partition, who).await;
    let Some(stored) = stored.map_err(|e| Failure::Refused(status::of_offset(&e)))? else {
        return Ok(Answer::empty());
    };
    let last = last_offset(here, partition).await?;
    let mut out = Vec::with_capacity(20);
    put_u32(&mut out, partition.partition);
    put_u64(&mut out, last);
    put_u64(&mut out, stored);
    Ok(Answer::plain(out))
}

/// The offset of the last message that polls can see; 0 where there is none, as clients know it.
pub(super) async fn last_offset(here: &Here, partition: PartitionId) -> Result<u64, Failure> {
    let marks = here.shard.watermarks(partition).await;
    let marks = marks.map_err(|error| {
        // The reference server has an answer for a partition that it cannot read: nothing.
        Failure::Refused(status::of_poll(&error).unwrap_or(Status::ERROR))
    })?;
    // Polls of a topic with `enforce_fsync` end at what is durable.
    let topic = here.catalog.topic(partition.stream, partition.topic);
    let is_synced = topic.is_some_and(|topic| topic.options.config().enforce_fsync);
    let end = if is_synced { marks.durable() } else { marks.appended() };
    Ok(end.saturating_sub(1))
}

fn target(here: &Here, path: &OffsetPath<'_>) -> Option<Target> {
    let partition = here.partition(path.topic, path.partition?).ok()?;
    match path.consumer.kind {
        ConsumerKind::Consumer => {
            Some(Target { partition, group: None, who: ConsumerKey::consumer(path.consumer.id) })
        }
        ConsumerKind::ConsumerGroup => {
            let info = here.catalog.group(path.topic.stream, path.topic.topic, path.consumer.id)?;
            let group = groups::id_of(&info);
            Some(Target { partition, group: Some(group), who: group.consumer() })
        }
    }
}

/// Whether there is such a consumer at all: plain ones need not be created.
fn is_known(here: &Here, path: &OffsetPath<'_>) -> bool {
    let (topic, id) = (path.topic, path.consumer.id);
    match path.consumer.kind {
        ConsumerKind::Consumer => true,
        ConsumerKind::ConsumerGroup => here.catalog.group(topic.stream, topic.topic, id).is_some(),
    }
}

fn member(session: &Session, group: GroupId) -> Result<Member, Failure> {
    let login = session.login.as_ref().ok_or(NO_TARGET)?;
    Ok(Member { group, client: login.client })
}

fn of_member(error: GroupOffsetError) -> Status {
    match error {
        GroupOffsetError::Offset(error) => status::of_offset(&error),
        // Not a member, or not its partition.
        _ => Status::RESOURCE_NOT_FOUND,
    }
}
