//! Appends, polls and flushes.

use bytes::Bytes;
use corelog::error::{GroupPollError, PollError};

use super::{Answered, Here, groups, offsets};
use crate::answer::{Answer, Body, confirmation, put_u32, put_u64};
use crate::command::{Flush, PollMessages, SendMessages};
use crate::session::Session;
use crate::status::{self, Failure, Status};
use corelog::consumers::{ConsumerKey, ConsumerKind, GroupId, Member};
use corelog::format::{PollingKind, PollingStrategy};
use corelog::{Ack, PartitionId, Poll, Records};

/// A poll's partition where a group's member may not poll what it asked for: clients ask anew which
/// partitions are theirs.
const NOT_YOURS: u32 = u32::MAX;

/// Partitions that one poll looks into: the next one goes on behind them.
const IN_TURN_MAX: usize = 64;

/// SEND_MESSAGES. Answered when the topic says so: durable first with `enforce_fsync`.
pub(super) async fn send(here: &Here, body: &Bytes) -> Answered {
    const NO_TARGET: Failure = Failure::Refused(Status::RESOURCE_NOT_FOUND);
    let Ok(command) = SendMessages::decode(body) else { return Err(NO_TARGET) };
    let SendMessages { topic, partitioning, messages, is_tight, batch } = command;
    let routed = here.catalog.route(topic.stream, topic.topic, &partitioning);
    let partition = routed.ok_or(NO_TARGET)?;
    let batch = body.slice(batch);
    if !is_tight || count_of(&batch) != Some(messages) {
        return Err(Failure::Refused(Status::INVALID_COMMAND));
    }
    match here.shard.append(partition, batch, Ack::Appended).await {
        Ok(appended) => Ok(Answer::plain(confirmation(partition, appended.base_offset))),
        Err(error) => {
            here.shared.events.append_refused(partition, &error);
            Err(Failure::Refused(status::of_append(&error)))
        }
    }
}

/// How many messages a batch says it has, so that it can be held against what the request says;
/// admission checks that it is true.
fn count_of(batch: &[u8]) -> Option<u32> {
    let field = batch.get(48..52)?;
    Some(u32::from_le_bytes(field.try_into().expect("four bytes were taken")))
}

/// POLL_MESSAGES. What cannot be read or served is an empty poll, as clients of the reference server
/// know it.
pub(super) async fn poll(here: &Here, session: &mut Session, body: &[u8]) -> Answered {
    let Ok(command) = PollMessages::decode(body) else { return Ok(served(0, 0, None)) };
    match command.consumer.kind {
        ConsumerKind::Consumer => {
            let who = ConsumerKey::consumer(command.consumer.id);
            let partition = here.partition(command.topic, command.partition.unwrap_or(0));
            let partition = partition.map_err(Failure::Refused)?;
            let Some(query) = query(here, &command, who) else {
                return nothing(here, partition).await;
            };
            match here.shard.poll(partition, query).await {
                Ok(records) => Ok(of_records(partition.partition, records)),
                Err(error) => failed(here, partition, &error).await,
            }
        }
        ConsumerKind::ConsumerGroup => poll_as_member(here, session, &command).await,
    }
}

async fn poll_as_member(
    here: &Here,
    session: &mut Session,
    command: &PollMessages<'_>,
) -> Answered {
    let path = command.topic;
    here.topic(path).map_err(Failure::Refused)?;
    let refused = || Ok(served(NOT_YOURS, 0, None));
    let Some(info) = here.catalog.group(path.stream, path.topic, command.consumer.id) else {
        return refused();
    };
    let Some(login) = &session.login else { return refused() };
    let member = Member { group: groups::id_of(&info), client: login.client };
    let Some(partition) = command.partition else {
        return poll_in_turn(here, session, command, member).await;
    };
    poll_partition(here, command, member, partition).await
}

