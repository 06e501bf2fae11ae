//! Index files and the manifest, taken away, put back from an earlier day, swapped or harmed at
//! random: the log stays what its batches say, and what is made again is what was written live.

mod common;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use common::*;
use corelog_format::{BatchHeader, Expect, IndexEntry, Step, scan};
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp};
use corelog_storage::{Ack, From, LogConfig, MANIFEST_FILE, OpenDamage, PollError, SharedLimits};

/// Small steps and segments, and no cache: every lookup goes through the files.
fn config() -> LogConfig {
    LogConfig { index_step: 4096, ..small_segments() }
}

async fn open_cold(sim: &Sim) -> Log {
    let limits = SharedLimits { cache_bytes: 0, read_ahead_bytes: 0, ..SharedLimits::default() };
    open_limited(sim.platform(), config(), limits).await.expect("it opens").0
}

/// Files whose name has this ending.
fn contents(sim: &Sim, ending: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = sim.disk().files().into_iter().filter(|path| name(path).ends_with(ending));
    files.map(|path| (path.clone(), sim.disk().contents(path).unwrap())).collect()
}

/// Every index says the truth about its log: entries go up, each names a batch that begins there,
/// and the steps between them are what they should be.
fn check_indexes(sim: &Sim, config: &LogConfig) {
    for (path, bytes) in contents(sim, ".log") {
        let mut expected = Vec::new();
        let mut due = 0;
        for step in scan(&bytes, 0, Expect::default()) {
            let Step::Batch { at, batch, .. } = step else { break };
            if at >= due {
                let BatchHeader { base_offset, base_timestamp, .. } = *batch.header();
                expected.push(IndexEntry { base_offset, base_timestamp, position: at });
                due = (at / config.index_step + 1) * config.index_step;
            }
        }
        let index = sim.disk().contents(path.with_extension("index")).unwrap_or_default();
        let found: Vec<IndexEntry> =
            index.chunks_exact(24).map(|raw| IndexEntry::decode(raw.try_into().unwrap())).collect();
        assert_eq!(index.len() % 24, 0, "{}", path.display());
        assert_eq!(found, expected, "{}", path.display());
    }
}

/// Every offset and every time is found, and everything reads back.
async fn check_lookups(log: &Log, model: &Model, rng: &mut Rng) {
    for (_, appended) in &model.batches {
        if rng.chance(1, 4) {
            let offset = appended.base_offset;
            let got = poll(log, From::Offset(offset), 1, 1).await.unwrap();
            assert_eq!(got.batches()[0].first_offset(), offset);
            let got = poll(log, From::Timestamp(appended.base_timestamp), 1, 1).await.unwrap();
            assert_eq!(got.batches()[0].first_offset(), offset);
        }
    }
    model.check_all(log, rng).await;
}

#[test]
fn without_any_of_them_the_log_is_found_by_its_batches() {
    let sim = Sim::new(1);
    let model = sim.run(filled(sim.platform(), config(), &[7_000; 400]));
    check_indexes(&sim, &config());
    let honest = contents(&sim, ".index");
    assert!(honest.len() >= 3);
    honest.keys().for_each(|path| sim.disk().delete(path).unwrap());
    sim.disk().delete(place().dir.join(MANIFEST_FILE)).unwrap();
    sim.run(async {
        let log = open_cold(&sim).await;
        assert_eq!(log.watermarks().appended(), model.end());
        // Here and there, so that buffers are used again while indexes are made.
        let mut rng = Rng::new(1);
        for _ in 0..100 {
            let offset = rng.below(400);
            let got = poll(&log, From::Offset(offset), 3, 1 << 20).await.unwrap();
            for served in got.batches() {
                let (bytes, appended) = &model.batches[served.first_offset() as usize];
                assert_same(&served, bytes, *appended);
            }
            sim.clock().sleep(Duration::from_millis(rng.below(20))).await;
        }
        check_lookups(&log, &model, &mut rng).await;
        log.close().await.unwrap();
    });
    check_indexes(&sim, &config());
    assert!(contents(&sim, ".index") == honest, "made again, byte for byte");
}

