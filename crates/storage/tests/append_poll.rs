//! Appends and polls on a log that nothing disturbs.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Rng, Sim, run};
use corelog_io::{Clock, IoOp, Platform};
use corelog_storage::{Ack, From, LogConfig, SharedLimits};

#[test]
fn what_is_appended_is_polled_byte_for_byte() {
    for seed in 0..30 {
        run(seed, |platform| async move {
            let mut rng = Rng::new(seed);
            let config = LogConfig { enforce_fsync: seed % 5 == 4, ..small_segments() };
            let log = open(&platform, config).await;
            let mut model = Model::default();
            let mut waiting = Vec::new();
            for _ in 0..150 {
                let bytes = random_batch(&mut rng, 40_000);
                let ack = [Ack::Appended, Ack::Written, Ack::Durable][rng.index(3)];
                waiting.push((bytes.clone(), append(&log, &bytes, ack)));
                if rng.chance(1, 8) {
                    platform.clock().sleep(Duration::from_micros(rng.below(8_000))).await;
                }
                if rng.chance(1, 30) {
                    log.flush(Ack::Durable).await.unwrap();
                }
            }
            log.flush(Ack::Durable).await.unwrap();
            for (bytes, reply) in waiting {
                model.push(bytes, reply.ok().expect("answered after a flush"));
            }
            let marks = log.watermarks();
            assert_eq!((marks.durable(), marks.appended()), (model.end(), model.end()));
            assert!(log.stats().segments > 1, "segments were rolled");
            model.check_all(&log, &mut rng).await;
            log.close().await.unwrap();

            let (log, report) = try_open(&platform, small_segments()).await.unwrap();
            assert_eq!(report.recovered_batches, 0, "a clean close leaves nothing to recover");
            assert_eq!(log.watermarks().durable(), model.end());
            model.check_all(&log, &mut rng).await;
        });
    }
}

#[test]
fn offsets_are_dense_and_times_increase_whatever_the_clock_does() {
    let sim = Sim::new(1);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        let (mut offset, mut time) = (0, 0);
        for i in 0..200 {
            sim.clock().step([-5_000_000, 3, 0, 700_000][i % 4]);
            let appended = append_wait(&log, &batch(i as u64, &[10; 3]), Ack::Appended).await;
            assert_eq!(appended.base_offset, offset);
            assert!(appended.base_timestamp > time);
            (offset, time) = (offset + 3, appended.base_timestamp);
        }
    });
}

#[test]
fn the_five_places_to_start_agree_in_memory_and_on_disk() {
    run(3, |platform| async move {
        let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
        for flushed in [0, 50, 100] {
            let disk = platform.disk().clone();
            let (log, _) = open_limited(&platform, small_segments(), limits.clone()).await.unwrap();
            let mut times = Vec::new();
            for i in 0..100_u64 {
                if i == flushed {
                    log.flush(Ack::Durable).await.unwrap();
                    // What comes now stays in memory.
                    disk.inject(Fault::stall().of(IoOp::Write).on(".log").for_ever());
                }
                let appended = append_wait(&log, &batch(i, &[20; 5]), Ack::Appended).await;
                times.push(appended.base_timestamp);
            }
            if flushed == 100 {
                log.flush(Ack::Durable).await.unwrap();
            }
            let base = log.watermarks().appended() - 500;
            assert_eq!(log.watermarks().written(), base + 5 * flushed);
            let first = |from| {
                let log = log.clone();
                async move {
                    let got = poll(&log, from, 1, 1).await.unwrap();
                    got.next.checked_sub(u64::from(got.messages)).filter(|_| got.messages > 0)
                }
            };
            assert_eq!(first(From::First).await, Some(0));
            assert_eq!(first(From::Last(7)).await, Some(base + 493));
            assert_eq!(first(From::Last(0)).await, None);
            assert_eq!(first(From::Last(u32::MAX)).await, Some(0));
            assert_eq!(first(From::Offset(base + 499)).await, Some(base + 499));
            assert_eq!(first(From::Offset(base + 500)).await, None);
            for (i, time) in times.iter().enumerate() {
                let offset = base + i as u64 * 5;
                assert_eq!(first(From::Timestamp(*time)).await, Some(offset), "batch {i}");
                let after = first(From::Timestamp(*time + 1)).await;
                assert_eq!(after, (i < 99).then_some(offset + 5), "behind batch {i}");
            }
            disk.lift_all();
            log.close().await.unwrap();
        }
    });
}

