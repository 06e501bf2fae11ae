//! The catalog's records as bytes: fixed places, little-endian, then what has a length of its own;
//! each with a version.
//!
//! `docs/format.md`, "The catalog", has the tables; a test compares it with the places here.

use std::sync::Arc;
use std::time::Duration;

use corelog_format::{Compression, Name, OptionsBlock};
use corelog_storage::LogConfig;

use super::CatalogError;
use crate::topic::{NO_LIMIT, PARTITIONS_MAX, TopicConfig, TopicOptions};

/// The version that this build writes and the only one it reads.
pub(super) const VERSION: u16 = 2;

/// A record's field: its first byte and its length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    at: usize,
    len: usize,
}

const fn field(at: usize, len: usize) -> Field {
    Field { at, len }
}

/// The fields of a stream's record and of a group's. The name follows.
mod named {
    use super::{Field, field};
    pub(super) const VERSION: Field = field(0, 2);
    pub(super) const NAME_LEN: Field = field(2, 1);
    pub(super) const RESERVED: Field = field(3, 5);
    pub(super) const CREATED_US: Field = field(8, 8);
    pub(super) const LEN: usize = 16;
}

/// The fields of a topic's record. The name follows, then the explicit options.
mod topic {
    use super::{Field, field};
    pub(super) const VERSION: Field = field(0, 2);
    pub(super) const FLAGS: Field = field(2, 2);
    pub(super) const PARTITIONS: Field = field(4, 4);
    pub(super) const CREATED_US: Field = field(8, 8);
    pub(super) const SEGMENT_BYTES: Field = field(16, 8);
    pub(super) const MESSAGES: Field = field(24, 4);
    pub(super) const NAME_LEN: Field = field(28, 1);
    pub(super) const COMPRESSION: Field = field(29, 1);
    pub(super) const RESERVED: Field = field(30, 2);
    pub(super) const BYTES: Field = field(32, 8);
    pub(super) const FLUSH_AFTER_US: Field = field(40, 8);
    pub(super) const INDEX_STEP: Field = field(48, 8);
    pub(super) const MESSAGE_EXPIRY_US: Field = field(56, 8);
    pub(super) const MAX_TOPIC_SIZE: Field = field(64, 8);
    pub(super) const NEXT_GROUP: Field = field(72, 4);
    pub(super) const EXPLICIT_LEN: Field = field(76, 4);
    pub(super) const LEN: usize = 80;
}

/// The fields of a partition's record.
mod partition {
    use super::{Field, field};
    pub(super) const VERSION: Field = field(0, 2);
    pub(super) const RESERVED: Field = field(2, 6);
    pub(super) const INCARNATION: Field = field(8, 8);
    pub(super) const CREATED_US: Field = field(16, 8);
    pub(super) const LEN: usize = 24;
}

const ENFORCE_FSYNC: u64 = 1;
const PREALLOCATE: u64 = 2;
const VERIFY_READS: u64 = 4;

/// What the catalog keeps of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamRecord {
    pub(crate) created_us: u64,
    pub(crate) name: Arc<str>,
}

/// What the catalog keeps of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicRecord {
    pub(crate) created_us: u64,
    pub(crate) name: Arc<str>,
    pub(crate) options: Arc<TopicOptions>,
    /// The id that the next consumer group gets. Only ever grows.
    pub(crate) next_group: u32,
}

/// What the catalog keeps of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartitionRecord {
    pub(crate) incarnation: u64,
    pub(crate) created_us: u64,
}

/// What the catalog keeps of a consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupRecord {
    pub(crate) created_us: u64,
    pub(crate) name: Arc<str>,
}

impl Field {
    fn get(self, bytes: &[u8]) -> u64 {
        let mut wide = [0; 8];
        wide[..self.len].copy_from_slice(&bytes[self.at..self.at + self.len]);
        u64::from_le_bytes(wide)
    }

    fn put(self, bytes: &mut [u8], value: u64) {
        let wide = value.to_le_bytes();
        debug_assert!(wide[self.len..].iter().all(|byte| *byte == 0), "{value} in {self:?}");
        bytes[self.at..self.at + self.len].copy_from_slice(&wide[..self.len]);
    }
}

