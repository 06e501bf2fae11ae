//! What retention deletes and what it keeps: by age and by size, with odd files in between, whatever
//! producers say of the time; and what a log takes of the disk meanwhile.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::*;
use corelog_format::{BatchBuilder, Message};
use corelog_io::sim::{Fault, Rng, Sim, errno};
use corelog_io::{Clock, IoOp, align_up};
use corelog_storage::{
    Ack, From, LogConfig, MANIFEST_FILE, Partition, Place, PollError, Retention, Shared,
    SharedLimits,
};

const HOUR: Duration = Duration::from_secs(3_600);

fn older_than(expiry: Duration) -> Retention {
    Retention { expiry: Some(expiry), ..Retention::default() }
}

/// Appends `count` batches, of which 18 fill a segment.
async fn fill(log: &Log, model: &mut Model, count: u64) {
    for _ in 0..count {
        let bytes = batch(model.end(), &[60_000]);
        model.push(bytes.clone(), append_wait(log, &bytes, Ack::Durable).await);
    }
}

/// All of it, as passes of a shard's cleaner do it.
async fn retain_all(log: &Log, rule: Retention) -> usize {
    let mut dropped = 0;
    loop {
        match log.retain(rule).await.unwrap().segments {
            0 => return dropped,
            segments => dropped += segments,
        }
    }
}

#[test]
fn segments_begun_at_run_time_expire_like_others() {
    let sim = Sim::new(1);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let mut model = Model::default();
        fill(&log, &mut model, 100).await;
        let segments = logs(&sim);
        assert_eq!(segments.len(), 6);
        // What was sealed in this life is known: no time passes while a pass looks at it.
        let first = log.sealed_segments().await[0];
        sim.clock().sleep(Duration::from_secs(60)).await;
        let age = Duration::from_micros(sim.clock().now_us() - first.last_timestamp);
        let tick = Duration::from_micros(1);
        assert_eq!(log.retain(older_than(age + tick)).await.unwrap().segments, 0, "not yet");
        assert_eq!(log.retain(older_than(age)).await.unwrap().segments, 1, "at the limit");
        // Another limit from now on.
        assert_eq!(retain_all(&log, older_than(HOUR)).await, 0);
        assert_eq!(retain_all(&log, older_than(Duration::from_secs(50))).await, 4);
        assert_eq!(logs(&sim), segments[5..], "the active one stays");
        // And those that are begun behind it.
        fill(&log, &mut model, 40).await;
        assert_eq!(retain_all(&log, older_than(Duration::from_secs(50))).await, 0);
        sim.clock().sleep(Duration::from_secs(51)).await;
        assert_eq!(retain_all(&log, older_than(Duration::from_secs(50))).await, 2);
        assert_eq!(logs(&sim).len(), 1);
    });
}

#[test]
fn what_is_active_stays_and_goes_when_it_was_sealed() {
    let sim = Sim::new(2);
    let rule = Retention { sealed_bytes: Some(0), ..older_than(Duration::from_secs(1)) };
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let first = append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
        for _ in 0..3 {
            sim.clock().sleep(HOUR).await;
            assert_eq!(retain_all(&log, rule).await, 0);
            let got = poll(&log, From::First, 1, 1).await.unwrap();
            assert_eq!(got.batches()[0].header().base_timestamp, first.base_timestamp);
        }
        append_wait(&log, &batch(2, &[1 << 20]), Ack::Durable).await;
        append_wait(&log, &batch(3, &[10]), Ack::Durable).await;
        sim.clock().sleep(HOUR).await;
        assert_eq!(retain_all(&log, rule).await, 1, "it was sealed, and with it the first message");
        assert_eq!(poll(&log, From::First, 9, 1).await.unwrap().next, 3);
        log.close().await.unwrap();
    });
}

