//! Eight producers and eight consumers of the SDK for as long as is asked for: nothing is lost,
//! nothing comes twice or out of order, and the broker's memory and descriptors stay what they were
//! once it was warm.
//!
//! Usage: `soak [MINUTES [BATCH]]`, with `CORELOG_BROKER` as `scripts/soak.sh` sets it. Exit 1 where
//! something is wrong. Batches are of 1 to 200 messages with a rest behind each; with BATCH, of as
//! many without a rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corelog_interop::{Broker, cpu_seconds, id, memory};
use iggy::prelude::*;

const PARTITIONS: u32 = 8;

/// Part of the time that passes before memory and descriptors are held against each other.
const WARM_UP: f64 = 0.2;

/// What memory may grow by behind the warm-up, bytes, and descriptors.
const MEMORY_GROWTH_MAX: u64 = 16 << 20;
const FILES_GROWTH_MAX: usize = 16;

/// A consumer that is further behind makes its producer wait: the disk is not without end.
const BEHIND_MAX: u64 = 200_000;

/// Segments, and what a topic may keep: retention goes on all the time.
const SEGMENT_BYTES: u64 = 8 << 20;
const TOPIC_BYTES: u64 = 256 << 20;

/// A request that takes longer hangs.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// How far a partition's clients are, in messages.
#[derive(Default)]
struct Progress {
    sent: AtomicU64,
    seen: AtomicU64,
    /// Its producer sends nothing more.
    is_sent: AtomicBool,
}

#[tokio::main]
async fn main() {
    let minutes: f64 = std::env::args().nth(1).map_or(60.0, |word| word.parse().unwrap());
    let batch: Option<u64> = std::env::args().nth(2).map(|word| word.parse().unwrap());
    let length = Duration::from_secs_f64(60.0 * minutes);
    let broker = Broker::start();
    let client = broker.client().await;
    client.create_stream("soak").await.unwrap();
    let options = TopicCreateOptions {
        partitions_count: Some(PARTITIONS),
        segment_size: Some(SEGMENT_BYTES.into()),
        max_topic_size: Some(MaxTopicSize::Custom(TOPIC_BYTES.into())),
        ..TopicCreateOptions::default()
    };
    client.create_topic(&id("soak"), "topic", &options).await.unwrap();
    let until = Instant::now() + length;
    let all: Vec<Arc<Progress>> = (0..PARTITIONS).map(|_| Arc::default()).collect();
    let mut tasks = Vec::new();
    for (partition, progress) in (0..).zip(&all) {
        let (sends, polls) = (broker.client().await, broker.client().await);
        tasks.push(tokio::spawn(produce(sends, partition, Arc::clone(progress), until, batch)));
        tasks.push(tokio::spawn(consume(polls, partition, Arc::clone(progress))));
    }
    let samples = watch(&broker, &all, until, length).await;
    for task in tasks {
        tokio::time::timeout(2 * ANSWER_MAX, task).await.expect("a client hangs").unwrap();
    }
    for (partition, progress) in all.iter().enumerate() {
        let (sent, seen) =
            (progress.sent.load(Ordering::Relaxed), progress.seen.load(Ordering::Relaxed));
        assert!(sent > 0 && sent == seen, "partition {partition}: {sent} sent, {seen} polled");
    }
    // An exit drops nothing, and the process would stay.
    drop(broker);
    std::process::exit(i32::from(!is_flat(&samples, length)));
}

