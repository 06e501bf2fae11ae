//! Consumer groups and their members.

use super::catalog::done;
use super::{Answered, Here};
use crate::answer::{self, Answer};
use crate::command::{CreateGroup, GroupPath, TopicPath};
use crate::session::Session;
use crate::status::{self, Failure, Status};
use corelog::consumers::{ClientId, GroupId, Member};
use corelog::streams::GroupInfo;

pub(super) async fn create(here: &Here, body: &[u8]) -> Answered {
    let CreateGroup { topic: path, name } = CreateGroup::decode(body)?;
    let made = here.catalog.create_group(path.stream, path.topic, name).await;
    let (stream, topic, group) = made.map_err(|error| status::of_change(&error))?;
    let gone = Failure::Result(Status::GROUP_NOT_FOUND);
    let info = here.catalog.group(stream, topic, group).ok_or(gone)?;
    let mut payload = Vec::new();
    answer::group(&mut payload, &info, partitions_of(here, &info), 0);
    Ok(Answer::done(&payload))
}

pub(super) async fn delete(here: &Here, body: &[u8]) -> Answered {
    let GroupPath { topic, group } = GroupPath::decode(body)?;
    done(here.catalog.delete_group(topic.stream, topic.topic, group).await)
}

/// Nothing where there is no such group; an error where there is no such topic.
pub(super) fn get(here: &Here, body: &[u8]) -> Answered {
    let path = GroupPath::decode(body)?;
    here.topic(path.topic).map_err(Failure::Refused)?;
    let Some(info) = here.catalog.group(path.topic.stream, path.topic.topic, path.group) else {
        return Ok(Answer::empty());
    };
    let Ok(details) = here.groups.details(id_of(&info)) else { return Ok(Answer::empty()) };
    let mut out = Vec::new();
    answer::group(&mut out, &info, details.partitions, details.members.len());
    answer::group_members(&mut out, &details.members);
    Ok(Answer::plain(out))
}

pub(super) fn get_all(here: &Here, body: &[u8]) -> Answered {
    let path = TopicPath::decode(body)?;
    let topic = here.topic(path).map_err(Failure::Refused)?;
    let mut out = Vec::new();
    for info in here.catalog.groups(topic.stream, topic.id).unwrap_or_default() {
        // One that went meanwhile is not told.
        if let Ok(details) = here.groups.details(id_of(&info)) {
            answer::group(&mut out, &info, details.partitions, details.members.len());
        }
    }
    Ok(Answer::plain(out))
}

pub(super) fn join(here: &Here, client: ClientId, body: &[u8]) -> Answered {
    let group = find(here, &GroupPath::decode(body)?).map_err(Failure::Result)?;
    match here.groups.join(Member { group, client }) {
        Ok(_) => Ok(Answer::done(&[])),
        Err(error) => Err(Failure::Result(status::of_group(&error))),
    }
}

pub(super) fn leave(here: &Here, client: ClientId, body: &[u8]) -> Answered {
    let group = find(here, &GroupPath::decode(body)?).map_err(Failure::Result)?;
    match here.groups.leave(Member { group, client }) {
        Ok(()) => Ok(Answer::done(&[])),
        Err(error) => Err(Failure::Result(status::of_group(&error))),
    }
}

/// Nothing for who is no member, and for what cannot be read.
pub(super) fn sync(here: &Here, session: &Session, body: &[u8]) -> Answered {
    let assignment = (|| {
        let path = GroupPath::decode(body).ok()?;
        let client = session.login.as_ref()?.client;
        here.groups.sync(Member { group: find(here, &path).ok()?, client }).ok()
    })();
    let mut out = Vec::new();
    assignment.iter().for_each(|assignment| answer::assignment(&mut out, assignment));
    Ok(Answer::plain(out))
}

/// The group of a path.
fn find(here: &Here, path: &GroupPath<'_>) -> Result<GroupId, Status> {
    let info = here.catalog.group(path.topic.stream, path.topic.topic, path.group);
    let info = match info {
        Some(info) => info,
        None => return Err(here.topic(path.topic).err().unwrap_or(Status::GROUP_NOT_FOUND)),
    };
    Ok(id_of(&info))
}

pub(super) fn id_of(info: &GroupInfo) -> GroupId {
    GroupId::new(info.stream, info.topic, info.id)
}

fn partitions_of(here: &Here, info: &GroupInfo) -> u32 {
    let topic = here.catalog.topic(info.stream, info.topic);
    topic.map_or(0, |topic| u32::try_from(topic.partitions.len()).expect("a million at most"))
}
