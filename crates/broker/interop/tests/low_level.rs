//! The SDK's client, call by call.

use std::collections::BTreeMap;
use std::str::FromStr;

use corelog_interop::{Broker, id, messages, texts};
use iggy::prelude::*;

const PARTITION: Option<u32> = Some(0);

async fn topic(client: &IggyClient, partitions: u32) {
    client.create_stream("shop").await.unwrap();
    let options =
        TopicCreateOptions { partitions_count: Some(partitions), ..TopicCreateOptions::default() };
    client.create_topic(&id("shop"), "orders", &options).await.unwrap();
}

async fn send(client: &IggyClient, partitioning: &Partitioning, payloads: &[&str]) {
    let mut messages = messages(payloads);
    client.send_messages(&id("shop"), &id("orders"), partitioning, &mut messages).await.unwrap();
}

async fn poll(
    client: &IggyClient,
    consumer: &Consumer,
    strategy: PollingStrategy,
) -> PolledMessages {
    let (stream, topic) = (id("shop"), id("orders"));
    let polled =
        client.poll_messages(&stream, &topic, PARTITION, consumer, &strategy, 10, false).await;
    polled.unwrap()
}

#[tokio::test]
async fn messages_go_in_and_come_out_also_after_a_kill() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    topic(&client, 1).await;
    let key = HeaderKey::from_str("kind").unwrap();
    let value = HeaderValue::from_str("bill").unwrap();
    let headers = BTreeMap::from([(key.clone(), value.clone())]);
    let message = IggyMessage::builder()
        .id(77)
        .payload("with a header".into())
        .user_headers(headers)
        .build()
        .unwrap();
    let first = Partitioning::partition_id(0);
    let sent =
        client.send_messages(&id("shop"), &id("orders"), &first, &mut [message]).await.unwrap();
    assert_eq!(format!("{sent:?}").matches("base_offset: 0").count(), 1, "{sent:?}");
    send(&client, &first, &["a", "b"]).await;
    client.flush_unsaved_buffer(&id("shop"), &id("orders"), 0, true).await.unwrap();
    let consumer = Consumer::new(id("me"));
    client
        .store_consumer_offset(&consumer, &id("shop"), &id("orders"), PARTITION, 1)
        .await
        .unwrap();
    drop(client);
    broker.kill_and_restart();
    let client = broker.client().await;
    let all = poll(&client, &consumer, PollingStrategy::first()).await;
    assert_eq!((all.partition_id, all.current_offset, all.count), (0, 2, 3));
    assert_eq!(texts(&all)[1..], [(1, "a".to_owned()), (2, "b".to_owned())]);
    let message = &all.messages[0];
    assert_eq!((message.header.id, &message.payload[..]), (77, &b"with a header"[..]));
    assert_eq!(message.get_user_header(&key).unwrap(), Some(value));
    let next = poll(&client, &consumer, PollingStrategy::next()).await;
    assert_eq!(texts(&next), [(2, "b".to_owned())], "behind the stored offset");
}

#[tokio::test]
async fn every_strategy_and_every_partitioning() {
    let broker = Broker::start();
    let client = broker.client().await;
    topic(&client, 3).await;
    let key = Partitioning::messages_key_str("key1").unwrap();
    for partitioning in [Partitioning::balanced(), Partitioning::balanced(), key] {
        send(&client, &partitioning, &["x"]).await;
    }
    let details = client.get_topic(&id("shop"), &id("orders")).await.unwrap().unwrap();
    let held: Vec<u64> = details.partitions.iter().map(|p| p.messages_count).collect();
    assert_eq!((details.messages_count, held), (3, vec![1, 2, 0]));
    send(&client, &Partitioning::partition_id(0), &["y", "z"]).await;
    let me = Consumer::new(Identifier::numeric(9).unwrap());
    let offsets = |polled: PolledMessages| {
        polled.messages.iter().map(|m| m.header.offset).collect::<Vec<_>>()
    };
    let last = client
        .poll_messages(
            &id("shop"),
            &id("orders"),
            PARTITION,
            &me,
            &PollingStrategy::last(),
            2,
            false,
        )
        .await
        .unwrap();
    assert_eq!(offsets(last), [1, 2]);
    assert_eq!(offsets(poll(&client, &me, PollingStrategy::offset(1)).await), [1, 2]);
    let now = IggyTimestamp::now();
    assert_eq!(offsets(poll(&client, &me, PollingStrategy::timestamp(now)).await), [0_u64; 0]);
    assert_eq!(offsets(poll(&client, &me, PollingStrategy::next()).await), [0, 1, 2]);
}