/// The files of a backup, or of a file system that went back: older than the log by appends and by a
/// trim that took the segment which they speak of.
#[test]
fn those_of_an_earlier_day_cost_no_batch_and_no_offset() {
    for (old_index, old_manifest) in [(true, false), (false, true), (true, true)] {
        for killed in [false, true] {
            let what = format!("index {old_index}, manifest {old_manifest}, killed {killed}");
            let sim = Sim::new(2);
            sim.run(filled(sim.platform(), config(), &[7_000; 100]));
            let old: Vec<_> = contents(&sim, ".index")
                .into_iter()
                .filter(|_| old_index)
                .chain(contents(&sim, "manifest").into_iter().filter(|_| old_manifest))
                .collect();
            assert!(!old.is_empty());
            let mut model = sim.run(async {
                let log = open(sim.platform(), config()).await;
                let mut model = Model::default();
                for tag in 0..400 {
                    let bytes = batch(tag, &[7_000]);
                    model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
                }
                let start = log.trim(logs(&sim)[2]).await.unwrap().start;
                assert!(start > 100, "what the old files speak of is gone");
                model.batches.retain(|(_, appended)| appended.base_offset >= start);
                if !killed {
                    log.close().await.unwrap();
                }
                model
            });
            sim.disk().process_kill(2);
            for (path, bytes) in &old {
                sim.disk().put(path, bytes).unwrap();
            }
            for round in 0..3 {
                sim.run(async {
                    let (log, report) = try_open(sim.platform(), config()).await.unwrap();
                    let named = |d: &OpenDamage| matches!(d, OpenDamage::MissingSegment { .. });
                    let said = report.damage.iter().all(named);
                    assert!(said, "{what}, round {round}: {:?}", report.damage);
                    assert_eq!(report.damage.is_empty(), !old_manifest || round > 0, "{what}");
                    let first = model.batches[0].1.base_offset;
                    assert_eq!(log.watermarks().appended(), model.end(), "{what}, round {round}");
                    let got = poll(&log, From::First, 1, 1).await;
                    match got {
                        Ok(got) => assert_eq!(got.batches()[0].first_offset(), first, "{what}"),
                        Err(PollError::Corrupt { resume_offset, .. }) => {
                            assert!(old_manifest, "{what}");
                            assert_eq!(resume_offset, Some(first), "{what}");
                        }
                        Err(error) => panic!("{what}: {error}"),
                    }
                    let bytes = batch(round, &[30]);
                    model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
                    check_lookups(&log, &model, &mut Rng::new(round)).await;
                    if round == 1 {
                        log.close().await.unwrap();
                    }
                });
                sim.disk().process_kill(round);
            }
        }
    }
}

#[test]
fn an_index_of_another_segment_or_partition_is_not_used() {
    let sim = Sim::new(3);
    let model = sim.run(filled(sim.platform(), config(), &[7_000; 400]));
    let indexes = contents(&sim, ".index");
    let paths: Vec<_> = indexes.keys().cloned().collect();
    let other = Sim::new(4);
    other.run(filled(other.platform(), config(), &[5_000; 400]));
    let foreign = other.disk().contents(index_file(0)).unwrap();
    for round in 0..3 {
        for (i, path) in paths.iter().enumerate() {
            let bytes = match round {
                0 => &indexes[&paths[(i + 1) % paths.len()]],
                1 => &indexes[&paths[0]],
                _ => &foreign,
            };
            sim.disk().put(path, bytes).unwrap();
        }
        sim.run(async {
            let log = open_cold(&sim).await;
            assert_eq!(log.watermarks().appended(), model.end());
            check_lookups(&log, &model, &mut Rng::new(round)).await;
            sim.clock().sleep(Duration::from_secs(1)).await;
            log.close().await.unwrap();
        });
        check_indexes(&sim, &config());
    }
}