/// A member's poll of whichever of its partitions has something, beginning behind the last one.
async fn poll_in_turn(
    here: &Here,
    session: &mut Session,
    command: &PollMessages<'_>,
    member: Member,
) -> Answered {
    let Ok(assignment) = here.groups.sync(member) else { return Ok(served(NOT_YOURS, 0, None)) };
    let partitions = assignment.partitions;
    let mut empty = served(0, 0, None);
    for _ in 0..partitions.len().min(IN_TURN_MAX) {
        let partition = partitions[session.turn % partitions.len()];
        session.turn = session.turn.wrapping_add(1);
        let answer = poll_partition(here, command, member, partition).await?;
        if let Answer::Reply { body, .. } = &answer
            && !body.views.is_empty()
        {
            return Ok(answer);
        }
        empty = answer;
    }
    Ok(empty)
}

async fn poll_partition(
    here: &Here,
    command: &PollMessages<'_>,
    member: Member,
    partition: u32,
) -> Answered {
    let Member { group, .. } = member;
    let id = group_partition(here, group, partition)?;
    let Some(query) = query(here, command, group.consumer()) else {
        return nothing(here, id).await;
    };
    match here.shard.poll_as(&here.groups, member, partition, query).await {
        Ok(records) => Ok(of_records(partition, records)),
        Err(GroupPollError::Poll(error)) => failed(here, id, &error).await,
        Err(_) => Ok(served(NOT_YOURS, 0, None)),
    }
}

fn group_partition(here: &Here, group: GroupId, partition: u32) -> Result<PartitionId, Failure> {
    let found = here.catalog.partition(group.stream, group.topic, partition);
    found.ok_or(Failure::Refused(Status::PARTITION_NOT_FOUND))
}

/// What the engine is asked; nothing where no messages are wanted.
fn query(here: &Here, command: &PollMessages<'_>, who: ConsumerKey) -> Option<Poll> {
    let PollMessages { strategy: PollingStrategy { kind, value }, count, auto_commit, .. } =
        *command;
    let poll = match kind {
        PollingKind::Offset => Poll::offset(value),
        PollingKind::Timestamp => Poll::timestamp(value),
        PollingKind::First => Poll::first(),
        PollingKind::Last => Poll::last(count),
        PollingKind::Next => Poll::next(who),
    };
    let poll = poll.max_messages(count).max_bytes(here.poll_bytes);
    let poll = if auto_commit { poll.auto_commit(who) } else { poll };
    (count > 0).then_some(poll)
}

/// An empty poll that tells how far the partition is.
async fn nothing(here: &Here, partition: PartitionId) -> Answered {
    let last = offsets::last_offset(here, partition).await?;
    Ok(served(partition.partition, last, None))
}

/// Damage and faults of the disk are noted here and read as "nothing" by clients.
async fn failed(here: &Here, partition: PartitionId, error: &PollError) -> Answered {
    here.shared.events.poll_failed(partition, error);
    match status::of_poll(error) {
        Some(status) => Err(Failure::Refused(status)),
        None => nothing(here, partition).await,
    }
}

fn of_records(partition: u32, records: Records) -> Answer {
    let last = records.end_offset().saturating_sub(1);
    served(partition, last, Some(records))
}

fn served(partition: u32, last_offset: u64, records: Option<Records>) -> Answer {
    let mut head = Vec::with_capacity(16);
    put_u32(&mut head, partition);
    put_u64(&mut head, last_offset);
    put_u32(&mut head, records.as_ref().map_or(0, Records::messages));
    let views = records.map_or_else(Vec::new, Records::into_slices);
    Answer::Reply { status: 0, body: Body { head, views, failure: None } }
}

/// FLUSH_UNSAVED_BUFFER: to the device, and through it where that is asked for.
pub(super) async fn flush(here: &Here, body: &[u8]) -> Answered {
    let Flush { topic, partition, is_durable } = Flush::decode(body)?;
    let id = here.partition(topic, partition).map_err(Failure::Refused)?;
    let ack = if is_durable { Ack::Durable } else { Ack::Written };
    match here.shard.flush(id, ack).await {
        Ok(()) => Ok(Answer::empty()),
        Err(error) => Err(Failure::Refused(status::of_append(&error))),
    }
}
