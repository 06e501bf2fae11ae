//! Groups of real clients: three members, one that leaves, nothing lost and nothing twice.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use corelog_interop::{Broker, id, messages};
use iggy::prelude::*;

async fn group(broker: &Broker, partitions: u32) -> IggyClient {
    let client = broker.client().await;
    client.create_stream("shop").await.unwrap();
    let options =
        TopicCreateOptions { partitions_count: Some(partitions), ..TopicCreateOptions::default() };
    client.create_topic(&id("shop"), "orders", &options).await.unwrap();
    client.create_consumer_group(&id("shop"), &id("orders"), "g").await.unwrap();
    client
}

async fn join(client: &IggyClient) {
    client.join_consumer_group(&id("shop"), &id("orders"), &id("g")).await.unwrap();
}

/// Partitions of each member, by member.
async fn members(client: &IggyClient) -> Vec<Vec<u32>> {
    let group = client.get_consumer_group(&id("shop"), &id("orders"), &id("g")).await;
    group.unwrap().unwrap().members.into_iter().map(|member| member.partitions).collect()
}

#[tokio::test]
async fn three_members_share_and_one_leaves() {
    let broker = Broker::start();
    let a = group(&broker, 4).await;
    let (b, c) = (broker.client().await, broker.client().await);
    for client in [&a, &b, &c] {
        join(client).await;
    }
    assert_eq!(members(&a).await, [vec![0, 1], vec![3], vec![2]]);
    a.leave_consumer_group(&id("shop"), &id("orders"), &id("g")).await.unwrap();
    assert_eq!(members(&b).await, [vec![0, 2], vec![1, 3]]);
}

/// Every message once, whoever of the members polls it, while one of them leaves in between.
#[tokio::test]
async fn nothing_is_lost_or_seen_twice_when_a_member_leaves() {
    const EACH: u64 = 20;
    let broker = Broker::start();
    let a = group(&broker, 3).await;
    let (b, c) = (broker.client().await, broker.client().await);
    for client in [&a, &b, &c] {
        join(client).await;
    }
    for number in 0..EACH {
        for partition in 0..3 {
            let text = format!("{partition}/{number}");
            let to = Partitioning::partition_id(partition);
            let mut one = messages(&[&text]);
            a.send_messages(&id("shop"), &id("orders"), &to, &mut one).await.unwrap();
        }
    }
    let mut seen: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let mut members = vec![&a, &b, &c];
    let begin = Instant::now();
    // Members ask which partitions are theirs with their heartbeat, every five seconds.
    while seen.values().map(Vec::len).sum::<usize>() < 3 * EACH as usize {
        assert!(begin.elapsed() < Duration::from_secs(60), "messages are missing: {seen:?}");
        for client in &members {
            let polled = next(client).await;
            let offsets = polled.messages.iter().map(|message| message.header.offset);
            seen.entry(polled.partition_id).or_default().extend(offsets);
        }
        if members.len() == 3 && seen.values().map(Vec::len).sum::<usize>() >= 30 {
            c.leave_consumer_group(&id("shop"), &id("orders"), &id("g")).await.unwrap();
            members.pop();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let all: Vec<u64> = (0..EACH).collect();
    for partition in 0..3 {
        assert_eq!(seen[&partition], all, "partition {partition}");
    }
}

/// One message of whichever partition the client takes in turn, stored as done.
async fn next(client: &IggyClient) -> PolledMessages {
    let (stream, topic, group) = (id("shop"), id("orders"), Consumer::group(id("g")));
    let next = PollingStrategy::next();
    client.poll_messages(&stream, &topic, None, &group, &next, 1, true).await.unwrap()
}

#[tokio::test]
async fn who_is_no_member_is_told_so() {
    let broker = Broker::start();
    let a = group(&broker, 1).await;
    let leave = a.leave_consumer_group(&id("shop"), &id("orders"), &id("g")).await.unwrap_err();
    assert_eq!(leave.as_code(), 5006);
    let unknown = a.join_consumer_group(&id("shop"), &id("orders"), &id("h")).await.unwrap_err();
    assert_eq!(unknown.as_code(), 5000);
}
