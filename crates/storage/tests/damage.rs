//! Torn tails, damage in the middle, lying indexes, foreign files: found, named, contained.

mod common;

use bytes::Bytes;
use common::*;
use corelog_format::BatchHeader;
use corelog_io::sim::{Rng, Sim};
use corelog_io::{Clock, IoOp};
use corelog_storage::{
    Ack, Appended, From, LogConfig, OpenDamage, OpenError, PollError, SharedLimits,
};

#[test]
fn every_cut_of_the_last_batches_is_a_torn_tail() {
    for cut in 0..=900 {
        let sim = Sim::new(cut);
        let model = filled_and_killed(&sim, LogConfig::default(), &[0, 100, 200]);
        let starts = starts(&model);
        sim.disk().truncate(log_file(0), cut).unwrap();
        let whole = starts[1..].iter().filter(|end| **end <= cut).count();
        survives_with(&sim, &model, whole, &format!("cut at {cut}"));
    }
}

#[test]
fn every_subset_of_lost_pages_and_sectors_is_a_torn_tail() {
    // The last batch spans four pages; any of its pages, or any one sector, may be missing.
    let sizes = [3_000, 4 * 4096 - 500];
    let probe = Sim::new(0);
    let model = filled_and_killed(&probe, LogConfig::default(), &sizes);
    let starts = starts(&model);
    let (from, to) = (starts[1], starts[2]);
    let pages: Vec<u64> = (from / 4096..=(to - 1) / 4096).collect();
    let mut cases: Vec<Vec<(u64, u64)>> = (1..1_u64 << pages.len())
        .map(|set| {
            let chosen = pages.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1);
            chosen.map(|(_, page)| (page * 4096, page * 4096 + 4096)).collect()
        })
        .collect();
    let sectors: Vec<u64> = (from / 512..=(to - 1) / 512).collect();
    cases.extend(sectors.iter().map(|s| vec![(s * 512, s * 512 + 512)]));
    // Of the sectors there are too many subsets: some hundred of them.
    let mut rng = Rng::new(1);
    cases.extend((0..300).map(|i| {
        let lost = sectors.iter().filter(|_| rng.chance(1 + i % 7, 8));
        lost.map(|s| (s * 512, s * 512 + 512)).collect()
    }));
    cases.retain(|case| !case.is_empty());
    for (seed, case) in cases.iter().enumerate() {
        let sim = Sim::new(seed as u64);
        let model = filled_and_killed(&sim, LogConfig::default(), &sizes);
        for (start, end) in case {
            // What stood before the batch in the same sector was written before: it stays.
            sim.disk().zero(log_file(0), (*start).max(from)..(*end).min(to)).unwrap();
        }
        survives_with(&sim, &model, 1, &format!("{case:?}"));
    }
}

#[test]
fn in_flight_writes_leave_the_longest_prefix_and_nothing_comes_back() {
    // Three batches of the same length behind a good one, each present, absent or half there: the
    // classic of a write queue. A later one must not be picked up behind a new batch of that length.
    for set in 0..27_u64 {
        let states = [set % 3, set / 3 % 3, set / 9];
        let sim = Sim::new(set);
        let model = filled_and_killed(&sim, LogConfig::default(), &[40, 100, 100, 100]);
        let starts = starts(&model);
        for (i, state) in states.iter().enumerate() {
            let (start, end) = (starts[i + 1], starts[i + 2]);
            match state {
                0 => sim.disk().zero(log_file(0), start..end).unwrap(),
                1 => sim.disk().zero(log_file(0), start + 200..end).unwrap(),
                _ => {}
            }
        }
        let present = states.iter().take_while(|state| **state == 2).count();
        survives_with(&sim, &model, 1 + present, &format!("present {states:?}"));
        let quarantined = sim.disk().files().iter().any(|p| p.to_str().unwrap().contains("quara"));
        let lost_whole = states[present..].contains(&2);
        assert_eq!(
            quarantined, lost_whole,
            "whole batches that are cut are kept aside: {states:?}"
        );
    }
}

