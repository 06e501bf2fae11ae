//! Memory and descriptors stay below what was fixed at open, whatever is asked: two thousand
//! partitions, more calls than fit, polls that wait. Alone in its process, which is what is looked at.

#[path = "real/chosen.rs"]
mod chosen;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use corelog::error::{AppendError, PollError};
use corelog::{
    Ack, BatchBuilder, Client, Engine, EngineBuilder, Limits, Message, PartitionId, Poll,
    TopicConfig,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const SHARDS: usize = 2;
const PARTITIONS: u32 = 2000;
/// Few enough that the load of a few partitions fills everything that is limited.
const FEW: u32 = 32;
const ACTIVE_FILES: usize = 100;
const OPEN_FILES: usize = 50;
const OPENINGS: usize = 16;
const APPENDS: usize = 64;
const POLLS: usize = 48;

fn builder(dir: &Path) -> EngineBuilder {
    let builder = Engine::builder(dir).runtime(chosen::runtime());
    builder.shards(SHARDS).pin(false).limits(limits())
}

fn limits() -> Limits {
    Limits {
        registered_bytes: 1 << 20,
        write_bytes: 16 << 20,
        read_bytes: 136 << 20,
        cache_bytes: 4 << 20,
        lease_bytes: 4 << 20,
        leases: 256,
        active_files: ACTIVE_FILES,
        open_files: OPEN_FILES,
        openings: OPENINGS,
        appends_in_flight: APPENDS,
        append_bytes_in_flight: 1 << 20,
        polls_in_flight: POLLS,
        ..Limits::default()
    }
}

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of it");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kib << 10
}

/// Open files, the one that counts left out.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("Linux tells it").count() - 1
}

/// The most descriptors that were open while this lived.
struct Watch {
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
    most: Arc<AtomicUsize>,
}

