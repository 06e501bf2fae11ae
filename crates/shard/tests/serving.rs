//! What a shard does with requests: stores, serves, refuses, opens and closes.

mod common;

use common::*;

use std::time::Duration;

use corelog_io::sim::{Fault, Sim, errno};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_shard::{
    AppendError, Client, ClientLimits, ControlError, FailureReason, PartitionId, PollError,
    Producer, Records, Seat, ShardLimits, Shards, Unavailable,
};
use corelog_storage::{Ack, OpenError};

#[test]
fn what_is_appended_is_polled_back_and_partitions_are_independent() {
    let sim = Sim::new(1);
    sim.run(async {
        let shards = opened(&sim, 2, 4).await;
        let client = shards.client(&ClientLimits::default());
        for partition in 0..4_u32 {
            for n in 0..=u64::from(partition) {
                let numbers = [n * 10, n * 10 + 1];
                let done =
                    client.append(id(partition), batch(numbers), Ack::Durable).await.unwrap();
                assert_eq!((done.base_offset, done.message_count), (n * 2, 2));
            }
        }
        for partition in 0..4_u32 {
            let end = (u64::from(partition) + 1) * 2;
            let records = client.poll(id(partition), from(0)).await.unwrap();
            let expected: Vec<u64> = (0..end).map(|n| n / 2 * 10 + n % 2).collect();
            assert_eq!(numbers(&records), expected);
            assert_eq!((records.first_offset(), records.next_offset()), (Some(0), end));
            assert_eq!((records.messages(), records.end_offset()), (end as u32, end));
            let marks = client.watermarks(id(partition)).await.unwrap();
            assert_eq!((marks.start(), marks.durable(), marks.appended()), (0, end, end));
        }
        // From the middle of a batch: the first one is cut.
        let records = client.poll(id(1), from(1)).await.unwrap();
        assert_eq!(numbers(&records), [1, 10, 11]);
        close(&shards).await;
    });
}

#[test]
fn bad_bytes_are_refused_at_the_call_with_field_and_position() {
    let sim = Sim::new(2);
    sim.run(async {
        let shards = opened(&sim, 1, 1).await;
        let client = shards.client(&ClientLimits::default());
        let good = batch([1, 2]);
        let mut flipped = good.to_vec();
        *flipped.last_mut().unwrap() ^= 1;
        for bad in [good.slice(..10), good.slice(..good.len() - 1), flipped.into()] {
            let call = client.append(id(0), bad, Ack::Durable);
            let error = call.refusal().expect("refused before any shard was asked").to_string();
            assert!(error.contains("at byte"), "{error}");
            assert!(matches!(call.await, Err(AppendError::Refused(_))));
        }
        assert_eq!(client.in_flight(), (0, 0));
        assert_eq!(client.append(id(0), good, Ack::Durable).await.unwrap().base_offset, 0);
    });
}

#[test]
fn unknown_partitions_are_named() {
    let sim = Sim::new(3);
    sim.run(async {
        let shards = opened(&sim, 2, 1).await;
        let client = shards.client(&ClientLimits::default());
        let unknown = PartitionId::new(7, 8, 9);
        let named = |found: PartitionId| assert_eq!(found, unknown);
        match client.append(unknown, batch([1]), Ack::Appended).await.unwrap_err() {
            AppendError::UnknownPartition(found) => named(found),
            other => panic!("{other}"),
        }
        match client.flush(unknown, Ack::Durable).await.unwrap_err() {
            AppendError::UnknownPartition(found) => named(found),
            other => panic!("{other}"),
        }
        match client.poll(unknown, from(0)).await.unwrap_err() {
            PollError::UnknownPartition(found) => named(found),
            other => panic!("{other}"),
        }
        match client.watermarks(unknown).await.unwrap_err() {
            PollError::UnknownPartition(found) => named(found),
            other => panic!("{other}"),
        }
        match shards.close(unknown).await.unwrap_err() {
            ControlError::Unavailable(Unavailable::UnknownPartition(found)) => named(found),
            other => panic!("{other}"),
        }
    });
}

