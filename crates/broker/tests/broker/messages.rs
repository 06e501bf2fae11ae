//! Messages through the broker: in, out, routed, sliced, kept.

use corelog_format::UnverifiedBatch;

use crate::client::{Client, Reply, join, name, named};
use crate::running::Running;
use corelog::machine::Runtime;
use corelog::{BatchBuilder, Message};

/// A topic for a test.
pub(crate) const TOPIC: &str = "orders";
/// Its stream.
pub(crate) const STREAM: &str = "shop";

/// Creates the stream and the topic.
pub(crate) fn create(client: &mut Client, partitions: u32, options: &[u8]) {
    client.ask(128, &name(STREAM)).done();
    let body = join([&named(STREAM), &partitions.to_le_bytes(), &name(TOPIC), options]);
    client.ask(132, &body).done();
}

/// The topic's path.
pub(crate) fn topic() -> Vec<u8> {
    join([&named(STREAM), &named(TOPIC)])
}

/// A producer's batch.
pub(crate) fn batch(payloads: &[&str]) -> Vec<u8> {
    let mut batch = BatchBuilder::new();
    for payload in payloads {
        batch.push(Message::new(payload.as_bytes())).unwrap();
    }
    batch.finish().unwrap().to_vec()
}

/// The body of a send; `partitioning` as the wire has it.
pub(crate) fn send_body(partitioning: &[u8], messages: u32, batch: &[u8]) -> Vec<u8> {
    let metadata = join([&topic(), partitioning, &messages.to_le_bytes()]);
    join([&(metadata.len() as u32).to_le_bytes(), &metadata, batch])
}

/// To partition `partition`.
pub(crate) fn to(partition: u32) -> Vec<u8> {
    join([&[2, 4], &partition.to_le_bytes()])
}

/// Sends `payloads` as one batch.
pub(crate) fn send(client: &mut Client, partitioning: &[u8], payloads: &[&str]) -> Reply {
    client.ask(160, &send_body(partitioning, payloads.len() as u32, &batch(payloads)))
}

/// How a poll begins.
#[derive(Clone, Copy)]
pub(crate) enum From {
    Offset(u64),
    Timestamp(u64),
    First,
    Last,
    Next,
}

/// The body of a poll of consumer `consumer` (as the wire has it).
pub(crate) fn poll_body(
    consumer: &[u8],
    partition: Option<u32>,
    from: From,
    count: u32,
    auto_commit: bool,
) -> Vec<u8> {
    let (kind, value) = match from {
        From::Offset(offset) => (1, offset),
        From::Timestamp(time) => (2, time),
        From::First => (3, 0),
        From::Last => (4, 0),
        From::Next => (5, 0),
    };
    let mut flagged = vec![u8::from(partition.is_some())];
    flagged.extend_from_slice(&partition.unwrap_or(0).to_le_bytes());
    let strategy = join([&[kind], &value.to_le_bytes()]);
    let end = join([&count.to_le_bytes(), &[u8::from(auto_commit)]]);
    join([consumer, &topic(), &flagged, &strategy, &end])
}

/// Consumer 1.
pub(crate) const ME: [u8; 7] = [1, 1, 4, 1, 0, 0, 0];

/// What a poll answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Polled {
    pub(crate) partition: u32,
    pub(crate) last_offset: u64,
    /// Offset and payload.
    pub(crate) messages: Vec<(u64, String)>,
}

/// Takes a poll's reply apart, every checksum looked at.
pub(crate) fn polled(reply: &Reply) -> Polled {
    assert_eq!(reply.status(), 0, "{reply:?}");
    let body = &reply.body;
    let count = u32::from_le_bytes(body[12..16].try_into().unwrap());
    let mut messages = Vec::new();
    let mut rest = &body[16..];
    while !rest.is_empty() {
        let (batch, behind) = UnverifiedBatch::split_first(rest).unwrap();
        let base = batch.header().base_offset;
        let batch = batch.verify_stored().unwrap();
        for frame in batch.frames() {
            let payload = String::from_utf8(frame.payload().to_vec()).unwrap();
            messages.push((base + u64::from(frame.offset_delta()), payload));
        }
        rest = behind;
    }
    assert_eq!(messages.len(), count as usize);
    Polled {
        partition: u32::from_le_bytes(body[..4].try_into().unwrap()),
        last_offset: u64::from_le_bytes(body[4..12].try_into().unwrap()),
        messages,
    }
}

fn poll(client: &mut Client, from: From, count: u32) -> Polled {
    polled(&client.question(100, &poll_body(&ME, Some(0), from, count, false)))
}

fn texts(polled: &Polled) -> Vec<&str> {
    polled.messages.iter().map(|(_, text)| text.as_str()).collect()
}

#[test]
fn messages_come_back_by_every_strategy_also_after_a_restart() {
    come_back(Runtime::Glommio);
}

#[test]
fn messages_come_back_on_the_other_runtime_too() {
    come_back(Runtime::Ring);
}

