//! Members of consumer groups on the real engine: who gets which messages, and who is refused.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use corelog::consumers::{ClientId, GroupId, Member};
use corelog::error::{GroupError, GroupOffsetError, GroupPollError, OffsetError, PollError};
use corelog::error::{Unavailable, storage};
use corelog::{Ack, Client, Engine, Limits, PartitionId, Poll, Records, TopicConfig};

use crate::support::{P, batch, builder, fresh_dir, reopened, small, with_topic};

const G: GroupId = GroupId::new(0, 0, 0);
const A: Member = Member { group: G, client: ClientId(0xA) };
const B: Member = Member { group: G, client: ClientId(0xB) };

/// An engine with a topic of so many partitions and the group [`G`].
fn with_group(name: &str, shards: usize, partitions: u32) -> (Engine, Client) {
    let config = TopicConfig { partitions, ..TopicConfig::default() };
    let (engine, client) = with_topic(&fresh_dir(name), shards, config);
    let made = client.catalog().create_group(0, 0, "readers").wait().expect("it is new");
    assert_eq!(made, (0, 0, 0));
    (engine, client)
}

fn append(client: &Client, partition: u32, messages: u32) {
    let bytes = batch(u64::from(partition), messages, 10);
    client.append_blocking(G.partition(partition), bytes, Ack::Written).expect("it fits");
}

fn next() -> Poll {
    Poll::next(G.consumer())
}

/// The offsets that a member is served from where its group is.
fn polled(client: &Client, member: Member, partition: u32) -> Result<Vec<u64>, GroupPollError> {
    client.poll_as(member, partition, next()).wait().map(|records| offsets(&records))
}

fn offsets(records: &Records) -> Vec<u64> {
    (records.first_offset().unwrap_or(records.next_offset())..records.next_offset()).collect()
}

fn partitions(client: &Client, member: Member) -> Vec<u32> {
    client.groups().sync(member).expect("it is a member").partitions
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(answer: Result<T, GroupPollError>, want: GroupError) {
    match answer {
        Err(GroupPollError::Group(error)) => assert_eq!(error, want),
        other => panic!("{other:?} is not {want:?}"),
    }
}

#[track_caller]
fn assert_not_stored(answer: Result<(), GroupOffsetError>, want: GroupError) {
    match answer {
        Err(GroupOffsetError::Group(error)) => assert_eq!(error, want),
        other => panic!("{other:?} is not {want:?}"),
    }
}

/// A member that consumes until all messages are consumed, by whomever: goes round its partitions,
/// and syncs when it is refused or finds nothing. Answers what it got.
fn consume(client: &Client, me: Member, auto_commit: bool, left: &AtomicI64) -> Vec<(u32, u64)> {
    let mut got = Vec::new();
    let end = Instant::now() + Duration::from_secs(60);
    client.groups().join(me).expect("there is room");
    while left.load(Ordering::SeqCst) > 0 {
        assert!(Instant::now() < end, "messages were lost, or another member failed");
        let mut found = false;
        for partition in partitions(client, me) {
            let poll = next().max_messages(7);
            let poll = if auto_commit { poll.auto_commit(G.consumer()) } else { poll };
            let offsets = match client.poll_as(me, partition, poll).wait() {
                Ok(records) => offsets(&records),
                Err(GroupPollError::Group(
                    GroupError::NotOwner { .. } | GroupError::Leaving { .. },
                )) => break,
                Err(error) => panic!("{error}"),
            };
            let Some(last) = offsets.last() else { continue };
            found = true;
            got.extend(offsets.iter().map(|offset| (partition, *offset)));
            if !auto_commit {
                // Some time to do it in, in which others join.
                thread::sleep(Duration::from_micros(500));
                client.store_offset_as(me, partition, *last, Ack::Appended).wait().expect("mine");
            }
            left.fetch_sub(offsets.len() as i64, Ordering::SeqCst);
        }
        if !found {
            thread::sleep(Duration::from_millis(1));
        }
    }
    got
}

/// Members come one after the other while messages are under way, and nobody gets one that another
/// one has got.
#[test]
fn each_message_goes_to_exactly_one_member() {
    for (members, auto_commit) in [(2_u64, false), (3, true), (6, false)] {
        let (engine, client) = with_group(&format!("groups_once_{members}"), 2, 6);
        let total = 6 * 300;
        let left = AtomicI64::new(total);
        let got: Vec<Vec<_>> = thread::scope(|scope| {
            let members: Vec<_> = (1..=members)
                .map(|number| {
                    let (client, left) = (client.clone(), &left);
                    scope.spawn(move || {
                        let me = Member { group: G, client: ClientId(u128::from(number)) };
                        thread::sleep(Duration::from_millis(100 / members * (number - 1)));
                        consume(&client, me, auto_commit, left)
                    })
                })
                .collect();
            for _ in 0..100 {
                (0..6).for_each(|partition| append(&client, partition, 3));
                thread::sleep(Duration::from_millis(2));
            }
            members.into_iter().map(|member| member.join().expect("it consumes")).collect()
        });
        let mut times = BTreeMap::new();
        got.iter().flatten().for_each(|message| *times.entry(*message).or_insert(0) += 1);
        assert_eq!(times.len() as i64, total, "{members} members: messages were lost");
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "{members} members: {twice:?}");
        assert!(got.iter().all(|got| !got.is_empty()), "everybody gets some");
        let details = client.groups().details(G).expect("it is there");
        let shares: Vec<_> = details.members.iter().map(|member| member.partitions.len()).collect();
        assert_eq!(shares, vec![6 / members as usize; members as usize]);
        engine.close_blocking().expect("nothing is wrong");
    }
}

