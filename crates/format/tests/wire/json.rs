//! Decoded values in the JSON that the vectors are written in.

use corelog_format::{
    Batch, Consumer, ConsumerKind, Frame, HeaderValue, Identifier, Partitioning, PollingKind,
    PollingStrategy,
};
use serde_json::{Value, json};

use crate::rows::hex;

pub(crate) fn identifier(id: &Identifier<'_>) -> Value {
    match id {
        Identifier::Numeric(id) => json!({"kind": "numeric", "value": id}),
        Identifier::String(name) => json!({"kind": "string", "value": name.as_str()}),
    }
}

pub(crate) fn consumer(consumer: &Consumer<'_>) -> Value {
    let kind = match consumer.kind {
        ConsumerKind::Consumer => "consumer",
        ConsumerKind::ConsumerGroup => "consumer_group",
    };
    json!({"kind": kind, "id": identifier(&consumer.id)})
}

pub(crate) fn partitioning(partitioning: &Partitioning<'_>) -> Value {
    match partitioning {
        Partitioning::Balanced => json!({"kind": "balanced"}),
        Partitioning::PartitionId(id) => json!({"kind": "partition_id", "value": id}),
        Partitioning::MessagesKey(key) => {
            json!({"kind": "messages_key", "value": hex(key.as_bytes())})
        }
    }
}

pub(crate) fn polling_strategy(strategy: &PollingStrategy) -> Value {
    let kind = match strategy.kind {
        PollingKind::Offset => "offset",
        PollingKind::Timestamp => "timestamp",
        PollingKind::First => "first",
        PollingKind::Last => "last",
        PollingKind::Next => "next",
    };
    json!({"kind": kind, "value": strategy.value})
}

pub(crate) fn header(key: &str, value: &HeaderValue<'_>) -> Value {
    let kind = value.kind().map_or("unknown", |kind| kind.name());
    let plain = match value {
        HeaderValue::Raw(bytes) => json!(hex(bytes)),
        HeaderValue::String(text) => json!(text),
        HeaderValue::Bool(value) => json!(value),
        HeaderValue::Int8(value) => json!(value),
        HeaderValue::Int16(value) => json!(value),
        HeaderValue::Int32(value) => json!(value),
        HeaderValue::Int64(value) => json!(value),
        HeaderValue::Int128(value) => json!(value.to_string()),
        HeaderValue::Uint8(value) => json!(value),
        HeaderValue::Uint16(value) => json!(value),
        HeaderValue::Uint32(value) => json!(value),
        HeaderValue::Uint64(value) => json!(value),
        HeaderValue::Uint128(value) => json!(value.to_string()),
        HeaderValue::Float32(value) => json!(value),
        HeaderValue::Float64(value) => json!(value),
        HeaderValue::Unknown { code, bytes } => {
            return json!({"key": key, "kind": kind, "code": code, "value": hex(bytes)});
        }
        HeaderValue::Invalid { bytes, .. } => {
            return json!({"key": key, "kind": kind, "invalid": hex(bytes)});
        }
    };
    json!({"key": key, "kind": kind, "value": plain})
}

pub(crate) fn batch(batch: &Batch<'_>) -> Value {
    let header = batch.header();
    let messages: Vec<Value> = batch.frames().map(|frame| message(batch, &frame)).collect();
    json!({
        "partition_id": header.partition_id,
        "base_offset": header.base_offset,
        "base_timestamp": header.base_timestamp,
        "origin_timestamp": header.origin_timestamp,
        "batch_length": header.batch_length,
        "batch_checksum": header.batch_checksum.to_string(),
        "message_count": header.message_count,
        "messages": messages,
    })
}

fn message(batch: &Batch<'_>, frame: &Frame<'_>) -> Value {
    let headers: Vec<Value> = frame
        .user_headers()
        .iter()
        .map(|entry| entry.expect("keys of the vectors are strings"))
        .map(|(key, value)| header(key, &value))
        .collect();
    json!({
        "id": frame.id().to_string(),
        "offset": batch.header().base_offset + u64::from(frame.offset_delta()),
        "origin_timestamp":
            batch.header().origin_timestamp + u64::from(frame.timestamp_delta()),
        "payload_length": frame.payload().len(),
        "user_headers": headers,
    })
}