#[test]
fn a_poll_in_the_middle_of_a_batch_gives_a_view_that_verifies() {
    run(4, |platform| async move {
        for (cache_bytes, flush) in [(1 << 20, false), (1 << 20, true), (0, true)] {
            let limits = SharedLimits { cache_bytes, ..SharedLimits::default() };
            let (log, _) = open_limited(&platform, small_segments(), limits).await.unwrap();
            let bytes = batch(1, &[300, 0, 5_000, 40, 7]);
            let appended = append_wait(&log, &bytes, Ack::Written).await;
            let tail = append_wait(&log, &batch(2, &[3_000; 2]), Ack::Appended).await;
            if flush {
                log.flush(Ack::Durable).await.unwrap();
            }
            for from in 0..5 {
                for count in 1..=6_u32 {
                    let start = appended.base_offset + from;
                    let got = poll(&log, From::Offset(start), count, usize::MAX).await.unwrap();
                    assert_eq!(got.messages, count.min(7 - from as u32));
                    let batches = got.batches();
                    assert_eq!(batches[0].first_offset(), start);
                    let frames: Vec<_> = batches.iter().flat_map(|b| b.frames()).collect();
                    assert_eq!(frames.len(), got.messages as usize);
                    assert_eq!(batches[0].header().base_timestamp, appended.base_timestamp);
                }
            }
            assert_eq!(tail.base_offset, appended.base_offset + 5);
            log.close().await.unwrap();
        }
    });
}

#[test]
fn a_batch_larger_than_a_window_and_a_segment_is_one_batch() {
    run(5, |platform| async move {
        let log = open(&platform, small_segments()).await;
        let mut model = Model::default();
        for (tag, len) in [(1, 10), (2, 3 << 20), (3, 10), (4, 1 << 20), (5, 10)] {
            let bytes = batch(tag, &[len]);
            let appended = append_wait(&log, &bytes, Ack::Durable).await;
            model.push(bytes, appended);
        }
        model.check_all(&log, &mut Rng::new(5)).await;
        let got = poll(&log, From::Offset(1), 1, 1).await.unwrap();
        assert_eq!(got.bytes.len(), 256 + 48 + (3 << 20), "one batch at least, however long");
        log.close().await.unwrap();
        let log = open(&platform, small_segments()).await;
        model.check_all(&log, &mut Rng::new(6)).await;
    });
}

#[test]
fn buffered_bytes_leave_by_time_by_count_and_by_size() {
    run(6, |platform| async move {
        let config = LogConfig {
            flush_after: Duration::from_millis(50),
            messages_required_to_save: 100,
            size_of_messages_required_to_save: 64 << 10,
            ..LogConfig::default()
        };
        let log = open(&platform, config).await;
        let wait = |ms| platform.clock().sleep(Duration::from_millis(ms));
        append(&log, &batch(1, &[10]), Ack::Appended);
        wait(40).await;
        assert_eq!(log.watermarks().written(), 0, "nobody waits: it gathers");
        wait(30).await;
        assert_eq!(log.watermarks().written(), 1, "flush_after");
        append(&log, &batch(2, &[10; 100]), Ack::Appended);
        wait(20).await;
        assert_eq!(log.watermarks().written(), 101, "messages_required_to_save");
        append(&log, &batch(3, &[70 << 10]), Ack::Appended);
        wait(20).await;
        assert_eq!(log.watermarks().written(), 102, "size_of_messages_required_to_save");
    });
}

#[test]
fn a_durable_flush_syncs_what_was_written_before() {
    run(7, |platform| async move {
        let log = open(&platform, LogConfig::default()).await;
        append_wait(&log, &batch(1, &[10]), Ack::Written).await;
        let syncs = platform.disk().count(IoOp::Sync);
        log.flush(Ack::Durable).await.unwrap();
        assert!(platform.disk().count(IoOp::Sync) > syncs, "nothing to write, but to sync");
        assert_eq!(log.watermarks().durable(), 1);
    });
}

