//! Files that people remove by hand, and a partition that nothing can repair: errors that say so,
//! everything else goes on, and there is a way out.

use std::fs;

use corelog::error::{AppendError, PollError, storage};
use corelog::{Ack, Client, PartitionId, Poll, TopicConfig};

use crate::support::{
    P, Sent, assert_same, batch, builder, create_topic, fresh_dir, names, partition_dir, poll_all,
    reopened, small, small_segments,
};

fn append(client: &Client, id: PartitionId, tag: u64) -> Sent {
    let bytes = batch(tag, 1, 60_000);
    let appended = client.append_blocking(id, bytes.clone(), Ack::Durable).expect("it fits");
    Sent { bytes, appended }
}

/// The files of one segment, and of its index, are removed while the engine has some of them open
/// and some not: no panic, and no end of anything but the polls that need them.
#[test]
fn a_segment_removed_under_the_engine_is_an_error_and_no_more() {
    let dir = fresh_dir("removed_under_it");
    // Few handles and hardly a cache: what is polled is opened and read.
    let mut limits = small();
    (limits.open_files, limits.cache_bytes) = (1, 1 << 20);
    let open = || builder(&dir, 1).limits(limits.clone()).open().expect("it opens");
    let engine = open();
    let client = engine.client();
    create_topic(&client, TopicConfig { partitions: 2, ..small_segments() });
    let neighbour = PartitionId { partition: 1, ..P };
    let mut sent: Vec<_> = (0..100).map(|tag| append(&client, P, tag)).collect();
    let beside: Vec<_> = (0..40).map(|tag| append(&client, neighbour, tag)).collect();
    let files = names(&partition_dir(&dir, P), ".log");
    assert!(files.len() >= 5);
    let first_of = |file: &str| file[..20].parse::<u64>().expect("twenty digits");
    let (gone, behind) = (first_of(&files[1]), first_of(&files[2]));
    for ending in ["log", "index"] {
        let file = partition_dir(&dir, P).join(&files[1]).with_extension(ending);
        fs::remove_file(file).expect("it is there");
    }

    let poll = |offset| client.poll_blocking(P, Poll::offset(offset).max_bytes(1));
    let (mut served, mut refused) = (0, 0);
    for offset in (0..100).rev().chain(0..100) {
        match poll(offset) {
            Ok(records) => {
                assert_eq!(records.first_offset(), Some(offset));
                served += 1;
            }
            Err(PollError::Storage(error)) => {
                assert!((gone..behind).contains(&offset), "{offset}: {error}");
                assert!(error.to_string().contains(&files[1]), "{error}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    let missing = behind - gone;
    // A handle that is still open serves its file once.
    assert!(refused >= missing && served >= 2 * (100 - missing), "{served} and {refused}");
    sent.extend((100..140).map(|tag| append(&client, P, tag)));
    assert_same(neighbour, &beside, &poll_all(&client, neighbour, 0, 1 << 20));
    client.delete_segments(P, 1).wait().expect("the oldest one is there");
    let closed = engine.close_blocking();
    closed.expect("a sealed segment is not needed to close");

    // Closed and opened again it is damage with a name, and consumers have a way on.
    let engine = open();
    let client = engine.client();
    let error = client.poll_blocking(P, Poll::offset(gone)).expect_err("it is not there");
    let PollError::Storage(storage::PollError::Corrupt { resume_offset, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!(resume_offset, Some(behind));
    assert_same(P, &sent[behind as usize..], &poll_all(&client, P, behind, 1 << 20));
    // And retention passes over it.
    client.delete_segments(P, 2).wait().expect("nothing is wrong");
    let first = client.poll_blocking(P, Poll::first()).expect("it is served").first_offset();
    assert!(first >= Some(behind), "{first:?}");
    engine.close_blocking().expect("nothing is wrong");
    let (engine, client) = reopened(&dir, 1);
    assert_eq!(client.watermarks_blocking(P).expect("it is open").appended(), 140);
    engine.close_blocking().expect("nothing is wrong");
}

/// A partition whose directory is beyond repair is told with the reason; it is purged or deleted
/// like any other, and what takes its place works.
#[test]
fn a_partition_beyond_repair_is_told_deleted_and_made_again() {
    for how in ["purge", "delete"] {
        let dir = fresh_dir(&format!("beyond_repair_{how}"));
        let engine = builder(&dir, 1).open().expect("a fresh directory opens");
        let client = engine.client();
        create_topic(&client, TopicConfig { partitions: 2, ..small_segments() });
        let whole = PartitionId { partition: 1, ..P };
        let sent = [append(&client, whole, 1)];
        append(&client, P, 2);
        engine.close_blocking().expect("nothing is wrong");
        // No bytes at all can be had of it: its log is a directory, with something in it.
        let log = partition_dir(&dir, P).join("00000000000000000000.log");
        fs::remove_file(&log).expect("it is there");
        fs::create_dir_all(log.join("nested")).expect("the target is writable");
        let manifest = partition_dir(&dir, P).join("manifest");
        fs::remove_file(&manifest).expect("it is there");
        fs::create_dir(&manifest).expect("the target is writable");

        let engine = builder(&dir, 1).open().expect("one partition never stops the engine");
        let client = engine.client();
        let [(id, Err(why))] = &engine.opened().not_clean[..] else {
            panic!("{:?}", engine.opened());
        };
        assert!(*id == P && why.to_string().contains("manifest"), "{why}");
        let refused = client.append_blocking(P, batch(1, 1, 10), Ack::Written);
        assert!(matches!(refused, Err(AppendError::PartitionFailed(_))), "{refused:?}");
        assert_eq!(client.catalog().partition(0, 0, 0), Some(P), "the catalog still has it");
        assert_same(whole, &sent, &poll_all(&client, whole, 0, 1 << 20));

        match how {
            "purge" => client.catalog().purge_topic(0, 0).wait().map(drop),
            _ => client.catalog().delete_topic(0, 0).wait().map(drop),
        }
        .unwrap_or_else(|error| panic!("{how}: {error}"));
        if how == "delete" {
            create_topic(&client, small_segments());
        }
        let mut sent = vec![append(&client, P, 3)];
        assert_eq!(sent[0].appended.base_offset, 0);
        engine.close_blocking().expect("nothing is wrong");
        let (engine, client) = reopened(&dir, 1);
        sent.push(append(&client, P, 4));
        assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
        engine.close_blocking().expect("nothing is wrong");
    }
}
