//! Values of the wire types as JSON, in the shapes that every command shares.
//!
//! Numbers up to 64 bits are JSON numbers, wider ones and checksums decimal strings, bytes hex.

use std::fmt::{self, Display};
use std::io;

use corelog_format::{
    BatchHeader, Consumer, ConsumerKind, Frame, HeaderValue, Identifier, Name, OptionalPartition,
    Partitioning, PollingKind, PollingStrategy, UserHeaders,
};

use crate::json::{self, List, Object, Out};

/// `{"name": s}`
pub(crate) fn name(out: Out<'_>, name: &Name<'_>) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    object.text("name", name.as_str())?;
    object.end()
}

/// `{"kind": "numeric" | "string", "value": ..}`
pub(crate) fn identifier(out: Out<'_>, id: &Identifier<'_>) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    match id {
        Identifier::Numeric(value) => {
            object.text("kind", "numeric")?;
            object.number("value", u64::from(*value))?;
        }
        Identifier::String(value) => {
            object.text("kind", "string")?;
            object.text("value", value.as_str())?;
        }
    }
    object.end()
}

/// `{"kind": "consumer" | "consumer_group", "id": identifier}`
pub(crate) fn consumer(out: Out<'_>, consumer: &Consumer<'_>) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    let kind = match consumer.kind {
        ConsumerKind::Consumer => "consumer",
        ConsumerKind::ConsumerGroup => "consumer_group",
    };
    object.text("kind", kind)?;
    identifier(object.field("id")?, &consumer.id)?;
    object.end()
}

/// `{"partition_id": u32 | null}`
pub(crate) fn optional_partition(out: Out<'_>, id: OptionalPartition) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    object.maybe("partition_id", id.0.map(u64::from))?;
    object.end()
}

/// `{"kind": "balanced"}`, or `"partition_id"` or `"messages_key"` with a value.
pub(crate) fn partitioning(out: Out<'_>, partitioning: &Partitioning<'_>) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    match partitioning {
        Partitioning::Balanced => object.text("kind", "balanced")?,
        Partitioning::PartitionId(id) => {
            object.text("kind", "partition_id")?;
            object.number("value", u64::from(*id))?;
        }
        Partitioning::MessagesKey(key) => {
            object.text("kind", "messages_key")?;
            object.hex("value", key.as_bytes())?;
        }
    }
    object.end()
}

/// `{"kind": "offset" | "timestamp" | "first" | "last" | "next", "value": u64}`
pub(crate) fn polling_strategy(out: Out<'_>, strategy: PollingStrategy) -> io::Result<()> {
    let kind = match strategy.kind {
        PollingKind::Offset => "offset",
        PollingKind::Timestamp => "timestamp",
        PollingKind::First => "first",
        PollingKind::Last => "last",
        PollingKind::Next => "next",
    };
    let mut object = Object::begin(out)?;
    object.text("kind", kind)?;
    object.number("value", strategy.value)?;
    object.end()
}

/// One `{"key", "kind", "value"}`.
pub(crate) fn header(out: Out<'_>, key: &str, value: &HeaderValue<'_>) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    object.text("key", key)?;
    typed(&mut object, value)?;
    object.end()
}

/// The fields `"kind"` and `"value"` of a typed value; `"invalid"` in place of `"value"` where the
/// data does not fit the kind, and a `"code"` where the kind has no name.
fn typed(object: &mut Object<'_>, value: &HeaderValue<'_>) -> io::Result<()> {
    match value.kind() {
        Some(kind) => object.text("kind", kind.name())?,
        None => {
            object.text("kind", "unknown")?;
            object.number("code", u64::from(value.code()))?;
        }
    }
    match value {
        HeaderValue::Invalid { bytes, .. } => object.hex("invalid", bytes),
        HeaderValue::Raw(bytes) | HeaderValue::Unknown { bytes, .. } => object.hex("value", bytes),
        HeaderValue::String(text) => object.text("value", text),
        HeaderValue::Int128(value) => object.decimal("value", value),
        HeaderValue::Uint128(value) => object.decimal("value", value),
        HeaderValue::Float32(value) => json::float(object.field("value")?, f64::from(*value)),
        HeaderValue::Float64(value) => json::float(object.field("value")?, *value),
        HeaderValue::Bool(value) => plain(object, value),
        HeaderValue::Int8(value) => plain(object, value),
        HeaderValue::Int16(value) => plain(object, value),
        HeaderValue::Int32(value) => plain(object, value),
        HeaderValue::Int64(value) => plain(object, value),
        HeaderValue::Uint8(value) => plain(object, value),
        HeaderValue::Uint16(value) => plain(object, value),
        HeaderValue::Uint32(value) => plain(object, value),
        HeaderValue::Uint64(value) => plain(object, value),
    }
}