/// One pass of a shard's cleaner holds up its other partitions for sixteen segments and no longer.
#[test]
fn a_pass_drops_sixteen_segments_at_most() {
    let by_size = Retention { sealed_bytes: Some(3 << 20), ..Retention::default() };
    for (rule, left) in [(older_than(HOUR), 0), (by_size, 2)] {
        let sim = Sim::new(9);
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            for tag in 0..41 {
                append_wait(&log, &batch(tag, &[1 << 20]), Ack::Durable).await;
            }
            sim.clock().sleep(HOUR).await;
            assert_eq!(logs(&sim).len(), 41, "each batch has a segment");
            for dropped in [16, 16, 8 - left, 0] {
                assert_eq!(log.retain(rule).await.unwrap().segments, dropped, "{rule:?}");
            }
            assert_eq!(logs(&sim).len(), 1 + left);
            log.close().await.unwrap();
        });
    }
}

/// A producer dates its messages in ten years, in seconds, in milliseconds, at 0: they are as old
/// as they are here.
#[test]
fn the_producers_times_neither_keep_nor_delete() {
    let sim = Sim::new(3);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let now = sim.clock().now_us();
        let claims = [now + 10 * 365 * 86_400_000_000, now / 1_000_000, now / 1_000, 0, u64::MAX];
        for round in 0..90 {
            let mut builder = BatchBuilder::new();
            let payload = [round; 60_000];
            let message = Message::new(&payload).id(1);
            builder.push(message.origin_timestamp(claims[usize::from(round) % 5])).unwrap();
            let bytes: Bytes = builder.finish().unwrap().into();
            append_wait(&log, &bytes, Ack::Durable).await;
        }
        let sealed = logs(&sim).len() - 1;
        assert!(sealed >= 4);
        sim.clock().sleep(HOUR - Duration::from_secs(60)).await;
        assert_eq!(retain_all(&log, older_than(HOUR)).await, 0, "a minute is left");
        log.close().await.unwrap();
        let log = open(sim.platform(), small_segments()).await;
        assert_eq!(retain_all(&log, older_than(HOUR)).await, 0, "read from the files, too");
        sim.clock().sleep(Duration::from_secs(61)).await;
        assert_eq!(retain_all(&log, older_than(HOUR)).await, sealed);
    });
}

#[test]
fn zeros_in_an_index_delete_nothing() {
    for entries in [1, 2, 170, 171, 1_000] {
        for keeps in [true, false] {
            let sim = Sim::new(4);
            let model = sim.run(filled(sim.platform(), small_segments(), &[60_000; 80]));
            for first in logs(&sim) {
                let mut bytes = sim.disk().contents(index_file(first)).unwrap();
                bytes.truncate(if keeps { bytes.len() } else { 0 });
                bytes.resize(bytes.len() + 24 * entries, 0);
                sim.disk().put(index_file(first), &bytes).unwrap();
            }
            sim.run(async {
                let log = open(sim.platform(), small_segments()).await;
                sim.clock().sleep(HOUR).await;
                let day = older_than(24 * HOUR);
                assert_eq!(retain_all(&log, day).await, 0, "{entries} zeros, {keeps}");
                model.check_all(&log, &mut Rng::new(4)).await;
                sim.clock().sleep(24 * HOUR).await;
                assert_eq!(retain_all(&log, day).await, 4, "{entries} zeros, {keeps}: a day later");
            });
        }
    }
}

/// An empty segment, a cut one and one that cannot be opened, in the middle of a log that has to
/// become smaller.
#[test]
fn odd_files_hold_up_no_other() {
    for by_age in [false, true] {
        let sim = Sim::new(5);
        let model = sim.run(filled(sim.platform(), small_segments(), &[60_000; 200]));
        let segments = logs(&sim);
        assert!(segments.len() > 8);
        sim.disk().truncate(log_file(segments[2]), 0).unwrap();
        sim.disk().truncate(log_file(segments[3]), 100).unwrap();
        let unreadable = name(&log_file(segments[5]));
        let fault = Fault::fail(errno::EACCES).of(IoOp::Open).on(&unreadable);
        sim.disk().inject(fault.for_ever());
        sim.run(async {
            let (log, _) = try_open(sim.platform(), small_segments()).await.unwrap();
            // They are told by whoever reads there.
            for odd in [2, 3] {
                let got = poll(&log, From::Offset(segments[odd]), 1, 1).await;
                let Err(PollError::Corrupt { segment, .. }) = got else { panic!("{got:?}") };
                assert_eq!(segment, segments[odd]);
            }
            let error = poll(&log, From::Offset(segments[5]), 1, 1).await.unwrap_err();
            assert!(error.to_string().contains(&unreadable), "{error}");

            let rule = match by_age {
                true => older_than(HOUR),
                false => Retention { sealed_bytes: Some(2_500_000), ..Retention::default() },
            };
            if by_age {
                assert_eq!(retain_all(&log, rule).await, 0, "nothing is old");
                sim.clock().sleep(HOUR).await;
            }
            let dropped = retain_all(&log, rule).await;
            let left = logs(&sim);
            assert_eq!(left, segments[dropped..], "the oldest ones, without a hole");
            let bytes: u64 = log.sealed_segments().await.iter().filter_map(|one| one.bytes).sum();
            match by_age {
                true => assert_eq!(left.len(), 1, "all but the active one"),
                false => assert!(dropped > 5 && bytes <= 2_500_000, "{dropped}: {bytes} bytes"),
            }
            assert_eq!(log.watermarks().start(), left[0]);
            let got = poll(&log, From::Offset(0), 1, 1).await.unwrap();
            assert_eq!(got.batches()[0].first_offset(), left[0], "the odd ones are behind us");
            let appended = append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
            assert_eq!(appended.base_offset, model.end());
        });
    }
}

