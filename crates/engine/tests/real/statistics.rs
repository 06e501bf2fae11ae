//! Statistics: each figure moves by exactly what was done.

use std::time::Duration;

use corelog::stats::{Counts, EngineStats, Timed};
use corelog::{Ack, Client, Limits, PartitionId, Poll, TopicConfig};

use crate::support::{
    P, batch, builder, create_topic, fresh_dir, reopened, small, small_segments, with_topic,
};

fn stats(client: &Client) -> EngineStats {
    client.stats_blocking().expect("it is open")
}

fn counts(client: &Client) -> Counts {
    client.totals_blocking().expect("it is open").shards[0].counts
}

#[test]
fn appends_and_polls_are_counted_exactly_and_all_of_a_slow_caller_are_timed() {
    let dir = fresh_dir("statistics");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let before = stats(&client);
    let mut bytes = 0;
    for tag in 0..7 {
        let batch = batch(tag, 3, 1000);
        bytes += batch.len() as u64;
        client.append_blocking(P, batch, Ack::Durable).expect("it fits");
        // Fewer than 50,000 a second.
        std::thread::sleep(Duration::from_micros(50));
    }
    assert!(client.append_blocking(P, vec![0; 300], Ack::Written).is_err());
    let records = client.poll_blocking(P, Poll::first()).expect("it is there");
    let after = stats(&client);

    let (shard, (id, partition)) = (&after.shards[0], &after.shards[0].partitions[0]);
    assert_eq!(*id, P);
    assert_eq!(shard.counts, partition.counts(), "there is no other partition");
    let now = shard.counts;
    assert_eq!((now.batches, now.messages, now.bytes, now.append_errors), (7, 21, bytes, 0));
    // The opening of a partition in a new directory is a poll, too.
    let polls = now.polls - before.shards[0].counts.polls;
    assert_eq!((polls, now.polled_messages, now.poll_errors), (1, 21, 0));
    assert_eq!(now.polled_bytes, records.len() as u64);
    assert!((1..=7).contains(&now.syncs) && (1..=7).contains(&now.writes), "{now:?}");
    assert!(now.bytes_written >= bytes && now.bytes_written.is_multiple_of(4096), "{now:?}");
    // Each batch but the first begins in a block that was written before.
    assert!(now.bytes_carried > 0 && now.bytes_carried < 7 * 4096, "{now:?}");
    assert_eq!((now.disk_reads, now.disk_read_bytes, now.corrupt_reads), (0, 0, 0));
    assert_eq!((now.faults, now.sealed_segments, now.dropped_segments), (0, 0, 0));
    let marks = partition.watermarks;
    assert_eq!(
        (marks.start(), marks.durable(), marks.written(), marks.appended()),
        (0, 21, 21, 21)
    );
    assert_eq!((partition.segments, partition.waiting_appends, partition.poisoned), (1, 0, false));
    assert_eq!((shard.open, shard.poisoned, shard.failed.len()), (1, 0, 0));
    assert_eq!((shard.appends_in_flight, shard.append_bytes_in_flight), (0, 0));
    // Seven appends, one poll, one question.
    assert_eq!(shard.requests - before.shards[0].requests, 9);

    let timed = |what: Timed| after.latencies[0][what].count() - before.latencies[0][what].count();
    assert_eq!((timed(Timed::AppendDurable), timed(Timed::AppendWritten)), (7, 0));
    assert_eq!(
        (timed(Timed::PollMemory), timed(Timed::PollFiles), timed(Timed::Crossing)),
        (1, 0, 8)
    );
    assert!(timed(Timed::DeviceSync) >= now.syncs && timed(Timed::DeviceWrite) >= now.writes);
    let slowest = after.latencies[0][Timed::AppendDurable].max();
    assert!(slowest > after.latencies[0][Timed::Crossing].quantile(0.0) && !slowest.is_zero());
    assert_eq!(after.latencies_of_all()[Timed::AppendDurable].count(), 7);
    assert_eq!((after.io[0].hanging, after.io[0].errors), (0, 0));
    let memory = after.memory[0];
    assert_eq!((memory.write_bytes_max, memory.read_bytes_max), (16 << 20, 136 << 20));
    drop(records);
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn an_append_is_timed_by_what_was_asked_for() {
    let dir = fresh_dir("statistics_acks");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    let kinds = [Timed::AppendAppended, Timed::AppendWritten, Timed::AppendDurable];
    let timed = || kinds.map(|kind| stats(&client).latencies[0][kind].count());
    for (tag, ack) in [(0, Ack::Appended), (1, Ack::Written), (2, Ack::Durable)] {
        let before = timed();
        // Fewer than 50,000 a second.
        std::thread::sleep(Duration::from_micros(50));
        client.append_blocking(P, batch(tag, 1, 10), ack).expect("it fits");
        let mut wanted = before;
        wanted[tag as usize] += 1;
        assert_eq!(timed(), wanted, "{ack:?}");
    }
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn segments_and_reads_of_files() {
    let dir = fresh_dir("statistics_files");
    let (engine, client) = with_topic(&dir, 1, small_segments());
    for tag in 0..5 {
        client.append_blocking(P, batch(tag, 1, 600_000), Ack::Written).expect("it fits");
    }
    client.flush_blocking(P, Ack::Durable).expect("nothing is wrong");
    assert_eq!(counts(&client).sealed_segments, 2);
    engine.close_blocking().expect("nothing is wrong");

    let (engine, client) = reopened(&dir, 1);
    assert_eq!(counts(&client), Counts::default(), "an engine counts from its opening");
    let records = client.poll_blocking(P, Poll::first().max_messages(1)).expect("it is there");
    assert_eq!(records.messages(), 1);
    drop(records);
    let now = stats(&client);
    let (counts_now, latencies) = (now.shards[0].counts, &now.latencies[0]);
    assert!(counts_now.disk_reads >= 1 && counts_now.disk_read_bytes >= 600_000, "{counts_now:?}");
    assert_eq!((latencies[Timed::PollFiles].count(), latencies[Timed::PollMemory].count()), (1, 0));
    assert!(latencies[Timed::DeviceRead].count() >= counts_now.disk_reads);
    assert!(latencies[Timed::FileOperation].count() > 0, "files were opened");
    assert!(now.shards[0].open_handles >= 1);
    assert_eq!(client.delete_segments(P, 2).wait().expect("there are two").segments, 2);
    assert_eq!(counts(&client).dropped_segments, 2);
    engine.close_blocking().expect("nothing is wrong");
}

/// Topics that come and go: sums never go back, and what is not there any more is in them.
#[test]
fn sums_outlive_what_they_are_of() {
    let dir = fresh_dir("statistics_sums");
    let (engine, client) = with_topic(&dir, 1, TopicConfig::default());
    create_topic(&client, TopicConfig { partitions: 70, ..TopicConfig::default() });
    let mut bytes = 0;
    for partition in 0..70 {
        let batch = batch(u64::from(partition), 2, 100);
        bytes += batch.len() as u64;
        let id = PartitionId::new(0, 1, partition);
        client.append_blocking(id, batch, Ack::Written).expect("it fits");
    }
    let all = stats(&client);
    assert_eq!(all.shards[0].partitions.len(), 71);
    assert!(all.shards[0].partitions.is_sorted_by_key(|(id, _)| *id));
    let of_each: u64 = all.shards[0].partitions.iter().map(|(_, partition)| partition.bytes).sum();
    assert_eq!((of_each, counts(&client).bytes), (bytes, bytes));

    client.catalog().purge_topic(0, 1).wait().expect("it is there");
    client
        .append_blocking(PartitionId::new(0, 1, 3), batch(1, 2, 100), Ack::Written)
        .expect("fits");
    client.catalog().delete_topic(0, 1).wait().expect("it is there");
    let left = stats(&client);
    assert_eq!((left.shards[0].partitions.len(), left.shards[0].open), (1, 1));
    assert_eq!((left.shards[0].counts.batches, left.shards[0].counts.messages), (71, 142));
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn what_is_refused_for_want_of_room_is_counted() {
    let dir = fresh_dir("statistics_refused");
    let limits = Limits { polls_in_flight: 1, ..small() };
    let engine = builder(&dir, 1).limits(limits).open().expect("a fresh directory opens");
    let client = engine.client();
    create_topic(&client, TopicConfig::default());
    let before = stats(&client).latencies[0][Timed::PollMemory].count();
    let waits = client.poll(P, Poll::first().max_wait(Duration::from_secs(60)));
    assert!(client.poll_blocking(P, Poll::first()).is_err());
    let now = stats(&client);
    assert_eq!((now.shards[0].refused, now.shards[0].polls_in_flight), (1, 1));
    client.append_blocking(P, batch(1, 1, 10), Ack::Written).expect("it fits");
    assert_eq!(waits.wait().expect("there is a message").messages(), 1);
    let timed = stats(&client).latencies[0][Timed::PollMemory].count();
    assert_eq!(timed, before, "it waited");
    engine.close_blocking().expect("nothing is wrong");
}
