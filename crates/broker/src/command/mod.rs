//! Bodies of requests, taken apart. Pure: bytes in, values out; what cannot be read is
//! [`Undecodable`], whatever is wrong with it, as the wire has one code for it.
//!
//! Lengths are believed only as far as there are bytes. What follows a command is ignored, but
//! behind options, which go to the end (`encodings.md`).

use corelog::format::{Consumer, Identifier, Name, OptionalPartition, OptionsBlock};

mod catalog;
mod login;
mod messages;

pub(crate) use catalog::{
    CreateGroup, CreateStream, CreateTopic, DeleteSegments, GroupPath, Partitions, TopicPath,
    UpdateStream, UpdateTopic,
};
pub(crate) use login::{Login, Secret};
pub(crate) use messages::{Flush, OffsetPath, PollMessages, SendMessages, StoreOffset};

/// Not the body of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undecodable;

/// What is read of a body, from the front.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Reader<'a> {
        Reader { rest: body, whole: body.len() }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.whole - self.rest.len()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Undecodable> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Undecodable)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Undecodable> {
        self.bytes(N).map(|bytes| bytes.try_into().expect("so many were taken"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Undecodable> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Undecodable> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Undecodable> {
        self.array().map(u64::from_le_bytes)
    }

    /// Exactly 0 or 1.
    pub(crate) fn flag(&mut self) -> Result<bool, Undecodable> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Undecodable),
        }
    }

    /// Something that knows its own length.
    pub(crate) fn prefix<T, E>(
        &mut self,
        decode: impl FnOnce(&'a [u8]) -> Result<(T, usize), E>,
    ) -> Result<T, Undecodable> {
        let (value, len) = decode(self.rest).map_err(|_| Undecodable)?;
        self.bytes(len)?;
        Ok(value)
    }

    pub(crate) fn name(&mut self) -> Result<&'a str, Undecodable> {
        self.prefix(Name::decode_prefix).map(|name| name.as_str())
    }

    pub(crate) fn identifier(&mut self) -> Result<Identifier<'a>, Undecodable> {
        self.prefix(Identifier::decode_prefix)
    }

    pub(crate) fn consumer(&mut self) -> Result<Consumer<'a>, Undecodable> {
        self.prefix(Consumer::decode_prefix)
    }

    pub(crate) fn optional_partition(&mut self) -> Result<Option<u32>, Undecodable> {
        self.prefix(OptionalPartition::decode_prefix).map(|partition| partition.0)
    }

    /// All that is left, as options.
    pub(crate) fn options(&mut self) -> Result<OptionsBlock<'a>, Undecodable> {
        OptionsBlock::decode(std::mem::take(&mut self.rest)).map_err(|_| Undecodable)
    }
}

/// A stream by itself: GET, DELETE and PURGE_STREAM, GET_TOPICS.
pub(crate) fn stream(body: &[u8]) -> Result<Identifier<'_>, Undecodable> {
    Reader::new(body).identifier()
}
