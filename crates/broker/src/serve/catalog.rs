//! Streams and topics.

use std::collections::HashMap;

use super::{Answered, Here, partitions};
use crate::answer::{self, Answer, Holding, put_u32};
use crate::command::{self, CreateStream, CreateTopic, TopicPath, UpdateStream, UpdateTopic};
use crate::status::{self, Failure, Status};
use corelog::error::OptionError;
use corelog::format::OptionsBlock;
use corelog::stats::{Figures, Scope};
use corelog::streams::{TopicInfo, TopicOptions};
use corelog::{PartitionId, TopicConfig};

/// What there is in partitions, and in the topics and streams of them. Summed up once: there may be
/// thousands of streams, and other connections wait.
#[derive(Default)]
struct Held {
    partitions: HashMap<PartitionId, Figures>,
    /// By stream and topic.
    topics: HashMap<(u32, u32), Holding>,
    streams: HashMap<u32, Holding>,
}

impl Held {
    fn of(all: Vec<(PartitionId, Figures)>) -> Held {
        let mut held = Held::default();
        for (id, figures) in &all {
            held.topics.entry((id.stream, id.topic)).or_default().add(figures);
            held.streams.entry(id.stream).or_default().add(figures);
        }
        held.partitions = all.into_iter().collect();
        held
    }

    fn stream(&self, stream: u32) -> Holding {
        self.streams.get(&stream).copied().unwrap_or_default()
    }

    fn topic(&self, topic: &TopicInfo) -> Holding {
        self.topics.get(&(topic.stream, topic.id)).copied().unwrap_or_default()
    }
}

pub(super) async fn create_stream(here: &Here, body: &[u8]) -> Answered {
    let CreateStream { name, options } = CreateStream::decode(body)?;
    none_of(&options)?;
    let made = here.catalog.create_stream(name).await.map_err(|e| status::of_change(&e))?;
    let mut payload = Vec::new();
    answer::stream(&mut payload, &made, 0, Holding::default());
    Ok(Answer::done(&payload))
}

pub(super) async fn update_stream(here: &Here, body: &[u8]) -> Answered {
    let UpdateStream { stream, name, options } = UpdateStream::decode(body)?;
    none_of(&options)?;
    done(here.catalog.rename_stream(stream, name).await)
}

pub(super) async fn delete_stream(here: &Here, body: &[u8]) -> Answered {
    done(here.catalog.delete_stream(command::stream(body)?).await)
}

pub(super) async fn purge_stream(here: &Here, body: &[u8]) -> Answered {
    done(here.catalog.purge_stream(command::stream(body)?).await)
}

pub(super) async fn create_topic(here: &Here, body: &[u8]) -> Answered {
    let CreateTopic { stream, partitions, name, options } = CreateTopic::decode(body)?;
    partitions::bounded(partitions, 0)?;
    let options = TopicOptions::resolve(partitions, &options)
        .map_err(|error| status::of_change(&error.into()))?;
    let made = here.catalog.create_topic(stream, name, options).await;
    let (stream, topic) = made.map_err(|e| status::of_change(&e))?;
    // Somebody may have deleted it meanwhile.
    let made = here.catalog.topic(stream, topic).ok_or(Failure::Result(Status::TOPIC_NOT_FOUND))?;
    let mut payload = Vec::new();
    put_topic(&mut payload, &made, None);
    Ok(Answer::done(&payload))
}

pub(super) async fn update_topic(here: &Here, body: &[u8]) -> Answered {
    let UpdateTopic { topic: TopicPath { stream, topic }, name, options } =
        UpdateTopic::decode(body)?;
    // What no topic could be given is told before it is asked which topic that is: the reference
    // server looks in this order.
    if let Err(error) = TopicOptions::from(TopicConfig::default()).patched(&options)
        && matches!(
            error,
            OptionError::Unknown { .. } | OptionError::Fixed { .. } | OptionError::Value { .. }
        )
    {
        return Err(status::of_change(&error.into()));
    }
    done(here.catalog.update_topic(stream, topic, name, &options).await)
}

