//! Consumer groups over sockets: joins, the partitions that go round, leaving by whatever way.

use std::time::{Duration, Instant};

use crate::client::{Client, join, name, named};
use crate::messages::{From, create, poll_body, polled, send, to, topic};
use crate::running::Running;

/// The group as a consumer.
const GROUP: &[u8] = &[2, 2, 1, b'g'];

fn path() -> Vec<u8> {
    join([&topic(), &named("g")])
}

fn with_group(partitions: u32) -> (Running, Client) {
    let broker = Running::start();
    let mut client = broker.log_in();
    create(&mut client, partitions, &[]);
    client.ask(139, &join([&topic(), &name("g")])).done();
    (broker, client)
}

/// The partitions that a client may poll.
fn synced(client: &mut Client) -> Option<Vec<u32>> {
    let body = client.question(606, &path()).body;
    let numbers = body.get(12..)?.chunks(4);
    Some(numbers.map(|number| u32::from_le_bytes(number.try_into().unwrap())).collect())
}

#[test]
fn members_share_the_partitions_as_they_come_and_go() {
    let (broker, mut a) = with_group(4);
    assert_eq!(synced(&mut a), None, "no member yet");
    a.ask(148, &path()).done();
    assert_eq!(synced(&mut a), Some(vec![0, 1, 2, 3]));
    let (mut b, mut c) = (broker.log_in(), broker.log_in());
    b.ask(148, &path()).done();
    b.ask(148, &path()).done();
    assert_eq!((synced(&mut a), synced(&mut b)), (Some(vec![0, 1]), Some(vec![3, 2])));
    c.ask(148, &path()).done();
    assert_eq!(synced(&mut c), Some(vec![2]));
    a.ask(149, &path()).done();
    assert_eq!(a.ask(149, &path()).result(), 5006);
    assert_eq!((synced(&mut b), synced(&mut c)), (Some(vec![0, 2]), Some(vec![1, 3])));
    // One that is cut off leaves as well.
    drop(b);
    let end = Instant::now() + Duration::from_secs(30);
    while synced(&mut c) != Some(vec![0, 1, 2, 3]) {
        assert!(Instant::now() < end, "the other member is still there");
        std::thread::yield_now();
    }
    // And one that logs out.
    c.ask(3, &[]);
    c.log_in(crate::running::PASSWORD).done();
    assert_eq!(synced(&mut c), None);
    let details = c.question(600, &path()).body;
    assert_eq!(details[8..12], [0; 4], "nobody is left");
}

#[test]
fn only_its_member_polls_and_stores_in_a_partition() {
    let (broker, mut a) = with_group(2);
    let mut b = broker.log_in();
    for partition in [0, 1] {
        send(&mut a, &to(partition), &["x", "y"]);
    }
    a.ask(148, &path()).done();
    b.ask(148, &path()).done();
    let (own, other) = (synced(&mut a).unwrap()[0], synced(&mut b).unwrap()[0]);
    let poll = |client: &mut Client, partition, from| {
        polled(&client.question(100, &poll_body(GROUP, Some(partition), from, 1, false)))
    };
    assert_eq!(poll(&mut a, own, From::Next).messages.len(), 1);
    let refused = poll(&mut a, other, From::Next);
    assert_eq!((refused.partition, refused.messages.len()), (u32::MAX, 0));
    let store = |partition: u32| {
        let numbered = join([&[1], &partition.to_le_bytes()]);
        join([GROUP, &topic(), &numbered, &0_u64.to_le_bytes(), &[1]])
    };
    a.ask(161, &store(own)).done();
    assert_eq!(a.ask(161, &store(other)).status(), 20);
    assert_eq!(poll(&mut a, own, From::Next).messages[0].0, 1, "behind what was stored");
    // Who is no member polls nothing.
    let mut nobody = broker.log_in();
    assert_eq!(poll(&mut nobody, own, From::First).partition, u32::MAX);
}

/// The reference server answers nothing where no partition is named; here the member gets one of
/// its own, in turn.
#[test]
fn a_member_that_names_no_partition_gets_one_in_turn() {
    let (_broker, mut a) = with_group(3);
    a.ask(148, &path()).done();
    for partition in [0, 2] {
        send(&mut a, &to(partition), &["x"]);
    }
    let body = poll_body(GROUP, None, From::Next, 10, true);
    let mut seen: Vec<u32> = (0..2)
        .map(|_| {
            let polled = polled(&a.question(100, &body));
            assert_eq!(polled.messages.len(), 1);
            polled.partition
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [0, 2]);
    assert!(polled(&a.question(100, &body)).messages.is_empty(), "all of it is done");
}

/// One request does not look into any number of partitions.
#[test]
fn a_poll_in_turn_goes_on_where_the_last_one_ended() {
    let (_broker, mut a) = with_group(100);
    a.ask(148, &path()).done();
    send(&mut a, &to(99), &["x"]);
    let body = poll_body(GROUP, None, From::Next, 10, true);
    assert!(polled(&a.question(100, &body)).messages.is_empty());
    assert_eq!(polled(&a.question(100, &body)).partition, 99);
}
