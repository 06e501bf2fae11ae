//! Opening: what a lying index, an empty last segment or an odd foreign file must not change.

mod common;

use bytes::Bytes;
use common::*;
use corelog_format::{BatchBuilder, IndexEntry, Message};
use corelog_io::IoOp;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_storage::{Ack, From, LogConfig, OpenDamage, OpenError, SharedLimits};

/// A batch as a server stored it.
fn stored(offset: u64, time: u64, tag: u64) -> Bytes {
    as_stored(&batch(tag, &[100]), PARTITION, offset, time)
}

#[test]
fn an_index_entry_at_the_very_end_of_the_log_does_not_move_its_end() {
    for lie in [0, 2, 1 << 40] {
        let sim = Sim::new(lie);
        let mut model = sim.run(filled(sim.platform(), LogConfig::default(), &[700; 10]));
        let position = sim.disk().contents(log_file(0)).unwrap().len() as u64;
        let entry = IndexEntry { base_offset: lie, base_timestamp: u64::MAX, position };
        let mut index = sim.disk().contents(index_file(0)).unwrap();
        index.truncate(24 * usize::from(lie > 0));
        index.extend(entry.encode());
        sim.disk().put(index_file(0), &index).unwrap();
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert_eq!(report.damage, []);
            assert_eq!(log.watermarks().appended(), model.end(), "the index said {lie}");
            let bytes = batch(77, &[10]);
            model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
            model.check_all(&log, &mut Rng::new(lie)).await;
        });
    }
}

#[test]
fn an_entry_of_a_batch_that_was_lost_costs_no_memory_of_time() {
    // The index may be stored before the batch that its last entry names is durable.
    let sim = Sim::new(4);
    let model = sim.run(filled(sim.platform(), LogConfig::default(), &[700; 10]));
    let position = sim.disk().contents(log_file(0)).unwrap().len() as u64;
    let entry = IndexEntry { base_offset: model.end(), base_timestamp: u64::MAX, position };
    let mut index = sim.disk().contents(index_file(0)).unwrap();
    index.extend(entry.encode());
    sim.disk().put(index_file(0), &index).unwrap();
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        let time = model.batches[4].1.base_timestamp;
        assert_eq!(poll(&log, From::Timestamp(time), 1, 1).await.unwrap().next, 5);
    });
}

#[test]
fn time_goes_on_behind_an_empty_last_segment() {
    let sim = Sim::new(5);
    sim.run(async {
        // A roll whose next segment stays empty: the disk is full.
        let log = open(sim.platform(), small_segments()).await;
        let first = append_wait(&log, &batch(1, &[100]), Ack::Written).await;
        let last = append_wait(&log, &batch(2, &[1 << 20]), Ack::Written).await;
        sim.disk().set_capacity(sim.disk().used() + 8192);
        let refused = append(&log, &batch(3, &[100_000]), Ack::Appended);
        log.flush(Ack::Written).await.unwrap();
        assert!(refused.get().unwrap().is_err());
        assert_eq!(log.stats().segments, 2);
        log.close().await.unwrap();
        sim.disk().set_capacity(u64::MAX);
        // Opened twice: the first open must not forget it for the second.
        for _ in 0..2 {
            let log = open(sim.platform(), small_segments()).await;
            for appended in [first, last] {
                let time = From::Timestamp(appended.base_timestamp);
                let got = poll(&log, time, 1, 1).await.unwrap();
                assert_eq!(got.next, appended.base_offset + 1, "found by its time");
            }
            log.close().await.unwrap();
        }
        // The clock of this machine is behind by a year, and its record is lost.
        sim.clock().step(-31_536_000_000_000);
        let log = open(sim.platform(), small_segments()).await;
        let appended = append_wait(&log, &batch(4, &[10]), Ack::Written).await;
        assert!(appended.base_timestamp > last.base_timestamp, "time never goes back");
    });
}