#[test]
fn one_partition_that_does_not_open_stops_no_other() {
    let sim = Sim::new(4);
    sim.run(async {
        let (shards, seats) = Shards::new(1, &ShardLimits::default());
        let shard = shard(seats.into_iter().next().unwrap(), &sim);
        let broken =
            sim.disk().inject(Fault::fail(errno::EACCES).of(IoOp::Open).on("/2-1/").for_ever());
        let all = (0..3).map(|n| (id(n), place(id(n)), config())).collect();
        let results = shard.open_all(all).await;
        let went: Vec<_> = results.iter().map(|(id, result)| (*id, result.is_ok())).collect();
        assert_eq!(went, [(id(0), true), (id(1), false), (id(2), true)]);
        sim.platform().spawn().spawn(shard.run());

        let client = shards.client(&ClientLimits::default());
        client.append(id(0), batch([5]), Ack::Durable).await.unwrap();
        let error = client.append(id(1), batch([5]), Ack::Durable).await.unwrap_err();
        assert!(error.to_string().contains("partition 1 could not be opened"), "{error}");
        assert!(error.to_string().contains("/2-1/"), "{error}");
        let AppendError::PartitionFailed(failure) = error else { panic!("{error}") };
        assert_eq!(failure.partition, id(1));
        assert!(matches!(client.poll(id(1), from(0)).await, Err(PollError::PartitionFailed(_))));
        let stats = shards.stats(0).await.unwrap();
        assert_eq!(stats.partitions.iter().map(|p| p.0).collect::<Vec<_>>(), [id(0), id(2)]);
        assert_eq!(stats.failed.len(), 1);
        assert!(matches!(&stats.failed[0].reason, FailureReason::Open(error)
            if matches!(**error, OpenError::Io(_))));

        sim.disk().lift(broken);
        shards.open(id(1), place(id(1)), config()).await.unwrap();
        client.append(id(1), batch([6]), Ack::Durable).await.unwrap();
        assert!(shards.stats(0).await.unwrap().failed.is_empty());
        let again = shards.open(id(1), place(id(1)), config()).await.unwrap_err();
        assert!(matches!(again, ControlError::InUse(found) if found == id(1)));
        close(&shards).await;
    });
}

#[test]
fn a_closed_partition_is_unknown_and_opens_again_with_its_data() {
    let sim = Sim::new(5);
    sim.run(async {
        let shards = opened(&sim, 1, 2).await;
        let client = shards.client(&ClientLimits::default());
        let kept = client.append(id(0), batch([1, 2, 3]), Ack::Appended);
        shards.close(id(0)).await.unwrap();
        assert_eq!(kept.await.unwrap().base_offset, 0);
        assert!(matches!(
            client.append(id(0), batch([4]), Ack::Appended).await,
            Err(AppendError::UnknownPartition(_))
        ));
        client.append(id(1), batch([9]), Ack::Durable).await.unwrap();
        let report = shards.open(id(0), place(id(0)), config()).await.unwrap();
        assert_eq!((report.created, report.cut_bytes), (false, 0));
        assert_eq!(numbers(&client.poll(id(0), from(0)).await.unwrap()), [1, 2, 3]);
    });
}

/// Everything that came in before the end is served, stored and answered, whatever its ack.
#[test]
fn closing_a_shard_flushes_and_answers_everything() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        sim.run(async {
            let shards = opened(&sim, 1, 3).await;
            let client = shards.client(&ClientLimits::default());
            let mut calls = Vec::new();
            for n in 0..30 {
                let ack = [Ack::Appended, Ack::Written, Ack::Durable][n as usize % 3];
                calls.push(client.append(id(n % 3), batch([n.into()]), ack));
            }
            let poll = client.poll(id(0), from(0));
            let end = shards.close_all(0);
            let late = client.append(id(0), batch([99]), Ack::Appended);
            let report = end.await.unwrap();
            assert_eq!(
                (report.closed, report.failed.len(), report.out_of_service.len()),
                (3, 0, 0)
            );
            for (n, call) in calls.into_iter().enumerate() {
                assert_eq!(call.await.unwrap().base_offset, n as u64 / 3, "seed {seed}");
            }
            assert!(poll.await.unwrap().messages() <= 10);
            let late_stored = late.await.is_ok();
            assert!(matches!(
                client.append(id(0), batch([1]), Ack::Appended).await,
                Err(AppendError::Closed)
            ));
            assert!(matches!(client.poll(id(0), from(0)).await, Err(PollError::Closed)));
            assert!(matches!(
                shards.close_all(0).await,
                Err(ControlError::Unavailable(Unavailable::Closed))
            ));

            let shards = opened(&sim, 2, 3).await;
            let client = shards.client(&ClientLimits::default());
            for partition in 0..3_u64 {
                let mut expected: Vec<u64> = (0..10).map(|n| n * 3 + partition).collect();
                if partition == 0 && late_stored {
                    expected.push(99);
                }
                let records = client.poll(id(partition as u32), from(0)).await.unwrap();
                assert_eq!(numbers(&records), expected, "seed {seed}");
            }
            close(&shards).await;
        });
    }
}

/// What is on its way when the shard ends is waited for: an opening that came later than the list
/// of what to close would stay open for ever.
#[test]
fn an_opening_in_flight_is_closed_with_the_shard() {
    for seed in 0..10 {
        let sim = Sim::new(seed);
        sim.run(async {
            let limits = ShardLimits { openings: 2, ..ShardLimits::default() };
            let shards = running(&sim, 1, &limits);
            let calls = [0, 1, 2, 3].map(|n| shards.open(id(n), place(id(n)), config()));
            let client = shards.client(&ClientLimits::default());
            let waiting = client.append(id(3), batch([1]), Ack::Appended);
            let report = shards.close_all(0).await.unwrap();
            assert_eq!((report.closed, report.failed.len()), (4, 0), "seed {seed}");
            for call in calls {
                assert!(call.await.unwrap().created);
            }
            assert_eq!(waiting.await.unwrap().base_offset, 0);
            let shards = opened(&sim, 1, 4).await;
            let client = shards.client(&ClientLimits::default());
            assert_eq!(numbers(&client.poll(id(3), from(0)).await.unwrap()), [1]);
        });
    }
}

