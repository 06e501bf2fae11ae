//! Events of an engine that is well: opened, filled, trimmed, closed; and of code that panics on it.

use std::fs;

use corelog::error::RunError;
use corelog::{Ack, TopicConfig};
use corelog_crash::runtime;

use crate::subscriber::{Told, await_told, told};
use crate::support::{P, batch, builder, log, temp_dir, with_topic};

#[test]
fn a_life_without_trouble() {
    let dir = temp_dir();
    let data = dir.path().join("data");
    let (engine, client) = with_topic(builder(&data));
    let opened = await_told(&data, "engine_opened");
    assert!(
        opened.is("shards", "1") && opened.is("partitions", "0") && opened.is("not_clean", "0")
    );
    assert!(opened.is("direct_io", "true") && opened.is("suppressed", "0"), "{opened:?}");
    assert!(opened.is("runtime", runtime::chosen().name()) && opened.is_a_while(), "{opened:?}");
    let created = await_told(&data, "partition_created");
    for field in ["shard", "stream", "topic", "partition"] {
        assert!(created.is(field, "0"), "{created:?}");
    }

    for _ in 0..3 {
        client.append_blocking(P, batch(600_000), Ack::Durable).expect("it fits");
    }
    let sealed = await_told(&data, "segment_sealed");
    assert!(sealed.is("segment", "0") && sealed.is("next", "2"), "{sealed:?}");
    let sealed_bytes = fs::metadata(log(&data, 0)).expect("it is there").len();
    assert!(sealed_bytes > 1_200_000 && sealed.number("bytes") == sealed_bytes, "{sealed:?}");
    client.delete_segments(P, 1).wait().expect("there is one");
    let dropped = await_told(&data, "segments_dropped");
    assert!(dropped.is("segments", "1") && dropped.is("start", "2"), "{dropped:?}");

    assert!(told(&data, "engine_closed").is_empty());
    engine.close_blocking().expect("nothing is wrong");
    let closed = told(&data, "engine_closed");
    assert!(closed.len() == 1 && closed[0].is_a_while(), "{closed:?}");

    let engine = builder(&data).open().expect("it was closed");
    let opened = await_told(&data, "partition_opened");
    assert!(opened.is("row", "whole"), "{opened:?}");
    // The active segment, which holds one batch.
    assert!((600_000..2_000_000).contains(&opened.number("bytes_read")), "{opened:?}");
    assert!(told(&data, "partition_recovered").is_empty());
    assert_eq!(told(&data, "engine_opened")[1].number("partitions"), 1);
    engine.close_blocking().expect("nothing is wrong");
}

/// Which number is which.
#[test]
fn a_partition_is_named_by_its_numbers() {
    let dir = temp_dir();
    let data = dir.path().join("data");
    let (engine, client) = with_topic(builder(&data));
    let catalog = client.catalog();
    catalog.create_stream("second").wait().expect("it is new");
    for (name, partitions) in [("a", 1), ("b", 1), ("c", 4)] {
        let config = TopicConfig { partitions, ..TopicConfig::default() };
        catalog.create_topic(1, name, config).wait().expect("it is new");
    }
    let created = told(&data, "partition_created");
    let numbers = |told: &Told| ["stream", "topic", "partition"].map(|field| told.number(field));
    let last = created.iter().find(|told| numbers(told) == [1, 2, 3]);
    assert!(last.expect("it was created").is("shard", "0"), "{created:?}");
    assert_eq!(created.len(), 7, "{created:?}");
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn code_that_panics_on_a_shard() {
    let dir = temp_dir();
    let data = dir.path().join("data");
    let (engine, client) = with_topic(builder(&data).shards(2));
    let ended = engine.run_on_shard(1, |shard| async move {
        shard.spawn(async { panic!("a guest") });
        shard.yield_now().await;
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it is small");
    let ended: Result<(), RunError> = runtime.block_on(ended);
    ended.expect("the panic is the other task's");
    let panicked = await_told(&data, "task_panicked");
    assert!(panicked.is("shard", "1") && panicked.has("panic", "a guest"), "{panicked:?}");
    assert_eq!(client.totals_blocking().expect("it lives").panics, 1);
    assert_eq!(told(&data, "task_panicked").len(), 1);
    engine.close_blocking().expect("the shard lives");
}
