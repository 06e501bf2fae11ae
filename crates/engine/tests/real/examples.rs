//! The examples do what they say: each is run as it is, but for its `main`.

use std::fs;
use std::os::unix::fs::FileExt;

use corelog::{Ack, PartitionId, TopicConfig};

use crate::support::{P, batch, builder, fresh_dir, partition_dir, small_segments, with_topic};

macro_rules! example {
    ($name:ident, $path:literal) => {
        #[path = $path]
        #[expect(dead_code, reason = "its main is that of a program of its own")]
        mod $name;
    };
}

example!(embed_shards, "../../examples/embed_shards.rs");
example!(embed_tokio, "../../examples/embed_tokio.rs");
example!(recover, "../../examples/recover.rs");
example!(tail, "../../examples/tail.rs");

#[test]
fn embedding_in_tokio() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("it starts");
    let bytes = runtime.block_on(embed_tokio::run(fresh_dir("example_tokio")));
    assert_eq!(bytes.expect("it runs"), (10 * 20 + 90 * 21) * 10);
}

#[test]
fn embedding_on_shards() {
    let messages = embed_shards::run(&fresh_dir("example_shards")).expect("it runs");
    assert_eq!(messages, 4 * 50);
}

/// Twice on one directory: the second reader goes on behind the first.
#[test]
fn tailing_a_partition() {
    let dir = fresh_dir("example_tail");
    let lines: Vec<_> = (0..20).map(|number| format!("order {number}")).collect();
    for _ in 0..2 {
        assert_eq!(tail::run(&dir).expect("it runs"), lines);
    }
}

/// One partition is damaged in the middle, another cannot be opened: the rest is read, and both are
/// told.
#[test]
fn recovering_what_can_be_read() {
    let dir = fresh_dir("example_recover");
    let config = TopicConfig { partitions: 3, ..small_segments() };
    let (engine, client) = with_topic(&dir, 1, config);
    let id = |partition| PartitionId { partition, ..P };
    for partition in 0..3 {
        for tag in 0..10 {
            let appended =
                client.append_blocking(id(partition), batch(tag, 1, 5_000), Ack::Written);
            appended.expect("it fits");
        }
    }
    engine.close_blocking().expect("nothing is wrong");
    let log = partition_dir(&dir, id(1)).join("00000000000000000000.log");
    let log = fs::OpenOptions::new().write(true).open(log).expect("it is there");
    log.write_all_at(&[0xEE; 64], 20_000).expect("it can be written");
    let manifest = partition_dir(&dir, id(2)).join("manifest");
    fs::remove_file(&manifest).expect("it is there");
    fs::create_dir(&manifest).expect("it can be made");
    let found = recover::run(&dir).expect("it runs");
    let where_not: Vec<_> = found.damaged.iter().map(|(id, _)| id.partition).collect();
    assert_eq!((found.messages, where_not), (10 + 9, vec![1, 2]), "{found:?}");
    // Nothing was changed by reading: it is found again.
    drop(builder(&dir, 1).open().expect("it opens"));
    assert_eq!(recover::run(&dir).expect("it runs").messages, 10 + 9);
}
