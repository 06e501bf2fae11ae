//! How a send picks its partition: `[kind u8][length u8][value]` (encodings.md, "Partitioning").

use crate::reader::Reader;
use crate::{FormatError, FormatErrorKind};

const BALANCED: u8 = 1;
const PARTITION_ID: u8 = 2;
const MESSAGES_KEY: u8 = 3;

/// How `SendMessages` picks the target partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Partitioning<'a> {
    /// Kind 1, no value: the server goes round.
    Balanced,
    /// Kind 2: this partition.
    PartitionId(u32),
    /// Kind 3: the partition that the key's hash names.
    MessagesKey(MessagesKey<'a>),
}

/// A routing key of 1..=255 bytes, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessagesKey<'a>(&'a [u8]);

impl<'a> MessagesKey<'a> {
    /// `key` as a routing key; refused when it is not 1..=255 bytes long.
    pub fn new(key: &'a [u8]) -> Result<Self, FormatError> {
        if key.is_empty() || key.len() > 255 {
            let found = key.len() as u64;
            let kind = FormatErrorKind::OutOfRange { found, min: 1, max: 255 };
            return Err(FormatError::new(0, "messages key length", kind));
        }
        Ok(MessagesKey(key))
    }

    /// The key's bytes; the reference hash over them is XXH32 with seed 0.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Partitioning<'a> {
    /// Decodes a partitioning that is the whole of `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FormatError> {
        Reader::whole(bytes, "partitioning", Self::read)
    }

    /// Decodes the partitioning at the front of `bytes`, with the number of bytes it takes.
    pub fn decode_prefix(bytes: &'a [u8]) -> Result<(Self, usize), FormatError> {
        Reader::prefix(bytes, Self::read)
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, FormatError> {
        match reader.u8("partitioning kind")? {
            BALANCED => {
                reader.exact_length(0, "partitioning length")?;
                Ok(Partitioning::Balanced)
            }
            PARTITION_ID => {
                reader.exact_length(4, "partitioning length")?;
                reader.u32("partition_id").map(Partitioning::PartitionId)
            }
            MESSAGES_KEY => {
                let key = reader.short_bytes("partitioning length", "messages key")?;
                Ok(Partitioning::MessagesKey(MessagesKey(key)))
            }
            other => {
                let kind = FormatErrorKind::UnknownCode { found: u64::from(other) };
                Err(reader.error_back(1, "partitioning kind", kind))
            }
        }
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Partitioning::Balanced => out.extend_from_slice(&[BALANCED, 0]),
            Partitioning::PartitionId(id) => {
                out.extend_from_slice(&[PARTITION_ID, 4]);
                out.extend_from_slice(&id.to_le_bytes());
            }
            Partitioning::MessagesKey(key) => {
                let length = u8::try_from(key.0.len()).expect("a messages key is 1..=255 bytes");
                out.extend_from_slice(&[MESSAGES_KEY, length]);
                out.extend_from_slice(key.0);
            }
        }
    }
}
