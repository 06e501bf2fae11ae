//! About the broker, its clients and its user.

use super::{Answered, Here};
use crate::answer::{self, Answer, Connected, Stats, put_u32};
use crate::command::{Reader, Undecodable};
use crate::operation::Question;
use crate::root::{ROOT_ID, ROOT_NAME};
use crate::session::Session;
use crate::status::{self, Failure, Status};
use corelog::format::Identifier;
use corelog::stats::Scope;
use corelog::streams::{OptionScope, describe_options};

pub(super) async fn answer(
    here: &Here,
    session: &Session,
    question: Question,
    body: &[u8],
) -> Answered {
    match question {
        Question::GetStats => stats(here).await,
        Question::GetClusterMetadata => Ok(Answer::plain(answer::cluster(here.shared.listen))),
        Question::DescribeOptions => options(body),
        Question::GetMe => one_client(here, session.seat.id()),
        Question::GetClient => one_client(here, Reader::new(body).u32()?),
        Question::GetClients => Ok(clients(here)),
        Question::GetUsers => {
            let mut out = Vec::new();
            answer::root_user(&mut out);
            Ok(Answer::plain(out))
        }
        Question::GetUser => user(body),
        // There are none.
        Question::GetPersonalAccessTokens => Ok(Answer::empty()),
        _ => Err(Failure::Refused(Status::FEATURE_UNAVAILABLE)),
    }
}

fn options(body: &[u8]) -> Answered {
    let scope = match Reader::new(body).u8()? {
        1 => OptionScope::Topic,
        2 => OptionScope::Stream,
        3 => OptionScope::User,
        _ => return Err(Undecodable.into()),
    };
    let options = describe_options(scope);
    let mut out = Vec::new();
    put_u32(&mut out, u32::try_from(options.len()).expect("there are eight"));
    options.iter().for_each(|option| answer::option(&mut out, option));
    Ok(Answer::plain(out))
}

/// Nothing where there is no such client.
fn one_client(here: &Here, id: u32) -> Answered {
    let Some((connected, client)) = here.shared.clients.find(id) else {
        return Ok(Answer::empty());
    };
    let groups = client.map_or_else(Vec::new, |client| here.groups.of(client));
    let mut out = Vec::new();
    answer::client(&mut out, &connected, groups.len());
    answer::client_groups(&mut out, &groups);
    Ok(Answer::plain(out))
}

fn clients(here: &Here) -> Answer {
    let mut out = Vec::new();
    for (connected, client) in here.shared.clients.all() {
        let connected: Connected = connected;
        let groups = client.map_or(0, |client| here.groups.of(client).len());
        answer::client(&mut out, &connected, groups);
    }
    Answer::plain(out)
}

/// Nothing where it is not the one there is.
fn user(body: &[u8]) -> Answered {
    let is_root = match Reader::new(body).identifier()? {
        Identifier::Numeric(id) => id == ROOT_ID,
        Identifier::String(name) => name.as_str() == ROOT_NAME,
    };
    Ok(if is_root { Answer::plain(answer::root_user_details()) } else { Answer::empty() })
}

async fn stats(here: &Here) -> Answered {
    let figures = here.client.figures(Scope::All).await;
    let figures = figures.map_err(|error| Failure::Refused(status::of_control(&error)))?;
    let streams = here.catalog.streams();
    let topics: Vec<_> =
        streams.iter().flat_map(|s| here.catalog.topics(s.id).unwrap_or_default()).collect();
    let groups = topics
        .iter()
        .map(|topic| here.catalog.groups(topic.stream, topic.id).map_or(0, |groups| groups.len()));
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let stats = Stats {
        messages_bytes: figures.iter().map(|(_, figures)| figures.bytes).sum(),
        streams: count(streams.len()),
        topics: count(topics.len()),
        partitions: count(topics.iter().map(|topic| topic.partitions.len()).sum()),
        segments: count(figures.iter().map(|(_, figures)| figures.segments).sum()),
        messages: figures.iter().map(|(_, figures)| figures.messages).sum(),
        clients: count(here.shared.clients.count()),
        groups: count(groups.sum()),
        ..here.shared.process()
    };
    Ok(Answer::plain(answer::stats(&stats)))
}
