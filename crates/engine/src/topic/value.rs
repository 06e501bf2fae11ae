//! One option's value as it comes from a client: checked, and turned into what it means. Each has
//! one canonical kind, and text that people write is taken too.

use std::time::Duration;

use bytesize::ByteSize;
use corelog_format::{Compression, HeaderValue};
use corelog_storage::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};

use super::option::{NO_LIMIT, TopicOption};

const MESSAGES_MAX: u32 = 16_777_216;
const SAVE_BYTES_MAX: u64 = 1 << 30;
const NEVER: [&str; 5] = ["unlimited", "none", "None", "Unlimited", "never_expire"];
const SERVER_DEFAULT: [&str; 4] = ["default", "server_default", "Default", "Server_default"];
const ZERO_BYTES: [&str; 5] = ["0", "unlimited", "Unlimited", "none", "None"];

/// What a value means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Compression(Compression),
    /// Microseconds, bytes or messages.
    Number(u64),
    Flag(bool),
    /// "Whatever the server does": as if the key had not been sent.
    ServerDefault,
}

impl TopicOption {
    /// The meaning of `value` for this option; nothing where it is not allowed.
    pub(super) fn meaning(self, value: HeaderValue<'_>) -> Option<Meaning> {
        match self {
            TopicOption::CompressionAlgorithm => compression(value).map(Meaning::Compression),
            TopicOption::EnforceFsync | TopicOption::PreallocateSegments => {
                flag(value).map(Meaning::Flag)
            }
            TopicOption::MessageExpiry => expiry(value).map(or_default),
            TopicOption::MaxTopicSize => topic_size(value).map(or_default),
            TopicOption::SegmentSize => {
                let bytes = size(value)?;
                let fits = (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes)
                    && bytes.is_multiple_of(512);
                (bytes == 0 || fits).then(|| or_default(bytes))
            }
            TopicOption::SizeOfMessagesRequiredToSave => {
                let bytes = size(value)?;
                (bytes <= SAVE_BYTES_MAX).then(|| or_default(bytes))
            }
            TopicOption::MessagesRequiredToSave => {
                let messages = match value {
                    HeaderValue::Uint32(messages) => messages,
                    HeaderValue::String(text) => decimal(text)?,
                    _ => return None,
                };
                (1..=MESSAGES_MAX).contains(&messages).then(|| Meaning::Number(messages.into()))
            }
        }
    }
}

impl Meaning {
    /// The value of this meaning in the option's canonical kind.
    pub(super) fn canonical(self, option: TopicOption) -> HeaderValue<'static> {
        match (self, option.default_value()) {
            (Meaning::Compression(algorithm), _) => HeaderValue::String(algorithm.name()),
            (Meaning::Flag(flag), _) => HeaderValue::Bool(flag),
            (Meaning::Number(number), HeaderValue::Uint32(_)) => {
                HeaderValue::Uint32(u32::try_from(number).expect("checked against its maximum"))
            }
            (Meaning::Number(number), _) => HeaderValue::Uint64(number),
            (Meaning::ServerDefault, default) => default,
        }
    }
}

fn or_default(number: u64) -> Meaning {
    if number == 0 { Meaning::ServerDefault } else { Meaning::Number(number) }
}

fn compression(value: HeaderValue<'_>) -> Option<Compression> {
    match value {
        HeaderValue::String(name) => Compression::from_name(name),
        HeaderValue::Uint8(code) => Compression::from_code(code),
        _ => None,
    }
}

fn flag(value: HeaderValue<'_>) -> Option<bool> {
    match value {
        HeaderValue::Bool(flag) => Some(flag),
        HeaderValue::String("true") => Some(true),
        HeaderValue::String("false") => Some(false),
        _ => None,
    }
}

