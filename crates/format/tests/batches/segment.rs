//! A segment and its index that the real reference server wrote.

use corelog_format::{
    BatchBuilder, Expect, Findings, INDEX_ENTRY_LEN, IndexEntry, Message, Step, UnverifiedBatch,
    admit, scan,
};

const LOG: &[u8] = include_bytes!("../vectors/iggy-0.11/partition-0/00000000000000000000.log");
const INDEX: &[u8] = include_bytes!("../vectors/iggy-0.11/partition-0/00000000000000000000.index");

fn expect() -> Expect {
    Expect { partition_id: Some(0), next_offset: Some(0), ..Expect::default() }
}

#[test]
fn all_of_it_verifies_and_nothing_is_odd() {
    let steps: Vec<Step<'_>> = scan(LOG, u64::MAX, expect()).collect();
    let (last, batches) = steps.split_last().expect("at least the end");
    assert!(matches!(last, Step::End { at } if *at == LOG.len() as u64), "{last:?}");
    assert_eq!(batches.len(), 20);
    let (mut messages, mut with_headers) = (0, 0);
    for step in batches {
        let Step::Batch { at, batch, findings } = step else { panic!("{step:?}") };
        assert_eq!(*findings, Findings::default(), "at {at}");
        assert_eq!(batch.first_offset(), messages);
        messages += batch.frames().len() as u64;
        for frame in batch.frames() {
            assert!((1..=699).contains(&frame.payload().len()));
            for header in frame.user_headers() {
                header.expect("real clients send string keys");
                with_headers += 1;
            }
        }
    }
    assert_eq!(messages, 1_548);
    assert!(with_headers > 0, "the segment has typed user headers");
}

#[test]
fn each_index_entry_points_at_the_batch_it_names() {
    let (entries, rest) = INDEX.as_chunks::<INDEX_ENTRY_LEN>();
    assert_eq!((entries.len(), rest.len()), (2, 0));
    for bytes in entries {
        let entry = IndexEntry::decode(bytes);
        assert_eq!(entry.encode(), *bytes);
        let (batch, _) = UnverifiedBatch::split_first(&LOG[entry.position as usize..])
            .expect("a batch begins there");
        let batch = batch.verify().expect("it verifies");
        assert_eq!(batch.header().base_offset, entry.base_offset);
        assert_eq!(batch.header().base_timestamp, entry.base_timestamp);
    }
}

/// What the real producer sent is what our builder makes of the same messages, so stamping it
/// gives the server's own bytes.
#[test]
fn built_admitted_and_stamped_again_it_is_the_same_file() {
    let mut again = Vec::new();
    for step in scan(LOG, u64::MAX, expect()) {
        let Step::Batch { batch, .. } = step else { break };
        let header = batch.header();
        let mut builder = BatchBuilder::new();
        for frame in batch.frames() {
            let origin = header.origin_timestamp + u64::from(frame.timestamp_delta());
            let message = Message::new(frame.payload()).id(frame.id()).origin_timestamp(origin);
            builder.push(message.user_headers(frame.user_headers())).expect("it fits");
        }
        let sent = builder.finish().expect("not empty");
        let mut admitted = admit(&sent).expect("a good batch");
        let stamp = admitted.stamp(header.partition_id, header.base_offset, header.base_timestamp);
        again.extend_from_slice(&stamp);
        again.extend_from_slice(&sent[256..]);
    }
    assert!(again == LOG, "{} bytes instead of {}", again.len(), LOG.len());
}
