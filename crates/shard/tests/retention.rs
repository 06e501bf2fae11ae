//! A topic's rule is told to the shard, which acts within a second, whatever it did before.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::*;
use corelog_format::{BatchBuilder, ConsumerKind, Message};
use corelog_io::Clock;
use corelog_io::sim::Sim;
use corelog_shard::{Client, ClientLimits, Follow, Shards};
use corelog_storage::{Ack, ConsumerKey, Place, Retention};

/// What a topic's owner is promised.
const WITHIN: Duration = Duration::from_secs(1);
const SEGMENT: u64 = 1 << 20;

/// A batch of nearly half a segment.
fn large(number: u64) -> Bytes {
    let mut builder = BatchBuilder::new();
    builder.push(Message::new(&vec![7; 500_000]).id(number.into())).unwrap();
    builder.finish().unwrap().into()
}

async fn filled(sim: &Sim) -> (Shards, Client) {
    let shards = opened(sim, 1, 2).await;
    let client = shards.client(&ClientLimits::default());
    for number in 0..40 {
        client.append(id(0), large(number), Ack::Durable).await.unwrap();
    }
    // Seals are over.
    sim.clock().sleep(Duration::from_secs(5)).await;
    (shards, client)
}

fn tell(shards: &Shards, partition: u32, retention: Retention) {
    shards.follow(id(partition), Follow { retention, ..Follow::default() }).unwrap();
}

async fn start(client: &Client) -> u64 {
    client.watermarks(id(0)).await.unwrap().start()
}

/// Told at any point between two passes, of a shard that has a rule already and of one that had none.
#[test]
fn a_rule_that_is_told_acts_within_a_second() {
    let by_age = Retention { expiry: Some(Duration::from_secs(1)), sealed_bytes: None };
    let by_size = Retention { expiry: None, sealed_bytes: Some(2 * SEGMENT) };
    for rule in [by_age, by_size] {
        for (had_one, after_ms) in
            [(false, 0), (true, 0), (true, 100), (true, 450), (true, 850), (true, 950)]
        {
            let sim = Sim::new(after_ms);
            sim.run(async {
                let (shards, client) = filled(&sim).await;
                if had_one {
                    let calm = Some(Duration::from_secs(86_400));
                    tell(&shards, 0, Retention { expiry: calm, sealed_bytes: Some(1 << 40) });
                    tell(&shards, 1, Retention { expiry: calm, sealed_bytes: None });
                }
                sim.clock().sleep(Duration::from_millis(3_600 + after_ms)).await;
                assert_eq!(start(&client).await, 0, "nothing is old or too much so far");
                tell(&shards, 0, rule);
                sim.clock().sleep(WITHIN).await;
                let acted = start(&client).await;
                assert!(acted > 0, "{rule:?}, {had_one}, {after_ms} ms into the time between two");
                // A pass drops so many; the rest follows, up to what the rule lets go.
                sim.clock().sleep(3 * WITHIN).await;
                let (rest, end) = (start(&client).await, 40);
                match rule.sealed_bytes {
                    None => assert!(rest >= end - 3, "{rest}: all sealed ones are old"),
                    Some(_) => assert!((end - 9..=end - 4).contains(&rest), "{rest}"),
                }
                close(&shards).await;
            });
        }
    }
}

/// A rule that is taken back acts no more.
#[test]
fn a_rule_that_is_taken_back_ends() {
    let sim = Sim::new(2);
    sim.run(async {
        let (shards, client) = filled(&sim).await;
        let rule = Retention { expiry: None, sealed_bytes: Some(10 * SEGMENT) };
        tell(&shards, 0, rule);
        sim.clock().sleep(2 * WITHIN).await;
        let acted = start(&client).await;
        assert!(acted > 0);
        tell(&shards, 0, Retention::default());
        for number in 40..60 {
            client.append(id(0), large(number), Ack::Durable).await.unwrap();
        }
        sim.clock().sleep(5 * WITHIN).await;
        assert_eq!(start(&client).await, acted);
        tell(&shards, 0, rule);
        sim.clock().sleep(WITHIN).await;
        assert!(start(&client).await > acted, "and again");
        close(&shards).await;
    });
}

/// A rule goes with the life that was told it, however soon the next one begins: that may be another
/// topic's, which keeps everything.
#[test]
fn a_rule_ends_with_the_partition_that_was_told_it() {
    let by_size = Retention { expiry: None, sealed_bytes: Some(2 * SEGMENT) };
    for after_ms in [0, 100, 450, 850] {
        let sim = Sim::new(after_ms);
        sim.run(async {
            let (shards, client) = filled(&sim).await;
            tell(&shards, 0, by_size);
            sim.clock().sleep(Duration::from_millis(3_600 + after_ms)).await;
            assert!(start(&client).await > 0);
            shards.close(id(0)).await.unwrap();
            let emptied = Place { dir: "/emptied".into(), incarnation: 2, ..place(id(0)) };
            shards.open(id(0), emptied.clone(), config()).await.unwrap();
            for number in 0..40 {
                client.append(id(0), large(number), Ack::Durable).await.unwrap();
            }
            sim.clock().sleep(5 * WITHIN).await;
            assert_eq!(start(&client).await, 0, "{after_ms} ms: it was told nothing");
            tell(&shards, 0, by_size);
            sim.clock().sleep(WITHIN).await;
            assert!(start(&client).await > 0, "{after_ms} ms: it was told");
            close(&shards).await;
        });
    }
}

/// What somebody has not read holds it up, and a group that goes does no more.
#[test]
fn what_is_unread_stays_until_its_reader_goes() {
    let sim = Sim::new(3);
    sim.run(async {
        let (shards, client) = filled(&sim).await;
        let rule = Retention { expiry: Some(Duration::from_secs(1)), sealed_bytes: None };
        let reader = ConsumerKey { kind: ConsumerKind::ConsumerGroup, id: 0 };
        client.store_offset(id(0), reader, 20, Ack::Durable).await.unwrap();
        let follow = Follow { retention: rule, groups: [0].into(), next_group: 1 };
        shards.follow(id(0), follow.clone()).unwrap();
        sim.clock().sleep(4 * WITHIN).await;
        let held = start(&client).await;
        assert!((15..=21).contains(&held), "{held}: up to the one that is not read");
        shards.follow(id(0), Follow { groups: [].into(), ..follow }).unwrap();
        sim.clock().sleep(WITHIN).await;
        assert!(start(&client).await > held);
        close(&shards).await;
    });
}