/// The version of a record, its fixed part's length, and its zeros.
fn check(
    record: &'static str,
    bytes: &[u8],
    len: usize,
    reserved: Field,
) -> Result<(), CatalogError> {
    let version = bytes.first_chunk().map(|first| u16::from_le_bytes(*first));
    match version {
        Some(VERSION) => {}
        Some(found) if found > VERSION => {
            return Err(CatalogError::Newer {
                what: record,
                found: u32::from(found),
                known: u32::from(VERSION),
            });
        }
        _ => return Err(CatalogError::damaged(format!("a {record} record has no version"))),
    }
    if bytes.len() < len {
        let found = bytes.len();
        return Err(CatalogError::damaged(format!("a {record} record is {found} bytes")));
    }
    if reserved.get(bytes) != 0 {
        return Err(CatalogError::damaged(format!("a {record} record's reserved bytes are not 0")));
    }
    Ok(())
}

/// What follows a record's fixed part: a name of `name_len` bytes, and the rest.
fn name_and_rest<'a>(
    record: &'static str,
    tail: &'a [u8],
    name_len: u64,
) -> Result<(Arc<str>, &'a [u8]), CatalogError> {
    let name = tail.split_at_checked(name_len as usize).and_then(|(name, rest)| {
        let name = Name::new(std::str::from_utf8(name).ok()?).ok()?;
        Some((name.as_str().into(), rest))
    });
    name.ok_or_else(|| CatalogError::damaged(format!("a {record} record has no sound name")))
}

/// A record of a time and a name.
fn encode_named(created_us: u64, name: &str) -> Vec<u8> {
    let mut bytes = vec![0; named::LEN];
    named::VERSION.put(&mut bytes, u64::from(VERSION));
    named::NAME_LEN.put(&mut bytes, name.len() as u64);
    named::CREATED_US.put(&mut bytes, created_us);
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

fn decode_named(record: &'static str, bytes: &[u8]) -> Result<(u64, Arc<str>), CatalogError> {
    check(record, bytes, named::LEN, named::RESERVED)?;
    let name_len = named::NAME_LEN.get(bytes);
    let (name, rest) = name_and_rest(record, &bytes[named::LEN..], name_len)?;
    if !rest.is_empty() {
        return Err(CatalogError::damaged(format!("a {record} record is too long")));
    }
    Ok((named::CREATED_US.get(bytes), name))
}

impl StreamRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        encode_named(self.created_us, &self.name)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        let (created_us, name) = decode_named("stream", bytes)?;
        Ok(StreamRecord { created_us, name })
    }
}

impl GroupRecord {
    pub(super) fn encode(&self) -> Vec<u8> {
        encode_named(self.created_us, &self.name)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        let (created_us, name) = decode_named("consumer group", bytes)?;
        Ok(GroupRecord { created_us, name })
    }
}

impl TopicRecord {
    pub(crate) fn partitions(&self) -> u32 {
        self.options.config().partitions
    }