#[test]
fn time_goes_on_behind_damage_in_the_last_batches() {
    let sim = Sim::new(6);
    let model = sim.run(filled(sim.platform(), LogConfig::default(), &[700; 10]));
    sim.disk().flip_bit(log_file(0), 400, 1).unwrap();
    sim.run(async {
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert!(matches!(report.damage[..], [OpenDamage::Corrupt { position: 0, .. }]));
        sim.clock().step(-31_536_000_000_000);
        let appended = append_wait(&log, &batch(4, &[10]), Ack::Written).await;
        assert!(appended.base_timestamp > model.batches[9].1.base_timestamp);
    });
}

#[test]
fn a_foreign_log_with_a_damaged_length_in_its_middle_is_not_cut() {
    // Without a mark only an incomplete LAST batch may be cut. A length that points beyond the end
    // of the file looks like one, but whole batches stand behind it.
    let batches: Vec<Bytes> = (0..5).map(|i| stored(i, 5_000 + i, i)).collect();
    let bytes = batches.concat();
    let sim = Sim::new(7);
    sim.disk().put(log_file(0), &bytes).unwrap();
    let length_field = batches[0].len() as u64 + 32;
    sim.disk().flip_bit(log_file(0), length_field + 2, 4).unwrap();
    sim.run(async {
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert!(matches!(report.damage[..], [OpenDamage::Corrupt { segment: 0, .. }]));
        assert_eq!((report.cut_bytes, report.quarantined.len()), (0, 0));
        let appended = append_wait(&log, &batch(9, &[5]), Ack::Durable).await;
        assert_eq!(appended.base_offset, 5, "behind everything that verifies");
    });
    assert_eq!(sim.disk().contents(log_file(0)).unwrap().len(), bytes.len());
}

#[test]
fn the_highest_time_there_is_panics_nowhere() {
    let sim = Sim::new(8);
    sim.disk().put(log_file(0), &stored(0, u64::MAX, 1)).unwrap();
    sim.run(async { open(sim.platform(), LogConfig::default()).await.close().await.unwrap() });
    // Something else went on writing the file that we had taken over.
    let mut bytes = sim.disk().contents(log_file(0)).unwrap();
    let kept = bytes.len();
    bytes.extend_from_slice(&stored(1, 5_000, 2));
    sim.disk().put(log_file(0), &bytes).unwrap();
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        assert_eq!(log.watermarks().appended(), 1, "time went back above the mark");
    });
    assert_eq!(sim.disk().contents(log_file(0)).unwrap().len(), kept);
}

/// A producer's batch of one message.
fn carrying(payload: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new();
    builder.push(Message::new(payload).id(1)).unwrap();
    builder.finish().unwrap().into()
}

#[test]
fn a_payload_that_looks_like_stored_batches_is_neither_served_nor_holds_up_appends() {
    // The producer knows the partition and guesses the offset; its batch's header is damaged later.
    for (offset, time) in [(2, u64::MAX), (2, 1), (u64::MAX - 1, u64::MAX), (1 << 40, 5)] {
        let sim = Sim::new(9);
        let outer = sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            append_wait(&log, &batch(1, &[10]), Ack::Written).await;
            let outer = carrying(&stored(offset, time, 7).repeat(3));
            append_wait(&log, &outer, Ack::Written).await;
            log.close().await.unwrap();
            outer
        });
        let len = sim.disk().contents(log_file(0)).unwrap().len();
        sim.disk().flip_bit(log_file(0), (len - outer.len()) as u64 + 17, 0).unwrap();
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert_eq!(report.damage.len(), 1);
            let end = log.watermarks().appended();
            assert!((2..=3).contains(&end), "the end moves by no more than the bytes could hold");
            let bytes = batch(8, &[10]);
            let appended = append_wait(&log, &bytes, Ack::Durable).await;
            assert_eq!(appended.base_offset, end);
            assert_eq!(poll(&log, From::First, 100, 1 << 20).await.unwrap().next, 1);
            assert!(poll(&log, From::Offset(1), 100, 1 << 20).await.is_err());
            let got = poll(&log, From::Offset(end), 100, 1 << 20).await.unwrap();
            assert_same(&got.batches()[0], &bytes, appended);
        });
    }
}