/// Each opening needs memory and descriptors: ten thousand partitions are not opened at once.
#[test]
fn openings_run_a_few_at_a_time() {
    let sim = Sim::new(9);
    sim.run(async {
        let limits = ShardLimits { openings: 2, ..ShardLimits::default() };
        let begun = || (0..6).filter(|n| sim.disk().exists(place(id(*n)).dir)).count();
        let slow = Fault::delay(Duration::from_secs(1)).of(IoOp::Open).for_ever();
        sim.disk().inject(slow);
        let shards = running(&sim, 1, &limits);
        let calls = [0, 1, 2].map(|n| shards.open(id(n), place(id(n)), config()));
        sim.clock().sleep(Duration::from_millis(500)).await;
        assert_eq!(begun(), 2);
        for call in calls {
            call.await.unwrap();
        }
        let (_others, seats) = Shards::new(1, &limits);
        let other = shard(seats.into_iter().next().unwrap(), &sim);
        sim.platform().spawn().spawn(async move {
            other.open_all((3..6).map(|n| (id(n), place(id(n)), config())).collect()).await;
        });
        sim.clock().sleep(Duration::from_millis(500)).await;
        assert_eq!(begun(), 5);
    });
}

#[test]
fn a_poll_gets_no_more_than_the_shards_limit() {
    let sim = Sim::new(6);
    sim.run(async {
        let limits = ShardLimits { poll_bytes: 1000, ..ShardLimits::default() };
        let shards = running(&sim, 1, &limits);
        shards.open(id(0), place(id(0)), config()).await.unwrap();
        let client = shards.client(&ClientLimits::default());
        for n in 0..10 {
            client.append(id(0), batch([n]), Ack::Durable).await.unwrap();
        }
        let len = batch([0]).len();
        let records = client.poll(id(0), from(0)).await.unwrap();
        assert_eq!(numbers(&records), (0..(1000 / len) as u64).collect::<Vec<_>>());
        assert_eq!((records.next_offset(), records.end_offset()), ((1000 / len) as u64, 10));
    });
}

#[test]
fn stats_count() {
    let sim = Sim::new(7);
    sim.run(async {
        let shards = opened(&sim, 1, 2).await;
        let client = shards.client(&ClientLimits::default());
        for n in 0..5 {
            client.append(id(1), batch([n]), Ack::Durable).await.unwrap();
        }
        let _ = client.poll(id(1), from(0)).await.unwrap();
        let stats = shards.stats(0).await.unwrap();
        assert_eq!((stats.shard, stats.partitions.len(), stats.failed.len()), (0, 2, 0));
        let (found, partition) = &stats.partitions[1];
        assert_eq!((*found, partition.batches, partition.polls), (id(1), 5, 1));
        assert_eq!(partition.watermarks.durable(), 5);
        // Two openings, five appends, a poll and this question.
        assert_eq!(stats.requests, 9);
        assert!((1..=9).contains(&stats.runs), "{}", stats.runs);
        assert_eq!(
            (stats.mailbox, stats.appends_in_flight, stats.append_bytes_in_flight),
            (0, 0, 0)
        );
        assert_eq!((stats.polls_in_flight, stats.refused), (0, 0));
    });
}

/// A mailbox that is never empty does not keep other tasks and I/O from running.
#[test]
fn a_loaded_mailbox_lets_others_run() {
    let sim = Sim::new(8);
    sim.run(async {
        let limits = ShardLimits { run_requests: 10, ..ShardLimits::default() };
        let shards = running(&sim, 1, &limits);
        shards.open(id(0), place(id(0)), config()).await.unwrap();
        let client = shards.client(&ClientLimits::default());
        let calls: Vec<_> = (0..1000).map(|_| client.watermarks(id(0))).collect();
        let (clock, spawn) = (sim.clock().clone(), sim.platform().spawn().clone());
        let start = clock.now_us();
        let mut turns = 0;
        while client.in_flight().0 > 0 {
            spawn.yield_now().await;
            turns += 1;
        }
        for call in calls {
            call.await.unwrap();
        }
        // Every second poll is the shard's, on average; 1000 requests are 100 runs.
        assert!(turns >= 50, "{turns} turns in {} us", clock.now_us() - start);
    });
}

#[test]
fn what_crosses_threads_may() {
    fn send<T: Send>() {}
    fn sync<T: Send + Sync + Clone>() {}
    sync::<Client>();
    sync::<Shards>();
    send::<Seat>();
    send::<Producer>();
    send::<Records>();
    send::<corelog_shard::AppendCall>();
    send::<corelog_shard::PollCall>();
    fn error<T: std::error::Error + Send + Sync>() {}
    error::<AppendError>();
    error::<PollError>();
    error::<ControlError>();
}
