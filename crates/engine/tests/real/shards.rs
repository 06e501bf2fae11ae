//! Many partitions on many shards, on few CPUs, and on another number of shards the next time.

use std::collections::HashMap;

use corelog::error::OpenError;
use corelog::{Ack, Client, PartitionId, TopicConfig};

use crate::chosen;
use crate::support::{
    P, Sent, assert_same, batch, builder, fresh_dir, names, partition_dir, poll_all, reopened,
    small, small_segments, with_topic,
};

type All = HashMap<PartitionId, Vec<Sent>>;

/// Three rounds of appends to every partition, several on their way at a time.
fn append_to_all(client: &Client, ids: &[PartitionId], all: &mut All) {
    for round in 0..3 {
        let calls: Vec<_> = ids
            .iter()
            .map(|id| {
                let tag = u64::from(id.topic) << 32 | u64::from(id.partition) << 8 | round;
                let bytes = batch(tag, 1 + id.partition % 3, 700);
                (*id, bytes.clone(), client.append(*id, bytes, Ack::Written))
            })
            .collect();
        for (id, bytes, call) in calls {
            let appended = call.wait().expect("it fits");
            all.entry(id).or_default().push(Sent { bytes, appended });
        }
    }
}

fn assert_all(client: &Client, all: &All) {
    for (id, sent) in all {
        assert_same(*id, sent, &poll_all(client, *id, 0, 1 << 20));
    }
}

#[test]
fn partitions_are_independent_and_any_number_of_shards_opens_them() {
    let dir = fresh_dir("many_partitions");
    let (engine, client) =
        with_topic(&dir, 3, TopicConfig { partitions: 40, ..Default::default() });
    let more = TopicConfig { partitions: 5, enforce_fsync: true, ..TopicConfig::default() };
    crate::support::create_topic(&client, more);
    let ids: Vec<_> = (0..40)
        .map(|partition| PartitionId { partition, ..P })
        .chain((0..5).map(|partition| PartitionId::new(0, 1, partition)))
        .collect();
    let mut all = All::new();
    append_to_all(&client, &ids, &mut all);
    assert_all(&client, &all);
    let stats = client.stats_blocking().expect("it is open");
    let owned: Vec<_> = stats.shards.iter().map(|shard| shard.partitions.len()).collect();
    assert_eq!(owned.iter().sum::<usize>(), 45);
    assert!(owned.iter().all(|count| *count >= 13), "they spread: {owned:?}");
    engine.close_blocking().expect("nothing is wrong");

    for shards in [1, 2, 5, 16] {
        let (engine, client) = reopened(&dir, shards);
        assert_eq!((engine.shards(), engine.opened().partitions), (shards, 45));
        assert_all(&client, &all);
        append_to_all(&client, &ids, &mut all);
        assert_all(&client, &all);
        engine.close_blocking().expect("nothing is wrong");
    }
}

