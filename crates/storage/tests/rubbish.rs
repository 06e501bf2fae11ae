//! Bytes that nobody wrote, at the end of the newest segment: lengths of any size under a checksum
//! that agrees, bits turned over, overwritten ranges. Opening ends, refuses nothing, and what is
//! served is what was appended.

mod common;

use bytes::Bytes;
use common::*;
use corelog_format::BatchHeader;
use corelog_format::checksum::xxh3;
use corelog_io::sim::{Rng, Sim};
use corelog_storage::{Ack, From, LogConfig, PollError};

/// Bytes of a batch header that its checksum covers: all up to it, and the message count.
fn seal(header: &mut [u8], frame_checksums: &[u8]) {
    let sum = xxh3(&[&header[..40], &header[48..52], frame_checksums].concat());
    header[40..48].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_length_of_any_size_in_the_tail_is_a_torn_tail() {
    let frames = batch(3, &[100]).slice(256..);
    // The third begins at 660; the file ends at `len`.
    let lengths = |len: u64| {
        [0, 1, 255, 256, 257, 303, 305, 403, 405, 100_000, len - 660, len - 659, len + 1]
            .into_iter()
            .chain([i32::MAX as u64, u64::from(u32::MAX), 1 << 31, 1 << 32, 1 << 33, 64 << 20])
            .chain([1 << 63, (1 << 63) + 404, i64::MAX as u64, u64::MAX - 659, u64::MAX])
    };
    for (count, with_frames, with_checksum) in [
        (1, true, true),
        (1, true, false),
        (1, false, true),
        (1, false, false),
        (0, false, true),
        (u32::MAX, true, true),
    ] {
        let probe = Sim::new(0);
        filled_and_killed(&probe, LogConfig::default(), &[20, 32]);
        let len = probe.disk().contents(log_file(0)).unwrap().len() as u64;
        for (seed, length) in lengths(len).enumerate() {
            let sim = Sim::new(seed as u64);
            let model = filled_and_killed(&sim, LogConfig::default(), &[20, 32]);
            let at = starts(&model)[2];
            assert_eq!(at, 660);
            let mut bytes = BatchHeader {
                partition_id: u64::from(PARTITION),
                base_offset: 2,
                base_timestamp: u64::MAX / 2,
                origin_timestamp: 1,
                batch_length: length,
                batch_checksum: 7,
                message_count: count,
            }
            .encode()
            .to_vec();
            if with_checksum {
                seal(&mut bytes, if with_frames { &frames[..8] } else { &[] });
            }
            if with_frames {
                bytes.extend_from_slice(&frames);
            }
            sim.disk().overwrite(log_file(0), at, &bytes).unwrap();
            let what = format!("length {length}, count {count}, {with_frames} {with_checksum}");
            survives_with(&sim, &model, 2, &what);
        }
    }
}

/// 24 batches, all of them durable, above the mark or below it.
fn base(closed: bool) -> (Sim, Model) {
    let sim = Sim::new(5);
    let mut rng = Rng::new(5);
    let sizes: Vec<usize> = (0..24).map(|_| rng.below(900) as usize).collect();
    let model = sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        let mut model = Model::default();
        for (tag, len) in sizes.iter().enumerate() {
            let bytes = batch(tag as u64, &[*len]);
            model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
        }
        if closed {
            log.close().await.unwrap();
        }
        model
    });
    sim.disk().process_kill(5);
    (sim, model)
}

/// Harms the last 8 KiB that hold batches, in one of several ways.
fn harm(sim: &Sim, end: u64, rng: &mut Rng) {
    for _ in 0..rng.between(1, 3) {
        let len = sim.disk().contents(log_file(0)).unwrap().len() as u64;
        let at = (end - 1 - rng.below(8192.min(end - 1))).min(len - 1);
        match rng.below(4) {
            0 => sim.disk().flip_bit(log_file(0), at, rng.below(8) as u8).unwrap(),
            1 => sim.disk().truncate(log_file(0), at).unwrap(),
            _ => {
                let mut bytes = vec![0; rng.between(1, 512) as usize];
                if rng.chance(3, 4) {
                    bytes.fill_with(|| rng.next_u64() as u8);
                }
                bytes.truncate((len - at) as usize);
                sim.disk().overwrite(log_file(0), at, &bytes).unwrap();
            }
        }
    }
}

#[test]
fn ten_thousand_kinds_of_rubbish_are_opened_and_never_served() {
    for closed in [true, false] {
        let (sim, model) = base(closed);
        let image = sim.disk().image_of_power_cut(1);
        let end = *starts(&model).last().unwrap();
        for seed in 0..5_000 {
            let mut rng = Rng::new(seed);
            let sim = Sim::from_image(seed, &image);
            harm(&sim, end, &mut rng);
            let opened = sim.run_until_halt(20_000, async {
                let (log, _) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
                judge(&log, &model, closed, seed).await;
            });
            assert!(opened.is_some(), "seed {seed}, closed {closed}: it does not end");
        }
    }
}

/// What is served is what was appended, from the front and without a hole that is not named; appends
/// go on behind it.
async fn judge(log: &Log, model: &Model, closed: bool, seed: u64) {
    let end = log.watermarks().appended();
    assert!(!closed || end >= model.end(), "seed {seed}: what was closed keeps its offsets");
    let mut next = 0;
    while next < end {
        match poll(log, From::Offset(next), u32::MAX, 1 << 20).await {
            Ok(got) => {
                for served in got.batches() {
                    let offset = served.header().base_offset;
                    assert_eq!(offset, next, "seed {seed}: dense");
                    let (bytes, appended) = &model.batches[offset as usize];
                    assert_same(&served, bytes, *appended);
                    next = offset + 1;
                }
                assert_eq!(got.next, next, "seed {seed}");
            }
            Err(PollError::Corrupt { resume_offset, .. }) => {
                assert!(closed, "seed {seed}: above the mark damage is cut");
                let Some(resume) = resume_offset else { break };
                assert!(resume > next, "seed {seed}: stepping over goes forward");
                next = resume;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    let bytes: Bytes = batch(seed, &[10]);
    let appended = append_wait(log, &bytes, Ack::Durable).await;
    assert_eq!(appended.base_offset, end, "seed {seed}");
    let got = poll(log, From::Offset(end), 1, 1).await.unwrap();
    assert_same(&got.batches()[0], &bytes, appended);
}