#[test]
fn who_may_not_is_told_why() {
    let (engine, client) = with_group("groups_fences", 1, 2);
    let groups = client.groups();
    append(&client, 1, 3);
    let nobody = GroupError::NotMember(A);
    assert_eq!(groups.sync(A), Err(nobody.clone()));
    assert_eq!(groups.leave(A), Err(nobody.clone()));
    assert_refused(polled(&client, A, 1), nobody.clone());
    assert_not_stored(client.store_offset_as(A, 1, 0, Ack::Durable).wait(), nobody.clone());
    assert_not_stored(client.delete_offset_as(A, 1, Ack::Durable).wait(), nobody);
    let elsewhere = Member { group: GroupId::new(0, 0, 1), ..A };
    assert_eq!(groups.join(elsewhere), Err(GroupError::Unknown(elsewhere.group)));
    assert_refused(polled(&client, elsewhere, 0), GroupError::Unknown(elsewhere.group));

    assert_eq!(groups.join(A).expect("there is room").partitions, [0, 1]);
    assert_eq!(polled(&client, A, 1).expect("it is A's"), [0, 1, 2]);
    assert_eq!(groups.join(B).expect("there is room").partitions, [], "1 is under way");
    let leaving = GroupError::Leaving { member: A, partition: 1 };
    assert_refused(polled(&client, A, 1), leaving);
    let (member, partition) = (B, 1);
    assert_refused(polled(&client, B, 1), GroupError::NotOwner { member, partition });
    let stored = client.store_offset_as(B, 1, 0, Ack::Durable).wait();
    assert_not_stored(stored, GroupError::NotOwner { member, partition });
    let deleted = client.delete_offset_as(B, 1, Ack::Durable).wait();
    assert_not_stored(deleted, GroupError::NotOwner { member, partition });

    // Not all of it, then all.
    client.store_offset_as(A, 1, 1, Ack::Appended).wait().expect("it is A's");
    assert_eq!(partitions(&client, B), []);
    let error = client.store_offset_as(A, 1, 3, Ack::Appended).wait().unwrap_err();
    let GroupOffsetError::Offset(OffsetError::Storage(storage::OffsetError::OutOfRange { .. })) =
        error
    else {
        panic!("{error}")
    };
    assert_eq!(partitions(&client, B), [], "what was refused does not count");
    client.store_offset_as(A, 1, 2, Ack::Appended).wait().expect("it is A's");
    assert_eq!(partitions(&client, B), [1]);
    assert_eq!(polled(&client, B, 1).expect("it is B's"), [0; 0]);
    append(&client, 1, 1);
    assert_eq!(polled(&client, B, 1).expect("it is B's"), [3]);

    let missing = PartitionId { partition: 2, ..P };
    match client.poll_as(A, 2, next()).wait() {
        Err(GroupPollError::Poll(PollError::UnknownPartition(id))) => assert_eq!(id, missing),
        other => panic!("{other:?}"),
    }
    match client.store_offset_as(A, 2, 0, Ack::Durable).wait() {
        Err(GroupOffsetError::Offset(OffsetError::Unavailable(Unavailable::UnknownPartition(
            id,
        )))) => assert_eq!(id, missing),
        other => panic!("{other:?}"),
    }
    engine.close_blocking().expect("nothing is wrong");
}

