//! An executor that dies all the same, by a task that was spawned past the engine, or with its ring:
//! seen by those who use the engine.

use std::fs;

use corelog_format::{BatchBuilder, Message};
use corelog_shard::PartitionId;
use glommio::TaskQueueHandle;

use super::*;
use crate::error::{AppendError, CloseError, PollError, RunError};
use crate::runtime::ring;
use crate::{Ack, Client, Engine, EngineBuilder, Limits, Poll, TopicConfig};

const PARTITIONS: [PartitionId; 2] = [PartitionId::new(0, 0, 0), PartitionId::new(0, 0, 1)];

fn builder(runtime: Runtime, dir: &Path) -> EngineBuilder {
    let limits = Limits {
        registered_bytes: MIB,
        write_bytes: 16 * MIB,
        read_bytes: 136 * MIB,
        cache_bytes: 4 * MIB,
        lease_bytes: 4 * MIB,
        ..Limits::default()
    };
    Engine::builder(dir).runtime(runtime).shards(2).pin(false).limits(limits)
}

fn batch(tag: u64) -> Vec<u8> {
    let mut batch = BatchBuilder::new();
    batch.push(Message::new(&[tag as u8; 20_000])).expect("it fits");
    batch.finish().expect("there is a message")
}

fn written(client: &Client, id: PartitionId, tag: u64) {
    client.append_blocking(id, batch(tag), Ack::Written).expect("it fits");
}

/// Payloads of a partition, by their first byte.
fn stored(client: &Client, id: PartitionId) -> Vec<u8> {
    let records = client.poll_blocking(id, Poll::first()).expect("it is served");
    tags(&records)
}

fn tags(records: &crate::Records) -> Vec<u8> {
    let tag = |batch: corelog_shard::RecordBatch<'_>| {
        batch.verify().expect("whole").frames().map(|frame| frame.payload()[0]).collect::<Vec<_>>()
    };
    records.batches().flat_map(|batch| tag(batch.expect("whole"))).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the target is writable");
    for entry in fs::read_dir(from).expect("it is there").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().expect("it is known").is_dir() {
            true => copy(&from, &to),
            false => drop(fs::copy(&from, &to).expect("it can be read")),
        }
    }
}

async fn dies_there() {
    panic!("past the engine")
}

/// Ends the executor of this thread, in its next turn.
fn kill(runtime: Runtime) {
    match runtime {
        Runtime::Glommio => {
            let queued = glommio::spawn_local_into(dies_there(), TaskQueueHandle::default());
            queued.expect("the default queue is there").detach();
        }
        Runtime::Ring => ring::refuse(),
    }
}

/// Everyone who waits for the shard hears `Closed`, what it has lent stays readable, the other shard
/// serves on and closes in order, and everything that was answered as written is on the disk. What
/// the dead executor holds is leaked, its segments' locks with it: nobody writes where the kernel may
/// still write for it.
#[test]
fn an_executor_that_dies_takes_down_nobody_else() {
    on_each(dies_alone);
}

fn dies_alone(runtime: Runtime) {
    let dir = fresh_dir(runtime, "executor_lost");
    let data = dir.join("data");
    let engine = builder(runtime, &data).open().expect("a fresh directory opens");
    let client = engine.client();
    client.catalog().create_stream("s").wait().expect("it is new");
    let config = TopicConfig { partitions: 2, ..TopicConfig::default() };
    client.catalog().create_topic(0, "t", config).wait().expect("it is new");
    for id in PARTITIONS {
        (0..10).for_each(|tag| written(&client, id, tag));
    }
    let [lost, alive] = PARTITIONS;
    let held = client.poll_blocking(lost, Poll::first()).expect("it is served");
    let at_the_end = || Poll::offset(1_000).max_wait(Duration::from_secs(3_600));
    let waiting = client.poll(lost, at_the_end());
    let dies = lost.owner(2);
    assert_ne!(alive.owner(2), dies);
    let (asks, has_asked) = std::sync::mpsc::channel();
    let of_other_shard = engine.run_on_shard(alive.owner(2), move |shard| async move {
        let waiting = shard.poll(lost, at_the_end());
        asks.send(()).expect("the test listens");
        waiting.await
    });
    has_asked.recv().expect("it has begun");
    let ran = engine.run_on_shard(dies, move |shard| async move {
        // Writes are on their way when it happens.
        let _calls: Vec<_> =
            (10..30).map(|tag| shard.append(lost, batch(tag), Ack::Durable)).collect();
        shard.yield_now().await;
        kill(runtime);
        std::future::pending::<()>().await;
    });
    let tokio = tokio::runtime::Builder::new_current_thread().build().expect("it starts");
    let ran = tokio.block_on(ran);
    assert!(matches!(ran, Err(RunError::Closed)), "{ran:?}");
    let waited = tokio.block_on(of_other_shard).expect("its shard lives");
    assert!(matches!(waited, Err(PollError::Closed)), "{waited:?}");
    let waited = waiting.wait();
    assert!(matches!(waited, Err(PollError::Closed)), "{waited:?}");
    let late = client.append_blocking(lost, batch(99), Ack::Written);
    assert!(matches!(late, Err(AppendError::Closed)), "{late:?}");
    written(&client, alive, 10);
    assert_eq!(stored(&client, alive), (0..11).collect::<Vec<_>>());
    assert_eq!(tags(&held), (0..10).collect::<Vec<_>>());
    match engine.close_blocking() {
        Err(CloseError::Incomplete { partitions, shards, clock: None }) => {
            assert!(partitions.is_empty(), "the other one's are in order: {partitions:?}");
            assert!(shards.iter().all(|(shard, _)| *shard == dies), "{shards:?}");
            let text = shards.iter().map(|(_, why)| why.as_str()).collect::<String>();
            let why = match runtime {
                Runtime::Glommio => "past the engine",
                Runtime::Ring => "the kernel refuses the ring",
            };
            assert!(text.contains(why), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(tags(&held), (0..10).collect::<Vec<_>>(), "for ever");

    // As another process would find it: one whose locks are its own.
    copy(&data, &dir.join("copy"));
    let engine = builder(runtime, &dir.join("copy")).open().expect("it opens");
    let client = engine.client();
    let found = stored(&client, lost);
    assert!(found.len() >= 10, "{found:?}");
    assert_eq!(found, (0..found.len() as u8).collect::<Vec<_>>());
    assert_eq!(stored(&client, alive), (0..11).collect::<Vec<_>>());
    engine.close_blocking().expect("nothing is wrong");
}
