//! Options as blocks, beside what a real server answered to real clients.

use corelog_format::{HeaderValue, OptionsBlock, OptionsBuilder};

use super::*;

fn block(pairs: &[(&str, HeaderValue<'_>)]) -> OptionsBuilder {
    let mut block = OptionsBuilder::new();
    for (key, value) in pairs {
        block.push(key, *value).unwrap();
    }
    block
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// The explicit and the derived block of the reference server's answers to `CreateTopic`
/// (vectors, iggy-0.11, connections 0 and 2), and to the `UpdateTopic` of connection 12.
#[test]
fn blocks_are_those_of_the_reference_server() {
    const COMPRESSION: &str =
        "0215000000636f6d7072657373696f6e5f616c676f726974686d02040000006e6f6e65";
    const FSYNC: &str = "020d000000656e666f7263655f6673796e63030100000000";
    const MAX_SIZE: &str = "020e0000006d61785f746f7069635f73697a650c08000000ffffffffffffffff";
    const EXPIRY: &str = "020e0000006d6573736167655f6578706972790c08000000ffffffffffffffff";
    const MESSAGES: &str =
        "02190000006d657373616765735f72657175697265645f746f5f736176650b040000000004000002";
    const PREALLOCATE: &str = "14000000707265616c6c6f636174655f7365676d656e7473030100000000";
    const SEGMENT: &str = "020c0000007365676d656e745f73697a650c080000000000004000000000";
    const BYTES: &str = "022100000073697a655f6f665f6d657373616765735f72657175697265645f746f5f736176\
                         650c080000000000100000000000";
    let plain = TopicOptions::resolve(2, &OptionsBuilder::new().block()).unwrap();
    assert_eq!(plain.explicit(), b"");
    let all = [COMPRESSION, FSYNC, MAX_SIZE, EXPIRY, MESSAGES, PREALLOCATE, SEGMENT, BYTES];
    assert_eq!(plain.derived(), hex(&all.concat()));

    let nothing = block(&[("max_topic_size", HeaderValue::Uint64(0))]);
    let nothing = TopicOptions::resolve(2, &nothing.block()).unwrap();
    assert_eq!(nothing, plain, "0 is as if its key was not there");

    let asked = block(&[
        ("message_expiry", HeaderValue::Uint64(86_400_000_000)),
        ("segment_size", HeaderValue::String("1MiB")),
    ]);
    let created = TopicOptions::resolve(3, &asked.block()).unwrap();
    let expiry = "020e0000006d6573736167655f6578706972790c080000000060d71d14000000";
    let segment = "020c0000007365676d656e745f73697a650c080000000000100000000000";
    assert_eq!(created.explicit(), hex(&[expiry, segment].concat()));
    let rest = [COMPRESSION, FSYNC, MAX_SIZE, MESSAGES, PREALLOCATE, BYTES];
    assert_eq!(created.derived(), hex(&rest.concat()));
    assert_eq!(created.config().message_expiry, Some(Duration::from_secs(86_400)));
    assert_eq!(created.config().segment_bytes, 1 << 20);

    let patch = block(&[
        ("compression_algorithm", HeaderValue::String("none")),
        ("max_topic_size", HeaderValue::Uint64(0)),
        ("message_expiry", HeaderValue::Uint64(172_800_000_000)),
    ]);
    let updated = created.patched(&patch.block()).unwrap();
    assert_eq!(updated.config().message_expiry, Some(Duration::from_secs(172_800)));
    assert_eq!(updated.config().max_topic_size, None, "0 leaves what is in force");
    let zero = "020e0000006d61785f746f7069635f73697a650c080000000000000000000000";
    let expiry = "020e0000006d6573736167655f6578706972790c0800000000c0ae3b28000000";
    assert_eq!(updated.explicit(), hex(&[COMPRESSION, zero, expiry, segment].concat()));
}

#[test]
fn a_patch_keeps_values_as_they_came_and_a_creation_makes_them_canonical() {
    let asked = block(&[("max_topic_size", HeaderValue::String("2 GiB"))]);
    let created = TopicOptions::resolve(1, &asked.block()).unwrap();
    let stored = created.explicit();
    let stored = OptionsBlock::decode(&stored).unwrap();
    assert_eq!(stored.get("max_topic_size"), Some(HeaderValue::Uint64(2 << 30)));
    let updated = created.patched(&asked.block()).unwrap();
    let stored = updated.explicit();
    let stored = OptionsBlock::decode(&stored).unwrap();
    assert_eq!(stored.get("max_topic_size"), Some(HeaderValue::String("2 GiB")));
    assert_eq!(updated.config(), created.config());
}

#[test]
fn what_is_stored_is_what_was() {
    let asked = block(&[
        ("preallocate_segments", HeaderValue::Bool(true)),
        ("message_expiry", HeaderValue::String("1h")),
    ]);
    let created = TopicOptions::resolve(5, &asked.block()).unwrap();
    let explicit = created.explicit();
    let explicit = OptionsBlock::decode(&explicit).unwrap();
    assert_eq!(TopicOptions::stored(created.config().clone(), &explicit), Some(created));
    let strange = block(&[("colour", HeaderValue::Bool(true))]);
    assert_eq!(TopicOptions::stored(TopicConfig::default(), &strange.block()), None);
}

#[test]
fn what_is_not_allowed_is_named() {
    let resolve = |partitions, pairs: &[(&str, HeaderValue<'_>)]| {
        TopicOptions::resolve(partitions, &block(pairs).block()).unwrap_err()
    };
    let unknown = resolve(1, &[("Segment_size", HeaderValue::Uint64(0))]);
    assert_eq!(unknown, OptionError::Unknown { key: "Segment_size".to_owned() });
    let value = resolve(1, &[("segment_size", HeaderValue::Uint64(511))]);
    assert!(matches!(value, OptionError::Value { key: "segment_size", .. }), "{value}");
    assert!(value.to_string().contains("511") && value.to_string().contains("512"), "{value}");
    let size = resolve(1, &[("max_topic_size", HeaderValue::Uint64(1 << 20))]);
    assert!(matches!(size, OptionError::TopicSize { segment_size: 0x4000_0000, .. }), "{size}");
    let preallocate = ("preallocate_segments", HeaderValue::Bool(true));
    let ahead = resolve(65, &[preallocate]);
    assert!(matches!(ahead, OptionError::Preallocation { partitions: 65, .. }), "{ahead}");
    TopicOptions::resolve(64, &block(&[preallocate]).block()).unwrap();

    let topic = TopicOptions::from(TopicConfig::default());
    let fixed = topic.patched(&block(&[("segment_size", HeaderValue::Uint64(1 << 20))]).block());
    assert_eq!(fixed.unwrap_err(), OptionError::Fixed { key: "segment_size" });
    let small = topic.patched(&block(&[("max_topic_size", HeaderValue::Uint64(5))]).block());
    assert!(matches!(small, Err(OptionError::TopicSize { .. })));
}

#[test]
fn a_config_asks_for_what_differs_from_the_default() {
    let config = TopicConfig {
        partitions: 7,
        enforce_fsync: true,
        message_expiry: Some(Duration::from_micros(9)),
        ..TopicConfig::default()
    };
    let options = TopicOptions::from(config.clone());
    let explicit = options.explicit();
    let keys: Vec<_> =
        OptionsBlock::decode(&explicit).unwrap().iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["enforce_fsync", "message_expiry"]);
    assert_eq!(options.config(), &config);
    assert_eq!(TopicConfig::new(7, &config.log()).log(), config.log());
}

#[test]
fn a_config_is_checked_like_a_block() {
    let check = |config: TopicConfig| config.validate().unwrap_err().to_string();
    let default = TopicConfig::default;
    for (config, key) in [
        (TopicConfig { message_expiry: Some(Duration::ZERO), ..default() }, "message_expiry"),
        (
            TopicConfig { message_expiry: Some(Duration::from_nanos(1_500)), ..default() },
            "message_expiry",
        ),
        (TopicConfig { message_expiry: Some(Duration::MAX), ..default() }, "message_expiry"),
        (TopicConfig { max_topic_size: Some(0), ..default() }, "max_topic_size"),
        (TopicConfig { segment_bytes: 1000, ..default() }, "segment_size"),
        (TopicConfig { messages_required_to_save: 0, ..default() }, "messages_required_to_save"),
        (
            TopicConfig { size_of_messages_required_to_save: 0, ..default() },
            "size_of_messages_required_to_save",
        ),
    ] {
        let text = check(config);
        assert!(text.contains(key), "{text}");
    }
    default().validate().unwrap();
}

#[test]
fn all_options_are_described_and_only_topics_have_any() {
    let described = describe_options(OptionScope::Topic);
    assert_eq!(
        described.iter().map(|option| option.key).collect::<Vec<_>>(),
        [
            "compression_algorithm",
            "message_expiry",
            "max_topic_size",
            "segment_size",
            "enforce_fsync",
            "messages_required_to_save",
            "size_of_messages_required_to_save",
            "preallocate_segments",
        ]
    );
    let kinds: Vec<_> = described.iter().map(|option| option.kind.code()).collect();
    assert_eq!(kinds, [2, 12, 12, 12, 3, 11, 12, 3]);
    let updatable: Vec<_> = described.iter().filter(|o| o.updatable).map(|o| o.key).collect();
    assert_eq!(updatable, ["compression_algorithm", "message_expiry", "max_topic_size"]);
    assert!(describe_options(OptionScope::Stream).is_empty());
    assert!(describe_options(OptionScope::User).is_empty());
}

/// Each option at its bounds and beyond, as a number: what is refused is named with the value and what
/// is allowed (CFG-1).
#[test]
fn numbers_at_and_beyond_the_bounds() {
    let values = [0, 1, 511, 4_095, 4_097, 1 << 20, (1 << 20) + 512, 1 << 30, (1 << 30) + 512];
    let beyond = [u64::from(u32::MAX) + 1, u64::MAX - 1, u64::MAX, (1 << 20) - 1, (1 << 20) + 1];
    let all = values.into_iter().chain(beyond);
    type Fits = fn(u64) -> bool;
    let options: [(&str, Fits); 4] = [
        ("message_expiry", |_| true),
        // Never below the size of a segment, 1 GiB here.
        ("max_topic_size", |v| v == 0 || v >= 1 << 30),
        ("segment_size", |v| v == 0 || v % 512 == 0 && (1 << 20..=1 << 30).contains(&v)),
        ("size_of_messages_required_to_save", |v| v <= 1 << 30),
    ];
    for value in all {
        for (key, fits) in options {
            let asked = block(&[(key, HeaderValue::Uint64(value))]);
            match TopicOptions::resolve(1, &asked.block()) {
                Ok(options) => {
                    assert!(fits(value), "{key} = {value}");
                    options.config().validate().unwrap_or_else(|e| panic!("{key} = {value}: {e}"));
                    options.config().log().validate().unwrap();
                }
                Err(error) => {
                    assert!(!fits(value), "{key} = {value}: {error}");
                    let text = error.to_string();
                    assert!(text.contains(key) && text.contains(&value.to_string()), "{text}");
                }
            }
        }
        let Ok(messages) = u32::try_from(value) else { continue };
        let asked = block(&[("messages_required_to_save", HeaderValue::Uint32(messages))]);
        let resolved = TopicOptions::resolve(1, &asked.block());
        assert_eq!(resolved.is_ok(), (1..=16_777_216).contains(&messages), "{messages}");
        // Another width is another kind.
        let wide = block(&[("messages_required_to_save", HeaderValue::Uint64(value))]);
        assert!(TopicOptions::resolve(1, &wide.block()).is_err());
    }
}
