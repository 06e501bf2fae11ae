//! The encodings as a table, so that every test asks the same of each of them.

use corelog_format::{
    Consumer, FormatError, Identifier, Name, OptionalPartition, OptionsBlock, OptionsBuilder,
    Partitioning, PollingStrategy, UserHeaders, UserHeadersBuilder,
};
use serde_json::{Value, json};

use crate::json;

/// A whole input, or the reason why not.
type Decode<T> = fn(&[u8]) -> Result<T, FormatError>;

/// One encoding.
pub(crate) struct Codec {
    pub(crate) kind: &'static str,
    /// Decodes the whole input, into the vectors' JSON.
    pub(crate) decode: Decode<Value>,
    /// Decodes, and encodes what was decoded from its parts.
    pub(crate) again: Decode<Vec<u8>>,
    /// How many bytes `decode_prefix` takes; blocks have no such thing, they run to the end.
    pub(crate) prefix: Option<Decode<usize>>,
}

/// The codec of a row's type.
pub(crate) fn of(kind: &str) -> &'static Codec {
    CODECS.iter().find(|codec| codec.kind == kind).expect("a type of the vectors' table")
}

pub(crate) const CODECS: [Codec; 8] = [
    Codec {
        kind: "name",
        decode: |bytes| Name::decode(bytes).map(|name| json!({"name": name.as_str()})),
        again: |bytes| Name::decode(bytes).map(|name| encoded(|out| name.encode(out))),
        prefix: Some(|bytes| Name::decode_prefix(bytes).map(|(_, used)| used)),
    },
    Codec {
        kind: "identifier",
        decode: |bytes| Identifier::decode(bytes).map(|id| json::identifier(&id)),
        again: |bytes| Identifier::decode(bytes).map(|id| encoded(|out| id.encode(out))),
        prefix: Some(|bytes| Identifier::decode_prefix(bytes).map(|(_, used)| used)),
    },
    Codec {
        kind: "consumer",
        decode: |bytes| Consumer::decode(bytes).map(|consumer| json::consumer(&consumer)),
        again: |bytes| Consumer::decode(bytes).map(|consumer| encoded(|out| consumer.encode(out))),
        prefix: Some(|bytes| Consumer::decode_prefix(bytes).map(|(_, used)| used)),
    },
    Codec {
        kind: "optional_partition",
        decode: |bytes| {
            OptionalPartition::decode(bytes).map(|partition| json!({"partition_id": partition.0}))
        },
        again: |bytes| OptionalPartition::decode(bytes).map(|id| encoded(|out| id.encode(out))),
        prefix: Some(|bytes| OptionalPartition::decode_prefix(bytes).map(|(_, used)| used)),
    },
    Codec {
        kind: "partitioning",
        decode: |bytes| Partitioning::decode(bytes).map(|by| json::partitioning(&by)),
        again: |bytes| Partitioning::decode(bytes).map(|by| encoded(|out| by.encode(out))),
        prefix: Some(|bytes| Partitioning::decode_prefix(bytes).map(|(_, used)| used)),
    },
    Codec {
        kind: "polling_strategy",
        decode: |bytes| PollingStrategy::decode(bytes).map(|start| json::polling_strategy(&start)),
        again: |bytes| PollingStrategy::decode(bytes).map(|start| encoded(|out| start.encode(out))),
        prefix: Some(|bytes| PollingStrategy::decode_prefix(bytes).map(|(_, used)| used)),
    },
    Codec { kind: "user_headers", decode: headers, again: headers_again, prefix: None },
    Codec { kind: "options_block", decode: options, again: options_again, prefix: None },
];

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

fn headers(bytes: &[u8]) -> Result<Value, FormatError> {
    UserHeaders::decode(bytes)?
        .iter()
        .map(|header| header.map(|(key, value)| json::header(key, &value)))
        .collect::<Result<_, _>>()
        .map(Value::Array)
}

fn headers_again(bytes: &[u8]) -> Result<Vec<u8>, FormatError> {
    let mut builder = UserHeadersBuilder::new();
    for header in UserHeaders::decode(bytes)? {
        let (key, value) = header.expect("decode checked every key");
        builder.push(key, value).expect("what was decoded encodes");
    }
    Ok(encoded(|out| builder.headers().encode(out)))
}

fn options(bytes: &[u8]) -> Result<Value, FormatError> {
    let block = OptionsBlock::decode(bytes)?;
    Ok(block.iter().map(|(key, value)| json::header(key, &value)).collect())
}

fn options_again(bytes: &[u8]) -> Result<Vec<u8>, FormatError> {
    let block = OptionsBlock::decode(bytes)?;
    let mut builder = OptionsBuilder::new();
    for (key, value) in block.iter() {
        builder.push(key, value).expect("what was decoded encodes");
    }
    assert_eq!(builder.block(), block);
    Ok(encoded(|out| builder.block().encode(out)))
}
