//! An index is a hint: whatever is wrong with it, every batch is found.

mod common;

use std::path::PathBuf;
use std::time::Duration;

use common::*;
use corelog_format::{BatchBuilder, BatchHeader, IndexEntry, Message};
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp};
use corelog_storage::{Ack, From, LogConfig, PollError, SharedLimits};

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

#[test]
fn a_sealed_index_that_is_of_no_use_is_made_again_in_memory_and_on_the_disk() {
    let config = LogConfig { index_step: 4096, ..small_segments() };
    let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
    for (what, harm) in HARMS {
        let harmless = ["zero tail", "ahead of the log", "times of other batches"];
        for writable in [true, false] {
            let sim = Sim::new(5);
            let model = sim.run(filled(sim.platform(), config.clone(), &[7_000; 200]));
            let honest = sim.disk().contents(index_file(0)).unwrap();
            harm(&sim, index_file(0));
            let harmed = sim.disk().contents(index_file(0)).ok();
            sim.run(async {
                let opened = open_limited(sim.platform(), config.clone(), limits.clone()).await;
                let (log, _) = opened.unwrap();
                if !writable {
                    let full = Fault::fail(errno::ENOSPC).of(IoOp::Write).on(".index");
                    sim.disk().inject(full.for_ever());
                }
                for offset in [120, 60] {
                    poll(&log, From::Offset(offset), 1, 1).await.unwrap();
                }
                sim.clock().sleep(Duration::from_millis(500)).await;
                let before = log.stats().disk_read_bytes;
                let got = poll(&log, From::Offset(110), 1, 1).await.unwrap();
                assert_eq!(got.next, 111);
                let read = log.stats().disk_read_bytes - before;
                assert!(read < 60_000, "{what}: {read} bytes read for one batch");
                assert!(log.fault().is_none());
                model.check_all(&log, &mut Rng::new(1)).await;
                log.close().await.unwrap();
            });
            let now = sim.disk().contents(index_file(0)).ok();
            match harmless.contains(what) {
                true => assert_eq!(now, harmed, "{what}: nobody was misled"),
                false if writable => assert_eq!(now, Some(honest), "{what}"),
                false => assert_ne!(now, Some(honest), "{what}: no space, no fault"),
            }
        }
    }
}

/// An entry that names a place inside of a payload where something like a batch stands: the bytes
/// there were verified with the batch that they belong to, and are no batch for all that.
#[test]
fn an_entry_into_a_payload_is_checked_although_its_bytes_were() {
    let config = LogConfig { index_step: 4096, ..small_segments() };
    let sim = Sim::new(9);
    // Whole but for its checksums, and with the offset of the batch behind it.
    let wanted = 8;
    let forged = [
        &BatchHeader {
            partition_id: u64::from(PARTITION),
            base_offset: wanted,
            base_timestamp: 1_700_000_000_000_000,
            origin_timestamp: 1,
            batch_length: 256 + 48,
            batch_checksum: 1,
            message_count: 1,
        }
        .encode()[..],
        &[0; 48],
    ]
    .concat();
    let mut payload = vec![0; 9_000];
    payload[1_000..][..forged.len()].copy_from_slice(&forged);
    sim.run(async {
        let log = open(sim.platform(), config.clone()).await;
        for tag in 0..160 {
            let mut builder = BatchBuilder::new();
            builder.push(Message::new(&payload).id(1 + tag)).unwrap();
            append_wait(&log, &builder.finish().unwrap().into(), Ack::Written).await;
        }
        log.close().await.unwrap();
    });
    let bytes = sim.disk().contents(index_file(0)).unwrap();
    let mut entries: Vec<IndexEntry> =
        bytes.chunks_exact(24).map(|raw| IndexEntry::decode(raw.try_into().unwrap())).collect();
    let place = entries.iter().position(|entry| entry.base_offset == wanted).unwrap();
    entries[place].position = entries[place - 1].position + 256 + 48 + 1_000;
    let bytes: Vec<u8> = entries.iter().flat_map(IndexEntry::encode).collect();
    sim.disk().put(index_file(0), &bytes).unwrap();
    sim.run(async {
        let log = open(sim.platform(), config.clone()).await;
        assert!(logs(&sim).len() > 1, "the first one is sealed");
        let around = poll(&log, From::Offset(0), 20, 1 << 20).await.unwrap();
        assert_eq!(around.messages, 20, "all of it is verified and kept");
        let got = poll(&log, From::Offset(wanted), 1, 1).await.unwrap();
        assert_eq!(got.batches()[0].first_offset(), wanted);
        assert_eq!(got.bytes.len(), 256 + 48 + payload.len());
        log.close().await.unwrap();
    });
}

#[test]
fn damage_in_a_sealed_segment_keeps_the_index_that_knows_the_way_past_it() {
    let config = LogConfig { index_step: 4096, ..small_segments() };
    let sim = Sim::new(6);
    sim.run(filled(sim.platform(), config.clone(), &[7_000; 200]));
    let index = sim.disk().contents(index_file(0)).unwrap();
    sim.disk().flip_bit(log_file(0), 50 * 7_304 + 300, 1).unwrap();
    // A lie before the damage, so that there is a reason to make it again.
    let entry = IndexEntry::decode(index[24 * 20..24 * 21].try_into().unwrap());
    let lie = IndexEntry { position: entry.position + 1, ..entry };
    sim.disk().overwrite(index_file(0), 24 * 20, &lie.encode()).unwrap();
    let harmed = sim.disk().contents(index_file(0)).unwrap();
    sim.run(async {
        let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
        let (log, _) = open_limited(sim.platform(), config, limits).await.unwrap();
        poll(&log, From::Offset(entry.base_offset), 1, 1).await.unwrap();
        sim.clock().sleep(Duration::from_millis(500)).await;
        let error = poll(&log, From::Offset(50), 1, 1).await.unwrap_err();
        let PollError::Corrupt { resume_offset, .. } = error else { panic!("{error}") };
        assert_eq!(resume_offset, Some(51));
        log.close().await.unwrap();
    });
    assert_eq!(sim.disk().contents(index_file(0)).unwrap(), harmed);
}
