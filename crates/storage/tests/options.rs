//! Whatever configuration is allowed, the log works with it: appends of any length, rolls, retention, a
//! crash and a reopening (CFG-4, CFG-5).

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::{Rng, Sim};
use corelog_storage::{Ack, From, LogConfig, Retention, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};

const HEADERS: usize = 256 + 48;
const SEGMENT: usize = SEGMENT_BYTES_MIN as usize;

fn one_of<T: Copy>(rng: &mut Rng, list: &[T]) -> T {
    list[rng.index(list.len())]
}

/// Values at both ends, just outside, and between.
fn draw(rng: &mut Rng) -> LogConfig {
    LogConfig {
        segment_bytes: one_of(
            rng,
            &[SEGMENT_BYTES_MIN, SEGMENT_BYTES_MIN + 512, 3 << 20, SEGMENT_BYTES_MAX, 0, 1 << 31],
        ),
        enforce_fsync: rng.chance(1, 2),
        messages_required_to_save: one_of(rng, &[1, 2, 1_024, 16_777_216, 0, u32::MAX]),
        size_of_messages_required_to_save: one_of(rng, &[1, 511, 4_097, 1 << 20, 1 << 30, 0]),
        preallocate_segments: rng.chance(1, 4),
        flush_after: Duration::from_micros(one_of(rng, &[1, 5_000, 60_000_000, 0])),
        index_step: one_of(rng, &[4 << 10, 5_000, 64 << 10, 1 << 30, 1]),
        verify_reads: rng.chance(3, 4),
    }
}

/// A life and the one after its crash under `config`, which is allowed.
fn works(config: &LogConfig, seed: u64) {
    let sim = Sim::new(seed);
    let mut rng = Rng::new(seed);
    let mut model = Model::default();
    sim.run(async {
        let log = open(sim.platform(), config.clone()).await;
        for tag in 0..12 {
            let payload = one_of(&mut rng, &[1, 4_096 - HEADERS, 300_000, SEGMENT - HEADERS]);
            let bytes = batch(tag, &[payload]);
            let appended = append_wait(&log, &bytes, Ack::Durable).await;
            model.push(bytes, appended);
        }
        model.check_all(&log, &mut rng).await;
    });
    sim.disk().power_cut(seed);
    sim.run(async {
        let (log, report) = try_open(sim.platform(), config.clone()).await.unwrap();
        assert!(report.damage.is_empty(), "seed {seed}, {config:?}: {report:?}");
        model.check_all(&log, &mut rng).await;
        let all = Retention { sealed_bytes: Some(0), ..Retention::default() };
        let start = log.retain(all).await.unwrap().start;
        let got = poll(&log, From::First, 1, 1).await.unwrap();
        assert_eq!(got.batches()[0].first_offset(), start, "seed {seed}, {config:?}");
        log.close().await.unwrap();
    });
}

#[test]
fn every_configuration_that_is_allowed_works() {
    let (mut allowed, mut refused) = (0, 0);
    for seed in 0..150 {
        let config = draw(&mut Rng::new(seed));
        if config.validate().is_ok() {
            works(&config, seed);
            allowed += 1;
            continue;
        }
        refused += 1;
        let sim = Sim::new(seed);
        sim.run(async {
            assert!(try_open(sim.platform(), config.clone()).await.is_err(), "{config:?}");
        });
        assert!(sim.disk().files().is_empty(), "refused before a file was made: {config:?}");
    }
    assert!(allowed > 20 && refused > 20, "{allowed} allowed, {refused} refused");
}

/// A segment takes a batch whole, however long: it is sealed when it has reached its size.
#[test]
fn batches_of_a_segments_length_and_longer() {
    for preallocate_segments in [false, true] {
        for len in [SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT + 5] {
            let sim = Sim::new(len as u64);
            let config = LogConfig { preallocate_segments, ..small_segments() };
            let mut model = Model::default();
            sim.run(async {
                let log = open(sim.platform(), config.clone()).await;
                for tag in 0..6 {
                    let bytes = batch(tag, &[len - HEADERS]);
                    assert_eq!(bytes.len(), len);
                    let appended = append_wait(&log, &bytes, Ack::Durable).await;
                    model.push(bytes, appended);
                }
                model.check_all(&log, &mut Rng::new(1)).await;
            });
            // One that leaves a byte free takes one more batch.
            let step = if len < SEGMENT { 2 } else { 1 };
            let expected: Vec<u64> = (0..6).step_by(step).collect();
            let what = format!("{len} bytes, preallocated: {preallocate_segments}");
            assert_eq!(logs(&sim)[..expected.len()], expected, "{what}");
            let sealed = sim.disk().contents(log_file(0)).unwrap().len();
            assert_eq!(sealed, len * step, "{what}");
            sim.disk().power_cut(len as u64);
            sim.run(async {
                let (log, report) = try_open(sim.platform(), config.clone()).await.unwrap();
                assert!(report.damage.is_empty(), "{what}: {report:?}");
                model.check_all(&log, &mut Rng::new(2)).await;
                // Sealed bytes are those of the batches, whatever was reserved.
                let budget = Some((len * step) as u64);
                let rule = Retention { sealed_bytes: budget, ..Retention::default() };
                log.retain(rule).await.unwrap();
                let sealed: u64 = log.sealed_segments().await.iter().filter_map(|s| s.bytes).sum();
                assert_eq!(Some(sealed), budget, "{what}");
                assert_eq!(append_wait(&log, &batch(9, &[1]), Ack::Durable).await.base_offset, 6);
                log.close().await.unwrap();
            });
        }
    }
}
