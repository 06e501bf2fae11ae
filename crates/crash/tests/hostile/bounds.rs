//! What is asked for while nothing moves stays within limits; and a catalog that cannot be
//! written.

use std::sync::Arc;
use std::time::Duration;

use corelog::error::AppendError;
use corelog::{Ack, Client, Limits, PartitionId, TopicConfig};
use corelog_crash::content::{BatchKey, Content};
use corelog_crash::hostile::{Answer, Kind, Op, Rule, When};

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

/// Changes of a catalog that cannot be written are errors: nothing of them is seen, no partition is
/// hurt, and as soon as the trouble ends changes work again, without an opening. Whatever the file
/// was left with, the next opening finds what was acknowledged and nothing else.
#[test]
fn a_catalog_that_cannot_be_written_goes_on_when_it_can() {
    let mounted = mounted();
    let _watch = mounted.disk.watch(Duration::from_secs(100), "a catalog that fails");
    let running = Running::start(&mounted.point, 6);
    let client = running.engine.client();
    let (catalog, name) = (client.catalog(), |nth: usize, what: &str| format!("{what} {nth}"));
    let on = |op, errno| Rule::new(op, Kind::Catalog, Answer::Errno(errno));
    let troubles = [
        vec![on(Op::Write, libc::EIO)],
        vec![on(Op::Write, libc::ENOSPC)],
        // All of the change is in the file, and nobody knows for how long.
        vec![on(Op::Fsync, libc::EIO), on(Op::Fdatasync, libc::EIO)],
        // One error only, or a way out that is closed, too.
        vec![on(Op::Write, libc::EIO).when(When::Nth(0))],
        vec![on(Op::Write, libc::EIO).when(When::Nth(0)), on(Op::Rename, libc::EIO)],
        vec![on(Op::Write, libc::EIO).when(When::Nth(0)), on(Op::Create, libc::EMFILE)],
    ];
    let create = |name: &str| catalog.create_topic(0, name, TopicConfig::default()).wait();
    for (nth, rules) in troubles.iter().enumerate() {
        let (kept, goes, lost) = (name(nth, "kept"), name(nth, "goes"), name(nth, "lost"));
        create(&goes).expect("the disk is healthy");
        mounted.disk.begin(rules);
        let text = create(&lost).expect_err("it cannot be written").to_string();
        assert!(text.contains("catalog") && text.contains("os error"), "{rules:?}: {text}");
        if rules.iter().any(|rule| rule.when == When::Always) {
            let error = catalog.delete_topic(0, &*goes).wait().expect_err("nor can this");
            assert!(error.to_string().contains("os error"), "{rules:?}: {error}");
        }
        assert!(catalog.topic(0, &*goes).is_some() && catalog.topic(0, &*lost).is_none());
        let start = running.counts();
        running.wait(&start, |_, new| unhurt(new, 2)).unwrap_or_else(|behind| panic!("{behind}"));
        mounted.disk.end();
        create(&kept).unwrap_or_else(|error| panic!("the trouble is over: {rules:?}: {error}"));
        catalog.delete_topic(0, &*goes).wait().expect("and this works again");
        assert!(catalog.topic(0, &*goes).is_none() && catalog.topic(0, &*lost).is_none());
    }
    let names = |client: &Client| -> Vec<Arc<str>> {
        let topics = client.catalog().topics(0).expect("the stream is there");
        topics.into_iter().map(|topic| topic.name).collect()
    };
    let before = names(&client);
    drop(client);
    running.end(&mounted.point, true);
    let engine = builder(&mounted.point).open().expect("a healthy disk");
    assert_eq!(names(&engine.client()), before);
    assert_eq!(before.iter().filter(|name| name.starts_with("kept")).count(), troubles.len());
    engine.close_blocking().expect("nothing is wrong");
}