/// Sends batches of `fixed` messages, or of 1 to 200, of up to 2 KB, each of which says which one it
/// is.
async fn produce(
    client: IggyClient,
    partition: u32,
    progress: Arc<Progress>,
    until: Instant,
    fixed: Option<u64>,
) {
    let to = Partitioning::partition_id(partition);
    let mut state = u64::from(partition) + 1;
    let mut next = 0;
    while Instant::now() < until {
        if next - progress.seen.load(Ordering::Relaxed) > BEHIND_MAX {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        let count = fixed.unwrap_or_else(|| 1 + random(&mut state) % 200);
        let message = |number| {
            let payload = payload(partition, number);
            IggyMessage::builder().payload(payload.into()).build().unwrap()
        };
        let mut batch: Vec<IggyMessage> = (next..next + count).map(message).collect();
        let (soak, topic) = (id("soak"), id("topic"));
        let sent = client.send_messages(&soak, &topic, &to, &mut batch);
        tokio::time::timeout(ANSWER_MAX, sent).await.expect("a send hangs").unwrap();
        next += count;
        progress.sent.store(next, Ordering::Relaxed);
        if fixed.is_none() {
            tokio::time::sleep(Duration::from_micros(random(&mut state) % 8000)).await;
        }
    }
    progress.is_sent.store(true, Ordering::Release);
}

/// Polls what its producer has sent, to the last of it.
async fn consume(client: IggyClient, partition: u32, progress: Arc<Progress>) {
    let me = Consumer::new(id("me"));
    let mut next = 0;
    // A send that was under way at the end counts, too.
    while !progress.is_sent.load(Ordering::Acquire) || next < progress.sent.load(Ordering::Relaxed)
    {
        let from = PollingStrategy::next();
        let (soak, topic) = (id("soak"), id("topic"));
        let polled = client.poll_messages(&soak, &topic, Some(partition), &me, &from, 1000, true);
        let polled = tokio::time::timeout(ANSWER_MAX, polled).await.expect("a poll hangs").unwrap();
        for message in &polled.messages {
            assert_eq!(message.header.offset, next, "partition {partition}");
            assert_eq!(message.payload, payload(partition, next), "{next} of {partition}");
            next += 1;
        }
        progress.seen.store(next, Ordering::Relaxed);
        if polled.messages.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn payload(partition: u32, number: u64) -> Vec<u8> {
    let mut state = (u64::from(partition) << 48 | number) + 1;
    let len = 1 + (random(&mut state) % 2000) as usize;
    let word = random(&mut state).to_le_bytes();
    word.iter().copied().cycle().take(len).collect()
}

/// xorshift64
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 8
}

/// What the broker has at one time.
struct Sample {
    at: Duration,
    memory: u64,
    files: usize,
}

/// Looks at the broker a hundred times.
async fn watch(
    broker: &Broker,
    all: &[Arc<Progress>],
    until: Instant,
    length: Duration,
) -> Vec<Sample> {
    let (begin, pid) = (until - length, broker.pid());
    let mut samples = Vec::new();
    println!("minutes, memory MB, files, broker CPU s, messages");
    while Instant::now() < until {
        tokio::time::sleep(length / 100).await;
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        let sample = Sample { at: begin.elapsed(), memory: memory(pid).resident, files };
        let seen: u64 = all.iter().map(|progress| progress.seen.load(Ordering::Relaxed)).sum();
        if samples.len() % 10 == 9 {
            println!(
                "{:.1}, {:.1}, {}, {:.0}, {seen}",
                sample.at.as_secs_f64() / 60.0,
                sample.memory as f64 / 1e6,
                sample.files,
                cpu_seconds(pid),
            );
        }
        samples.push(sample);
    }
    samples
}

/// True where what there is at most in the last part of the time is not more than what there was at
/// most in the first part behind the warm-up, but for what may be.
fn is_flat(samples: &[Sample], length: Duration) -> bool {
    let warm: Vec<&Sample> =
        samples.iter().filter(|sample| sample.at > length.mul_f64(WARM_UP)).collect();
    let (first, last) = warm.split_at(warm.len() / 2);
    let memory = |part: &[&Sample]| part.iter().map(|sample| sample.memory).max().unwrap();
    let files = |part: &[&Sample]| part.iter().map(|sample| sample.files).max().unwrap();
    println!(
        "memory at most {:.1} MB, then {:.1} MB; files at most {}, then {}",
        memory(first) as f64 / 1e6,
        memory(last) as f64 / 1e6,
        files(first),
        files(last)
    );
    memory(last) <= memory(first) + MEMORY_GROWTH_MAX
        && files(last) <= files(first) + FILES_GROWTH_MAX
}