impl Watch {
    fn begin() -> Watch {
        let (over, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (ends, seen) = (Arc::clone(&over), Arc::clone(&most));
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                seen.fetch_max(descriptors(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        });
        Watch { over, thread: Some(thread), most }
    }

    fn end(mut self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().expect("taken once").join().expect("it only counts");
        self.most.load(Ordering::Relaxed)
    }
}

fn id(topic: u32, partition: u32) -> PartitionId {
    PartitionId::new(0, topic, partition)
}

fn batch(tag: u32) -> Bytes {
    let mut builder = BatchBuilder::new();
    builder.push(Message::new(&[tag as u8; 3000]).id(tag.into())).expect("it is small");
    builder.finish().expect("there is a message").into()
}

/// Appends `rounds` batches to each partition of a topic without ever waiting before a refusal, and
/// tells how many were answered `Busy`. Each of those is offered again.
fn flood(client: &Client, topic: u32, partitions: u32, rounds: u32) -> usize {
    let mut busy = 0;
    let mut calls = std::collections::VecDeque::new();
    for round in 0..rounds {
        for partition in 0..partitions {
            loop {
                let call = client.append(id(topic, partition), batch(round), Ack::Written);
                match call.refusal() {
                    None => break calls.push_back(call),
                    Some(AppendError::Busy) => busy += 1,
                    Some(error) => panic!("an append was refused: {error}"),
                }
                let oldest = calls.pop_front().expect("something is in flight where it is full");
                oldest.wait().expect("what was taken is stored");
            }
        }
    }
    for call in calls {
        call.wait().expect("what was taken is stored");
    }
    busy
}

/// A poll, again while the places of those that were given up a moment ago are on their way back.
fn poll(client: &Client, id: PartitionId) -> corelog::Records {
    for _ in 0..5_000 {
        match client.poll_blocking(id, Poll::first()) {
            Err(PollError::Busy) => thread::sleep(Duration::from_millis(1)),
            polled => return polled.expect("it is there"),
        }
    }
    panic!("places of polls that were given up are not given back");
}

/// Reads everything back.
fn read(client: &Client, topic: u32, partitions: u32, rounds: u32) {
    for partition in 0..partitions {
        let records = poll(client, id(topic, partition));
        assert_eq!((records.first_offset(), records.messages()), (Some(0), rounds), "{partition}");
        for batch in records.batches() {
            batch.expect("whole").verify().expect("as it was sent");
        }
    }
}

/// More polls that wait than may: the rest is answered `Busy`. All are dropped.
fn wait_too_many(client: &Client, topic: u32, partitions: u32) -> usize {
    let ask = |number| {
        let poll = Poll::offset(1 << 40).max_wait(Duration::from_secs(3600));
        client.poll(id(topic, number % partitions), poll)
    };
    let calls: Vec<_> = (0..4 * (POLLS * SHARDS) as u32).map(ask).collect();
    let refused = calls.iter().filter_map(|call| call.refusal()).inspect(|refusal| {
        assert!(matches!(refusal, PollError::Busy), "{refusal}");
    });
    refused.count()
}

fn topic(client: &Client, name: &str, partitions: u32) {
    let config = TopicConfig { partitions: partitions.min(1000), ..TopicConfig::default() };
    let (_, topic) = client.catalog().create_topic(0, name, config).wait().expect("created");
    for _ in 1..partitions.div_ceil(1000) {
        client.catalog().add_partitions(0, topic, 1000).wait().expect("added");
    }
}

#[test]
fn two_thousand_partitions_stay_within_the_limits() {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("engine").join("bounds");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.parent().expect("it has one")).expect("the target is writable");
    // Handles for appending and reading, and as many more as openings, closings and the runtime use:
    // a file that is opened or closed counts twice for a moment.
    let others = descriptors() + 64;
    let most = others + SHARDS * (ACTIVE_FILES + OPEN_FILES + 4 * OPENINGS);
    let maximum = getrlimit(Resource::Nofile).maximum;
    // So far below the number of partitions that one descriptor for each would be refused.
    let current = Some(most as u64 + 100);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).expect("lowered");
    let watch = Watch::begin();

    let engine = builder(&dir).open();
    let engine = engine.expect("a fresh directory opens");
    let client = engine.client();
    client.catalog().create_stream("only").wait().expect("it is the first");
    topic(&client, "few", FEW);
    // Buffers, tables, stacks: all that the limits allow is in use once.
    for _ in 0..4 {
        assert!(flood(&client, 0, FEW, 60) > 0, "the limit of appends in flight was not met");
    }
    let before = resident();
    topic(&client, "many", PARTITIONS);
    let busy = flood(&client, 1, PARTITIONS, 3);
    assert!(busy > 0, "the limit of appends in flight was not met");
    let refused = wait_too_many(&client, 1, PARTITIONS);
    assert!(refused >= 2 * POLLS * SHARDS, "only {refused} of the polls were refused");
    // Those that were taken are given up, and their places are free again.
    read(&client, 1, PARTITIONS, 3);
    let grown = resident().saturating_sub(before);
    // A tail block each, what it takes to know about it, and as much again: on a machine with other
    // work to do more appends and answers are under way at a time.
    assert!(grown < u64::from(PARTITIONS) * (20 << 10), "{} KiB more", grown >> 10);
    let stats = client.stats_blocking().expect("it is open");
    let active: Vec<_> = stats.shards.iter().map(|shard| shard.active_handles).collect();
    assert!(active.iter().all(|handles| *handles <= ACTIVE_FILES), "{active:?}");
    let open: Vec<_> = stats.shards.iter().map(|shard| shard.open_handles).collect();
    assert!(open.iter().all(|handles| *handles <= OPEN_FILES), "{open:?}");
    engine.close_blocking().expect("everything is closed in order");

    let engine = builder(&dir).open();
    let engine = engine.expect("what was closed opens");
    assert_eq!(engine.opened().partitions, (PARTITIONS + FEW) as usize);
    assert!(engine.opened().not_clean.is_empty(), "{:?}", engine.opened().not_clean);
    read(&engine.client(), 1, PARTITIONS, 3);
    engine.close_blocking().expect("nothing was in the way");
    let seen = watch.end();
    assert!(seen <= most, "{seen} descriptors, {most} allowed");
    fs::remove_dir_all(&dir).expect("nobody uses it");
}