#[test]
fn two_rounds_of_torn_tails() {
    let sim = Sim::new(5);
    let mut model = filled_and_killed(&sim, LogConfig::default(), &[10, 20]);
    for round in 0..3 {
        let end = *starts(&model).last().unwrap();
        // Longer than what is appended next, and shorter: nothing of it may stand behind either.
        let (len, left) = [(500, 300), (9_000, 8_000), (90_000, 5_000)][round as usize];
        let torn = batch(77 + round, &[len]);
        sim.disk().overwrite(log_file(0), end, &torn[..left]).unwrap();
        sim.run(async {
            let log = open(sim.platform(), LogConfig::default()).await;
            for tag in 0..2 {
                let bytes = batch(100 * round + tag, &[30]);
                let appended = append_wait(&log, &bytes, Ack::Durable).await;
                model.push(bytes, appended);
            }
            model.check_all(&log, &mut Rng::new(round)).await;
        });
        let file = sim.disk().contents(log_file(0)).unwrap();
        let end = *starts(&model).last().unwrap() as usize;
        assert!(file[end..].iter().all(|byte| *byte == 0), "nothing of the torn batch is left");
        sim.disk().process_kill(round);
    }
}

/// A poll of everything, stepping over damage: batches served and damages met.
async fn read_over(log: &Log) -> (Vec<u64>, Vec<(u64, u64)>) {
    let (mut next, mut offsets, mut damages) = (0, Vec::new(), Vec::new());
    while next < log.watermarks().appended() {
        match poll(log, From::Offset(next), u32::MAX, 1 << 20).await {
            Ok(got) => {
                offsets.extend(got.batches().iter().map(|b| b.header().base_offset));
                assert!(got.next > next);
                next = got.next;
            }
            Err(PollError::Corrupt { segment, position, resume_offset, .. }) => {
                damages.push((segment, position));
                match resume_offset {
                    Some(offset) => {
                        assert!(offset > next, "stepping over goes forward");
                        next = offset;
                    }
                    None => break,
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    (offsets, damages)
}

#[test]
fn damage_below_the_mark_is_named_contained_and_kept() {
    let sizes = [500; 40];
    for (victim, segment_config) in [(2, LogConfig::default()), (39, LogConfig::default())] {
        let sim = Sim::new(victim);
        let config = LogConfig { index_step: 4096, ..segment_config };
        let model = sim.run(filled(sim.platform(), config.clone(), &sizes));
        let starts = starts(&model);
        let before = sim.disk().contents(log_file(0)).unwrap();
        sim.disk().flip_bit(log_file(0), starts[victim as usize] + 300, 3).unwrap();
        sim.run(async {
            let (log, report) = try_open(sim.platform(), config.clone()).await.unwrap();
            let end = log.watermarks().appended();
            assert_eq!(end, 40, "the offsets of what is damaged are not used again");
            let bytes = batch(1000, &[10]);
            let appended = append_wait(&log, &bytes, Ack::Durable).await;
            assert_eq!(appended.base_offset, 40);
            let (offsets, damages) = read_over(&log).await;
            assert_eq!(damages, [(0, starts[victim as usize])]);
            assert!(!offsets.contains(&victim));
            assert!(offsets.contains(&0) && offsets.contains(&40));
            if victim == 2 {
                assert!(offsets.contains(&39), "what stands behind the damage is readable");
                assert!(log.stats().corrupt_reads > 0);
            } else {
                let [OpenDamage::Corrupt { segment: 0, position, .. }] = report.damage[..] else {
                    panic!("{:?}", report.damage);
                };
                assert_eq!(position, starts[39]);
            }
            log.close().await.unwrap();
        });
        let after = sim.disk().contents(log_file(0)).unwrap();
        assert_eq!(&after[..before.len()].len(), &before.len(), "nothing is cut");
        let differing = before.iter().zip(&after).filter(|(a, b)| a != b).count();
        assert_eq!(differing, 1, "nothing is written over");
        // Opening it again meets the same and says the same.
        sim.run(async {
            let log = open(sim.platform(), config).await;
            assert_eq!(log.watermarks().appended(), 41);
            let (_, damages) = read_over(&log).await;
            assert_eq!(damages, [(0, starts[victim as usize])]);
        });
    }
}

#[test]
fn a_sealed_segment_that_is_damaged_or_missing_leaves_the_rest_readable() {
    let sim = Sim::new(8);
    let model = sim.run(filled(sim.platform(), small_segments(), &[60_000; 80]));
    let sealed: Vec<u64> = logs(&sim);
    assert!(sealed.len() >= 4);
    sim.disk().flip_bit(log_file(sealed[1]), 5, 0).unwrap();
    sim.disk().delete(log_file(sealed[2])).unwrap();
    sim.run(async {
        let (log, _) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert_eq!(log.watermarks().appended(), model.end());
        let (offsets, damages) = read_over(&log).await;
        assert_eq!(damages[0], (sealed[1], 0));
        assert!(offsets.contains(&0) && offsets.contains(&(model.end() - 1)));
        assert!(offsets.iter().any(|o| (sealed[1]..sealed[2]).contains(o)), "behind the damage");
        assert!(!offsets.iter().any(|o| (sealed[2]..sealed[3]).contains(o)), "the missing file");
        let appended = append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
        assert_eq!(appended.base_offset, model.end());
    });
}

#[test]
fn files_removed_by_hand_are_named() {
    let sim = Sim::new(9);
    let model = sim.run(filled(sim.platform(), small_segments(), &[60_000; 80]));
    let segments = logs(&sim);
    sim.disk().delete(log_file(segments[0])).unwrap();
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        assert_eq!(log.watermarks().start(), 0, "the manifest says where the log begins");
        let (offsets, damages) = read_over(&log).await;
        assert_eq!((offsets[0], damages), (segments[1], vec![(segments[1], 0)]));
        log.close().await.unwrap();
    });
    // The newest: what the mark speaks of is missing, and is never given out again.
    sim.disk().delete(log_file(*segments.last().unwrap())).unwrap();
    sim.run(async {
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert!(matches!(report.damage[..], [OpenDamage::MissingSegment { .. }]));
        let appended = append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
        assert_eq!(appended.base_offset, model.end());
        let (offsets, _) = read_over(&log).await;
        assert!(offsets.contains(&model.end()) && offsets.contains(&segments[1]));
    });
}

#[test]
fn a_foreign_log_is_adopted_and_only_its_last_batch_may_be_cut() {
    let stored = |partition: u32, offset: u64, time: u64, tag: u64| -> Bytes {
        as_stored(&batch(tag, &[100]), partition, offset, time)
    };
    let put = |sim: &Sim, batches: &[Bytes], cut: usize| {
        let bytes = batches.concat();
        sim.disk().put(log_file(0), &bytes[..bytes.len() - cut]).unwrap();
    };
    // Time that went back is a finding in such files.
    let batches: Vec<Bytes> = (0..5).map(|i| stored(PARTITION, i, 5_000 - i * 10, i)).collect();
    for (cut, left) in [(0, 5), (1, 4), (300, 4)] {
        let sim = Sim::new(cut as u64);
        put(&sim, &batches, cut);
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert!(report.adopted);
            assert_eq!(log.watermarks().appended(), left);
            let got = poll(&log, From::First, 100, 1 << 20).await.unwrap();
            assert_eq!(got.bytes, batches[..left as usize].concat(), "byte for byte");
            let appended = append_wait(&log, &batch(9, &[5]), Ack::Durable).await;
            assert_eq!(appended.base_offset, left);
            log.close().await.unwrap();
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert!(!report.adopted, "from now on it is ours");
            assert_eq!(log.watermarks().appended(), left + 1);
        });
    }
    // Damage in the middle is not an incomplete last batch: nothing is cut.
    let sim = Sim::new(77);
    put(&sim, &batches, 0);
    let len = sim.disk().contents(log_file(0)).unwrap().len();
    sim.disk().flip_bit(log_file(0), batches[0].len() as u64 + 300, 1).unwrap();
    sim.run(async {
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert!(matches!(report.damage[..], [OpenDamage::Corrupt { segment: 0, .. }]));
        let appended = append_wait(&log, &batch(9, &[5]), Ack::Durable).await;
        assert_eq!(appended.base_offset, 5, "behind everything that verifies");
        log.close().await.unwrap();
    });
    assert_eq!(sim.disk().contents(log_file(0)).unwrap().len(), len);
}

