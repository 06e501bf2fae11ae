//! A broker that is killed under load: no acknowledged durable message is lost, nor a stored offset.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corelog_interop::{Broker, id};
use iggy::prelude::*;

const ROUNDS: u64 = 5;
/// Each has a partition, which one producer sends to and one consumer polls.
const PARTITIONS: u32 = 4;

/// What one partition's clients know.
#[derive(Default)]
struct Known {
    /// Messages that were sent, and those whose send was answered.
    asked: AtomicU64,
    answered: AtomicU64,
    /// The last offset that was to be stored, plus 1, and the last one whose store was answered.
    storing: AtomicU64,
    stored: AtomicU64,
}

fn text(partition: u32, number: u64) -> String {
    format!("{partition}/{number}")
}

/// Sends until the broker is gone, in batches of 1 to 50.
async fn produce(client: IggyClient, partition: u32, known: Arc<Known>) {
    let to = Partitioning::partition_id(partition);
    for round in 0_u64.. {
        let from = known.asked.load(Ordering::Relaxed);
        let end = from + 1 + (round * 7 + u64::from(partition)) % 50;
        let texts: Vec<String> = (from..end).map(|number| text(partition, number)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut batch = corelog_interop::messages(&texts);
        known.asked.store(end, Ordering::Relaxed);
        let sent = client.send_messages(&id("shop"), &id("orders"), &to, &mut batch).await;
        if sent.is_err() {
            return;
        }
        known.answered.store(end, Ordering::Relaxed);
    }
}

/// Polls, checks and stores until the broker is gone.
async fn consume(client: IggyClient, partition: u32, known: Arc<Known>) {
    let me = Consumer::new(id("me"));
    loop {
        let next = known.storing.load(Ordering::Relaxed);
        let Ok(polled) = poll(&client, partition, next).await else { return };
        check(&polled, partition, next);
        let Some(last) = polled.messages.last() else { continue };
        let offset = last.header.offset;
        known.storing.store(offset + 1, Ordering::Relaxed);
        let stored = client
            .store_consumer_offset(&me, &id("shop"), &id("orders"), Some(partition), offset)
            .await;
        if stored.is_err() {
            return;
        }
        known.stored.store(offset + 1, Ordering::Relaxed);
    }
}

async fn poll(client: &IggyClient, partition: u32, from: u64) -> Result<PolledMessages, IggyError> {
    let (me, from) = (Consumer::new(id("me")), PollingStrategy::offset(from));
    client.poll_messages(&id("shop"), &id("orders"), Some(partition), &me, &from, 1000, false).await
}

fn check(polled: &PolledMessages, partition: u32, from: u64) {
    for (offset, message) in (from..).zip(&polled.messages) {
        assert_eq!(message.header.offset, offset, "partition {partition}");
        assert_eq!(message.payload, text(partition, offset), "at {offset} of {partition}");
    }
}

/// All of a partition, and what its consumer has stored, against what its clients know.
async fn compare(client: &IggyClient, partition: u32, known: &Known) {
    let mut found = 0;
    loop {
        let polled = poll(client, partition, found).await.unwrap();
        check(&polled, partition, found);
        if polled.messages.is_empty() {
            break;
        }
        found += polled.messages.len() as u64;
    }
    let (answered, asked) =
        (known.answered.load(Ordering::Relaxed), known.asked.load(Ordering::Relaxed));
    assert!(
        (answered..=asked).contains(&found),
        "partition {partition} has {found} messages; {answered} were answered, {asked} sent"
    );
    // The next round's producer goes on behind what there is.
    known.asked.store(found, Ordering::Relaxed);
    known.answered.store(found, Ordering::Relaxed);
    let me = Consumer::new(id("me"));
    let stored = client
        .get_consumer_offset(&me, &id("shop"), &id("orders"), Some(partition))
        .await
        .unwrap()
        .map_or(0, |info| info.stored_offset + 1);
    let (answered, asked) =
        (known.stored.load(Ordering::Relaxed), known.storing.load(Ordering::Relaxed));
    assert!(
        (answered..=asked).contains(&stored),
        "partition {partition} has offset {stored} (plus 1) stored; {answered} was answered, \
         {asked} asked for"
    );
    known.storing.store(stored, Ordering::Relaxed);
    known.stored.store(stored, Ordering::Relaxed);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_was_answered_is_lost() {
    let mut broker = Broker::start();
    let client = broker.client().await;
    client.create_stream("shop").await.unwrap();
    let options = TopicCreateOptions {
        partitions_count: Some(PARTITIONS),
        enforce_fsync: Some(true),
        ..TopicCreateOptions::default()
    };
    client.create_topic(&id("shop"), "orders", &options).await.unwrap();
    drop(client);
    let all: Vec<Arc<Known>> = (0..PARTITIONS).map(|_| Arc::default()).collect();
    let mut before = 0;
    for round in 0..ROUNDS {
        let mut tasks = Vec::new();
        for (partition, known) in (0..).zip(&all) {
            let (producer, consumer) = (broker.client().await, broker.client().await);
            tasks.push(tokio::spawn(produce(producer, partition, Arc::clone(known))));
            tasks.push(tokio::spawn(consume(consumer, partition, Arc::clone(known))));
        }
        // Each round ends at another place of whatever goes on.
        tokio::time::sleep(Duration::from_millis(150 + 83 * round)).await;
        broker.kill_and_restart();
        for task in tasks {
            task.await.unwrap();
        }
        let client = broker.client().await;
        for (partition, known) in (0..).zip(&all) {
            compare(&client, partition, known).await;
        }
        let sum = |of: fn(&Known) -> &AtomicU64| -> u64 {
            all.iter().map(|known| of(known).load(Ordering::Relaxed)).sum()
        };
        let (messages, offsets) = (sum(|known| &known.answered), sum(|known| &known.stored));
        assert!(messages > before && offsets > 0, "round {round} did nothing");
        before = messages;
    }
}
