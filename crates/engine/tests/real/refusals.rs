//! Input that must not get in: typed errors that name field and place, and the engine lives on.

use corelog::error::{AppendError, CatalogItem, ChangeError, FormatError, PollError};
use corelog::{Ack, PartitionId, Poll, TopicConfig};
use corelog_format::checksum::xxh3;

use crate::support::{P, batch, fresh_dir, poll_all, with_topic};

/// Recomputes a batch's checksums, so that what is behind them is reached.
fn reseal(bytes: &mut [u8]) {
    let mut covered = [&bytes[..40], &bytes[48..52]].concat();
    let mut at = 256;
    while at + 48 <= bytes.len() {
        let word = |at: usize| {
            let word: [u8; 4] = bytes[at..at + 4].try_into().expect("four bytes");
            u32::from_le_bytes(word) as usize
        };
        let end = (at + 48 + word(at + 32) + word(at + 36)).min(bytes.len());
        let sum = xxh3(&bytes[at + 8..end]).to_le_bytes();
        bytes[at..at + 8].copy_from_slice(&sum);
        covered.extend_from_slice(&sum);
        at = end;
    }
    let sum = xxh3(&covered).to_le_bytes();
    bytes[40..48].copy_from_slice(&sum);
}

type Break = fn(&mut Vec<u8>);

/// What is broken, how, and the field and byte that the refusal names.
const BROKEN: [(&str, Break, &str, u64); 16] = [
    ("nothing at all", |b| b.clear(), "batch_header", 0),
    ("half a header", |b| b.truncate(100), "batch_header", 0),
    ("a header without its frames", |b| b.truncate(256), "batch_length", 32),
    ("cut in the last payload", |b| b.truncate(b.len() - 1), "batch_length", 32),
    ("a byte too many", |b| b.push(0), "batch_length", 550),
    ("no messages", |b| b[48..52].fill(0), "message_count", 48),
    ("more messages than fit", |b| b[48..52].fill(0xFF), "message_count", 48),
    ("one message more than there is", |b| b[48] += 1, "frame_header", 550),
    ("one message less than there is", |b| b[48] -= 1, "message_count", 452),
    (
        "a length of 64 MiB + 1",
        |b| b[32..40].copy_from_slice(&0x400_0001_u64.to_le_bytes()),
        "batch_length",
        32,
    ),
    (
        "a length below the header's",
        |b| b[32..40].copy_from_slice(&255_u64.to_le_bytes()),
        "batch_length",
        32,
    ),
    ("a reserved byte of the header", |b| b[255] = 1, "reserved", 255),
    ("a reserved byte of a frame", |b| b[256 + 47] = 1, "reserved", 256 + 47),
    ("an offset delta that is not the index", |b| b[256 + 24] = 5, "offset_delta", 256 + 24),
    ("a frame's checksum", |b| b[256] ^= 1, "checksum", 256),
    ("the batch's checksum", |b| b[40] ^= 1, "batch_checksum", 40),
];

#[test]
fn broken_batches_are_refused_by_field_and_byte() {
    let dir = fresh_dir("broken_batches");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let mut wrong = Vec::new();
    for (what, broken, field, at) in BROKEN {
        let mut bytes = batch(1, 3, 50).to_vec();
        broken(&mut bytes);
        if !field.ends_with("checksum") && bytes.len() > 256 {
            reseal(&mut bytes);
        }
        match client.append_blocking(P, bytes, Ack::Written) {
            Err(AppendError::Refused(FormatError { at: found, field: named, .. }))
                if named == field && found == at => {}
            other => wrong.push(format!("{what}: {field} at {at} expected, got {other:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(client.watermarks_blocking(P).expect("it is open").appended(), 0);
    client.append_blocking(P, batch(1, 3, 50), Ack::Written).expect("the engine lives on");
    assert_eq!(poll_all(&client, P, 0, 1 << 20).len(), 1);
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn a_batch_over_64_mib_is_refused_before_its_bytes_are_walked() {
    let dir = fresh_dir("oversize");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let mut bytes = vec![0; (64 << 20) + 1];
    let length = bytes.len() as u64;
    bytes[32..40].copy_from_slice(&length.to_le_bytes());
    bytes[48] = 1;
    let error = client.append_blocking(P, bytes, Ack::Written).expect_err("it is too long");
    let text = error.to_string();
    assert!(text.contains("batch_length") && text.contains("67108864"), "{text}");
    client.append_blocking(P, batch(1, 1, 1), Ack::Written).expect("the engine lives on");
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn unknown_places_are_named() {
    let dir = fresh_dir("unknown_places");
    let (engine, client) = with_topic(&dir, 2, TopicConfig { partitions: 2, ..Default::default() });
    for unknown in [
        PartitionId::new(0, 0, 2),
        PartitionId::new(0, 1, 0),
        PartitionId::new(1, 0, 0),
        PartitionId::new(u32::MAX, u32::MAX, u32::MAX),
    ] {
        let error = client.append_blocking(unknown, batch(1, 1, 1), Ack::Written).unwrap_err();
        assert!(matches!(error, AppendError::UnknownPartition(id) if id == unknown), "{error}");
        assert!(error.to_string().contains(&unknown.to_string()), "{error}");
        let error = client.poll_blocking(unknown, Poll::first()).unwrap_err();
        assert!(matches!(error, PollError::UnknownPartition(id) if id == unknown), "{error}");
        let error = client.flush_blocking(unknown, Ack::Durable).unwrap_err();
        assert!(matches!(error, AppendError::UnknownPartition(id) if id == unknown), "{error}");
    }
    client.append_blocking(P, batch(1, 1, 1), Ack::Written).expect("the engine lives on");
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn topics_that_cannot_be_are_refused_and_leave_nothing() {
    let dir = fresh_dir("impossible_topics");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let config = TopicConfig::default;
    let catalog = client.catalog();
    let impossible = [
        (TopicConfig { partitions: 1_001, ..config() }, "1001 partitions"),
        (TopicConfig { segment_bytes: 1000, ..config() }, "segment_size = 1000"),
        (TopicConfig { max_topic_size: Some(1), ..config() }, "max_topic_size = 1"),
        (TopicConfig { index_step: 1, ..config() }, "index_step = 1"),
    ];
    for (config, names) in impossible {
        let error = catalog.create_topic(0, "impossible", config).wait().unwrap_err();
        assert!(error.to_string().contains(names), "{error}");
    }
    let taken = catalog.topic(0, 0).expect("it is there").name;
    let error = catalog.create_topic("only", &taken, config()).wait().unwrap_err();
    assert!(
        matches!(error, ChangeError::NameTaken { what: CatalogItem::Topic, id: 0, .. }),
        "{error}"
    );
    let error = catalog.create_topic(1, "t", config()).wait().unwrap_err();
    assert!(matches!(error, ChangeError::Unknown { what: CatalogItem::Stream, .. }), "{error}");
    engine.close_blocking().expect("nothing is wrong");
    let topics = crate::support::names(&dir.join("streams/0/topics"), "");
    assert_eq!(topics, ["0"]);
    assert_eq!(crate::support::names(&dir.join("streams"), ""), ["0"]);
}