#[test]
fn another_partitions_bytes_are_not_a_batch_here() {
    let sim = Sim::new(12);
    let model = filled_and_killed(&sim, LogConfig::default(), &[10, 20]);
    let bytes = batch(5, &[100]);
    let misdirected = as_stored(&bytes, PARTITION + 1, 2, u64::MAX / 2);
    let end = *starts(&model).last().unwrap();
    sim.disk().overwrite(log_file(0), end, &misdirected).unwrap();
    survives_with(&sim, &model, 2, "misdirected write");
    // The same with nothing before it that would tell.
    let sim = Sim::new(13);
    let nothing = filled_and_killed(&sim, LogConfig::default(), &[]);
    sim.disk().put(log_file(0), &as_stored(&bytes, PARTITION + 1, 0, 5_000)).unwrap();
    survives_with(&sim, &nothing, 0, "misdirected write into an empty log");
}

#[test]
fn a_newer_manifest_and_another_incarnation_are_refused() {
    let sim = Sim::new(13);
    sim.run(filled(sim.platform(), LogConfig::default(), &[10]));
    let path = place().dir.join(corelog_storage::MANIFEST_FILE);
    let kept = sim.disk().contents(&path).unwrap();
    sim.run(async {
        let other = corelog_storage::Place { incarnation: 4, ..place() };
        let shared = corelog_storage::Shared::new(sim.platform().clone(), SharedLimits::default());
        let opened = Log::open(shared, other, LogConfig::default()).await;
        let Err(error) = opened.map(|_| ()) else { panic!("another incarnation was opened") };
        assert!(matches!(error, OpenError::OtherIncarnation { found: 3, expected: 4, .. }));
    });
    // Damaged in one slot: the other counts. In both: the log is read without it.
    for slots in [&[0_u64][..], &[4096], &[0, 4096]] {
        sim.disk().put(&path, &kept).unwrap();
        for slot in slots {
            sim.disk().flip_bit(&path, slot + 20, 1).unwrap();
        }
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert_eq!(report.damage.contains(&OpenDamage::Manifest), slots.len() == 2);
            assert_eq!(log.watermarks().appended(), 1);
            log.close().await.unwrap();
        });
    }
}