/// Eight partitions of one shard under load from eight threads, each with segments that roll: every
/// file holds its own partition's batches, end to end, and nothing of another's.
#[test]
fn partitions_under_load_on_one_shard_verify() {
    const PARTITIONS: u32 = 8;
    let dir = fresh_dir("eight_under_load");
    let config = TopicConfig { partitions: PARTITIONS, ..small_segments() };
    let (engine, client) = with_topic(&dir, 1, config);
    let append_all = |id: PartitionId| {
        let append = |tag: u64| {
            let bytes = batch(u64::from(id.partition) << 32 | tag, 1, 3_000 + tag as usize * 61);
            (bytes.clone(), client.append(id, bytes, Ack::Appended))
        };
        let mut sent = Vec::new();
        for tags in (0..600).collect::<Vec<u64>>().chunks(20) {
            let calls: Vec<_> = tags.iter().map(|tag| append(*tag)).collect();
            for (bytes, call) in calls {
                sent.push(Sent { bytes, appended: call.wait().expect("it fits") });
            }
        }
        (id, sent)
    };
    let ids = (0..PARTITIONS).map(|partition| PartitionId { partition, ..P });
    let all: All = std::thread::scope(|scope| {
        let threads: Vec<_> = ids.map(|id| scope.spawn(move || append_all(id))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_all(&client, &all);
    engine.close_blocking().expect("nothing is wrong");
    for (id, sent) in &all {
        let partition = partition_dir(&dir, *id);
        let logs = names(&partition, ".log");
        assert!(logs.len() > 5, "{logs:?}");
        let mut found = Vec::new();
        for log in logs {
            let bytes = std::fs::read(partition.join(&log)).expect("it can be read");
            let expect = corelog_format::Expect {
                partition_id: Some(u64::from(id.partition)),
                next_offset: Some(found.len() as u64),
                ..corelog_format::Expect::default()
            };
            for step in corelog_format::scan(&bytes, 0, expect) {
                match step {
                    corelog_format::Step::Batch { batch, .. } => found.push(batch.bytes().to_vec()),
                    corelog_format::Step::End { at } => assert_eq!(at, bytes.len() as u64),
                    other => panic!("{id}: {log}: {other:?}"),
                }
            }
        }
        assert_same(*id, sent, &found);
    }
}

/// Runs `test` on a thread that may use one CPU only; what it starts may neither.
fn on_one_cpu(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let run = || {
            let allowed = rustix::thread::sched_getaffinity(None).expect("it can be asked");
            let cpus = 0..rustix::thread::CpuSet::MAX_CPU;
            let last = { cpus }.rfind(|cpu| allowed.is_set(*cpu)).expect("at least one");
            let mut one = rustix::thread::CpuSet::new();
            one.set(last);
            rustix::thread::sched_setaffinity(None, &one).expect("a part of what is allowed");
            test();
        };
        let thread = scope.spawn(run);
        thread.join().expect("no panic");
    });
}

#[test]
fn one_cpu_is_enough_for_one_shard_and_for_more() {
    on_one_cpu(|| {
        let dir = fresh_dir("one_cpu");
        let ids: Vec<_> = (0..4).map(|partition| PartitionId { partition, ..P }).collect();
        let mut all = All::new();
        for (number, shards) in [Some(1), Some(2), None].into_iter().enumerate() {
            let builder = corelog::Engine::builder(&dir).runtime(chosen::runtime());
            let mut builder = builder.limits(small());
            if let Some(shards) = shards {
                builder = builder.shards(shards);
            }
            let engine = builder.open().expect("one CPU is enough");
            assert_eq!(engine.shards(), shards.unwrap_or(1), "one a CPU is the default");
            assert!(engine.opened().shards.iter().all(|(cpu, _)| cpu.is_none()), "unpinned");
            let client = engine.client();
            if number == 0 {
                let config = TopicConfig { partitions: 4, ..TopicConfig::default() };
                crate::support::create_topic(&client, config);
            }
            append_to_all(&client, &ids, &mut all);
            assert_all(&client, &all);
            engine.close_blocking().expect("nothing is wrong");
        }
    });
}

#[test]
fn cpus_and_shards_that_cannot_be_are_refused_before_anything_is_touched() {
    let dir = fresh_dir("impossible_shards");
    let mut limits = small();
    limits.mailbox_requests = 0;
    let refusals = [
        (builder(&dir, 0).open().map(drop), "shards = 0"),
        (builder(&dir, 1_000_000).open().map(drop), "shards = 1000000"),
        (builder(&dir, 1).cpus([1_000]).open().map(drop), "cpus = 0"),
        (builder(&dir, 1).limits(limits).open().map(drop), "mailbox_requests = 0"),
    ];
    for (refused, names) in refusals {
        let error = refused.expect_err(names);
        assert!(matches!(error, OpenError::Limit(_)), "{error}");
        assert!(error.to_string().contains(names), "{error}");
    }
    assert!(!dir.exists());
}

#[test]
fn shards_are_pinned_where_each_can_have_a_cpu_of_its_own() {
    let dir = fresh_dir("pinned");
    let allowed = rustix::thread::sched_getaffinity(None).expect("it can be asked");
    let cpus = 0..rustix::thread::CpuSet::MAX_CPU;
    let cpus: Vec<_> = { cpus }.filter(|cpu| allowed.is_set(*cpu)).collect();
    let engine = builder(&dir, 1).pin(true).cpus(cpus.clone()).open().expect("it opens");
    let want = (cpus.len() > 1).then(|| cpus[0]);
    assert_eq!(engine.opened().shards[0].0, want);
    engine.close_blocking().expect("nothing is wrong");
}