#[tokio::test]
async fn streams_and_topics_are_made_changed_and_taken_away() {
    let broker = Broker::start();
    let client = broker.client().await;
    let stream = client.create_stream("shop").await.unwrap();
    assert_eq!((stream.id, stream.topics_count), (0, 0));
    assert_eq!(client.create_stream("shop").await.unwrap_err().as_code(), 1012);
    topic_in(&client, "shop").await;
    client.update_stream(&id("shop"), "store", &StreamUpdateOptions::default()).await.unwrap();
    assert!(client.get_stream(&id("shop")).await.unwrap().is_none());
    let stream = client.get_stream(&id("store")).await.unwrap().unwrap();
    assert_eq!((stream.topics.len(), stream.topics[0].name.as_str()), (1, "orders"));
    client.create_partitions(&id("store"), &id("orders"), 2).await.unwrap();
    client.delete_partitions(&id("store"), &id("orders"), 1).await.unwrap();
    let topics = client.get_topics(&id("store")).await.unwrap();
    assert_eq!(topics[0].partitions_count, 2);
    client.purge_topic(&id("store"), &id("orders")).await.unwrap();
    client.delete_segments(&id("store"), &id("orders"), 0, 1).await.unwrap();
    client.delete_topic(&id("store"), &id("orders")).await.unwrap();
    client.purge_stream(&id("store")).await.unwrap();
    client.delete_stream(&id("store")).await.unwrap();
    assert!(client.get_streams().await.unwrap().is_empty());
    let gone = client.delete_stream(&id("store")).await.unwrap_err();
    assert!(matches!(gone, IggyError::StreamIdNotFound(_)), "{gone:?}");
}

async fn topic_in(client: &IggyClient, stream: &str) {
    let options = TopicCreateOptions { partitions_count: Some(1), ..TopicCreateOptions::default() };
    client.create_topic(&id(stream), "orders", &options).await.unwrap();
}

#[tokio::test]
async fn the_broker_tells_of_itself() {
    let broker = Broker::start();
    let client = broker.client().await;
    client.ping().await.unwrap();
    let me = client.get_me().await.unwrap();
    assert_eq!(me.user_id, Some(0));
    assert_eq!(client.get_client(me.client_id).await.unwrap().unwrap().client_id, me.client_id);
    assert_eq!(client.get_clients().await.unwrap().len(), 1);
    let stats = client.get_stats().await.unwrap();
    assert!(stats.memory_usage.as_bytes_u64() > 0 && stats.clients_count == 1);
    let options = client.describe_options(OptionsScope::Topic).await.unwrap();
    assert_eq!(options.len(), 8);
    let cluster = client.get_cluster_metadata().await.unwrap();
    assert_eq!(cluster.nodes.len(), 1);
    let users = client.get_users().await.unwrap();
    assert_eq!((users.len(), users[0].username.as_str()), (1, "iggy"));
    assert!(client.get_user(&id("iggy")).await.unwrap().unwrap().permissions.is_some());
    let refused = client.create_user("other", "password", UserStatus::Active, None).await;
    assert_eq!(refused.unwrap_err(), IggyError::FeatureUnavailable);
}

#[tokio::test]
async fn wrong_passwords_and_tokens_are_refused() {
    let broker = Broker::start();
    let client = IggyClient::builder()
        .with_tcp()
        .with_server_address(broker.address().to_owned())
        .build()
        .unwrap();
    client.connect().await.unwrap();
    let refused = client.login_user("iggy", "not-the-password").await.unwrap_err();
    assert_eq!(refused, IggyError::InvalidCredentials);
    let refused = client.login_with_personal_access_token("a-token").await.unwrap_err();
    assert_eq!(refused, IggyError::InvalidPersonalAccessToken);
    client.login_user("iggy", corelog_interop::PASSWORD).await.unwrap();
}
