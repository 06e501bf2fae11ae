//! Who steps over damage gets everything behind it: no more is lost than what is damaged.

mod common;

use common::*;
use corelog_io::IoOp;
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_storage::{From, LogConfig, PollError};

/// Polls everything, stepping over damage: base offsets served, and how often damage was met.
async fn read_over(log: &Log) -> (Vec<u64>, usize) {
    let (mut next, mut offsets, mut damages) = (0, Vec::new(), 0);
    loop {
        match poll(log, From::Offset(next), u32::MAX, 1 << 20).await {
            Ok(got) if got.batches().is_empty() => return (offsets, damages),
            Ok(got) => {
                offsets.extend(got.batches().iter().map(|b| b.header().base_offset));
                next = got.next;
            }
            Err(
                PollError::Corrupt { resume_offset, .. }
                | PollError::Unreadable { resume_offset, .. },
            ) => {
                damages += 1;
                let Some(resume) = resume_offset else { return (offsets, damages) };
                assert!(resume > next, "stepping over goes forward");
                next = resume;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Batches of one message each, many between two index entries: whatever is damaged in one (its
/// length, its offset, a payload), the next one is where reading goes on.
#[test]
fn one_damaged_batch_hides_no_other() {
    const COUNT: u64 = 60;
    for victim in [0, 1, 17, 58, 59] {
        // The fields that a walk goes by, a reserved byte, the frame's header and its payload.
        for byte in [0, 8, 9, 16, 40, 100, 256, 280, 310] {
            let sim = Sim::new(victim);
            let config = LogConfig::default();
            sim.run(filled(sim.platform(), config.clone(), &[500; COUNT as usize]));
            let len = sim.disk().contents(log_file(0)).unwrap().len() as u64 / COUNT;
            sim.disk().flip_bit(log_file(0), victim * len + byte, 3).unwrap();
            sim.run(async {
                let log = open(sim.platform(), config).await;
                let (offsets, damages) = read_over(&log).await;
                let rest: Vec<u64> = (0..COUNT).filter(|offset| *offset != victim).collect();
                assert_eq!((offsets, damages), (rest, 1), "batch {victim}, byte {byte}");
                log.close().await.unwrap();
            });
        }
    }
}

/// Two damaged batches between two index entries hide none that stands between them, as long as one
/// of their headers is whole: it says where the next batch begins, or that the way to the next
/// known place is the log's. Without both nothing tells what stands between from a payload.
#[test]
fn two_damaged_batches_hide_none_between_them() {
    const COUNT: u64 = 30;
    // A bit of the offset, and one of the payload.
    const HEADER: u64 = 8;
    const FRAME: u64 = 310;
    for (first, second) in [(0, 2), (3, 4), (3, 10), (20, 29), (0, 29)] {
        for harms in [(FRAME, FRAME), (FRAME, HEADER), (HEADER, FRAME), (HEADER, HEADER)] {
            let sim = Sim::new(first);
            let config = LogConfig::default();
            sim.run(filled(sim.platform(), config.clone(), &[500; COUNT as usize]));
            let len = sim.disk().contents(log_file(0)).unwrap().len() as u64 / COUNT;
            sim.disk().flip_bit(log_file(0), first * len + harms.0, 3).unwrap();
            sim.disk().flip_bit(log_file(0), second * len + harms.1, 3).unwrap();
            let is_hidden = |offset: u64| match harms == (HEADER, HEADER) {
                true => (first..=second).contains(&offset),
                false => offset == first || offset == second,
            };
            sim.run(async {
                let log = open(sim.platform(), config).await;
                let rest: Vec<u64> = (0..COUNT).filter(|offset| !is_hidden(*offset)).collect();
                let (offsets, _) = read_over(&log).await;
                assert_eq!(offsets, rest, "batches {first} and {second}, bytes {harms:?}");
                log.close().await.unwrap();
            });
        }
    }
}

/// Sectors that the device does not give back hide the batches that stand in their blocks, and no
/// other, whatever the index knows; when they can be read again, so can the batches.
#[test]
fn unreadable_sectors_hide_no_other_batch() {
    let mut rng = Rng::new(1);
    for round in 0..60 {
        let sim = Sim::new(round);
        let index_step = if round % 2 == 0 { 4096 } else { 64 << 10 };
        let config = LogConfig { index_step, ..LogConfig::default() };
        let len_max = [600, 3_000, 12_000][round as usize % 3];
        let sizes: Vec<usize> = (0..120).map(|_| rng.below(len_max) as usize).collect();
        let model = sim.run(filled(sim.platform(), config.clone(), &sizes));
        let starts = starts(&model);
        let len = *starts.last().unwrap();
        // One block, or a few side by side, anywhere; and another one far behind.
        let blocks = len.div_ceil(4096);
        let first = rng.below(blocks);
        let near = first..(first + rng.between(1, 3)).min(blocks);
        let far = (first + 40 < blocks).then_some(first + 40..first + 41);
        let bad: Vec<_> = std::iter::once(near).chain(far).collect();
        sim.run(async {
            let log = open(sim.platform(), config).await;
            for bad in &bad {
                let fault = Fault::fail(errno::EIO).of(IoOp::Read).on(name(&log_file(0)));
                let bytes = bad.start * 4096 + 7..bad.end * 4096 - 7;
                sim.disk().inject(fault.over(bytes).for_ever());
            }
            let hidden = |i: &usize| {
                let blocks = starts[*i] / 4096..starts[*i + 1].div_ceil(4096);
                bad.iter().any(|bad| bad.start < blocks.end && blocks.start < bad.end)
            };
            let rest: Vec<u64> =
                (0..sizes.len()).filter(|i| !hidden(i)).map(|i| i as u64).collect();
            let (offsets, damages) = read_over(&log).await;
            assert_eq!(offsets, rest, "{round}: {bad:?}");
            assert_eq!(damages, bad.len(), "{round}: {bad:?}");
            sim.disk().lift_all();
            model.check_all(&log, &mut Rng::new(1)).await;
            log.close().await.unwrap();
        });
    }
}

/// A message's payload that is a batch of just this place does not pass for a batch of the log.
#[test]
fn a_batch_in_a_payload_is_not_where_reading_goes_on() {
    let sim = Sim::new(1);
    let config = LogConfig::default();
    let mut bytes = sim.run(async {
        filled(sim.platform(), config.clone(), &[500, 2_000, 500]).await;
        sim.disk().contents(log_file(0)).unwrap()
    });
    // The third batch, whole, in the middle of the second one's payload.
    let (third, second) = (bytes.len() - (256 + 48 + 500), 256 + 48 + 500);
    let copy = bytes[third..].to_vec();
    bytes[second + 256 + 48 + 100..][..copy.len()].copy_from_slice(&copy);
    sim.disk().put(log_file(0), &bytes).unwrap();
    sim.run(async {
        let log = open(sim.platform(), config).await;
        assert_eq!(read_over(&log).await, (vec![0, 2], 1));
        log.close().await.unwrap();
    });
}

#[test]
fn a_missing_first_segment_is_named_and_is_not_the_start_of_the_log() {
    let sim = Sim::new(2);
    let config = small_segments();
    let model = sim.run(filled(sim.platform(), config.clone(), &[400_000; 8]));
    let second = logs(&sim)[1];
    sim.disk().delete(log_file(0)).unwrap();
    sim.run(async {
        let log = open(sim.platform(), config).await;
        assert_eq!(log.watermarks().start(), 0);
        let times = [0, model.batches[0].1.base_timestamp, model.batches[1].1.base_timestamp];
        for from in [From::Offset(0), From::First].into_iter().chain(times.map(From::Timestamp)) {
            match poll(&log, from, u32::MAX, 1 << 20).await {
                Err(PollError::Corrupt { resume_offset, .. }) => {
                    assert_eq!(resume_offset, Some(second), "{from:?}");
                }
                other => panic!("{from:?}: {:?}", other.map(|got| got.next)),
            }
        }
        let (offsets, damages) = read_over(&log).await;
        assert_eq!((offsets, damages), ((second..8).collect(), 1));
        log.close().await.unwrap();
    });
}

#[test]
fn an_index_that_points_behind_the_end_of_its_log_is_a_lie_like_others() {
    let sim = Sim::new(3);
    let config = LogConfig { index_step: 4096, ..LogConfig::default() };
    sim.run(filled(sim.platform(), config.clone(), &[3_000; 20]));
    sim.disk().truncate(log_file(0), 10_000).unwrap();
    sim.run(async {
        let (log, report) = try_open(sim.platform(), config).await.unwrap();
        assert_eq!((report.row, report.damage.len()), ("corrupt", 1), "{report:?}");
        assert_eq!(log.watermarks().appended(), 20, "what is gone keeps its offsets");
        let (offsets, damages) = read_over(&log).await;
        assert_eq!((offsets, damages), (vec![0, 1, 2], 1));
        log.close().await.unwrap();
    });
}