#[test]
fn a_second_writer_is_kept_out() {
    let sim = Sim::new(14);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        let second = try_open(sim.platform(), LogConfig::default()).await;
        assert!(matches!(second.map(|_| ()), Err(OpenError::Locked { .. })));
        log.close().await.unwrap();
        open(sim.platform(), LogConfig::default()).await;
    });
}

#[test]
fn strange_names_are_ignored_and_named() {
    let sim = Sim::new(15);
    sim.run(filled(sim.platform(), LogConfig::default(), &[10]));
    for strange in [
        "0.log",
        "00000000000000000001.log.gz",
        "00000000000000000001.log.corrupt-5",
        "x.tmp",
        ".nfs0001",
        "Thumbs.db",
        "99999999999999999999.log",
    ] {
        sim.disk().put(place().dir.join(strange), b"junk").unwrap();
    }
    sim.run(async {
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert_eq!(report.ignored.len(), 7);
        assert_eq!(log.watermarks().appended(), 1);
    });
}

#[test]
fn opening_reads_the_tail_and_not_the_data() {
    let sim = Sim::new(16);
    let model = filled_and_killed(&sim, small_segments(), &[60_000; 200]);
    assert!(logs(&sim).len() > 10);
    let before = sim.disk().bytes(IoOp::Read);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        assert_eq!(log.watermarks().appended(), model.end());
    });
    let read = sim.disk().bytes(IoOp::Read) - before;
    assert!(read < 3 << 20, "{read} bytes read of {} MiB", (200 * 60_000) >> 20);
}

#[test]
fn a_tail_at_the_very_end_of_the_reserved_space_is_found() {
    // The last batch ends exactly at the file's allocated length, and exactly at a block.
    for size in [4096 - 304, (64 << 10) - 304, 8192 - 304] {
        let sim = Sim::new(size as u64);
        let model = filled_and_killed(&sim, LogConfig::default(), &[size]);
        let end = *starts(&model).last().unwrap();
        sim.disk().truncate(log_file(0), end).unwrap();
        survives_with(&sim, &model, 1, &format!("batch of {size}"));
    }
}

#[test]
fn an_interrupted_creation_is_created_again() {
    for steps in 0..120 {
        let sim = Sim::new(steps);
        sim.run_until_halt(steps, async {
            let log = open(sim.platform(), LogConfig::default()).await;
            loop {
                sim.clock().sleep(std::time::Duration::from_secs(1)).await;
                assert_eq!(log.watermarks().appended(), 0);
            }
        });
        sim.disk().power_cut(steps);
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert_eq!(report.damage, []);
            let appended: Appended = append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
            assert_eq!(appended.base_offset, 0);
        });
    }
}

