//! The SDK's producer and consumer, which make what they need and keep track by themselves.

use std::time::Duration;

use corelog_interop::{Broker, messages};
use futures_util::StreamExt;
use iggy::prelude::*;

const ALL: usize = 500;

#[tokio::test]
async fn a_producer_sends_and_a_group_receives() {
    let broker = Broker::start();
    let client = broker.client().await;
    let producer = client
        .producer("shop", "orders")
        .unwrap()
        .create_topic_if_not_exists(2, IggyExpiry::NeverExpire, MaxTopicSize::ServerDefault)
        .partitioning(Partitioning::balanced())
        .build();
    producer.init().await.unwrap();
    for number in 0..ALL / 10 {
        let texts: Vec<String> = (0..10).map(|i| format!("{}", number * 10 + i)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        producer.send(messages(&texts)).await.unwrap();
    }
    let consuming = broker.client().await;
    let mut consumer = consuming
        .consumer_group("readers", "shop", "orders")
        .unwrap()
        .create_consumer_group_if_not_exists()
        .auto_join_consumer_group()
        .auto_commit(AutoCommit::When(AutoCommitWhen::ConsumingEachMessage))
        .polling_strategy(PollingStrategy::next())
        .poll_interval(IggyDuration::from(Duration::from_millis(1)))
        .batch_length(50)
        .build();
    consumer.init().await.unwrap();
    let mut seen: Vec<usize> = Vec::new();
    while seen.len() < ALL {
        let received = tokio::time::timeout(Duration::from_secs(30), consumer.next());
        let received = received.await.expect("no message in 30 s").unwrap().unwrap();
        seen.push(std::str::from_utf8(&received.message.payload).unwrap().parse().unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..ALL).collect::<Vec<_>>());
    consumer.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_consumer_of_one_partition_goes_on_where_it_was() {
    let mut broker = Broker::start();
    {
        let client = broker.client().await;
        let producer = client
            .producer("shop", "orders")
            .unwrap()
            .create_topic_if_not_exists(1, IggyExpiry::NeverExpire, MaxTopicSize::ServerDefault)
            .build();
        producer.init().await.unwrap();
        producer.send(messages(&["a", "b", "c", "d"])).await.unwrap();
        assert_eq!(receive(&client, 2).await, ["a", "b"]);
        client
            .flush_unsaved_buffer(
                &corelog_interop::id("shop"),
                &corelog_interop::id("orders"),
                0,
                true,
            )
            .await
            .unwrap();
    }
    broker.kill_and_restart();
    let client = broker.client().await;
    assert_eq!(receive(&client, 2).await, ["c", "d"]);
}

/// The next `count` messages of one consumer, each stored as done.
async fn receive(client: &IggyClient, count: usize) -> Vec<String> {
    let mut consumer = client
        .consumer("reader", "shop", "orders", 0)
        .unwrap()
        .auto_commit(AutoCommit::When(AutoCommitWhen::ConsumingEachMessage))
        .polling_strategy(PollingStrategy::next())
        .batch_length(1)
        .build();
    consumer.init().await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < count {
        let received = tokio::time::timeout(Duration::from_secs(30), consumer.next());
        let received = received.await.expect("no message in 30 s").unwrap().unwrap();
        seen.push(String::from_utf8(received.message.payload.to_vec()).unwrap());
    }
    consumer.shutdown().await.unwrap();
    seen
}
