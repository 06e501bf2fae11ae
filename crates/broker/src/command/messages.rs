//! Commands about messages and offsets.

use std::ops::Range;

use super::{Reader, TopicPath, Undecodable};
use corelog::format::{Consumer, Partitioning, PollingStrategy};

/// SEND_MESSAGES, but for the batch.
pub(crate) struct SendMessages<'a> {
    pub(crate) topic: TopicPath<'a>,
    pub(crate) partitioning: Partitioning<'a>,
    /// How many messages the batch has, as the client says.
    pub(crate) messages: u32,
    /// True where the routing has the length that it says.
    pub(crate) is_tight: bool,
    /// Where the batch stands in the body.
    pub(crate) batch: Range<usize>,
}

/// POLL_MESSAGES.
pub(crate) struct PollMessages<'a> {
    pub(crate) consumer: Consumer<'a>,
    pub(crate) topic: TopicPath<'a>,
    pub(crate) partition: Option<u32>,
    pub(crate) strategy: PollingStrategy,
    pub(crate) count: u32,
    pub(crate) auto_commit: bool,
}

/// GET_CONSUMER_OFFSET, and what DELETE_CONSUMER_OFFSET begins with.
pub(crate) struct OffsetPath<'a> {
    pub(crate) consumer: Consumer<'a>,
    pub(crate) topic: TopicPath<'a>,
    pub(crate) partition: Option<u32>,
}

/// STORE_CONSUMER_OFFSET.
pub(crate) struct StoreOffset<'a> {
    pub(crate) path: OffsetPath<'a>,
    pub(crate) offset: u64,
}

/// FLUSH_UNSAVED_BUFFER.
pub(crate) struct Flush<'a> {
    pub(crate) topic: TopicPath<'a>,
    pub(crate) partition: u32,
    pub(crate) is_durable: bool,
}

impl<'a> SendMessages<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        let metadata = usize::try_from(reader.u32()?).map_err(|_| Undecodable)?;
        let begin = reader.position();
        let end =
            begin.checked_add(metadata).filter(|end| *end <= body.len()).ok_or(Undecodable)?;
        let mut reader = Reader::new(&body[begin..end]);
        let topic = TopicPath::read(&mut reader)?;
        let partitioning = reader.prefix(Partitioning::decode_prefix)?;
        let messages = reader.u32()?;
        let is_tight = reader.position() == metadata;
        Ok(SendMessages { topic, partitioning, messages, is_tight, batch: end..body.len() })
    }
}

impl<'a> PollMessages<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        let OffsetPath { consumer, topic, partition } = OffsetPath::read(&mut reader)?;
        let strategy = reader.prefix(PollingStrategy::decode_prefix)?;
        let (count, auto_commit) = (reader.u32()?, reader.flag()?);
        Ok(PollMessages { consumer, topic, partition, strategy, count, auto_commit })
    }
}

impl<'a> OffsetPath<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        OffsetPath::read(&mut Reader::new(body))
    }

    /// DELETE_CONSUMER_OFFSET: behind the path stands an ack that must be 0 or 1.
    pub(crate) fn decode_delete(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        let path = OffsetPath::read(&mut reader)?;
        reader.flag()?;
        Ok(path)
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, Undecodable> {
        let (consumer, topic) = (reader.consumer()?, TopicPath::read(reader)?);
        Ok(OffsetPath { consumer, topic, partition: reader.optional_partition()? })
    }
}

impl<'a> StoreOffset<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        let path = OffsetPath::read(&mut reader)?;
        let offset = reader.u64()?;
        reader.flag()?;
        Ok(StoreOffset { path, offset })
    }
}

impl<'a> Flush<'a> {
    pub(crate) fn decode(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Reader::new(body);
        let topic = TopicPath::read(&mut reader)?;
        Ok(Flush { topic, partition: reader.u32()?, is_durable: reader.flag()? })
    }
}