fn decimal(text: &str) -> Option<u32> {
    // `parse` would take a plus sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Microseconds; 0 is the server's default.
fn expiry(value: HeaderValue<'_>) -> Option<u64> {
    let text = match value {
        HeaderValue::Uint64(us) => return Some(us),
        HeaderValue::String(text) => text,
        _ => return None,
    };
    if NEVER.contains(&text) {
        return Some(NO_LIMIT);
    }
    if SERVER_DEFAULT.contains(&text) {
        return Some(0);
    }
    let duration = humantime::parse_duration(text).ok()?;
    if duration > Duration::from_secs(u32::MAX.into()) {
        return None;
    }
    let us = u64::try_from(duration.as_micros()).ok()?;
    // Less than a microsecond must not turn into the default, which is to keep all for ever.
    (us > 0 || duration.is_zero()).then_some(us)
}

/// Bytes; 0 is the server's default.
fn topic_size(value: HeaderValue<'_>) -> Option<u64> {
    match value {
        HeaderValue::String("unlimited") => Some(NO_LIMIT),
        HeaderValue::String("server_default") => Some(0),
        other => size(other),
    }
}

fn size(value: HeaderValue<'_>) -> Option<u64> {
    let text = match value {
        HeaderValue::Uint64(bytes) => return Some(bytes),
        HeaderValue::String(text) => text,
        _ => return None,
    };
    if ZERO_BYTES.contains(&text) {
        return Some(0);
    }
    let bytes = text.parse::<ByteSize>().ok()?.as_u64();
    // The parser stops at the largest number, which here means "unlimited". A part of a byte must
    // not turn into the default either.
    (bytes != 0 && bytes != u64::MAX).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use HeaderValue::{Bool, Int64, Raw, String as Text, Uint8, Uint32, Uint64};
    use Meaning::{Flag, Number, ServerDefault};

    /// Each row: the option, a value, its meaning (`None`: refused).
    #[rustfmt::skip]
    fn rows() -> Vec<(TopicOption, HeaderValue<'static>, Option<Meaning>)> {
        use TopicOption as O;
        let compression = |algorithm| Some(Meaning::Compression(algorithm));
        vec![
            (O::CompressionAlgorithm, Text("none"), compression(Compression::None)),
            (O::CompressionAlgorithm, Text("GZip"), compression(Compression::Gzip)),
            (O::CompressionAlgorithm, Uint8(2), compression(Compression::Gzip)),
            (O::CompressionAlgorithm, Uint8(0), None),
            (O::CompressionAlgorithm, Uint8(3), None),
            (O::CompressionAlgorithm, Uint32(1), None),
            (O::CompressionAlgorithm, Text("lz4"), None),
            (O::MessageExpiry, Uint64(5), Some(Number(5))),
            (O::MessageExpiry, Uint64(0), Some(ServerDefault)),
            (O::MessageExpiry, Uint64(u64::MAX), Some(Number(u64::MAX))),
            (O::MessageExpiry, Text("7 days"), Some(Number(7 * 86_400 * 1_000_000))),
            (O::MessageExpiry, Text("1h 30m"), Some(Number(5_400 * 1_000_000))),
            (O::MessageExpiry, Text("1us"), Some(Number(1))),
            (O::MessageExpiry, Text("1ns"), None),
            (O::MessageExpiry, Text("0s"), Some(ServerDefault)),
            (O::MessageExpiry, Text("4294967295s"), Some(Number(4_294_967_295_000_000))),
            (O::MessageExpiry, Text("4294967296s"), None),
            (O::MessageExpiry, Text("never_expire"), Some(Number(u64::MAX))),
            (O::MessageExpiry, Text("Unlimited"), Some(Number(u64::MAX))),
            (O::MessageExpiry, Text("UNLIMITED"), None),
            (O::MessageExpiry, Text("Server_default"), Some(ServerDefault)),
            (O::MessageExpiry, Text("5"), None),
            (O::MessageExpiry, Int64(5), None),
            (O::EnforceFsync, Bool(true), Some(Flag(true))),
            (O::EnforceFsync, Text("false"), Some(Flag(false))),
            (O::EnforceFsync, Text("True"), None),
            (O::EnforceFsync, Uint8(1), None),
            (O::EnforceFsync, HeaderValue::from_parts(3, &[2]), None),
            (O::EnforceFsync, HeaderValue::from_parts(3, &[1, 0]), None),
            (O::MessagesRequiredToSave, Uint32(0), None),
            (O::MessagesRequiredToSave, Uint32(1), Some(Number(1))),
            (O::MessagesRequiredToSave, Uint32(MESSAGES_MAX), Some(Number(MESSAGES_MAX.into()))),
            (O::MessagesRequiredToSave, Uint32(MESSAGES_MAX + 1), None),
            (O::MessagesRequiredToSave, Text("4097"), Some(Number(4097))),
            (O::MessagesRequiredToSave, Text("+1"), None),
            (O::MessagesRequiredToSave, Text("4294967296"), None),
            (O::MessagesRequiredToSave, Uint64(1), None),
            (O::SizeOfMessagesRequiredToSave, Uint64(0), Some(ServerDefault)),
            (O::SizeOfMessagesRequiredToSave, Uint64(1), Some(Number(1))),
            (O::SizeOfMessagesRequiredToSave, Uint64(SAVE_BYTES_MAX), Some(Number(SAVE_BYTES_MAX))),
            (O::SizeOfMessagesRequiredToSave, Uint64(SAVE_BYTES_MAX + 1), None),
            (O::SizeOfMessagesRequiredToSave, Text("1 MiB"), Some(Number(1 << 20))),
            (O::SizeOfMessagesRequiredToSave, Raw(&[1]), None),
            (O::PreallocateSegments, Text("true"), Some(Flag(true))),
            (O::PreallocateSegments, Raw(&[1]), None),
        ]
    }

    /// Sizes of topics and segments.
    #[rustfmt::skip]
    fn sizes() -> Vec<(TopicOption, HeaderValue<'static>, Option<Meaning>)> {
        use TopicOption as O;
        vec![
            (O::MaxTopicSize, Uint64(1), Some(Number(1))),
            (O::MaxTopicSize, Uint64(0), Some(ServerDefault)),
            (O::MaxTopicSize, Text("unlimited"), Some(Number(u64::MAX))),
            (O::MaxTopicSize, Text("server_default"), Some(ServerDefault)),
            // These two are the reference server's trap: they mean its default.
            (O::MaxTopicSize, Text("none"), Some(ServerDefault)),
            (O::MaxTopicSize, Text("Unlimited"), Some(ServerDefault)),
            (O::MaxTopicSize, Text("1 GB"), Some(Number(1_000_000_000))),
            (O::MaxTopicSize, Text("1.5 GiB"), Some(Number(3 << 29))),
            (O::MaxTopicSize, Text("99999999999999999999"), None),
            (O::MaxTopicSize, Text("99999999999999999999 GB"), None),
            (O::MaxTopicSize, Text("0.1 B"), None),
            (O::MaxTopicSize, Text("-1"), None),
            (O::SegmentSize, Uint64(0), Some(ServerDefault)),
            (O::SegmentSize, Uint64(1), None),
            (O::SegmentSize, Uint64(511), None),
            (O::SegmentSize, Uint64((1 << 20) - 512), None),
            (O::SegmentSize, Uint64(1 << 20), Some(Number(1 << 20))),
            (O::SegmentSize, Uint64((1 << 20) + 511), None),
            (O::SegmentSize, Uint64((1 << 20) + 512), Some(Number((1 << 20) + 512))),
            (O::SegmentSize, Uint64(1 << 30), Some(Number(1 << 30))),
            (O::SegmentSize, Uint64((1 << 30) + 512), None),
            (O::SegmentSize, Uint64(u64::MAX), None),
            (O::SegmentSize, Text("128MiB"), Some(Number(128 << 20))),
            (O::SegmentSize, Text("1000 KB"), None),
            (O::SegmentSize, Text("none"), Some(ServerDefault)),
        ]
    }

    #[test]
    fn every_form_of_every_value() {
        for (option, value, wanted) in rows().into_iter().chain(sizes()) {
            assert_eq!(option.meaning(value), wanted, "{} = {value:?}", option.key());
        }
    }

    #[test]
    fn a_canonical_value_means_the_same() {
        for (option, _, meaning) in rows().into_iter().chain(sizes()) {
            let Some(meaning) = meaning else { continue };
            let canonical = meaning.canonical(option);
            assert_eq!(canonical.code(), option.default_value().code(), "{}", option.key());
            let again = option.meaning(canonical);
            if meaning == ServerDefault {
                assert_eq!(canonical, option.default_value());
            } else {
                assert_eq!(again, Some(meaning), "{}", option.key());
            }
        }
    }

    #[test]
    fn no_text_panics() {
        for text in ["", " ", "é", "9é", "1.2.3 GB", ".", "∞", "18446744073709551615", "1e9"] {
            for option in TopicOption::ALL {
                let _ = option.meaning(Text(text));
            }
        }
    }
}