/// A value whose text is its JSON.
fn plain(object: &mut Object<'_>, value: &impl Display) -> io::Result<()> {
    let out = object.field("value")?;
    write!(out, "{value}")
}

/// The user headers of a stored message as a list. Nothing is left out: a key of another kind is
/// an object like a value, and where the structure breaks the whole block
/// stands as `{"error": .., "block": hex}`.
pub(crate) fn stored_headers(out: Out<'_>, headers: UserHeaders<'_>) -> io::Result<()> {
    let mut list = List::begin(out)?;
    for pair in headers.untyped() {
        match pair {
            Ok((HeaderValue::String(key), value)) => header(list.item()?, key, &value)?,
            Ok((key, value)) => {
                let mut object = Object::begin(list.item()?)?;
                let mut key_object = Object::begin(object.field("key")?)?;
                typed(&mut key_object, &key)?;
                key_object.end()?;
                typed(&mut object, &value)?;
                object.end()?;
            }
            Err(error) => {
                let mut object = Object::begin(list.item()?)?;
                object.decimal("error", error)?;
                object.hex("block", headers.bytes())?;
                object.end()?;
            }
        }
    }
    list.end()
}

/// The fields of a batch header by their names.
pub(crate) fn batch_fields(object: &mut Object<'_>, header: &BatchHeader) -> io::Result<()> {
    object.number("partition_id", header.partition_id)?;
    object.number("base_offset", header.base_offset)?;
    object.number("base_timestamp", header.base_timestamp)?;
    object.number("origin_timestamp", header.origin_timestamp)?;
    object.number("batch_length", header.batch_length)?;
    object.decimal("batch_checksum", header.batch_checksum)?;
    object.number("message_count", u64::from(header.message_count))
}

/// The fields of a message but its user headers.
pub(crate) fn message_fields(
    object: &mut Object<'_>,
    header: &BatchHeader,
    frame: &Frame<'_>,
) -> io::Result<()> {
    object.decimal("id", frame.id())?;
    object.number("offset", offset(header, frame))?;
    object.number("origin_timestamp", origin(header, frame))?;
    object.number("payload_length", frame.payload().len() as u64)
}

/// A message's offset. Deltas of a stored batch may be anything: it saturates, never wraps.
pub(crate) fn offset(header: &BatchHeader, frame: &Frame<'_>) -> u64 {
    header.base_offset.saturating_add(u64::from(frame.offset_delta()))
}

/// The producer's time of a message, in microseconds; saturates likewise.
pub(crate) fn origin(header: &BatchHeader, frame: &Frame<'_>) -> u64 {
    header.origin_timestamp.saturating_add(u64::from(frame.timestamp_delta()))
}

/// A block of user headers for people: `key=value key=value`, text quoted and escaped.
pub(crate) struct HumanHeaders<'a>(pub(crate) UserHeaders<'a>);

impl Display for HumanHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, pair) in self.0.untyped().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            match pair {
                Ok((key, value)) => write!(f, "{}={}", HumanValue(&key), HumanValue(&value))?,
                Err(error) => write!(f, "[{error}]")?,
            }
        }
        Ok(())
    }
}

/// One typed value for people.
pub(crate) struct HumanValue<'a>(pub(crate) &'a HeaderValue<'a>);

impl Display for HumanValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            HeaderValue::Raw(bytes) => write!(f, "0x{}", Hex(bytes)),
            // Debug escapes what could drive a terminal.
            HeaderValue::String(text) => write!(f, "{text:?}"),
            HeaderValue::Unknown { code, bytes } => write!(f, "kind {code}:0x{}", Hex(bytes)),
            HeaderValue::Invalid { kind, bytes } => {
                write!(f, "invalid {}:0x{}", kind.name(), Hex(bytes))
            }
            HeaderValue::Bool(value) => write!(f, "{value}"),
            HeaderValue::Int8(value) => write!(f, "{value}"),
            HeaderValue::Int16(value) => write!(f, "{value}"),
            HeaderValue::Int32(value) => write!(f, "{value}"),
            HeaderValue::Int64(value) => write!(f, "{value}"),
            HeaderValue::Int128(value) => write!(f, "{value}"),
            HeaderValue::Uint8(value) => write!(f, "{value}"),
            HeaderValue::Uint16(value) => write!(f, "{value}"),
            HeaderValue::Uint32(value) => write!(f, "{value}"),
            HeaderValue::Uint64(value) => write!(f, "{value}"),
            HeaderValue::Uint128(value) => write!(f, "{value}"),
            HeaderValue::Float32(value) => write!(f, "{value}"),
            HeaderValue::Float64(value) => write!(f, "{value}"),
        }
    }
}

/// Bytes as hex.
struct Hex<'a>(&'a [u8]);

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