#[test]
fn an_index_that_cannot_be_opened_or_read_changes_no_answer() {
    for (code, op) in [
        (errno::EMFILE, IoOp::Open),
        (errno::EIO, IoOp::Open),
        (errno::EACCES, IoOp::Open),
        (errno::EIO, IoOp::Read),
    ] {
        let sim = Sim::new(5);
        let model = sim.run(filled(sim.platform(), config(), &[7_000; 400]));
        let honest = contents(&sim, ".index");
        let fault = Fault::fail(code).of(op).on(".index").for_ever();
        let fault = sim.disk().inject(fault);
        sim.run(async {
            let log = open_cold(&sim).await;
            let mut rng = Rng::new(1);
            for _ in 0..20 {
                let offset = rng.below(400);
                let got = poll(&log, From::Offset(offset), 1, 1).await.unwrap();
                let (bytes, appended) = &model.batches[offset as usize];
                assert_same(&got.batches()[0], bytes, *appended);
                let time = From::Timestamp(appended.base_timestamp);
                assert_eq!(poll(&log, time, 1, 1).await.unwrap().bytes, got.bytes);
            }
            assert!(sim.disk().hits(fault) > 0);
            log.close().await.unwrap();
            sim.disk().lift(fault);
            let log = open_cold(&sim).await;
            check_lookups(&log, &model, &mut rng).await;
            log.close().await.unwrap();
        });
        assert!(contents(&sim, ".index") == honest, "{code} at {op:?}");
    }
}

#[test]
fn an_append_after_each_opening_adds_one_entry_at_most() {
    let sim = Sim::new(6);
    let mut model = Model::default();
    for round in 0..40 {
        sim.run(async {
            let log = open(sim.platform(), config()).await;
            let bytes = batch(round, &[3_000 + 100 * round as usize]);
            model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Written).await);
            if round % 3 > 0 {
                log.close().await.unwrap();
            }
        });
        if round % 3 > 0 {
            check_indexes(&sim, &config());
        } else {
            sim.disk().process_kill(round);
        }
    }
    sim.run(async { check_lookups(&open_cold(&sim).await, &model, &mut Rng::new(6)).await });
}

/// Zeros behind the entries of a sealed segment's index: retention sees the times of the batches.
#[test]
fn zeros_in_an_index_make_no_segment_old() {
    let sim = Sim::new(7);
    let model = sim.run(filled(sim.platform(), config(), &[7_000; 400]));
    let honest = sim.run(async {
        let log = open(sim.platform(), config()).await;
        let honest = log.sealed_segments().await;
        log.close().await.unwrap();
        honest
    });
    assert!(honest.len() >= 2);
    let index = sim.disk().contents(index_file(0)).unwrap();
    for entries in [1, 2, 170, 171, 1_000] {
        for keep in [0, 24, index.len()] {
            let mut bytes = index[..keep].to_vec();
            bytes.resize(keep + entries * 24, 0);
            sim.disk().put(index_file(0), &bytes).unwrap();
            sim.run(async {
                let log = open(sim.platform(), config()).await;
                let told = log.sealed_segments().await;
                assert_eq!(told, honest, "{entries} zeros behind {keep}");
                let last = model.batches[honest[0].end_offset as usize - 1].1.base_timestamp;
                assert_eq!(told[0].last_timestamp, last);
                let got = poll(&log, From::Timestamp(last), 1, 1).await.unwrap();
                assert_eq!(got.next, honest[0].end_offset);
                log.close().await.unwrap();
            });
        }
    }
}

