//! Topics that are emptied and deleted while somebody reads, waits and appends; and where that fails
//! half way.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use corelog::consumers::{ConsumerKey, ConsumerKind};
use corelog::error::{AppendError, ChangeError, OffsetError, PollError, storage};
use corelog::{Ack, Client, PartitionId, Poll, TopicConfig};
use corelog_format::BatchHeader;

use crate::small_disk::{self, refuse_writes};
use crate::support::{
    P, batch, batches, builder, fresh_dir, partition_dir, reopened, small_segments, with_topic,
};

const CONSUMER: ConsumerKey = ConsumerKey { kind: ConsumerKind::Consumer, id: 1 };
const ID: PartitionId = P;

/// The partition is away for a moment, or for good.
fn is_away(error: &PollError) -> bool {
    let away = [PollError::UnknownPartition(ID).to_string(), PollError::Closed.to_string()];
    away.contains(&error.to_string())
        || matches!(error, PollError::Storage(storage::PollError::Closed))
}

/// Appends batches that say in which round they were sent.
fn produce(client: &Client, round: &AtomicU64, end: &AtomicBool) -> u64 {
    let mut stored = 0;
    while !end.load(Ordering::Relaxed) {
        let tag = round.load(Ordering::SeqCst);
        match client.append_blocking(P, batch(tag, 1, 20_000), Ack::Written) {
            Ok(_) => stored += 1,
            Err(AppendError::UnknownPartition(_) | AppendError::Storage(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    stored
}

/// Reads from the front again and again: what is served is whole, in order, and not older than the
/// last round that had ended before the poll.
fn consume(client: &Client, round: &AtomicU64, end: &AtomicBool, wait: Duration) -> u64 {
    let (mut next, mut served) = (0, 0);
    while !end.load(Ordering::Relaxed) {
        let over = round.load(Ordering::SeqCst).saturating_sub(1);
        let poll = Poll::offset(next).max_bytes(200_000).max_wait(wait);
        let records = match client.poll_blocking(P, poll) {
            Ok(records) => records,
            Err(error) if is_away(&error) => {
                next = 0;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let mut expected = records.first_offset();
        for stored in batches(&records) {
            let header = BatchHeader::parse(&stored).expect("it was verified");
            assert_eq!(Some(header.base_offset), expected);
            expected = header.end_offset();
            let payload = &stored[stored.len() - 20_000..];
            let text = std::str::from_utf8(&payload[..20]).expect("it is text");
            let tag: u64 = text.split('/').next().expect("a tag").parse().expect("a number");
            assert!(tag >= over, "round {tag} is served after the end of round {over}");
            served += 1;
        }
        next = if records.is_empty() { 0 } else { records.next_offset() };
    }
    served
}

#[test]
fn readers_and_waiting_polls_see_nothing_of_what_was_emptied() {
    let dir = fresh_dir("emptying_meanwhile");
    let (engine, client) = with_topic(&dir, 2, small_segments());
    let (round, end) = (AtomicU64::new(1), AtomicBool::new(false));
    thread::scope(|scope| {
        let (round, end, client) = (&round, &end, &client);
        let producer = scope.spawn(move || produce(client, round, end));
        let readers: Vec<_> = [Duration::ZERO, Duration::ZERO, Duration::from_secs(3_600)]
            .map(|wait| scope.spawn(move || consume(client, round, end, wait)))
            .into();
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(150));
            let stored = client.store_offset(P, CONSUMER, 0, Ack::Durable).wait();
            assert!(stored.is_ok(), "{stored:?}");
            client.catalog().purge_topic(0, 0).wait().expect("it is there");
            // What was appended before has gone. Two rounds may meet in one log, since who appends
            // may have looked at the number before.
            round.fetch_add(1, Ordering::SeqCst);
            let left = client.offset(P, CONSUMER).wait().expect("it is known");
            assert_eq!(left, None, "what was stored goes with the messages");
        }
        client.catalog().delete_topic(0, 0).wait().expect("it is there");
        let begun = Instant::now();
        end.store(true, Ordering::Relaxed);
        assert!(producer.join().expect("no panic") > 10);
        let served: Vec<u64> =
            readers.into_iter().map(|reader| reader.join().expect("no panic")).collect();
        assert!(served.iter().all(|served| *served > 0), "{served:?}");
        // The one who waits an hour was answered by the end of the topic.
        assert!(begun.elapsed() < Duration::from_secs(600));
    });
    assert!(client.poll_blocking(P, Poll::first()).is_err());
    engine.close_blocking().expect("nothing is wrong");
}

/// A purge that is in the catalog and fails at the directory says so; nothing of the old log is
/// served, and the next opening ends it.
#[test]
fn a_purge_that_fails_half_way_is_told_and_ended_later() {
    let dir = fresh_dir("emptying_fails");
    let (disk, _mounted) = small_disk::ext4(&dir, 24);
    let data = disk.join("data");
    let (engine, client) = with_topic(&data, 1, TopicConfig::default());
    for tag in 0..5 {
        client.append_blocking(P, batch(tag, 1, 100), Ack::Durable).expect("it fits");
    }
    client.store_offset(P, CONSUMER, 4, Ack::Durable).wait().expect("it is there");
    let partition = partition_dir(&data, P);
    refuse_writes(&partition, true);
    let error = client.catalog().purge_topic(0, 0).wait().unwrap_err();
    assert!(matches!(error, ChangeError::Partition { partition: P, .. }), "{error}");
    assert!(error.to_string().contains("partitions/0"), "it says where: {error}");
    assert!(client.poll_blocking(P, Poll::first()).is_err(), "the old log is not served");
    assert!(matches!(client.offset(P, CONSUMER).wait(), Err(OffsetError::Unavailable(_))));
    // Another attempt fails the same way, and one opening does not get further.
    assert!(client.catalog().purge_topic(0, 0).wait().is_err());
    drop(engine.close_blocking());
    let engine = builder(&data, 1).open().expect("one partition holds up nothing");
    assert!(engine.client().poll_blocking(P, Poll::first()).is_err());
    drop(engine.close_blocking());
    refuse_writes(&partition, false);
    let engine = builder(&data, 1).open().expect("nothing is in the way");
    let client = engine.client();
    assert!(client.poll_blocking(P, Poll::first()).expect("it is served").is_empty());
    assert_eq!(client.offset(P, CONSUMER).wait().expect("it is known"), None);
    let appended = client.append_blocking(P, batch(9, 1, 9), Ack::Durable).expect("it fits");
    assert_eq!(appended.base_offset, 0);
    engine.close_blocking().expect("nothing is wrong");
    let (engine, client) = reopened(&data, 1);
    assert_eq!(client.poll_blocking(P, Poll::first()).expect("it is served").messages(), 1);
    // Without an opening in between, too: lives that never got a directory are over as well.
    refuse_writes(&partition, true);
    for _ in 0..2 {
        assert!(client.catalog().purge_topic(0, 0).wait().is_err());
    }
    refuse_writes(&partition, false);
    client.catalog().purge_topic(0, 0).wait().expect("nothing is in the way");
    assert!(client.poll_blocking(P, Poll::first()).expect("it is served").is_empty());
    engine.close_blocking().expect("nothing is wrong");
}

/// The manifest says whose a directory is. Where it is damaged, emptying the topic must not bring the
/// old messages back as those of the new log.
#[test]
fn a_log_without_a_readable_manifest_is_emptied_all_the_same() {
    for delete in [false, true] {
        let dir = fresh_dir(&format!("emptying_unreadable_{delete}"));
        let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
        client.append_blocking(P, batch(1, 1, 100), Ack::Durable).expect("it fits");
        engine.close_blocking().expect("nothing is wrong");
        fs::write(partition_dir(&dir, P).join("manifest"), [0xEE; 8192]).expect("it is there");
        let engine = builder(&dir, 1).open().expect("it is read without a mark");
        let client = engine.client();
        assert_eq!(client.poll_blocking(P, Poll::first()).expect("it is served").messages(), 1);
        fs::write(partition_dir(&dir, P).join("manifest"), [0xEE; 8192]).expect("it is there");
        if delete {
            client.catalog().delete_topic(0, 0).wait().expect("it is there");
            client.catalog().create_topic(0, "0", TopicConfig::default()).wait().expect("it goes");
        } else {
            client.catalog().purge_topic(0, 0).wait().expect("it is there");
        }
        let records = client.poll_blocking(P, Poll::first()).expect("it is served");
        assert!(records.is_empty(), "{} messages came back", records.messages());
        engine.close_blocking().expect("nothing is wrong");
    }
}

/// A partition that comes again under the number of one that went has nothing that was stored there.
#[test]
fn what_was_stored_goes_with_its_partition() {
    let dir = fresh_dir("emptying_stored");
    let (engine, client) = with_topic(&dir, 1, TopicConfig { partitions: 2, ..small_segments() });
    let id = PartitionId { partition: 1, ..P };
    let catalog = client.catalog();
    let append = |tag| client.append_blocking(id, batch(tag, 1, 9), Ack::Durable).expect("it fits");
    for tag in 0..3 {
        append(tag);
    }
    client.store_offset(id, CONSUMER, 2, Ack::Durable).wait().expect("it is there");
    catalog.remove_partitions(0, 0, 1).wait().expect("there are two");
    catalog.add_partitions(0, 0, 1).wait().expect("there is room");
    append(9);
    assert_eq!(client.offset(id, CONSUMER).wait().expect("it is known"), None);
    let first = client.poll_blocking(id, Poll::next(CONSUMER)).expect("it is served");
    assert_eq!((first.first_offset(), first.messages()), (Some(0), 1));
    drop(first);
    engine.close_blocking().expect("nothing is wrong");
    let (engine, client) = reopened(&dir, 1);
    assert_eq!(client.offset(id, CONSUMER).wait().expect("it is known"), None);
    engine.close_blocking().expect("nothing is wrong");
}
