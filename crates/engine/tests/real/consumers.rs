//! Consumers: what they store, how they go on, and what it keeps from being deleted.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use corelog::consumers::{ConsumerKey, ConsumerKind};
use corelog::error::{OffsetError, storage};
use corelog::{Ack, Client, PartitionId, Poll, TopicConfig};
use corelog_format::{HeaderValue, OptionsBuilder};

use crate::support::{P, batch, fresh_dir, names, partition_dir, reopened, small_segments};
use crate::support::{builder, create_topic, with_topic};

fn consumer(id: u32) -> ConsumerKey {
    ConsumerKey { kind: ConsumerKind::Consumer, id }
}

fn group(id: u32) -> ConsumerKey {
    ConsumerKey { kind: ConsumerKind::ConsumerGroup, id }
}

fn append(client: &Client, id: PartitionId, tag: u64, len: usize) {
    client.append_blocking(id, batch(tag, 1, len), Ack::Written).expect("it fits");
}

/// Waits for what must come about.
fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn segments(dir: &Path) -> usize {
    names(&partition_dir(dir, P), ".log").len()
}

#[test]
fn a_consumer_goes_on_where_it_was_after_a_reopen() {
    let dir = fresh_dir("consumers_go_on");
    let (engine, client) = with_topic(&dir, 2, TopicConfig::default());
    let made = client.catalog().create_group(0, 0, "readers").wait().expect("it is new");
    let readers = group(made.2);
    for tag in 0..10 {
        append(&client, P, tag, 100);
    }
    let next = |client: &Client, who| {
        let poll = Poll::next(who).auto_commit(who).max_messages(4);
        client.poll_blocking(P, poll).expect("it is served").first_offset()
    };
    assert_eq!([next(&client, readers), next(&client, readers)], [Some(0), Some(4)]);
    assert_eq!(client.offset(P, readers).wait().expect("it is known"), Some(7));
    client.store_offset(P, consumer(7), 2, Ack::Durable).wait().expect("it is there");
    let error = client.store_offset(P, consumer(7), 10, Ack::Durable).wait().unwrap_err();
    let storage::OffsetError::OutOfRange { last: Some(9), .. } = (match &error {
        OffsetError::Storage(error) => error,
        other => panic!("{other}"),
    }) else {
        panic!("{error}")
    };
    engine.close_blocking().expect("nothing is wrong");

    let (engine, client) = reopened(&dir, 1);
    assert_eq!(next(&client, readers), Some(8));
    assert_eq!(next(&client, consumer(7)), Some(3));
    assert_eq!(next(&client, consumer(8)), Some(0));
    client.delete_offset(P, consumer(7), Ack::Durable).wait().expect("it is there");
    let error = client.delete_offset(P, consumer(7), Ack::Durable).wait().unwrap_err();
    assert!(matches!(error, OffsetError::Storage(storage::OffsetError::NothingStored)), "{error}");
    // A purge takes what was stored with it.
    client.catalog().purge_topic(0, 0).wait().expect("it is there");
    append(&client, P, 1, 100);
    assert_eq!(client.offset(P, readers).wait().expect("it is known"), None);
    assert_eq!(next(&client, readers), Some(0));
    engine.close_blocking().expect("nothing is wrong");
}

/// Which shard a partition is on is nothing that is stored: up and down again, everyone finds the
/// messages, what they have stored, and the groups, and goes on.
#[test]
fn any_number_of_shards_finds_what_was_stored_and_the_groups() {
    const PARTITIONS: u32 = 6;
    let dir = fresh_dir("consumers_reshard");
    let config = TopicConfig { partitions: PARTITIONS, ..TopicConfig::default() };
    let (engine, client) = with_topic(&dir, 2, config);
    let (_, _, readers) = client.catalog().create_group(0, 0, "readers").wait().expect("new");
    let ids = (0..PARTITIONS).map(|partition| PartitionId { partition, ..P });
    let ids: Vec<_> = ids.collect();
    let store = |client: &Client, id, offset: u64| {
        append(client, id, offset, 100);
        append(client, id, offset, 100);
        client.store_offset(id, consumer(7), offset, Ack::Durable).wait().expect("it is there");
        let of_group = client.store_offset(id, group(readers), offset + 1, Ack::Appended);
        of_group.wait().expect("it is there");
    };
    ids.iter().for_each(|id| store(&client, *id, 0));
    engine.close_blocking().expect("nothing is wrong");
    for (round, shards) in [(1, 5), (2, 1), (3, 4), (4, 2)] {
        let (engine, client) = reopened(&dir, shards);
        let known = client.catalog().group(0, 0, "readers").expect("groups stay");
        assert_eq!(known.id, readers);
        for id in &ids {
            let stored = |who| client.offset(*id, who).wait().expect("it is known");
            let (own, of_group) = (stored(consumer(7)), stored(group(readers)));
            assert_eq!((own, of_group), (Some(round - 1), Some(round)), "{id} on {shards}");
            let next = client.poll_blocking(*id, Poll::next(consumer(7))).expect("it is served");
            let left = 2 * round - round;
            assert_eq!((next.first_offset(), u64::from(next.messages())), (Some(round), left));
            store(&client, *id, round);
        }
        engine.close_blocking().expect("nothing is wrong");
    }
}

