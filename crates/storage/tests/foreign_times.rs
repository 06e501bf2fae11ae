//! Queries by time: any times that another server's files may hold, and the producers' times, which
//! decide nothing.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::*;
use corelog_format::{BatchBuilder, BatchHeader, IndexEntry, Message};
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::{Ack, From, LogConfig, PollError, Retention, SharedLimits};

/// Batches with these times, as another server stored them, `each` to a segment.
fn planted(sim: &Sim, times: &[u64], payload: usize, each: usize) -> Vec<u64> {
    let mut files: Vec<(u64, Vec<u8>)> = Vec::new();
    for (i, time) in times.iter().enumerate() {
        let (bytes, offset) = (batch(i as u64, &[payload; 3]), i as u64 * 3);
        if i % each == 0 {
            files.push((offset, Vec::new()));
        }
        let file = &mut files.last_mut().unwrap().1;
        file.extend_from_slice(&as_stored(&bytes, PARTITION, offset, *time));
    }
    for (offset, bytes) in &files {
        sim.disk().put(log_file(*offset), bytes).unwrap();
    }
    (0..times.len() as u64).map(|i| i * 3).collect()
}

/// Index files beside planted segments, an entry for each batch.
fn planted_indexes(sim: &Sim) {
    for segment in logs(sim) {
        let log = sim.disk().contents(log_file(segment)).unwrap();
        let (mut position, mut entries) = (0, Vec::new());
        while position < log.len() {
            let BatchHeader { base_offset, base_timestamp, batch_length, .. } =
                BatchHeader::parse(&log[position..]).unwrap();
            let entry = IndexEntry { base_offset, base_timestamp, position: position as u64 };
            entries.extend_from_slice(&entry.encode());
            position += batch_length as usize;
        }
        sim.disk().put(index_file(segment), &entries).unwrap();
    }
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

/// Where a walk over all batches finds the first one at or after `time`: pairs of offset and time.
fn walked(batches: &[(u64, u64)], time: u64) -> Option<u64> {
    batches.iter().find(|(_, have)| *have >= time).map(|(offset, _)| *offset)
}

/// Time that went back in another server's files: nothing is refused, every answer is that of a walk,
/// also behind batches of ours that follow, in this life and in later ones.
#[test]
fn where_time_went_back_every_answer_is_that_of_a_walk_and_every_batch_is_read() {
    let wild = [100, 50, 200, 10, u64::MAX - 10, 0, 300, 299, 5];
    let mut rng = Rng::new(3);
    let random: Vec<u64> = (0..60).map(|_| rng.below(1_000)).collect();
    // Some beyond our clock, some before it, and a clock that was set back now and then.
    let beyond: Vec<u64> = (0..60).map(|i| [1 << 40, 1 << 60, 1][i % 3] + i as u64).collect();
    let set_back: Vec<u64> = (0..90).map(|i| 1_000 * (i / 30) + 45 * (i % 30)).collect();
    for times in [&wild[..], &random, &beyond, &set_back] {
        for (payload, each) in [(10, 100), (2_000, 100), (10, 4), (2_000, 3), (10, 1)] {
            let sim = Sim::new(2);
            let offsets = planted(&sim, times, payload, each);
            let mut all: Vec<(u64, u64)> = offsets.iter().copied().zip(times.to_vec()).collect();
            sim.run(async {
                for round in 0..3 {
                    let log = open_cold(&sim).await;
                    for moment in 0..2 {
                        let have: Vec<u64> = all.iter().map(|(_, time)| *time).collect();
                        for time in around(&have) {
                            let what = format!("{time} of {have:?}, {each} a segment, {round}");
                            let found = found(&log, time).await;
                            assert_eq!(found, walked(&all, time), "{what}, {moment}");
                        }
                        // Ours, which ascend.
                        for i in 0..5 * (1 - moment) {
                            let bytes = batch(i, &[rng.below(5_000) as usize]);
                            let appended = append_wait(&log, &bytes, Ack::Durable).await;
                            all.push((appended.base_offset, appended.base_timestamp));
                        }
                    }
                    let mut next = 0;
                    while next < log.watermarks().appended() {
                        let got = poll(&log, From::Offset(next), u32::MAX, 1 << 20).await.unwrap();
                        assert!(got.next > next);
                        next = got.next;
                    }
                    log.close().await.unwrap();
                }
                let log = open_cold(&sim).await;
                for sealed in log.sealed_segments().await {
                    let inside = (sealed.first_offset / 3) as usize..;
                    let inside = &times[inside.start..(sealed.end_offset / 3) as usize];
                    let youngest = *inside.iter().max().unwrap();
                    assert!(sealed.last_timestamp >= *inside.last().unwrap());
                    assert!(sealed.last_timestamp <= youngest.max(times[times.len() - 1]));
                }
            });
        }
    }
}

/// The first lookup walks what it must; the next ones read a step of the log each.
#[test]
fn a_lookup_among_times_that_went_back_reads_little() {
    let mut rng = Rng::new(5);
    let times: Vec<u64> = (0..900).map(|i| i * 10 + rng.below(500)).collect();
    let sim = Sim::new(4);
    let offsets = planted(&sim, &times, 3_000, 300);
    let all: Vec<(u64, u64)> = offsets.into_iter().zip(times.to_vec()).collect();
    sim.run(async {
        let log = open_cold(&sim).await;
        let read = || sim.disk().bytes(IoOp::Read);
        let (before, len) = (read(), 900 * 9_400);
        assert_eq!(found(&log, 9_300).await, walked(&all, 9_300));
        let first = read() - before;
        assert!((len..len + len / 8).contains(&first), "all was walked once: {first}");
        // The indexes, which were not there, are made again where offsets are looked up.
        for offset in [100, 1_000, 2_000, 2_600] {
            poll(&log, From::Offset(offset), 1, 1).await.unwrap();
            sim.clock().sleep(Duration::from_secs(1)).await;
        }
        for _ in 0..40 {
            let (time, before) = (rng.below(9_500), read());
            assert_eq!(found(&log, time).await, walked(&all, time), "{time}");
            assert!(read() - before < 200_000, "{}", read() - before);
        }
        // Two that come at once walk it once.
        let log = open_cold_again(&sim, log).await;
        let before = read();
        for _ in 0..2 {
            let log = log.clone();
            sim.platform().spawn().spawn(async move {
                let _ = found(&log, 9_300).await;
            });
        }
        found(&log, 9_300).await;
        assert!(read() - before < first + 300_000, "{} and {first}", read() - before);
    });
}

async fn open_cold_again(sim: &Sim, log: Log) -> Log {
    log.close().await.unwrap();
    open_cold(sim).await
}

/// Damage among them is stepped over; only where it may hide the answer it is the answer.
#[test]
fn damage_among_times_that_went_back_hides_no_other_batch() {
    let times: Vec<u64> = (0..60).map(|i| 100 * i + [0, 250, 30][i as usize % 3]).collect();
    // The first of the log, one that time rose to, one that it did not, the last of a segment and
    // the first of the next.
    for (damaged, hides) in [(0, true), (7, true), (20, false), (28, true), (29, false)] {
        let sim = Sim::new(6);
        let offsets = planted(&sim, &times, 2_000, 29);
        let all: Vec<(u64, u64)> = offsets.iter().copied().zip(times.to_vec()).collect();
        let (segment, within) = (offsets[damaged / 29 * 29], damaged as u64 % 29);
        let len = sim.disk().contents(log_file(0)).unwrap().len() as u64 / 29;
        sim.disk().flip_bit(log_file(segment), within * len + 300, 2).unwrap();
        sim.run(async {
            let log = open_cold(&sim).await;
            let mut hidden = 0;
            for time in around(&times) {
                let walked = all.iter().position(|(_, have)| *have >= time);
                let got = match poll(&log, From::Timestamp(time), 1, 1).await {
                    Ok(got) => (got.messages > 0).then(|| got.next - u64::from(got.messages)),
                    Err(PollError::Corrupt { resume_offset, .. }) => {
                        hidden += 1;
                        assert_eq!(resume_offset, Some(offsets[damaged + 1]), "{time} {damaged}");
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
                let expect = walked.map(|i| if i == damaged { None } else { Some(offsets[i]) });
                assert!(
                    expect == got.map(Some) || expect == Some(None),
                    "{time} {damaged} {got:?}"
                );
            }
            assert!((hidden > 0) == hides && hidden < 20, "{hidden} {damaged}");
        });
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

/// Five segments of four batches, all older than two hours but for the second one, a minute old.
fn planted_with_a_young_one(sim: &Sim) {
    let now_us = sim.clock().now_us();
    let times: Vec<u64> = (0..20)
        .map(|i| now_us - if i == 1 { MINUTE } else { 2 * HOUR }.as_micros() as u64 + i)
        .collect();
    planted(sim, &times, 2_000, 4);
    planted_indexes(sim);
}

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Time went back inside of a segment: it goes when its youngest batch is old, not its last one. Each
/// pass reads one segment at most, and none twice.
#[test]
fn a_segment_goes_when_its_youngest_batch_is_old() {
    let sim = Sim::new(8);
    planted_with_a_young_one(&sim);
    let rule = Retention { expiry: Some(HOUR), ..Retention::default() };
    sim.run(async {
        let log = open_cold(&sim).await;
        let len = sim.disk().contents(log_file(0)).unwrap().len() as u64;
        let told = log.sealed_segments().await;
        assert!(told.len() == 4 && told.iter().all(|one| one.bytes == Some(len)), "{told:?}");
        let pass = async || {
            let before = sim.disk().count(IoOp::Read);
            let segments = log.retain(rule).await.unwrap().segments;
            (segments, sim.disk().count(IoOp::Read) > before)
        };
        assert_eq!(pass().await, (0, true), "one batch of it is a minute old");
        assert_eq!(pass().await, (0, false), "and that is known now");
        sim.clock().sleep(HOUR - MINUTE - MINUTE).await;
        assert_eq!(pass().await.0, 0);
        sim.clock().sleep(MINUTE).await;
        assert_eq!(pass().await, (2, true), "it goes, and the one behind that was looked at");
        assert_eq!(pass().await, (1, true));
        assert_eq!(pass().await, (1, true));
        assert_eq!(pass().await, (0, false), "the active one stays");
        log.close().await.unwrap();
    });
}

/// A batch that cannot be read, of whatever time, counts as old as the opening.
#[test]
fn what_cannot_be_read_may_be_young() {
    for damaged in [true, false] {
        let sim = Sim::new(9);
        planted_with_a_young_one(&sim);
        let at = sim.disk().contents(log_file(0)).unwrap().len() as u64 / 4 + 500;
        if damaged {
            sim.disk().flip_bit(log_file(0), at, 1).unwrap();
        } else {
            let unreadable = Fault::fail(errno::EIO).of(IoOp::Read).on(".log");
            sim.disk().inject(unreadable.over(at..at + 1).times(2));
        }
        let rule = Retention { expiry: Some(HOUR), ..Retention::default() };
        sim.run(async {
            let log = open_cold(&sim).await;
            sim.clock().sleep(HOUR - MINUTE).await;
            assert_eq!(log.retain(rule).await.unwrap().segments, 0, "{damaged}");
            sim.clock().sleep(MINUTE).await;
            // With the one behind it, which was looked at then.
            assert_eq!(log.retain(rule).await.unwrap().segments, 2, "{damaged}");
            log.close().await.unwrap();
        });
    }
}
