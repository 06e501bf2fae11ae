//! Full mailboxes and limits: `Busy` at once, nothing stored, and the order kept across it.

mod common;

use common::*;

use corelog_io::sim::{Rng, Sim};
use corelog_io::{Platform, Spawn};
use corelog_shard::{AppendError, ClientLimits, PollError, ShardLimits, Shards};
use corelog_storage::Ack;

/// A shard that does not run yet, so that its mailbox fills.
fn small(requests: usize) -> (Shards, corelog_shard::Seat) {
    let limits = ShardLimits { mailbox_requests: requests, ..ShardLimits::default() };
    let (shards, seats) = Shards::new(1, &limits);
    (shards, seats.into_iter().next().unwrap())
}

#[test]
fn a_full_mailbox_answers_busy_at_once_and_stores_nothing() {
    let sim = Sim::new(1);
    sim.run(async {
        let (shards, seat) = small(3);
        let client = shards.client(&ClientLimits::default());
        let open = shards.open(id(0), place(id(0)), config());
        let first = client.append(id(0), batch([1]), Ack::Durable);
        let second = client.append(id(0), batch([2]), Ack::Durable);
        for _ in 0..3 {
            let third = client.append(id(0), batch([3]), Ack::Durable);
            assert!(matches!(third.refusal(), Some(AppendError::Busy)));
            assert!(matches!(third.await, Err(AppendError::Busy)));
            assert!(matches!(client.poll(id(0), from(0)).refusal(), Some(PollError::Busy)));
            assert!(matches!(client.flush(id(0), Ack::Durable).await, Err(AppendError::Busy)));
        }
        assert_eq!(client.in_flight().0, 2, "what was refused is not in flight");
        sim.platform().spawn().spawn(shard(seat, &sim).run());
        open.await.unwrap();
        let last = client.append(id(0), batch([4]), Ack::Durable);
        // The first two came while the partition was being opened, and keep their places.
        for (call, offset) in [(first, 0), (second, 1), (last, 2)] {
            assert_eq!(call.await.unwrap().base_offset, offset);
        }
        assert_eq!(numbers(&client.poll(id(0), from(0)).await.unwrap()), [1, 2, 4]);
    });
}

/// Drives appends 0..30 into a mailbox of 2 that is drained now and then. With a producer the log
/// has them in order, whatever was refused.
#[test]
fn a_producer_keeps_its_order_across_busy() {
    let mut busy = 0;
    for seed in 0..30 {
        let sim = Sim::new(seed);
        let mut rng = Rng::new(seed);
        sim.run(async {
            let (shards, seat) = small(2);
            sim.platform().spawn().spawn(shard(seat, &sim).run());
            shards.open(id(0), place(id(0)), config()).await.unwrap();
            let client = shards.client(&ClientLimits::default());
            let mut producer = client.producer(id(0));
            let mut calls = Vec::new();
            for n in 0..30 {
                let mut call = producer.append(batch([n]), Ack::Written);
                while let Some(error) = call.refusal() {
                    assert!(matches!(error, AppendError::Busy), "{error}");
                    busy += 1;
                    assert!(producer.is_behind());
                    if rng.chance(1, 2) {
                        sim.platform().spawn().yield_now().await;
                    }
                    // Impatient: the next one must not overtake, though there may be room now.
                    let next = producer.append(batch([n + 1]), Ack::Written);
                    assert!(matches!(next.refusal(), Some(AppendError::OutOfTurn)));
                    call = producer.retry().expect("it is kept");
                }
                assert!(!producer.is_behind() && producer.retry().is_none());
                calls.push(call);
                if rng.chance(1, 4) {
                    sim.platform().spawn().yield_now().await;
                }
            }
            for (n, call) in calls.into_iter().enumerate() {
                assert_eq!(call.await.unwrap().base_offset, n as u64);
            }
            let records = client.poll(id(0), from(0)).await.unwrap();
            assert_eq!(numbers(&records), (0..30).collect::<Vec<_>>(), "seed {seed}");
        });
    }
    assert!(busy > 100, "refused {busy} times only: the test tests nothing");
}

#[test]
fn a_producer_may_skip_what_was_refused() {
    let (shards, _seat) = small(1);
    let client = shards.client(&ClientLimits::default());
    let mut producer = client.producer(id(0));
    let bad = producer.append(batch([1]).slice(..99), Ack::Appended);
    assert!(matches!(bad.refusal(), Some(AppendError::Refused(_))));
    assert!(!producer.is_behind(), "what can never be stored is not kept");
    let _first = producer.append(batch([1]), Ack::Appended);
    let second = producer.append(batch([2]), Ack::Appended);
    assert!(matches!(second.refusal(), Some(AppendError::Busy)));
    assert!(producer.skip() && !producer.skip());
    let third = producer.append(batch([3]), Ack::Appended);
    assert!(matches!(third.refusal(), Some(AppendError::Busy)), "in turn, and still no room");
}

#[test]
fn requests_and_bytes_in_flight_are_limited_a_client_and_a_shard() {
    let len = batch([0]).len();
    let limits = ShardLimits {
        appends_in_flight: 4,
        append_bytes_in_flight: 3 * len,
        polls_in_flight: 2,
        ..ShardLimits::default()
    };
    let (shards, seats) = Shards::new(1, &limits);
    let append = |client: &corelog_shard::Client| client.append(id(0), batch([1]), Ack::Appended);
    let busy = |call: &corelog_shard::AppendCall| matches!(call.refusal(), Some(AppendError::Busy));

    let one = shards.client(&limits_of(1, usize::MAX));
    let (first, second) = (append(&one), append(&one));
    assert!(!busy(&first) && busy(&second), "the client's requests");
    let two = shards.client(&limits_of(9, len + 1));
    let (third, fourth) = (append(&two), append(&two));
    assert!(!busy(&third) && busy(&fourth), "the client's bytes");
    assert_eq!(two.in_flight(), (1, len));
    let free = shards.client(&limits_of(9, usize::MAX));
    let (fifth, sixth) = (append(&free), append(&free));
    assert!(!busy(&fifth) && busy(&sixth), "the shard's bytes, of all clients");
    let polls = [0, 1, 2].map(|_| free.poll(id(0), from(0)));
    assert!(polls[1].refusal().is_none());
    assert!(matches!(polls[2].refusal(), Some(PollError::Busy)), "the shard's polls");

    // The shard goes away: everyone is answered and all shares come back.
    drop(seats);
    for client in [&one, &two, &free] {
        assert_eq!(client.in_flight(), (0, 0));
    }
    assert!(matches!(first.wait(), Err(AppendError::Closed)));
}

fn limits_of(requests: usize, bytes: usize) -> ClientLimits {
    limits(requests, bytes)
}

/// An overloaded shard refuses before the bytes are walked: even unsound ones get `Busy`.
#[test]
fn busy_comes_before_admission() {
    let (shards, _seat) = small(1);
    let client = shards.client(&ClientLimits::default());
    let _first = client.append(id(0), batch([1]), Ack::Appended);
    let unsound = client.append(id(0), batch([1]).slice(..99), Ack::Appended);
    assert!(matches!(unsound.refusal(), Some(AppendError::Busy)));
}