#[test]
fn what_is_made_again_is_what_was_written_live() {
    let sim = Sim::new(8);
    let mut sizes = Rng::new(8);
    let sizes: Vec<usize> = (0..500).map(|_| sizes.below(12_000) as usize).collect();
    let model = sim.run(filled(sim.platform(), config(), &sizes));
    check_indexes(&sim, &config());
    let honest = contents(&sim, ".index");
    let image = sim.disk().image_of_power_cut(1);
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let sim = Sim::from_image(seed, &image);
        for (path, bytes) in &honest {
            let len = bytes.len() as u64;
            match rng.below(6) {
                0 => sim.disk().delete(path).unwrap(),
                1 => sim.disk().truncate(path, rng.below(len)).unwrap(),
                2 => sim.disk().truncate(path, 0).unwrap(),
                3 => {
                    let at = rng.below(len);
                    sim.disk().zero(path, at..len.min(at + rng.between(1, 100))).unwrap();
                }
                4 => {
                    for _ in 0..rng.between(1, 8) {
                        sim.disk().flip_bit(path, rng.below(len), rng.below(8) as u8).unwrap();
                    }
                }
                _ => {}
            }
        }
        sim.run(async {
            let log = open_cold(&sim).await;
            check_lookups(&log, &model, &mut rng).await;
            // Every entry is asked for, so whatever misleads is found.
            for (_, appended) in &model.batches {
                poll(&log, From::Offset(appended.base_offset), 1, 1).await.unwrap();
            }
            sim.clock().sleep(Duration::from_secs(1)).await;
            check_lookups(&log, &model, &mut rng).await;
            log.close().await.unwrap();
        });
        // A lie in the active one costs a read, and is taken off when the segment is sealed.
        for (path, bytes) in honest.iter().take(honest.len() - 1) {
            let now = sim.disk().contents(path).unwrap_or_default();
            let entries = |bytes: &[u8]| {
                let whole = bytes.chunks_exact(24);
                let decode = |raw: &[u8]| IndexEntry::decode(raw.try_into().unwrap());
                whole.map(decode).map(|e| (e.base_offset, e.position)).collect::<Vec<_>>()
            };
            // A wrong time alone misleads nobody, and neither does an end that is missing for less
            // than two steps, whatever stands there instead.
            let (now, honest) = (entries(&now), entries(bytes));
            let told = now.iter().take(honest.len() - 2);
            let wrong = told.filter(|entry| !honest.contains(entry)).count();
            assert_eq!(wrong, 0, "seed {seed}: {}", path.display());
        }
    }
}

/// The log ends somewhere before its index: nothing of the index above the end is left, and every
/// lookup finds what a walk finds.
#[test]
fn a_log_that_ends_before_its_index_takes_the_index_with_it() {
    for has_manifest in [true, false] {
        let sim = Sim::new(9);
        let config = LogConfig { index_step: 4096, ..LogConfig::default() };
        let sizes = [500; 60];
        let model = sim.run(async {
            let log = open(sim.platform(), config.clone()).await;
            let mut model = Model::default();
            let lag = Fault::fail(errno::ENOSPC).of(IoOp::Open).on(MANIFEST_FILE).for_ever();
            let lag = sim.disk().inject(lag);
            for (tag, len) in sizes.iter().enumerate() {
                let bytes = batch(tag as u64, &[*len]);
                model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
            }
            let _ = log.close().await;
            sim.disk().lift(lag);
            model
        });
        let (starts, index) = (starts(&model), sim.disk().contents(index_file(0)).unwrap());
        assert!(index.len() > 24 * 8, "the index is stored: {} bytes", index.len());
        let image = sim.disk().image_of_power_cut(1);
        let middles = starts.windows(2).map(|pair| pair[0] + (pair[1] - pair[0]) / 2);
        for cut in starts.iter().copied().chain(middles) {
            let sim = Sim::from_image(cut, &image);
            if !has_manifest {
                sim.disk().delete(place().dir.join(MANIFEST_FILE)).unwrap();
            }
            sim.disk().truncate(log_file(0), cut).unwrap();
            let whole = starts[1..].iter().filter(|end| **end <= cut).count();
            let mut left = Model { batches: model.batches[..whole].to_vec() };
            for round in 0..2 {
                sim.run(async {
                    let (log, report) = try_open(sim.platform(), config.clone()).await.unwrap();
                    assert_eq!(report.damage, [], "cut at {cut}, manifest {has_manifest}");
                    assert_eq!(log.watermarks().appended(), left.end(), "cut at {cut}");
                    let bytes = batch(900 + round, &[900]);
                    left.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
                    check_lookups(&log, &left, &mut Rng::new(cut)).await;
                    log.close().await.unwrap();
                });
                check_indexes(&sim, &config);
            }
        }
    }
}
