//! The reference server's files, taken over as they are.

use std::fs;
use std::path::Path;

use corelog::{Ack, Poll, TopicConfig};

use crate::support::{P, batch, fresh_dir, names, partition_dir, poll_all, reopened, with_topic};

/// What its server wrote: 1,548 messages in 20 batches.
const SEGMENT: &str = "../format/tests/vectors/iggy-0.11/partition-0";
const LOG: &str = "00000000000000000000.log";

#[test]
fn the_reference_servers_segment_is_adopted_byte_for_byte_and_goes_on() {
    let dir = fresh_dir("adopted");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(SEGMENT);
    let target = partition_dir(&dir, P);
    fs::create_dir_all(&target).expect("the target is writable");
    for name in names(&source, "") {
        fs::copy(source.join(&name), target.join(&name)).expect("it can be copied");
    }
    let written = fs::read(source.join(LOG)).expect("the vector is there");

    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let marks = client.watermarks_blocking(P).expect("it is open");
    assert_eq!((marks.start(), marks.durable(), marks.appended()), (0, 1_548, 1_548));
    assert_eq!(poll_all(&client, P, 0, 50_000).concat(), written, "as the server wrote it");
    let last = client.poll_blocking(P, Poll::last(1)).expect("nothing is damaged");
    assert_eq!((last.first_offset(), last.next_offset()), (Some(1_547), 1_548));
    let before = last.batches().next().expect("one").expect("a header").header().base_timestamp;

    let appended = client.append_blocking(P, batch(1, 2, 100), Ack::Durable).expect("it fits");
    assert_eq!(appended.base_offset, 1_548);
    assert!(appended.base_timestamp > before);
    engine.close_blocking().expect("nothing is wrong");

    let (engine, client) = reopened(&dir, 2);
    let stored = poll_all(&client, P, 0, 1 << 20).concat();
    assert_eq!(stored[..written.len()], written, "still as the server wrote it");
    engine.close_blocking().expect("nothing is wrong");
    assert_eq!(fs::read(target.join(LOG)).expect("it is there"), stored, "and nothing but batches");
}
