//! Every option of a topic through the SDK.

use std::collections::BTreeMap;

use corelog_interop::{Broker, id};
use iggy::prelude::*;

#[tokio::test]
async fn every_option_is_taken_told_and_kept() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    client.create_stream("shop").await.unwrap();
    let options = TopicCreateOptions {
        partitions_count: Some(2),
        compression_algorithm: Some(CompressionAlgorithm::Gzip),
        message_expiry: Some(IggyExpiry::ExpireDuration(IggyDuration::ONE_SECOND)),
        max_topic_size: Some(MaxTopicSize::Custom(IggyByteSize::from(1 << 30))),
        segment_size: Some(IggyByteSize::from(1 << 20)),
        enforce_fsync: Some(true),
        messages_required_to_save: Some(7),
        size_of_messages_required_to_save: Some(IggyByteSize::from(4096)),
        preallocate_segments: Some(true),
        ..TopicCreateOptions::default()
    };
    let made = client.create_topic(&id("shop"), "orders", &options).await.unwrap();
    check(&made);
    drop(client);
    broker.kill_and_restart();
    let client = broker.client().await;
    check(&client.get_topic(&id("shop"), &id("orders")).await.unwrap().unwrap());
    let update = TopicUpdateOptions {
        message_expiry: Some(IggyExpiry::NeverExpire),
        ..TopicUpdateOptions::default()
    };
    client.update_topic(&id("shop"), &id("orders"), "bills", &update).await.unwrap();
    let topic = client.get_topic(&id("shop"), &id("bills")).await.unwrap().unwrap();
    assert_eq!(topic.message_expiry, IggyExpiry::NeverExpire);
    assert_eq!(topic.compression_algorithm, CompressionAlgorithm::Gzip, "a patch");
}

fn check(topic: &TopicDetails) {
    assert_eq!(topic.partitions_count, 2);
    assert_eq!(topic.compression_algorithm, CompressionAlgorithm::Gzip);
    assert_eq!(topic.message_expiry, IggyExpiry::ExpireDuration(IggyDuration::ONE_SECOND));
    assert_eq!(topic.max_topic_size, MaxTopicSize::Custom(IggyByteSize::from(1 << 30)));
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_by_name() {
    let broker = Broker::start();
    let client = broker.client().await;
    client.create_stream("shop").await.unwrap();
    let raw = |key: &str, value: &str| TopicCreateOptions {
        partitions_count: Some(1),
        raw: BTreeMap::from([(key.to_owned(), value.to_owned())]),
        ..TopicCreateOptions::default()
    };
    let refused = async |options: TopicCreateOptions| {
        client.create_topic(&id("shop"), "orders", &options).await.unwrap_err().as_code()
    };
    assert_eq!(refused(raw("no_such_option", "1")).await, 4041);
    assert_eq!(refused(raw("segment_size", "1000")).await, 4042);
    assert_eq!(refused(raw("enforce_fsync", "perhaps")).await, 4042);
    assert_eq!(refused(raw("max_topic_size", "1 MiB")).await, 1019);
    let many = TopicCreateOptions { partitions_count: Some(1001), ..TopicCreateOptions::default() };
    assert_eq!(refused(many).await, 2015);
}
