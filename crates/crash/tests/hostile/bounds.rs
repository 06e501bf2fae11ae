//! What is asked for while nothing moves stays within limits; and a catalog that cannot be written.

use std::time::Duration;

use corelog::error::AppendError;
use corelog::{Ack, Limits, PartitionId, TopicConfig};
use corelog_crash::content::{BatchKey, Content};
use corelog_crash::hostile::{Answer, Kind, Op, Rule};

use crate::support::{Running, builder, create_topics, mounted, small, unhurt};

/// Appends without end to a partition whose writes hang: `Busy` at the limits, and no more memory.
/// The neighbour on the same shard goes on till then, and with the trouble gone everything is
/// answered.
#[test]
fn a_partition_that_hangs_takes_no_more_than_the_limits_allow() {
    let mounted = mounted();
    let _watch = mounted.disk.watch(Duration::from_secs(100), "appends without end");
    let limits = Limits { client_bytes_in_flight: 8 << 20, ..small() };
    let engine = builder(&mounted.point).limits(limits.clone()).open().expect("a healthy disk");
    let client = engine.client();
    create_topics(&client);
    mounted.disk.begin(&[Rule::new(Op::Write, Kind::Log, Answer::Held { then: None }).of(0)]);
    let (stuck, free) = (PartitionId::new(0, 0, 0), PartitionId::new(0, 0, 2));
    let content = Content::new(5);
    let mut calls = Vec::new();
    let mut refused = 0;
    for nth in 0..20_000 {
        let batch = content.batch(stuck, BatchKey::new(0, 0, nth));
        let call = engine.client().append(stuck, batch, Ack::Written);
        calls.push(call);
        if nth % 64 == 0 {
            let batch = content.batch(free, BatchKey::new(0, 0, nth));
            let appended = engine.client().append_blocking(free, batch, Ack::Durable);
            match appended {
                Ok(_) => {}
                // Clones share their limits.
                Err(AppendError::Busy) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        if refused > 0 {
            break;
        }
    }
    let memory = client.stats_blocking().expect("shards answer").memory;
    assert!(memory.iter().all(|shard| shard.write_bytes <= limits.write_bytes), "{memory:?}");
    mounted.disk.end();
    let (mut stored, mut busy) = (0, 0);
    for call in calls {
        match call.wait() {
            Ok(_) => stored += 1,
            Err(AppendError::Busy) => busy += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(stored > 0 && busy > 0, "{stored} stored, {busy} refused");
    engine.close_blocking().expect("nothing is wrong");
}

/// A topic that cannot be created is an error and hurts no partition. The catalog's store wants to
/// be opened again after an error of the disk, and then creates topics.
#[test]
fn a_catalog_that_cannot_be_written_hurts_no_partition() {
    let mounted = mounted();
    let _watch = mounted.disk.watch(Duration::from_secs(100), "a catalog that fails");
    let running = Running::start(&mounted.point, 6);
    let client = running.engine.client();
    mounted.disk.begin(&[Rule::new(Op::Write, Kind::Catalog, Answer::Errno(libc::EIO))]);
    let create = |client: &corelog::Client, name: &str| {
        client.catalog().create_topic(0, name, TopicConfig::default()).wait().map(drop)
    };
    let failed = create(&client, "seven");
    let text = failed.expect_err("its catalog cannot be written").to_string();
    assert!(text.contains("catalog") && text.contains("Input/output error"), "{text}");
    let start = running.counts();
    running.wait(&start, |_, new| unhurt(new, 4)).unwrap_or_else(|behind| panic!("{behind}"));
    mounted.disk.end();
    let again = create(&client, "eight");
    println!("with the trouble gone: {again:?}");
    drop(client);
    running.end(&mounted.point, true);
    let engine = builder(&mounted.point).open().expect("a healthy disk");
    let created = create(&engine.client(), "nine");
    created.expect("the catalog is open again");
    engine.close_blocking().expect("nothing is wrong");
}