#[test]
fn options_outside_of_their_limits_are_refused_before_any_file_is_made() {
    let sim = Sim::new(10);
    sim.run(async {
        for config in [
            LogConfig { segment_bytes: 0, ..LogConfig::default() },
            LogConfig { index_step: 0, ..LogConfig::default() },
        ] {
            let opened = try_open(sim.platform(), config).await.map(|_| ());
            assert!(matches!(opened, Err(OpenError::Config(_))), "{opened:?}");
        }
    });
    assert_eq!(sim.disk().files(), [] as [std::path::PathBuf; 0]);
}

#[test]
fn an_index_that_could_not_be_read_once_is_read_the_next_time() {
    let sim = Sim::new(11);
    let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
    sim.run(async {
        filled(sim.platform(), small_segments(), &[5_000; 300]).await;
        let opened = open_limited(sim.platform(), small_segments(), limits).await;
        let (log, _) = opened.unwrap();
        let cost = async |offset: u64| {
            let before = log.stats().disk_read_bytes;
            let got = poll(&log, From::Offset(offset), 1, 1).await.unwrap();
            assert_eq!(got.next, offset + 1);
            log.stats().disk_read_bytes - before
        };
        sim.disk().inject(Fault::fail(errno::EACCES).of(IoOp::Open).on(".index"));
        assert!(cost(150).await > 500_000, "without an index: from the segment's start");
        let read = cost(170).await;
        assert!(read < 100_000, "{read} bytes read with an index");
    });
}

#[test]
fn blank_files_in_between_are_stepped_over_and_removed() {
    for reserved in [0, 9_000] {
        let sim = Sim::new(12);
        // Offsets 0..3 fill the first segment; the second begins at 3.
        // All of it above the mark, which never moves.
        let fault = Fault::lose_write().on("manifest").from_nth(2).for_ever();
        let fault = sim.disk().inject(fault);
        let model = filled_and_killed(&sim, small_segments(), &[500_000, 500_000, 100_000, 10, 20]);
        sim.disk().lift(fault);
        assert_eq!(logs(&sim), [0, 3]);
        for blank in [1, 2, 4, 7] {
            sim.disk().put(log_file(blank), &vec![0; reserved]).unwrap();
            sim.disk().put(index_file(blank), &[1; 24]).unwrap();
        }
        sim.run(async {
            let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
            assert_eq!((report.row, report.blank_removed), ("whole", 4));
            assert_eq!((report.cut_bytes, report.quarantined.len()), (0, 0));
            model.check_all(&log, &mut Rng::new(1)).await;
            assert_eq!(log.watermarks().appended(), 5);
        });
        assert_eq!(logs(&sim), [0, 3]);
        assert!(!sim.disk().exists(index_file(7)), "it would lie about a later file");
    }
}

#[test]
fn a_file_that_was_taken_away_does_not_come_back_although_the_mark_does_not_move() {
    for stray in [&[][..], &stored(9, 7, 1)] {
        let sim = Sim::new(13);
        sim.run(filled(sim.platform(), LogConfig::default(), &[10, 20]));
        sim.disk().put(log_file(9), stray).unwrap();
        let log = sim.run(open(sim.platform(), LogConfig::default()));
        for seed in 0..20 {
            let left = sim.disk().image_of_power_cut(seed).files();
            assert!(!left.contains(&log_file(9)), "seed {seed}: {left:?}");
            let aside = left.iter().filter(|path| path.starts_with(place().dir.join("quarantine")));
            assert_eq!(aside.count(), usize::from(!stray.is_empty()), "seed {seed}");
        }
        drop(log);
    }
}