    pub(super) fn with_partitions(&self, partitions: u32) -> TopicRecord {
        let mut options = TopicOptions::clone(&self.options);
        options.set_partitions(partitions);
        TopicRecord { options: Arc::new(options), ..self.clone() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let (config, explicit) = (self.options.config(), self.options.explicit());
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        let flags = flag(config.enforce_fsync, ENFORCE_FSYNC)
            | flag(config.preallocate_segments, PREALLOCATE)
            | flag(config.verify_reads, VERIFY_READS);
        let mut bytes = vec![0; topic::LEN];
        let mut put = |field: Field, value: u64| field.put(&mut bytes, value);
        put(topic::VERSION, u64::from(VERSION));
        put(topic::FLAGS, flags);
        put(topic::PARTITIONS, u64::from(config.partitions));
        put(topic::CREATED_US, self.created_us);
        put(topic::SEGMENT_BYTES, config.segment_bytes);
        put(topic::MESSAGES, u64::from(config.messages_required_to_save));
        put(topic::NAME_LEN, self.name.len() as u64);
        put(topic::COMPRESSION, u64::from(config.compression_algorithm.code()));
        put(topic::BYTES, config.size_of_messages_required_to_save);
        // Durations: validated before they came here.
        put(topic::FLUSH_AFTER_US, config.flush_after.as_micros() as u64);
        put(topic::INDEX_STEP, config.index_step);
        let expiry_us = config.message_expiry.map_or(NO_LIMIT, |expiry| expiry.as_micros() as u64);
        put(topic::MESSAGE_EXPIRY_US, expiry_us);
        put(topic::MAX_TOPIC_SIZE, config.max_topic_size.unwrap_or(NO_LIMIT));
        put(topic::NEXT_GROUP, u64::from(self.next_group));
        put(topic::EXPLICIT_LEN, explicit.len() as u64);
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend_from_slice(&explicit);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        check("topic", bytes, topic::LEN, topic::RESERVED)?;
        let get = |field: Field| field.get(bytes);
        let damaged = |why: String| CatalogError::damaged(format!("a topic record {why}"));
        let flags = get(topic::FLAGS);
        if flags & !(ENFORCE_FSYNC | PREALLOCATE | VERIFY_READS) != 0 {
            return Err(damaged(format!("has the flags {flags:#x}")));
        }
        let (name, explicit) = name_and_rest("topic", &bytes[topic::LEN..], get(topic::NAME_LEN))?;
        if explicit.len() as u64 != get(topic::EXPLICIT_LEN) {
            return Err(damaged(format!("has {} bytes of options", explicit.len())));
        }
        let explicit = OptionsBlock::decode(explicit)
            .map_err(|error| damaged(format!("has no sound options: {error}")))?;
        let code = get(topic::COMPRESSION);
        let compression_algorithm = u8::try_from(code)
            .ok()
            .and_then(Compression::from_code)
            .ok_or_else(|| damaged(format!("has the compression {code}")))?;
        let limit = |field| Some(get(field)).filter(|limit| *limit != NO_LIMIT);
        let log = LogConfig {
            segment_bytes: get(topic::SEGMENT_BYTES),
            enforce_fsync: flags & ENFORCE_FSYNC != 0,
            messages_required_to_save: get(topic::MESSAGES) as u32,
            size_of_messages_required_to_save: get(topic::BYTES),
            preallocate_segments: flags & PREALLOCATE != 0,
            flush_after: Duration::from_micros(get(topic::FLUSH_AFTER_US)),
            index_step: get(topic::INDEX_STEP),
            verify_reads: flags & VERIFY_READS != 0,
        };
        let config = TopicConfig {
            compression_algorithm,
            message_expiry: limit(topic::MESSAGE_EXPIRY_US).map(Duration::from_micros),
            max_topic_size: limit(topic::MAX_TOPIC_SIZE),
            ..TopicConfig::new(get(topic::PARTITIONS) as u32, &log)
        };
        config.validate().map_err(|error| damaged(format!("is not allowed: {error}")))?;
        if config.partitions > PARTITIONS_MAX {
            return Err(damaged(format!("has {} partitions", config.partitions)));
        }
        let options = TopicOptions::stored(config, &explicit)
            .ok_or_else(|| damaged("has options that topics do not have".to_owned()))?;
        Ok(TopicRecord {
            created_us: get(topic::CREATED_US),
            name,
            options: Arc::new(options),
            next_group: get(topic::NEXT_GROUP) as u32,
        })
    }
}

impl PartitionRecord {
    pub(super) fn encode(self) -> [u8; partition::LEN] {
        let mut bytes = [0; partition::LEN];
        partition::VERSION.put(&mut bytes, u64::from(VERSION));
        partition::INCARNATION.put(&mut bytes, self.incarnation);
        partition::CREATED_US.put(&mut bytes, self.created_us);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, CatalogError> {
        check("partition", bytes, partition::LEN, partition::RESERVED)?;
        if bytes.len() != partition::LEN {
            return Err(CatalogError::damaged("a partition record is too long".to_owned()));
        }
        Ok(PartitionRecord {
            incarnation: partition::INCARNATION.get(bytes),
            created_us: partition::CREATED_US.get(bytes),
        })
    }
}

#[cfg(test)]
mod tests;