#[test]
fn a_tail_made_to_cost_time_ends_the_search() {
    // A header at every 256 bytes, each promising a batch up to the end of a long tail.
    let sim = Sim::new(17);
    let model = filled_and_killed(&sim, LogConfig::default(), &[100]);
    let end = *starts(&model).last().unwrap();
    let tail_len = 3_u64 << 20;
    let mut tail = Vec::new();
    for i in 0..tail_len / 256 {
        let header = BatchHeader {
            partition_id: u64::from(PARTITION),
            base_offset: 1,
            base_timestamp: 1,
            origin_timestamp: 1,
            batch_length: tail_len - i * 256,
            batch_checksum: 0,
            message_count: 1,
        };
        tail.extend_from_slice(&header.encode());
    }
    let mut file = sim.disk().contents(log_file(0)).unwrap();
    file.truncate(end as usize);
    file.extend_from_slice(&tail);
    sim.disk().put(log_file(0), &file).unwrap();
    sim.run(async {
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert!(report.bytes_read < 40 * tail_len + (128 << 20), "{} read", report.bytes_read);
        assert_eq!(report.quarantined.len(), 1, "a search that gave up keeps what it cuts");
        assert_eq!(log.watermarks().appended(), 1);
    });
}

/// What is cut holds a whole batch, so far ahead that its offset says nothing: a copy is kept.
#[test]
fn a_whole_batch_with_an_offset_out_of_reach_is_not_thrown_away() {
    let sim = Sim::new(1);
    filled_and_killed(&sim, LogConfig::default(), &[500; 10]);
    let bytes = sim.disk().contents(log_file(0)).unwrap();
    let len = 256 + 48 + 500;
    let last = &bytes[9 * len..10 * len];
    // 310 bytes of the second batch are left of eight: room for six offsets.
    sim.disk().put(log_file(0), &[&bytes[..len + 310], last].concat()).unwrap();
    sim.run(async {
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert_eq!(report.row, "torn tail", "{report:?}");
        assert!(sim.disk().contents(&report.quarantined[0]).unwrap().ends_with(last));
        let next = append_wait(&log, &batch(9, &[10]), Ack::Durable).await.base_offset;
        assert_eq!(next, 1);
        log.close().await.unwrap();
    });
}

/// A batch that verifies where the log breaks off, one before it being gone, is no part of the log
/// any more. It is not thrown away either: cut, it goes to quarantine; kept, its offsets stay taken.
#[test]
fn a_batch_that_lost_the_one_before_it_is_neither_thrown_away_nor_overtaken() {
    for has_mark in [true, false] {
        let sim = Sim::new(1);
        filled_and_killed(&sim, LogConfig::default(), &[500; 3]);
        let mut bytes = sim.disk().contents(log_file(0)).unwrap();
        let len = 256 + 48 + 500;
        bytes.truncate(3 * len);
        let last = bytes[2 * len..].to_vec();
        bytes.drain(len..2 * len);
        sim.disk().put(log_file(0), &bytes).unwrap();
        if !has_mark {
            sim.disk().delete(place().dir.join("manifest")).unwrap();
        }
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            let next = append_wait(&log, &batch(9, &[10]), Ack::Durable).await.base_offset;
            if has_mark {
                assert_eq!((report.row, next), ("torn tail", 1), "{report:?}");
                let copy = sim.disk().contents(&report.quarantined[0]).unwrap();
                assert_eq!(copy, last);
            } else {
                assert_eq!((report.row, next), ("damage without a mark", 3), "{report:?}");
                assert!(sim.disk().contents(log_file(0)).unwrap().ends_with(&last));
            }
            log.close().await.unwrap();
        });
    }
}

/// What stands where the log breaks off, or nearer to it than a payload can, is in no message: its
/// offsets stay taken, however many before them are gone with their bytes, and so do those of what
/// it leads to.
#[test]
fn offsets_of_whole_batches_stay_taken_however_many_before_them_are_gone() {
    let len = 256 + 48 + 500;
    // A part of one that is gone stands before it, a whole one a second time, or neither; and the next
    // one is damaged, or not.
    for (before, damaged) in [0, 1, 303, len].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let sim = Sim::new(1);
        filled_and_killed(&sim, LogConfig::default(), &[500; 60]);
        let bytes = sim.disk().contents(log_file(0)).unwrap();
        let mut last = bytes[57 * len..60 * len].to_vec();
        last[len + 20] ^= u8::from(damaged);
        sim.disk().put(log_file(0), &[&bytes[..len], &bytes[..before], &last].concat()).unwrap();
        sim.disk().delete(place().dir.join("manifest")).unwrap();
        sim.run(async {
            let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
            assert_eq!(report.damage.len(), 1, "{report:?}");
            let next = append_wait(&log, &batch(9, &[10]), Ack::Durable).await.base_offset;
            assert_eq!(next, 60, "{before} bytes before, damaged {damaged}");
            log.close().await.unwrap();
        });
    }
}
