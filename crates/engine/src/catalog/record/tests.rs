//! The records' bytes, and what is not a record.

use super::*;
use corelog_format::{HeaderValue, OptionsBuilder};

fn topic_record() -> TopicRecord {
    let config = TopicConfig {
        partitions: 0x000A_0304,
        compression_algorithm: Compression::Gzip,
        message_expiry: Some(Duration::from_micros(11)),
        max_topic_size: None,
        segment_bytes: 1 << 20,
        enforce_fsync: true,
        messages_required_to_save: 5,
        size_of_messages_required_to_save: 6,
        preallocate_segments: false,
        flush_after: Duration::from_micros(7),
        index_step: 8192,
        verify_reads: true,
    };
    let mut block = OptionsBuilder::new();
    block.push("enforce_fsync", HeaderValue::Bool(true)).unwrap();
    let options = TopicOptions::stored(config, &block.block()).unwrap();
    TopicRecord { created_us: 9, name: "té".into(), options: Arc::new(options), next_group: 12 }
}

/// The rows of a table in docs/format.md: places from here, words from there.
fn documented(record: &str, fields: &[(Field, &str)]) {
    let document = include_str!("../../../../../docs/format.md");
    let marker = format!("<!-- catalog: {record} -->\n");
    let (_, section) = document.split_once(&marker).expect("the table is in the document");
    let rows: Vec<_> = section.lines().skip(2).take_while(|row| row.starts_with('|')).collect();
    let mut end = 0;
    for (row, (field, name)) in rows.iter().zip(fields) {
        let Field { at, len } = *field;
        let start = format!("| {at} | {len} | {name} | ");
        assert!(row.starts_with(&start), "{record}: {row} should begin {start}");
        assert_eq!(at, end, "{record}: a gap before {name}");
        end = at + len;
    }
    // What follows has no place of its own: its rows begin with "then".
    let fixed = rows.iter().filter(|row| !row.starts_with("| then |")).count();
    assert_eq!(fixed, fields.len(), "{record}");
}

#[test]
fn the_document_has_the_same_places() {
    for record in ["stream", "consumer group"] {
        documented(
            record,
            &[
                (named::VERSION, "version"),
                (named::NAME_LEN, "name_length"),
                (named::RESERVED, "reserved"),
                (named::CREATED_US, "created_us"),
            ],
        );
    }
    documented(
        "topic",
        &[
            (topic::VERSION, "version"),
            (topic::FLAGS, "flags"),
            (topic::PARTITIONS, "partitions"),
            (topic::CREATED_US, "created_us"),
            (topic::SEGMENT_BYTES, "segment_bytes"),
            (topic::MESSAGES, "messages_required_to_save"),
            (topic::NAME_LEN, "name_length"),
            (topic::COMPRESSION, "compression"),
            (topic::RESERVED, "reserved"),
            (topic::BYTES, "size_of_messages_required_to_save"),
            (topic::FLUSH_AFTER_US, "flush_after_us"),
            (topic::INDEX_STEP, "index_step"),
            (topic::MESSAGE_EXPIRY_US, "message_expiry_us"),
            (topic::MAX_TOPIC_SIZE, "max_topic_size"),
            (topic::NEXT_GROUP, "next_group"),
            (topic::EXPLICIT_LEN, "explicit_length"),
        ],
    );
    documented(
        "partition",
        &[
            (partition::VERSION, "version"),
            (partition::RESERVED, "reserved"),
            (partition::INCARNATION, "incarnation"),
            (partition::CREATED_US, "created_us"),
        ],
    );
}

/// The bytes of version 2, written down by hand: what is on disks must stay readable.
#[test]
fn version_two_is_these_bytes() {
    let mut topic = vec![2, 0, 5, 0, 4, 3, 10, 0];
    for number in [9_u64, 1 << 20] {
        topic.extend(number.to_le_bytes());
    }
    topic.extend([5, 0, 0, 0, 3, 2, 0, 0]);
    for number in [6_u64, 7, 8192, 11, u64::MAX] {
        topic.extend(number.to_le_bytes());
    }
    topic.extend([12, 0, 0, 0, 24, 0, 0, 0]);
    topic.extend("té".bytes());
    topic.extend([2, 13, 0, 0, 0]);
    topic.extend(b"enforce_fsync");
    topic.extend([3, 1, 0, 0, 0, 1]);
    assert_eq!(topic_record().encode(), topic);
    assert_eq!(TopicRecord::decode(&topic).unwrap(), topic_record());

    let mut partition = vec![2, 0, 0, 0, 0, 0, 0, 0, 0xEF, 0xBE, 0, 0, 0, 0, 0, 0];
    partition.extend(3_u64.to_le_bytes());
    let record = PartitionRecord { incarnation: 0xBEEF, created_us: 3 };
    assert_eq!(record.encode().as_slice(), partition);
    assert_eq!(PartitionRecord::decode(&partition).unwrap(), record);

    let named = [2, 0, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, b'a', b'b'];
    let stream = StreamRecord { created_us: 7, name: "ab".into() };
    assert_eq!(stream.encode(), named);
    assert_eq!(StreamRecord::decode(&named).unwrap(), stream);
    let group = GroupRecord { created_us: 7, name: "ab".into() };
    assert_eq!(
        (group.encode().as_slice(), GroupRecord::decode(&named).unwrap()),
        (&named[..], group)
    );
}

#[test]
fn every_wrong_record_is_refused() {
    let good = topic_record().encode();
    for len in 0..good.len() {
        assert!(TopicRecord::decode(&good[..len]).is_err(), "{len} bytes");
    }
    assert!(TopicRecord::decode(&[&good[..], &[0]].concat()).is_err(), "a byte too many");
    // Version, flags, partitions, segment, messages, name's length, compression, reserved, flush
    // time, the options' length, a byte of the name, an option's key.
    for (at, value) in [
        (0, 0),
        (2, 8),
        (7, 1),
        (16, 1),
        (24, 0),
        (28, 2),
        (29, 3),
        (30, 1),
        (40, 0),
        (76, 1),
        (81, 0xFF),
        (90, b'E'),
    ] {
        let mut bytes = good.clone();
        bytes[at] = value;
        let error = TopicRecord::decode(&bytes).unwrap_err();
        assert!(matches!(error, CatalogError::Damaged { .. }), "{at}: {error}");
    }
    let mut newer = good;
    newer[0] = 3;
    let error = TopicRecord::decode(&newer).unwrap_err();
    assert!(matches!(error, CatalogError::Newer { found: 3, .. }), "{error}");
    assert!(PartitionRecord::decode(&[0; 24]).is_err());
    let partition = PartitionRecord { incarnation: 1, created_us: 1 }.encode();
    assert!(PartitionRecord::decode(&[&partition[..], &[0]].concat()).is_err());
    for bytes in [&[][..], &[2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]] {
        assert!(StreamRecord::decode(bytes).is_err(), "no name");
        assert!(GroupRecord::decode(bytes).is_err(), "no name");
    }
}
