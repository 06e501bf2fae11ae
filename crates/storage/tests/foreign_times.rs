//! Queries by time: any times that another server's files may hold, and the producers' times, which
//! decide nothing.

mod common;

use bytes::Bytes;
use common::*;
use corelog_format::{BatchBuilder, Message};
use corelog_io::sim::{Rng, Sim};
use corelog_storage::{Ack, From, LogConfig, SharedLimits};

/// Batches with these times, as another server stored them, `each` to a segment.
fn planted(sim: &Sim, times: &[u64], payload: usize, each: usize) -> Vec<u64> {
    let mut files: Vec<(u64, Vec<u8>)> = Vec::new();
    for (i, time) in times.iter().enumerate() {
        let (bytes, offset) = (batch(i as u64, &[payload; 3]), i as u64 * 3);
        let mut admitted = corelog_format::admit(&bytes).unwrap();
        let header = admitted.stamp(u64::from(PARTITION), offset, *time);
        if i % each == 0 {
            files.push((offset, Vec::new()));
        }
        let file = &mut files.last_mut().unwrap().1;
        file.extend_from_slice(&header);
        file.extend_from_slice(&bytes[256..]);
    }
    for (offset, bytes) in &files {
        sim.disk().put(log_file(*offset), bytes).unwrap();
    }
    (0..times.len() as u64).map(|i| i * 3).collect()
}

async fn open_cold(sim: &Sim) -> Log {
    let config = LogConfig { index_step: 4096, ..LogConfig::default() };
    let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
    open_limited(sim.platform(), config, limits).await.unwrap().0
}

async fn found(log: &Log, time: u64) -> Option<u64> {
    let got = poll(log, From::Timestamp(time), 1, 1).await.unwrap();
    (got.messages > 0).then(|| got.next - u64::from(got.messages))
}

/// Times worth asking for: all of them, those beside them, and the ends.
fn around(times: &[u64]) -> Vec<u64> {
    let beside = times.iter().flat_map(|t| [t.saturating_sub(1), *t, t.saturating_add(1)]);
    beside.chain([0, 1, u64::MAX - 1, u64::MAX]).collect()
}

#[test]
fn where_time_does_not_go_back_the_answer_is_that_of_a_walk() {
    let all_the_same = [7_000; 12];
    let runs: Vec<u64> = (0..40).map(|i| 1_000 + i / 5 * 10).collect();
    let from_zero: Vec<u64> = (0..20).map(|i| i * i).collect();
    let to_the_end: Vec<u64> = (0..20).map(|i| u64::MAX - 5 * (19 - i)).collect();
    for times in [&all_the_same[..], &runs, &from_zero, &to_the_end] {
        for (payload, each) in [(10, 100), (2_000, 100), (10, 4), (2_000, 3), (10, 1)] {
            let sim = Sim::new(1);
            let offsets = planted(&sim, times, payload, each);
            sim.run(async {
                for round in 0..2 {
                    let log = open_cold(&sim).await;
                    for time in around(times) {
                        let walked = times.iter().position(|have| *have >= time);
                        let walked = walked.map(|i| offsets[i]);
                        let what = format!("{time} of {times:?}, {each} a segment, {round}");
                        assert_eq!(found(&log, time).await, walked, "{what}");
                    }
                    log.close().await.unwrap();
                }
            });
        }
    }
}

/// Time that went back in another server's files: nothing is refused, every answer keeps its promise
/// as far as there is one, and no time of ours goes back behind them.
#[test]
fn where_time_went_back_every_answer_is_late_enough_and_every_batch_is_read() {
    let wild = [100, 50, 200, 10, u64::MAX - 10, 0, 300, 299, 5];
    let mut rng = Rng::new(3);
    let random: Vec<u64> = (0..60).map(|_| rng.below(1_000)).collect();
    for times in [&wild[..], &random] {
        for (payload, each) in [(10, 100), (2_000, 100), (10, 4), (2_000, 3), (10, 1)] {
            let sim = Sim::new(2);
            let offsets = planted(&sim, times, payload, each);
            sim.run(async {
                for round in 0..2 {
                    let log = open_cold(&sim).await;
                    for time in around(times) {
                        let what = format!("{time} of {times:?}, {each} a segment, {round}");
                        let Some(offset) = found(&log, time).await else {
                            let last = times[times.len() - 1];
                            assert!(last < time, "{what}: the last batch is late enough");
                            continue;
                        };
                        let i = offsets.iter().position(|have| *have == offset).unwrap();
                        assert!(times[i] >= time, "{what}: {offset}");
                    }
                    let mut next = 0;
                    while next < 3 * times.len() as u64 {
                        let got = poll(&log, From::Offset(next), u32::MAX, 1 << 20).await.unwrap();
                        assert!(got.next > next);
                        next = got.next;
                    }
                    for sealed in log.sealed_segments().await {
                        let inside = (sealed.first_offset / 3) as usize..;
                        let inside = &times[inside.start..(sealed.end_offset / 3) as usize];
                        let youngest = *inside.iter().max().unwrap();
                        assert!(sealed.last_timestamp >= *inside.last().unwrap());
                        assert!(sealed.last_timestamp <= youngest.max(times[times.len() - 1]));
                    }
                    log.close().await.unwrap();
                }
                let log = open_cold(&sim).await;
                let appended = append_wait(&log, &batch(99, &[10]), Ack::Durable).await;
                let last = times[times.len() - 1];
                assert!(appended.base_timestamp > last);
                assert!(found(&log, appended.base_timestamp).await.is_some());
            });
        }
    }
}

/// What a producer writes as its own time is given back as it came, and decides neither lookups nor
/// the age of a segment.
#[test]
fn the_producers_times_decide_nothing() {
    let ten_years = 10 * 365 * 86_400 * 1_000_000_u64;
    let sim = Sim::new(3);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let now = append_wait(&log, &batch(0, &[10]), Ack::Appended).await.base_timestamp;
        let claims = [0, 1, now / 1_000_000, now / 1_000, now + ten_years, u64::MAX];
        let mut kept: Vec<(u64, u64)> = Vec::new();
        for (round, claim) in claims.iter().cycle().take(60).enumerate() {
            let mut builder = BatchBuilder::new();
            let payload = vec![round as u8; 60_000];
            let message = Message::new(&payload).id(1 + round as u128).origin_timestamp(*claim);
            builder.push(message).unwrap();
            let bytes: Bytes = builder.finish().unwrap().into();
            let appended = append_wait(&log, &bytes, Ack::Durable).await;
            let clock = now..now + 3_600_000_000;
            assert!(clock.contains(&appended.base_timestamp), "our time, not {claim}");
            kept.push((appended.base_timestamp, appended.base_offset));
            let got = poll(&log, From::Timestamp(appended.base_timestamp), 1, 1).await.unwrap();
            let batches = got.batches();
            assert_eq!(batches[0].first_offset(), appended.base_offset);
            assert_eq!(batches[0].header().origin_timestamp, *claim, "given back as it came");
            let late = From::Timestamp(appended.base_timestamp + 1);
            assert_eq!(poll(&log, late, 1, 1).await.unwrap().messages, 0);
        }
        let sealed = log.sealed_segments().await;
        assert!(sealed.len() >= 2);
        for one in sealed {
            let last = kept.iter().rfind(|(_, offset)| *offset < one.end_offset).unwrap();
            assert_eq!(one.last_timestamp, last.0);
        }
        sim.clock().step(-3_600_000_000);
        let after = append_wait(&log, &batch(1, &[10]), Ack::Durable).await.base_timestamp;
        assert!(after > kept.last().unwrap().0, "an hour back is not seen");
    });
}
