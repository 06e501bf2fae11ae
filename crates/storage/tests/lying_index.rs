//! An index is a hint: whatever is wrong with it, every batch is found.

mod common;

use std::path::PathBuf;

use common::*;
use corelog_format::IndexEntry;
use corelog_io::sim::{Rng, Sim};
use corelog_storage::{From, LogConfig, SharedLimits};

type Harm = fn(&Sim, PathBuf);

/// What may be wrong with an index file. Same-shaped rows, nothing calls its neighbour.
const HARMS: &[(&str, Harm)] = &[
    ("missing", |sim, index| sim.disk().delete(index).unwrap()),
    ("empty", |sim, index| sim.disk().truncate(index, 0).unwrap()),
    ("zeros", |sim, index| sim.disk().zero(index, 0..240).unwrap()),
    ("zero tail", |sim, index| {
        let mut bytes = sim.disk().contents(&index).unwrap();
        bytes.extend([0; 4096]);
        sim.disk().put(index, &bytes).unwrap();
    }),
    ("torn", |sim, index| sim.disk().truncate(index, 100).unwrap()),
    ("ahead of the log", |sim, index| {
        let entry =
            IndexEntry { base_offset: 1 << 40, base_timestamp: u64::MAX, position: 1 << 40 };
        let mut bytes = sim.disk().contents(&index).unwrap();
        bytes.extend(entry.encode());
        sim.disk().put(index, &bytes).unwrap();
    }),
    ("positions off by one", |sim, index| {
        let bytes = sim.disk().contents(&index).unwrap();
        for (i, raw) in bytes.chunks_exact(24).enumerate().skip(1) {
            let entry = IndexEntry::decode(raw.try_into().unwrap());
            let entry = IndexEntry { position: entry.position + 1, ..entry };
            sim.disk().overwrite(&index, i as u64 * 24, &entry.encode()).unwrap();
        }
    }),
    ("times of other batches", |sim, index| {
        let bytes = sim.disk().contents(&index).unwrap();
        for (i, raw) in bytes.chunks_exact(24).enumerate().skip(1) {
            let entry = IndexEntry::decode(raw.try_into().unwrap());
            let entry = IndexEntry { base_timestamp: 1, ..entry };
            sim.disk().overwrite(&index, i as u64 * 24, &entry.encode()).unwrap();
        }
    }),
    ("offsets of other batches", |sim, index| {
        let bytes = sim.disk().contents(&index).unwrap();
        for (i, raw) in bytes.chunks_exact(24).enumerate().skip(1) {
            let entry = IndexEntry::decode(raw.try_into().unwrap());
            let entry = IndexEntry { base_offset: entry.base_offset - 1, ..entry };
            sim.disk().overwrite(&index, i as u64 * 24, &entry.encode()).unwrap();
        }
    }),
];

#[test]
fn an_index_is_never_believed() {
    let sizes = [700; 200];
    let config = LogConfig { index_step: 4096, ..LogConfig::default() };
    for (seed, (what, harm)) in HARMS.iter().enumerate() {
        for how in ["closed", "killed", "sealed"] {
            let sim = Sim::new(seed as u64);
            let mut config = config.clone();
            let sizes = if how == "sealed" { [7_000; 200] } else { sizes };
            let model = match how {
                "killed" => {
                    let model = filled_and_killed(&sim, config.clone(), &sizes);
                    // A killed life may have stored no index yet: the harm needs one.
                    sim.run(async {
                        open(sim.platform(), config.clone()).await.close().await.unwrap();
                    });
                    model
                }
                _ => {
                    config.segment_bytes = 1 << 20;
                    sim.run(filled(sim.platform(), config.clone(), &sizes))
                }
            };
            assert_eq!(logs(&sim).len() > 1, how == "sealed");
            harm(&sim, index_file(0));
            sim.run(check_lookups(&sim, config, &model, what));
        }
    }
}

async fn check_lookups(sim: &Sim, config: LogConfig, model: &Model, what: &str) {
    let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
    let (log, report) = open_limited(sim.platform(), config, limits).await.unwrap();
    assert_eq!(report.damage, [], "{what}");
    for offset in [0, 1, 57, 123, 199] {
        let got = poll(&log, From::Offset(offset), 1, 1).await.unwrap();
        assert_eq!(got.batches()[0].first_offset(), offset, "{what}");
        let time = model.batches[offset as usize].1.base_timestamp;
        let got = poll(&log, From::Timestamp(time), 1, 1).await.unwrap();
        assert_eq!(got.batches()[0].first_offset(), offset, "{what}");
    }
    model.check_all(&log, &mut Rng::new(3)).await;
    log.close().await.unwrap();
}
