//! Logs whose offsets are large, up to the last one there is: nothing is narrower than 64 bits.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::Clock;
use corelog_io::sim::{Rng, Sim};
use corelog_storage::{Ack, AppendError, Appended, From, LogConfig, SharedLimits};

fn config() -> LogConfig {
    LogConfig { index_step: 4096, ..small_segments() }
}

/// A log that begins at `first`, as a server with so long a history would hand it over.
fn beginning_at(sim: &Sim, first: u64) -> Model {
    let bytes = batch(1, &[100]);
    let appended = Appended { base_offset: first, base_timestamp: 5_000, message_count: 1 };
    let stored = as_stored(&bytes, PARTITION, first, appended.base_timestamp);
    sim.disk().put(log_file(first), &stored).unwrap();
    Model { batches: vec![(bytes, appended)] }
}

async fn open_cold(sim: &Sim) -> Log {
    let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
    open_limited(sim.platform(), config(), limits).await.unwrap().0
}

async fn check(log: &Log, model: &Model, rng: &mut Rng) {
    for (bytes, appended) in &model.batches {
        let places = [From::Offset(appended.base_offset), From::Timestamp(appended.base_timestamp)];
        for place in places {
            let got = poll(log, place, appended.message_count, 1).await.unwrap();
            assert_same(&got.batches()[0], bytes, *appended);
        }
    }
    let (end, last) = (model.end(), model.batches.last().unwrap().1);
    let got = poll(log, From::Last(last.message_count), u32::MAX, 1 << 20).await.unwrap();
    assert_eq!((got.batches()[0].first_offset(), got.next), (last.base_offset, end));
    assert_eq!(poll(log, From::Offset(end), 9, 9).await.unwrap().messages, 0);
    let late = From::Timestamp(last.base_timestamp + 1);
    assert_eq!(poll(log, late, 9, 9).await.unwrap().messages, 0);
    model.check_all(log, rng).await;
}

#[test]
fn every_lookup_works_wherever_the_log_begins() {
    let u32_end = 1_u64 << 32;
    for first in [1, u32_end - 10, u32_end - 1, u32_end, 1 << 40, (1 << 63) - 10, u64::MAX - 900] {
        let sim = Sim::new(first);
        let mut model = beginning_at(&sim, first);
        let mut rng = Rng::new(first);
        sim.run(async {
            let log = open_cold(&sim).await;
            for tag in 0..200 {
                let bytes = batch(tag, &[2_000; 4]);
                model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Appended).await);
            }
            check(&log, &model, &mut rng).await;
            log.close().await.unwrap();
        });
        assert_eq!(model.end(), first + 801);
        assert!(logs(&sim).len() > 1, "segments were rolled");
        let segments = logs(&sim);
        for round in 0..2 {
            sim.run(async {
                let log = open_cold(&sim).await;
                check(&log, &model, &mut rng).await;
                if round == 0 {
                    let trimmed = log.trim(segments[1]).await.unwrap();
                    assert_eq!(trimmed.start, segments[1]);
                    model.batches.retain(|(_, one)| one.base_offset >= segments[1]);
                    sim.disk().delete(index_file(*segments.last().unwrap())).unwrap();
                    check(&log, &model, &mut rng).await;
                    sim.clock().sleep(Duration::from_secs(3)).await;
                }
            });
            sim.disk().process_kill(round);
        }
    }
}

#[test]
fn behind_the_last_offset_there_is_appends_are_refused() {
    for (count, batches) in [(1, 5), (2, 2), (3, 1), (6, 0)] {
        let sim = Sim::new(count);
        let mut model = beginning_at(&sim, u64::MAX - 6);
        for round in 0..2 {
            sim.run(async {
                let log = open_cold(&sim).await;
                let fits = if round == 0 { batches } else { 0 };
                for tag in 0..fits {
                    let bytes = batch(tag, &vec![10; count as usize]);
                    model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
                }
                let bytes = batch(9, &vec![10; count as usize]);
                let refused = append(&log, &bytes, Ack::Appended);
                log.flush(Ack::Durable).await.unwrap();
                let refused = refused.get().unwrap().unwrap_err();
                let AppendError::OffsetsExhausted { next_offset } = refused else {
                    panic!("{refused}");
                };
                assert_eq!(next_offset, model.end());
                assert!(log.fault().is_none(), "a refusal, not a fault");
                check(&log, &model, &mut Rng::new(count)).await;
            });
            sim.disk().process_kill(round);
        }
    }
}