pub(super) async fn delete_topic(here: &Here, body: &[u8]) -> Answered {
    let TopicPath { stream, topic } = TopicPath::decode(body)?;
    done(here.catalog.delete_topic(stream, topic).await)
}

pub(super) async fn purge_topic(here: &Here, body: &[u8]) -> Answered {
    let TopicPath { stream, topic } = TopicPath::decode(body)?;
    done(here.catalog.purge_topic(stream, topic).await)
}

/// Nothing where there is no such stream.
pub(super) async fn get_stream(here: &Here, body: &[u8]) -> Answered {
    let Some(info) = here.catalog.stream(command::stream(body)?) else {
        return Ok(Answer::empty());
    };
    let held = held(here, Scope::Stream(info.id)).await?;
    let topics = here.catalog.topics(info.id).unwrap_or_default();
    let mut out = Vec::new();
    // As many as follow: one may have come or gone since the stream was looked up.
    let topics_count = u32::try_from(topics.len()).expect("4,096 at most");
    answer::stream(&mut out, &info, topics_count, held.stream(info.id));
    topics.iter().for_each(|topic| put_header(&mut out, topic, &held));
    Ok(Answer::plain(out))
}

pub(super) async fn get_streams(here: &Here) -> Answered {
    let held = held(here, Scope::All).await?;
    let mut out = Vec::new();
    for info in here.catalog.streams() {
        answer::stream(&mut out, &info, info.topics, held.stream(info.id));
    }
    Ok(Answer::plain(out))
}

/// Nothing where there is no such topic.
pub(super) async fn get_topic(here: &Here, body: &[u8]) -> Answered {
    let Ok(info) = here.topic(TopicPath::decode(body)?) else { return Ok(Answer::empty()) };
    let held = held(here, Scope::Topic { stream: info.stream, topic: info.id }).await?;
    let mut out = Vec::new();
    put_topic(&mut out, &info, Some(&held));
    Ok(Answer::plain(out))
}

/// None where there is no such stream.
pub(super) async fn get_topics(here: &Here, body: &[u8]) -> Answered {
    let topics = here.catalog.topics(command::stream(body)?).unwrap_or_default();
    let held = match topics.first() {
        Some(topic) => held(here, Scope::Stream(topic.stream)).await?,
        None => Held::default(),
    };
    let mut out = Vec::new();
    put_u32(&mut out, u32::try_from(topics.len()).expect("4,096 at most"));
    topics.iter().for_each(|topic| put_header(&mut out, topic, &held));
    Ok(Answer::plain(out))
}

fn put_header(out: &mut Vec<u8>, info: &TopicInfo, held: &Held) {
    answer::topic_header(out, info, held.topic(info));
}

/// A topic with its partitions; without what they hold where it was made just now.
fn put_topic(out: &mut Vec<u8>, info: &TopicInfo, held: Option<&Held>) {
    match held {
        Some(held) => put_header(out, info, held),
        None => answer::topic_header(out, info, Holding::default()),
    }
    for (number, created_us) in (0_u32..).zip(&info.partitions) {
        let id = PartitionId::new(info.stream, info.id, number);
        answer::partition(out, number, *created_us, held.and_then(|held| held.partitions.get(&id)));
    }
}

async fn held(here: &Here, scope: Scope) -> Result<Held, Failure> {
    let figures = here.client.figures(scope).await;
    let figures = figures.map_err(|error| Failure::Refused(status::of_control(&error)))?;
    Ok(Held::of(figures))
}

/// Streams have no options.
fn none_of(options: &OptionsBlock<'_>) -> Result<(), Failure> {
    match options.iter().next() {
        None => Ok(()),
        Some(_) => Err(Failure::Refused(Status::OPTION_KEY)),
    }
}

/// A change that has nothing to tell.
pub(super) fn done<T>(made: Result<T, corelog::error::ChangeError>) -> Answered {
    match made {
        Ok(_) => Ok(Answer::done(&[])),
        Err(error) => Err(status::of_change(&error)),
    }
}