/// Everything that may go has gone, the active segment is empty or holds one message; and then the
/// files go that could tell where the log stands.
#[test]
fn an_expired_log_goes_on_at_its_offset_with_and_without_its_derived_files() {
    for empty in [false, true] {
        for lost in [&[][..], &["index"], &["manifest"], &["index", "manifest"]] {
            let sim = Sim::new(6);
            let mut next = sim.run(async {
                let log = open(sim.platform(), small_segments()).await;
                let mut model = Model::default();
                while logs(&sim).len() < 4 {
                    fill(&log, &mut model, 1).await;
                }
                if empty {
                    append_wait(&log, &batch(9, &[1 << 20]), Ack::Durable).await;
                    sim.disk().set_capacity(sim.disk().used() + 8_192);
                    let refused = append(&log, &batch(9, &[100_000]), Ack::Durable);
                    log.flush(Ack::Durable).await.unwrap();
                    assert!(refused.get().unwrap().is_err());
                    sim.disk().set_capacity(u64::MAX);
                }
                sim.clock().sleep(HOUR).await;
                retain_all(&log, older_than(Duration::from_secs(1))).await;
                let marks = log.watermarks();
                assert_eq!(marks.appended() - marks.start(), u64::from(!empty));
                assert_eq!(logs(&sim), [marks.start()]);
                marks.appended()
            });
            for (round, power) in [false, true, false].into_iter().enumerate() {
                match power {
                    true => sim.disk().power_cut(round as u64),
                    false => sim.disk().process_kill(round as u64),
                }
                for path in sim.disk().files() {
                    let is_lost = |part: &&str| name(&path).contains(part);
                    if lost.iter().any(is_lost) {
                        sim.disk().delete(&path).unwrap();
                    }
                }
                sim.run(async {
                    let log = open(sim.platform(), small_segments()).await;
                    let what = format!("empty {empty}, without {lost:?}, round {round}");
                    assert_eq!(log.watermarks().appended(), next, "{what}");
                    let appended = append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
                    assert_eq!(appended.base_offset, next, "{what}");
                    next += 1;
                    if round == 1 {
                        log.close().await.unwrap();
                    }
                });
            }
            assert!(sim.disk().exists(place().dir.join(MANIFEST_FILE)));
        }
    }
}

#[test]
fn what_is_reserved_stays_within_the_segment() {
    const BATCH_MAX: u64 = 200_000;
    for (enforce_fsync, preallocate_segments) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        let config = LogConfig { enforce_fsync, preallocate_segments, ..small_segments() };
        let sim = Sim::new(7);
        sim.run(async {
            let log = open(sim.platform(), config.clone()).await;
            let mut rng = Rng::new(7);
            for _ in 0..120 {
                append_wait(&log, &random_batch(&mut rng, BATCH_MAX), Ack::Written).await;
                let firsts = logs(&sim);
                let (active, sealed) = firsts.split_last().unwrap();
                let len = sim.disk().contents(log_file(*active)).unwrap().len() as u64;
                let most = config.segment_bytes + align_up(BATCH_MAX + 8 * 48 + 256);
                assert!(len <= most, "{config:?}: {len} bytes");
                assert!(!preallocate_segments || len >= config.segment_bytes, "{len} bytes");
                for first in sealed {
                    let file = sim.disk().contents(log_file(*first)).unwrap();
                    let rest = file.len() as u64 - ends_at(&file);
                    assert_eq!(rest, 0, "a sealed file holds its batches and nothing else");
                }
            }
            assert!(logs(&sim).len() > 5);
            log.close().await.unwrap();
        });
    }
    a_thousand_idle_ones();
}