#[test]
fn durable_appends_share_syncs_and_a_tail_block_is_rewritten() {
    run(8, |platform| async move {
        let log = open(&platform, LogConfig::default()).await;
        append_wait(&log, &batch(0, &[10]), Ack::Durable).await;
        let before = log.stats();
        let replies: Vec<_> =
            (1..=64).map(|tag| append(&log, &batch(tag, &[100]), Ack::Durable)).collect();
        log.flush(Ack::Durable).await.unwrap();
        assert!(replies.iter().all(|reply| reply.ok().is_some()));
        let syncs = log.stats().syncs - before.syncs;
        assert!(syncs <= 4, "64 appends waited together, {syncs} syncs");
        assert!(log.stats().bytes_carried > 0);
    });
}

#[test]
fn enforce_fsync_answers_and_shows_only_what_is_durable() {
    run(9, |platform| async move {
        let config = LogConfig { enforce_fsync: true, ..LogConfig::default() };
        let log = open(&platform, config).await;
        let reply = append(&log, &batch(1, &[10]), Ack::Appended);
        assert!(reply.get().is_none(), "appended is not enough");
        assert_eq!(poll(&log, From::First, 10, 1000).await.unwrap().messages, 0);
        let changed = log.changed();
        changed.await;
        assert_eq!(log.watermarks().durable(), 1);
        assert!(reply.ok().is_some());
        assert_eq!(poll(&log, From::First, 10, 1000).await.unwrap().messages, 1);
        assert!(log.stats().bytes_zeroed > 0, "blocks are written before the tail reaches them");
    });
}

#[test]
fn segments_and_indexes_are_exact_after_a_close() {
    run(10, |platform| async move {
        let log = open(&platform, small_segments()).await;
        let mut rng = Rng::new(10);
        for _ in 0..200 {
            append(&log, &random_batch(&mut rng, 40_000), Ack::Appended);
        }
        log.flush(Ack::Written).await.unwrap();
        let end = log.watermarks().appended();
        log.close().await.unwrap();
        let disk = platform.disk();
        let logs: Vec<_> = disk.files().into_iter().filter(|p| name(p).ends_with(".log")).collect();
        assert!(logs.len() > 2);
        let mut offset = 0;
        for path in logs {
            let bytes = disk.contents(&path).unwrap();
            let offsets = file_batches(&bytes);
            assert_eq!(name(&path), format!("{offset:020}.log"), "named by its first offset");
            assert_eq!(offsets[0], offset);
            let last = corelog_format::scan(&bytes, 0, Default::default())
                .filter_map(|step| match step {
                    corelog_format::Step::Batch { batch, .. } => batch.header().end_offset(),
                    corelog_format::Step::End { at } => {
                        assert_eq!(at, bytes.len() as u64, "no zeros behind the last batch");
                        None
                    }
                    _ => None,
                })
                .last();
            offset = last.unwrap();
            let index = disk.contents(path.with_extension("index")).unwrap();
            assert_eq!(index.len() % 24, 0);
            assert!(index.len() / 24 > 10, "an entry each 16 KiB of 1 MiB");
            for raw in index.chunks_exact(24) {
                let entry = corelog_format::IndexEntry::decode(raw.try_into().unwrap());
                let at = entry.position as usize;
                let header = corelog_format::BatchHeader::parse(&bytes[at..]).unwrap();
                assert_eq!(header.base_offset, entry.base_offset);
                assert_eq!(header.base_timestamp, entry.base_timestamp);
            }
        }
        assert_eq!(offset, end);
    });
}

#[test]
fn opening_and_closing_changes_nothing() {
    run(11, |platform| async move {
        let log = open(&platform, small_segments()).await;
        let mut rng = Rng::new(11);
        // Several to a step of the index, and the last ones behind its last entry.
        for _ in 0..700 {
            append(&log, &random_batch(&mut rng, 4_000), Ack::Appended);
        }
        log.close().await.unwrap();
        let snapshot = |platform: &corelog_io::sim::SimPlatform| {
            let disk = platform.disk();
            let files = disk.files().into_iter().filter(|p| name(p) != "manifest");
            files.map(|p| (p.clone(), disk.contents(&p).unwrap())).collect::<Vec<_>>()
        };
        let before = snapshot(&platform);
        for _ in 0..5 {
            open(&platform, small_segments()).await.close().await.unwrap();
        }
        assert!(before == snapshot(&platform), "logs and indexes are the same bytes");
    });
}

