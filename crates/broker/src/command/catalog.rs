//! Commands about streams, topics, partitions and consumer groups.

use super::{Reader, Undecodable};
use corelog::format::{Identifier, OptionsBlock};

/// CREATE_STREAM.
pub(crate) struct CreateStream<'a> {
    pub(crate) name: &'a str,
    pub(crate) options: OptionsBlock<'a>,
}

/// UPDATE_STREAM.
pub(crate) struct UpdateStream<'a> {
    pub(crate) stream: Identifier<'a>,
    pub(crate) name: &'a str,
    pub(crate) options: OptionsBlock<'a>,
}

/// CREATE_TOPIC.
pub(crate) struct CreateTopic<'a> {
    pub(crate) stream: Identifier<'a>,
    pub(crate) partitions: u32,
    pub(crate) name: &'a str,
    pub(crate) options: OptionsBlock<'a>,
}

/// UPDATE_TOPIC.
pub(crate) struct UpdateTopic<'a> {
    pub(crate) topic: TopicPath<'a>,
    pub(crate) name: &'a str,
    pub(crate) options: OptionsBlock<'a>,
}

/// A topic by itself: GET, DELETE and PURGE_TOPIC, GET_CONSUMER_GROUPS.
#[derive(Clone, Copy)]
pub(crate) struct TopicPath<'a> {
    pub(crate) stream: Identifier<'a>,
    pub(crate) topic: Identifier<'a>,
}

/// CREATE_PARTITIONS and DELETE_PARTITIONS.
pub(crate) struct Partitions<'a> {
    pub(crate) topic: TopicPath<'a>,
    pub(crate) count: u32,
}

/// DELETE_SEGMENTS.
pub(crate) struct DeleteSegments<'a> {
    pub(crate) topic: TopicPath<'a>,
    pub(crate) partition: u32,
    pub(crate) count: u32,
}

/// CREATE_CONSUMER_GROUP.
pub(crate) struct CreateGroup<'a> {
    pub(crate) topic: TopicPath<'a>,
    pub(crate) name: &'a str,
}

/// A consumer group by itself: GET, DELETE, JOIN, LEAVE and SYNC_CONSUMER_GROUP.
pub(crate) struct GroupPath<'a> {
    pub(crate) topic: TopicPath<'a>,
    pub(crate) group: Identifier<'a>,
}

impl<'a> CreateStream<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        Ok(CreateStream { name: reader.name()?, options: reader.options()? })
    }
}

impl<'a> UpdateStream<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        let (stream, name) = (reader.identifier()?, reader.name()?);
        Ok(UpdateStream { stream, name, options: reader.options()? })
    }
}

impl<'a> CreateTopic<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        let (stream, partitions, name) = (reader.identifier()?, reader.u32()?, reader.name()?);
        Ok(CreateTopic { stream, partitions, name, options: reader.options()? })
    }
}

impl<'a> UpdateTopic<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        let (topic, name) = (TopicPath::read(&mut reader)?, reader.name()?);
        Ok(UpdateTopic { topic, name, options: reader.options()? })
    }
}

impl<'a> TopicPath<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        TopicPath::read(&mut Reader::new(body))
    }

    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Undecodable> {
        Ok(TopicPath { stream: reader.identifier()?, topic: reader.identifier()? })
    }
}

impl<'a> Partitions<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        Ok(Partitions { topic: TopicPath::read(&mut reader)?, count: reader.u32()? })
    }
}

impl<'a> DeleteSegments<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        let topic = TopicPath::read(&mut reader)?;
        Ok(DeleteSegments { topic, partition: reader.u32()?, count: reader.u32()? })
    }
}

impl<'a> CreateGroup<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        Ok(CreateGroup { topic: TopicPath::read(&mut reader)?, name: reader.name()? })
    }
}

impl<'a> GroupPath<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        Ok(GroupPath { topic: TopicPath::read(&mut reader)?, group: reader.identifier()? })
    }
}