#[test]
fn code_on_the_shard_has_the_same_calls() {
    let dir = fresh_dir("consumers_on_shard");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    append(&client, P, 1, 10);
    let stored = engine.run_on_shard(0, move |shard| async move {
        shard.store_offset(P, consumer(1), 0, Ack::Durable).await?;
        let stored = shard.offset(P, consumer(1)).await?;
        shard.delete_offset(P, consumer(1), Ack::Appended).await?;
        Ok::<_, OffsetError>((stored, shard.offset(P, consumer(1)).await?))
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it starts");
    let stored = runtime.block_on(stored).expect("it ran").expect("it is stored");
    assert_eq!(stored, (Some(0), None));
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn a_waiting_poll_is_woken_by_the_append_and_holds_up_no_close() {
    let dir = fresh_dir("consumers_wait");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let waiter = client.clone();
    let waiting = thread::spawn(move || {
        let poll = Poll::offset(0).max_wait(Duration::from_secs(3_600));
        waiter.poll_blocking(P, poll).expect("it is served").messages()
    });
    until("the poll waits", || {
        client.stats_blocking().expect("it is open").shards[0].polls_in_flight == 1
    });
    append(&client, P, 1, 10);
    assert_eq!(waiting.join().expect("it was answered"), 1);

    let waiter = client.clone();
    let waiting = thread::spawn(move || {
        let poll = Poll::offset(1).max_wait(Duration::from_secs(3_600));
        waiter.poll_blocking(P, poll).map(|records| records.messages())
    });
    until("the poll waits", || {
        client.stats_blocking().expect("it is open").shards[0].polls_in_flight == 1
    });
    engine.close_blocking().expect("nothing is wrong");
    // It was told to end, not given up with the shard.
    assert_eq!(waiting.join().expect("it was answered").expect("it is served"), 0);
}

/// An update acts without a reopening, and what consumers have not read stays.
#[test]
fn an_updated_expiry_acts_and_waits_for_consumers() {
    let dir = fresh_dir("consumers_retention");
    let (engine, client) = with_topic(&dir, 1, small_segments());
    let catalog = client.catalog();
    let (_, _, id) = catalog.create_group(0, 0, "readers").wait().expect("it is new");
    for tag in 0..80 {
        append(&client, P, tag, 60_000);
    }
    let before = segments(&dir);
    assert!(before >= 4, "{before} segments");
    client.store_offset(P, group(id), 0, Ack::Durable).wait().expect("it is there");
    assert_eq!(client.delete_segments(P, 1).wait().expect("nothing is wrong").segments, 0);

    let name = catalog.topic(0, 0).expect("it is there").name;
    let mut patch = OptionsBuilder::new();
    patch.push("message_expiry", HeaderValue::String("1us")).expect("it fits");
    catalog.update_topic(0, 0, &name, &patch.block()).wait().expect("it may be changed");
    // Two passes at least.
    thread::sleep(Duration::from_millis(2_500));
    assert_eq!(segments(&dir), before, "the group has read one message");
    catalog.delete_group(0, 0, "readers").wait().expect("it is there");
    until("all sealed segments go", || segments(&dir) == 1);
    let first = client.poll_blocking(P, Poll::first()).expect("it is served").first_offset();
    assert!(first.is_some_and(|first| first > 0), "{first:?}");
    engine.close_blocking().expect("nothing is wrong");

    // The options are those of later lives, too.
    let (engine, client) = reopened(&dir, 1);
    for tag in 0..40 {
        append(&client, P, tag, 60_000);
    }
    until("they go again", || segments(&dir) == 1);
    engine.close_blocking().expect("nothing is wrong");
}

/// As the expiry, in a topic of two partitions: each has its part of the size.
#[test]
fn an_updated_size_acts() {
    let dir = fresh_dir("consumers_size");
    let (engine, client) = with_topic(&dir, 1, TopicConfig { partitions: 2, ..small_segments() });
    for tag in 0..90 {
        append(&client, P, tag, 1 << 20);
    }
    let before = segments(&dir);
    thread::sleep(Duration::from_millis(2_500));
    assert_eq!(segments(&dir), before, "a new topic has no limit");
    let catalog = client.catalog();
    let update = |size| {
        let name = catalog.topic(0, 0).expect("it is there").name;
        let mut patch = OptionsBuilder::new();
        patch.push("max_topic_size", HeaderValue::String(size)).expect("it fits");
        catalog.update_topic(0, 0, &name, &patch.block()).wait().expect("it may be changed");
    };
    update("150 MiB");
    until("the oldest segments go", || segments(&dir) <= 77);
    thread::sleep(Duration::from_millis(2_500));
    assert!(segments(&dir) >= 73, "and no others: {}", segments(&dir));
    update("unlimited");
    let left = segments(&dir);
    for tag in 90..100 {
        append(&client, P, tag, 1 << 20);
    }
    thread::sleep(Duration::from_millis(2_500));
    assert!(segments(&dir) >= left + 9, "without a limit nothing goes");
    engine.close_blocking().expect("nothing is wrong");
    let _ = std::fs::remove_dir_all(dir);
}

/// What a consumer or a group stored ends with the group, the partition or the topic: whoever comes
/// under the same name or number begins at the first message, in this life and the next.
#[test]
fn what_a_deleted_group_or_topic_had_stored_is_gone_with_it() {
    let dir = fresh_dir("consumers_deleted");
    let engine = builder(&dir, 1).open().expect("a fresh directory opens");
    let client = engine.client();
    let config = TopicConfig { partitions: 2, ..small_segments() };
    create_topic(&client, config.clone());
    let last = PartitionId { partition: 1, ..P };
    let fill = |client: &Client| {
        for id in [P, last] {
            (0..12).for_each(|tag| append(client, id, tag, 100));
        }
    };
    let begins = |client: &Client, id, who| {
        assert_eq!(client.offset(id, who).wait().expect("it is known"), None, "{id} {who:?}");
        let next = client.poll_blocking(id, Poll::next(who)).expect("it is served");
        assert_eq!(next.first_offset(), Some(0), "{id} {who:?}");
    };
    fill(&client);
    let catalog = client.catalog();
    let old = group(catalog.create_group(0, 0, "g").wait().expect("it is new").2);
    for id in [P, last] {
        for who in [old, consumer(7)] {
            client.store_offset(id, who, 10, Ack::Durable).wait().expect("it is there");
        }
    }
    catalog.delete_group(0, 0, "g").wait().expect("it is there");
    let new = group(catalog.create_group(0, 0, "g").wait().expect("it is new").2);
    assert_ne!(old, new, "no group's number comes again");
    until("the old one's offset goes", || {
        client.offset(P, old).wait().expect("it is known").is_none()
    });
    for who in [old, new] {
        begins(&client, P, who);
    }
    assert_eq!(client.offset(P, consumer(7)).wait().expect("it is known"), Some(10));

    catalog.remove_partitions(0, 0, 1).wait().expect("there are two");
    catalog.add_partitions(0, 0, 1).wait().expect("there is room");
    (0..12).for_each(|tag| append(&client, last, tag, 100));
    begins(&client, last, consumer(7));
    engine.close_blocking().expect("nothing is wrong");

    let (engine, client) = reopened(&dir, 1);
    begins(&client, P, new);
    begins(&client, last, consumer(7));
    assert_eq!(client.offset(P, consumer(7)).wait().expect("it is known"), Some(10));
    client.store_offset(last, consumer(7), 3, Ack::Durable).wait().expect("it is there");
    client.catalog().delete_topic(0, 0).wait().expect("it is there");
    create_topic(&client, config);
    fill(&client);
    for id in [P, last] {
        begins(&client, id, consumer(7));
    }
    engine.close_blocking().expect("nothing is wrong");
    let (engine, client) = reopened(&dir, 1);
    for id in [P, last] {
        begins(&client, id, consumer(7));
    }
    engine.close_blocking().expect("nothing is wrong");
}

/// A crash between the end of a group in the catalog and in the partitions must not keep messages
/// for ever: what is stored for groups that are gone goes at the next opening.
#[test]
fn what_a_group_left_behind_goes_at_the_next_opening() {
    let dir = fresh_dir("consumers_ghosts");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    append(&client, P, 1, 10);
    let (_, _, id) = client.catalog().create_group(0, 0, "g").wait().expect("it is new");
    for who in [group(id), group(99), consumer(99)] {
        client.store_offset(P, who, 0, Ack::Durable).wait().expect("it is there");
    }
    engine.close_blocking().expect("nothing is wrong");
    let engine = builder(&dir, 1).open().expect("what was closed opens");
    let client = engine.client();
    let stored = [group(id), group(99), consumer(99)]
        .map(|who| client.offset(P, who).wait().expect("it is known"));
    assert_eq!(stored, [Some(0), None, Some(0)]);
    engine.close_blocking().expect("nothing is wrong");
}