/// A's messages come again at B, who goes on behind what A has stored.
#[test]
fn what_a_member_that_is_gone_had_not_stored_is_served_again() {
    let (engine, client) = with_group("groups_again", 2, 2);
    (0..2).for_each(|partition| append(&client, partition, 4));
    let groups = client.groups();
    groups.join(A).expect("there is room");
    let poll = next().max_messages(2);
    for expected in [0, 2] {
        let records = client.poll_as(A, 1, poll).wait().expect("it is A's");
        assert_eq!(records.first_offset(), Some(expected));
        let last = records.next_offset() - 1;
        if expected == 0 {
            client.store_offset_as(A, 1, last, Ack::Written).wait().expect("it is A's");
        }
    }
    groups.join(B).expect("there is room");
    assert_eq!(partitions(&client, B), []);
    assert_eq!(groups.of(A.client), [G]);
    assert_eq!(groups.disconnect(A.client), 1);
    assert_eq!((groups.of(A.client), groups.disconnect(A.client)), (vec![], 0));
    assert_eq!(partitions(&client, B), [0, 1]);
    assert_eq!(polled(&client, B, 1).expect("it is B's"), [2, 3]);
    assert_eq!(polled(&client, B, 0).expect("it is B's"), [0, 1, 2, 3]);
    assert_refused(polled(&client, A, 1), GroupError::NotMember(A));
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn who_never_stores_loses_the_partition_when_the_patience_is_over() {
    let patience = Duration::from_millis(300);
    let engine = builder(&fresh_dir("groups_patience"), 1)
        .limits(Limits { group_patience: patience, group_members: 2, ..small() })
        .open()
        .expect("a fresh directory opens");
    let client = engine.client();
    crate::support::create_topic(&client, TopicConfig { partitions: 2, ..TopicConfig::default() });
    client.catalog().create_group(0, 0, "readers").wait().expect("it is new");
    append(&client, 1, 1);
    let groups = client.groups();
    groups.join(A).expect("there is room");
    assert_eq!(polled(&client, A, 1).expect("it is A's"), [0]);
    let begun = Instant::now();
    groups.join(B).expect("there is room");
    let third = Member { client: ClientId(3), ..A };
    let error = groups.join(third).expect_err("two are the limit");
    assert!(matches!(error, GroupError::TooMany { max: 2, .. }), "{error}");
    let end = begun + Duration::from_secs(60);
    while partitions(&client, B).is_empty() {
        assert!(Instant::now() < end, "it never goes");
        thread::sleep(Duration::from_millis(5));
    }
    assert!(begun.elapsed() >= patience, "{:?}", begun.elapsed());
    let (member, partition) = (A, 1);
    let late = client.store_offset_as(A, 1, 0, Ack::Durable).wait();
    assert_not_stored(late, GroupError::NotOwner { member, partition });
    assert_eq!(polled(&client, B, 1).expect("it is B's"), [0]);
    engine.close_blocking().expect("nothing is wrong");
}

/// A poll that waits holds its partition; one whose partition was dealt to another member is refused
/// when messages come, and those are the other one's.
#[test]
fn a_poll_on_its_way_is_over_with_its_turn() {
    let (engine, client) = with_group("groups_in_flight", 1, 2);
    let groups = client.groups();
    let joined = |member| groups.join(member).expect("there is room").partitions;
    assert_eq!(joined(B), [0, 1]);
    assert_eq!(joined(A), [1]);
    let long = next().max_wait(Duration::from_secs(3_600));
    let waits = client.poll_as(A, 1, long);
    let stores = client.poll_as(A, 1, long.auto_commit(G.consumer()));
    // B's partition 0 becomes A's, and A's 1 becomes C's.
    let c = Member { client: ClientId(0xC), ..A };
    assert_eq!(joined(c), []);
    groups.leave(B).expect("it is a member");
    assert_eq!((partitions(&client, A), partitions(&client, c)), (vec![0], vec![1]));
    append(&client, 1, 1);
    // What is stored for A's group nobody else gets any more: A has to have it.
    assert_eq!(offsets(&stores.wait().expect("it is stored")), [0]);
    let (member, partition) = (A, 1);
    assert_refused(waits.wait(), GroupError::NotOwner { member, partition });
    assert_eq!(polled(&client, c, 1).expect("it is C's"), [0; 0]);

    // One that is given up holds nothing.
    let dropped = client.poll_as(c, 1, long);
    groups.leave(A).expect("it is a member");
    assert_eq!(joined(B), []);
    drop(dropped);
    assert_eq!(partitions(&client, B), [1]);
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn members_end_with_the_engine_and_what_is_stored_does_not() {
    let dir = fresh_dir("groups_reopen");
    let config = TopicConfig { partitions: 2, ..TopicConfig::default() };
    let (engine, client) = with_topic(&dir, 2, config);
    client.catalog().create_group(0, 0, "readers").wait().expect("it is new");
    (0..2).for_each(|partition| append(&client, partition, 10));
    for member in [A, B] {
        client.groups().join(member).expect("there is room");
    }
    client.store_offset_as(A, 0, 9, Ack::Appended).wait().expect("it is A's");
    engine.close_blocking().expect("nothing is wrong");

    let (engine, client) = reopened(&dir, 1);
    let groups = client.groups();
    let details = groups.details(G).expect("the group is there");
    assert_eq!((details.generation, details.partitions, details.members), (0, 2, vec![]));
    assert_refused(polled(&client, A, 0), GroupError::NotMember(A));
    assert_eq!(groups.of(A.client), []);
    assert_eq!(groups.join(B).expect("there is room").partitions, [0, 1], "nobody keeps one");
    assert_eq!(polled(&client, B, 0).expect("it is B's"), [0; 0]);
    // What was stored in the earlier life counts: these are done with already.
    append(&client, 1, 1);
    client.store_offset(G.partition(1), G.consumer(), 10, Ack::Appended).wait().expect("it fits");
    let again = client.poll_as(B, 1, Poll::offset(0)).wait().expect("it is B's");
    assert_eq!(offsets(&again).len(), 11);
    assert_eq!(groups.join(A).expect("there is room").partitions, [1], "it went at once");
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn partitions_come_and_go_and_are_emptied() {
    let (engine, client) = with_group("groups_partitions", 2, 2);
    let (groups, catalog) = (client.groups(), client.catalog());
    for member in [A, B] {
        groups.join(member).expect("there is room");
    }
    assert_eq!((partitions(&client, A), partitions(&client, B)), (vec![0], vec![1]));
    catalog.add_partitions(0, 0, 3).wait().expect("there is room");
    assert_eq!((partitions(&client, A), partitions(&client, B)), (vec![0, 2, 4], vec![1, 3]));
    append(&client, 4, 2);
    assert_eq!(polled(&client, A, 4).expect("it is A's"), [0, 1]);
    let generation = groups.sync(A).expect("it is a member").generation;

    catalog.purge_topic(0, 0).wait().expect("it is there");
    assert_eq!(groups.sync(A).expect("members stay").generation, generation);
    assert_eq!(polled(&client, A, 4).expect("it is A's"), [0; 0]);
    append(&client, 4, 1);
    assert_eq!(polled(&client, A, 4).expect("it is A's"), [0]);

    catalog.remove_partitions(0, 0, 4).wait().expect("they are there");
    assert_eq!((partitions(&client, A), partitions(&client, B)), (vec![0], vec![]));
    assert_eq!(groups.sync(A).expect("it is a member").generation, generation + 1);
    engine.close_blocking().expect("nothing is wrong");
}

/// What was deleted has no members, nor has what gets its id, and nothing is stored for it.
#[test]
fn a_deleted_group_is_gone_with_its_members_and_offsets() {
    let (engine, client) = with_group("groups_deleted", 1, 1);
    let (groups, catalog) = (client.groups(), client.catalog());
    append(&client, 0, 5);
    groups.join(A).expect("there is room");
    client.store_offset_as(A, 0, 1, Ack::Durable).wait().expect("it is A's");
    let late = client.poll_as(A, 0, Poll::offset(5).max_wait(Duration::from_secs(3_600)));
    catalog.delete_group(0, 0, "readers").wait().expect("it is there");
    assert_eq!(groups.sync(A), Err(GroupError::Unknown(G)));
    assert_eq!(groups.of(A.client), []);
    assert_eq!(client.offset(P, G.consumer()).wait().expect("it is known"), None);
    let error = client.store_offset(P, G.consumer(), 1, Ack::Appended).wait().unwrap_err();
    let OffsetError::Storage(storage::OffsetError::GroupIsGone { id: 0 }) = error else {
        panic!("{error}")
    };
    append(&client, 0, 1);
    assert_refused(late.wait(), GroupError::NotMember(A));

    let (stream, topic, group) =
        catalog.create_group(0, 0, "readers").wait().expect("the name is free");
    assert_eq!((stream, topic, group), (0, 0, 1), "ids are not used again");
    let again = Member { group: GroupId { stream, topic, group }, ..A };
    groups.join(again).expect("there is room");
    client.store_offset_as(again, 0, 5, Ack::Durable).wait().expect("it is A's");
    // The ids of topics are, and those of groups begin anew in a new one.
    catalog.delete_topic(0, 0).wait().expect("it is there");
    assert_eq!(groups.of(A.client), []);
    crate::support::create_topic(&client, TopicConfig::default());
    catalog.create_group(0, 0, "readers").wait().expect("it is new");
    assert_eq!(groups.sync(A), Err(GroupError::NotMember(A)));
    assert_eq!(groups.details(G).expect("it is there").members, []);
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn code_on_a_shard_is_fenced_as_well() {
    let (engine, client) = with_group("groups_on_shard", 2, 2);
    (0..2).for_each(|partition| append(&client, partition, 3));
    let groups = client.groups();
    let told = engine.run_on_shard(0, move |shard| async move {
        let mut told = Vec::new();
        let mine = groups.join(A).expect("there is room").partitions;
        for partition in mine {
            let records = shard.poll_as(&groups, A, partition, next()).await.expect("it is A's");
            let last = records.next_offset() - 1;
            let stored = shard.store_offset_as(&groups, A, partition, last, Ack::Durable);
            stored.await.expect("it is A's");
            told.push(shard.poll_as(&groups, A, partition, next()).await.expect("A's").len());
        }
        let deleted = shard.delete_offset_as(&groups, A, 0, Ack::Durable);
        deleted.await.expect("it is A's");
        let refused = shard.poll_as(&groups, B, 0, next()).await;
        assert_refused(refused, GroupError::NotMember(B));
        told
    });
    let (done, answer) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            done.send(runtime.expect("it starts").block_on(told)).expect("it is waited for");
        });
    });
    let told = answer.recv().expect("it is sent").expect("it ran");
    assert_eq!(told, [0, 0]);
    assert_eq!(client.offset(P, G.consumer()).wait().expect("it is known"), None);
    engine.close_blocking().expect("nothing is wrong");
}