fn come_back(runtime: Runtime) {
    let mut broker = Running::start_with(move |config| config.runtime = Some(runtime));
    let mut client = broker.log_in();
    create(&mut client, 1, &[]);
    let first = send(&mut client, &to(0), &["a", "b", "c"]);
    assert_eq!(first.body[16..24], 0_u64.to_le_bytes());
    let second = send(&mut client, &to(0), &["d", "e"]);
    assert_eq!(second.body[16..24], 3_u64.to_le_bytes());
    let check = |client: &mut Client| {
        let all = poll(client, From::First, 100);
        assert_eq!((all.last_offset, texts(&all)), (4, vec!["a", "b", "c", "d", "e"]));
        assert_eq!(all.messages.iter().map(|(o, _)| *o).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(texts(&poll(client, From::Offset(1), 3)), ["b", "c", "d"]);
        assert_eq!(texts(&poll(client, From::Last, 2)), ["d", "e"]);
        assert_eq!(texts(&poll(client, From::Next, 1)), ["a"], "nothing was stored");
        assert_eq!(texts(&poll(client, From::Timestamp(0), 2)), ["a", "b"]);
        assert!(poll(client, From::Timestamp(u64::MAX), 2).messages.is_empty());
        assert!(poll(client, From::Offset(5), 2).messages.is_empty());
        assert_eq!(poll(client, From::First, 0).last_offset, 4, "no messages, and how far it is");
    };
    check(&mut client);
    drop(client);
    broker.restart();
    check(&mut broker.log_in());
}

#[test]
fn offsets_are_stored_told_deleted_and_kept() {
    let mut broker = Running::start();
    let mut client = broker.log_in();
    create(&mut client, 1, &[]);
    send(&mut client, &to(0), &["a", "b", "c"]);
    let path = join([&ME, &topic(), &[1, 0, 0, 0, 0]]);
    let get = |client: &mut Client| client.question(120, &path).body;
    assert!(get(&mut client).is_empty(), "nothing is stored");
    let body = poll_body(&ME, Some(0), From::Next, 2, true);
    assert_eq!(texts(&polled(&client.question(100, &body))), ["a", "b"]);
    assert_eq!(texts(&polled(&client.question(100, &body))), ["c"]);
    let stored = |offset: u64| join([&[0; 4], &2_u64.to_le_bytes(), &offset.to_le_bytes()]);
    assert_eq!(get(&mut client), stored(2), "polling has stored it");
    let store = |offset: u64| join([&path, &offset.to_le_bytes(), &[1]]);
    client.ask(161, &store(0)).done();
    assert_eq!(client.ask(161, &store(3)).status(), 4100, "there is no such message");
    drop(client);
    broker.restart();
    let mut client = broker.log_in();
    assert_eq!(get(&mut client), stored(0), "it went back, and stayed there");
    client.ask(162, &join([&path, &[1]])).done();
    assert_eq!(client.ask(162, &join([&path, &[1]])).status(), 3021);
    assert!(get(&mut client).is_empty());
}

#[test]
fn keys_and_turns_find_their_partitions() {
    let broker = Running::start();
    let mut client = broker.log_in();
    create(&mut client, 3, &[]);
    let partition = |reply: Reply| {
        assert_eq!(reply.status(), 0, "{reply:?}");
        u32::from_le_bytes(reply.body[12..16].try_into().unwrap())
    };
    // XXH32 of "key1" is 133378825, 1 modulo 3.
    let key = [&[3, 4][..], b"key1"].concat();
    assert_eq!(partition(send(&mut client, &key, &["k"])), 1);
    assert_eq!(partition(send(&mut client, &key, &["k"])), 1);
    let turns: Vec<u32> = (0..4).map(|_| partition(send(&mut client, &[1, 0], &["t"]))).collect();
    assert_eq!(turns, [0, 1, 2, 0]);
    assert_eq!(send(&mut client, &to(3), &["x"]).status(), 20, "there is no partition 3");
}

#[test]
fn a_topic_that_asks_for_it_is_answered_when_it_is_durable() {
    let broker = Running::start();
    let mut client = broker.log_in();
    // `enforce_fsync`: a string key, a bool.
    let option = [&[2, 13, 0, 0, 0][..], b"enforce_fsync", &[3, 1, 0, 0, 0, 1]].concat();
    create(&mut client, 1, &option);
    send(&mut client, &to(0), &["kept"]);
    // Polls end at what is durable there, so that it is seen says that it was.
    assert_eq!(texts(&poll(&mut client, From::First, 1)), ["kept"]);
}

#[test]
fn a_flush_reaches_the_device() {
    let broker = Running::start();
    let mut client = broker.log_in();
    create(&mut client, 1, &[]);
    send(&mut client, &to(0), &["a"]);
    let flush = |fsync: u8| join([&topic(), &[0; 4], &[fsync]]);
    for fsync in [0, 1] {
        let reply = client.question(102, &flush(fsync));
        assert_eq!((reply.status(), reply.body.len()), (0, 0));
    }
    assert_eq!(client.question(102, &flush(2)).status(), 3);
}