#[test]
fn a_full_pool_slows_down_and_loses_nothing() {
    run(12, |platform| async move {
        platform.disk().buffers().set_limit(96 << 10);
        let log = open(&platform, small_segments()).await;
        let mut rng = Rng::new(12);
        let mut model = Model::default();
        let mut waiting = Vec::new();
        for _ in 0..60 {
            let bytes = random_batch(&mut rng, 60_000);
            waiting.push((bytes.clone(), append(&log, &bytes, Ack::Appended)));
        }
        log.flush(Ack::Durable).await.unwrap();
        for (bytes, reply) in waiting {
            model.push(bytes, reply.ok().unwrap());
        }
        model.check_all(&log, &mut rng).await;
    });
}

#[test]
fn a_batch_longer_than_the_pool_goes_through_it_in_parts() {
    run(15, |platform| async move {
        platform.disk().buffers().set_limit(64 << 10);
        let log = open(&platform, LogConfig::default()).await;
        let mut model = Model::default();
        for (tag, len) in [(1, 100), (2, 2 << 20), (3, 100), (4, 300 << 10)] {
            let bytes = batch(tag, &[len]);
            let reply = append(&log, &bytes, Ack::Appended);
            while reply.get().is_none() {
                let end = log.readable_end();
                let got = poll(&log, From::Last(1), 1, 1).await.unwrap();
                assert_eq!(got.messages > 0, end > 0, "what polls may see can be served");
                platform.clock().sleep(Duration::from_micros(100)).await;
            }
            model.push(bytes, reply.ok().unwrap());
            let end = log.readable_end();
            assert_eq!(poll(&log, From::Last(1), 1, 1).await.unwrap().next, end);
        }
        log.flush(Ack::Written).await.unwrap();
        platform.disk().buffers().set_limit(64 << 20);
        model.check_all(&log, &mut Rng::new(15)).await;
    });
}

#[test]
fn no_time_is_stamped_above_the_ceiling() {
    let sim = Sim::new(13);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        append_wait(&log, &batch(1, &[10]), Ack::Appended).await;
        assert_eq!(log.stats().stalls, 0);
        sim.clock().hold_ceiling(true);
        let ceiling = sim.clock().ceiling_us();
        sim.clock().step(60_000_000);
        let reply = append(&log, &batch(2, &[10]), Ack::Appended);
        sim.clock().sleep(Duration::from_millis(500)).await;
        assert!(reply.get().is_none(), "the time now is above the durable ceiling");
        let stalls = log.stats().stalls;
        assert!((400..=501).contains(&stalls), "it looks once a millisecond: {stalls}");
        sim.clock().hold_ceiling(false);
        sim.clock().sleep(Duration::from_millis(500)).await;
        assert!(reply.ok().unwrap().base_timestamp > ceiling);
        assert!(log.stats().stalls <= stalls + 1, "and not after that");
    });
}

#[test]
fn closed_means_closed() {
    run(14, |platform| async move {
        let log = open(&platform, LogConfig::default()).await;
        let before = append(&log, &batch(1, &[10]), Ack::Appended);
        let (closed, again) = (log.close(), log.close());
        closed.await.unwrap();
        assert!(again.await.is_err());
        assert!(before.ok().is_some(), "what was taken before the close is stored");
        let reply = append(&log, &batch(2, &[10]), Ack::Appended);
        assert!(matches!(reply.get(), Some(Err(corelog_storage::AppendError::Closed))));
        assert!(poll(&log, From::First, 1, 1).await.is_err());
        assert_eq!(platform.disk().open_files(), 0, "every handle went back");
    });
}

#[test]
fn a_poll_is_a_small_future() {
    // It is moved a few times on its way into a task, also where memory serves it at once.
    let sim = Sim::new(77);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        let size = std::mem::size_of_val(&log.poll(query(From::First, 1, 1)));
        assert!(size <= 768, "{size} bytes");
    });
}