fn ends_at(file: &[u8]) -> u64 {
    let lens = corelog_format::scan(file, 0, corelog_format::Expect::default());
    let end = lens.filter_map(|step| match step {
        corelog_format::Step::Batch { at, batch, .. } => Some(at + batch.bytes().len() as u64),
        _ => None,
    });
    end.last().unwrap_or(0)
}

/// New partitions take their manifest; one that wrote a little, the first step.
fn a_thousand_idle_ones() {
    let sim = Sim::new(8);
    sim.run(async {
        let shared = Shared::new(sim.platform().clone(), SharedLimits::default());
        let mut all = Vec::new();
        for partition in 0..1_000_u32 {
            let dir = place().dir.with_file_name(partition.to_string());
            let place = Place { dir, partition_id: partition, ..place() };
            let opened = Partition::open(shared.clone(), place, LogConfig::default()).await;
            let (log, _): (Log, _) = opened.unwrap();
            all.push(log);
        }
        let used = sim.disk().used();
        assert!(used <= 1_000 * 8_192, "{used} bytes for a thousand manifests");
        for log in &all {
            append_wait(log, &batch(1, &[100]), Ack::Written).await;
        }
        let used = sim.disk().used();
        // 64 KiB and the batch, in whole blocks, and the manifest.
        assert!(used <= 1_000 * ((64 << 10) + 4_096 + 8_192), "{used} bytes");
        for log in &all {
            log.close().await.unwrap();
        }
        // The log's one block, the index's, and the manifest.
        assert!(sim.disk().used() <= 1_000 * 4 * 4_096, "{} bytes", sim.disk().used());
    });
}

#[test]
fn retention_drops_what_is_old_or_too_much_and_was_read() {
    let sim = Sim::new(12);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        for tag in 0..100 {
            append_wait(&log, &batch(tag, &[60_000]), Ack::Durable).await;
        }
        let segments = logs(&sim);
        assert!(segments.len() >= 5, "{segments:?}");
        let by_size = Retention { sealed_bytes: Some(3 << 20), ..Retention::default() };
        log.store_offset(consumer(1), segments[1] - 2, Ack::Durable).await.unwrap();
        assert_eq!(log.retain(by_size).await.unwrap().segments, 0, "its last message is unread");
        assert_eq!(log.delete_segments(9).await.unwrap().segments, 0);
        log.store_offset(consumer(1), segments[1] - 1, Ack::Durable).await.unwrap();
        assert_eq!(log.delete_segments(1).await.unwrap().segments, 1);
        assert_eq!(logs(&sim), segments[1..]);
        log.store_offset(consumer(1), 99, Ack::Durable).await.unwrap();
        let trimmed = log.retain(by_size).await.unwrap();
        let left: u64 = log.sealed_segments().await.iter().filter_map(|s| s.bytes).sum();
        assert!(trimmed.segments > 0 && left <= 3 << 20, "{trimmed:?}, {left} bytes left");
        assert_eq!(log.retain(by_size).await.unwrap().segments, 0);

        let expiry = Some(Duration::from_secs(10));
        let by_age = Retention { expiry, ..Retention::default() };
        assert_eq!(log.retain(by_age).await.unwrap().segments, 0);
        sim.clock().sleep(Duration::from_secs(11)).await;
        assert!(log.retain(by_age).await.unwrap().segments > 0);
        assert_eq!(logs(&sim).len(), 1, "the active one always stays");
        assert_eq!(log.retain(Retention::default()).await.unwrap().segments, 0);
        assert_eq!(append_wait(&log, &batch(1, &[10]), Ack::Durable).await.base_offset, 100);
        log.close().await.unwrap();
    });
}
