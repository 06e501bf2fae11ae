//! What the size of the data does not cost: handles, buffers, reads at the tail.

mod common;

use std::time::Duration;

use common::*;
use corelog_io::sim::{Rng, Sim};
use corelog_io::{Clock, IoOp};
use corelog_storage::{Ack, From, LogConfig, Partition, Place, Shared, SharedLimits};

/// Sealed segments of one batch each.
fn many_segments(count: u64) -> Sim {
    let sim = Sim::new(count);
    for offset in 0..count {
        let stored = as_stored(&batch(offset, &[100]), PARTITION, offset, 5_000 + offset);
        sim.disk().put(log_file(offset), &stored).unwrap();
    }
    sim
}

#[test]
fn handles_do_not_grow_with_the_number_of_segments() {
    let sim = many_segments(5_000);
    sim.run(async {
        let limits = SharedLimits { open_files: 40, cache_bytes: 0, ..SharedLimits::default() };
        let opened = open_limited(sim.platform(), LogConfig::default(), limits).await;
        let (log, _) = opened.unwrap();
        assert!(sim.disk().open_files() <= 2, "an open partition: {}", sim.disk().open_files());
        let mut next = 0;
        while next < 5_000 {
            let got = poll(&log, From::Offset(next), 100, 1 << 20).await.unwrap();
            assert!(got.next > next);
            next = got.next;
            let open = sim.disk().open_files();
            assert!(open <= 40 + 2, "{open} files are open at {next}");
        }
        let mut rng = Rng::new(1);
        for _ in 0..300 {
            let time = From::Timestamp(5_000 + rng.below(5_000));
            assert_eq!(poll(&log, time, 1, 1).await.unwrap().messages, 1);
            assert!(sim.disk().open_files() <= 42, "{}", sim.disk().open_files());
        }
        assert!(sim.disk().open_files() > 30, "as many as are allowed are kept");
        append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
        log.close().await.unwrap();
    });
    assert_eq!(sim.disk().open_files(), 0);
}

/// With few descriptors for everything: polls of many segments, rolls and openings are refused with
/// the reason or work, and all of it works when there are enough again.
#[test]
fn few_descriptors_refuse_and_break_nothing() {
    let sim = many_segments(100);
    for max in 0..8 {
        sim.disk().set_open_files_max(max);
        let opened = sim.run(try_open(sim.platform(), small_segments()));
        if let Ok((log, _)) = opened {
            sim.run(async {
                for offset in 0..100 {
                    let got = poll(&log, From::Offset(offset), 1, 1).await;
                    let is_limit = |error: &corelog_storage::PollError| {
                        let corelog_storage::PollError::Io(error) = error else { return false };
                        error.source.raw_os_error() == Some(24)
                    };
                    assert!(
                        got.as_ref().is_ok_and(|got| got.next == offset + 1)
                            || got.as_ref().is_err_and(is_limit),
                        "{max}: {got:?}"
                    );
                }
                sim.disk().set_open_files_max(usize::MAX);
                let _ = log.close().await;
            });
        }
        sim.disk().process_kill(max as u64);
    }
    sim.disk().set_open_files_max(usize::MAX);
    sim.run(async {
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert_eq!(report.damage, []);
        for offset in 0..100 {
            assert_eq!(poll(&log, From::Offset(offset), 1, 1).await.unwrap().next, offset + 1);
        }
        let appended = append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
        assert_eq!(appended.base_offset, 100);
    });
}

/// Handles that are only kept for later polls give way where no descriptor is left: polls of other
/// segments, a roll, another partition and a stored mark all get theirs.
#[test]
fn kept_handles_give_way_where_descriptors_run_out() {
    let sim = many_segments(100);
    sim.run(async {
        let shared = Shared::new(sim.platform().clone(), SharedLimits::default());
        let opened = Log::open(shared.clone(), place(), small_segments()).await;
        let (log, _) = opened.unwrap();
        let fill = async |offsets: std::ops::Range<u64>| {
            for offset in offsets {
                let got = poll(&log, From::Offset(offset), 1, 1).await.unwrap();
                assert_eq!(got.next, offset + 1);
            }
        };
        fill(0..30).await;
        let kept = shared.open_handles();
        assert!(kept >= 30, "{kept} handles are kept");
        // The index of a segment that is read wants one, too: what is used is not closed for it.
        sim.disk().set_open_files_max(sim.disk().open_files());
        fill(30..100).await;
        assert!(shared.open_handles() > 20, "a few are closed, not all");

        for tag in 0..30 {
            fill(0..30).await;
            append_wait(&log, &batch(tag, &[100_000]), Ack::Durable).await;
        }
        assert!(log.stats().segments > 101, "it rolled: {:?}", log.stats());
        fill(0..30).await;
        let other = Place { dir: place().dir.join("other"), ..place() };
        let (other, report) = Log::open(shared.clone(), other, small_segments()).await.unwrap();
        assert!(report.created && report.damage.is_empty(), "{report:?}");
        fill(0..30).await;
        other.close().await.unwrap();
        log.close().await.unwrap();
    });
}

/// Readers at the tail, beside a writer: what was just written is served from memory.
#[test]
fn readers_at_the_tail_read_nothing_from_the_disk() {
    let sim = Sim::new(3);
    sim.run(async {
        let config = LogConfig { segment_bytes: 8 << 20, ..LogConfig::default() };
        let log = open(sim.platform(), config).await;
        let mut rng = Rng::new(3);
        let mut at = [0_u64; 2];
        for tag in 0..500 {
            let ack = [Ack::Appended, Ack::Written, Ack::Durable][rng.index(3)];
            append_wait(&log, &random_batch(&mut rng, 100_000), ack).await;
            for (reader, next) in at.iter_mut().enumerate() {
                if (tag + reader) % (1 + reader * 7) == 0 {
                    while *next < log.readable_end() {
                        *next = poll(&log, From::Offset(*next), 100, 1 << 20).await.unwrap().next;
                    }
                }
            }
        }
        let stats = log.stats();
        assert!(stats.segments > 2 && stats.bytes > 20 << 20);
        let read = stats.disk_read_bytes;
        // Who is behind where a segment ends reads the rest of it from its file.
        assert!(read * 10 < stats.bytes, "{read} bytes read of {} written", stats.bytes);
    });
}

/// Many partitions with what nobody has flushed yet, and sealed segments that are read: buffers stay
/// within what the shard's limits say, however many there are.
#[test]
fn buffers_stay_within_the_limits_whatever_the_number_of_partitions() {
    let limits = SharedLimits {
        cache_bytes: 2 << 20,
        read_ahead_bytes: 1 << 20,
        held_bytes: 4 << 20,
        ..SharedLimits::default()
    };
    for count in [1_u64, 20, 300] {
        let sim = Sim::new(count);
        sim.run(async {
            let shared = Shared::new(sim.platform().clone(), limits.clone());
            let mut logs = Vec::new();
            for partition in 0..count {
                let dir = place().dir.with_file_name(partition.to_string());
                let place = Place { dir, partition_id: partition as u32, ..place() };
                let config = LogConfig { flush_after: Duration::from_secs(60), ..small_segments() };
                let opened = Partition::open(shared.clone(), place, config).await;
                let (log, _): (Log, _) = opened.unwrap();
                logs.push(log);
            }
            let mut rng = Rng::new(count);
            for round in 0..3_000 / count + 2 {
                for log in &logs {
                    append(log, &batch(round, &[rng.below(9_000) as usize]), Ack::Appended);
                    if rng.chance(1, 4) {
                        let from = From::Offset(rng.below(log.readable_end() + 1));
                        poll(log, from, 100, 100_000).await.unwrap();
                    }
                }
                let held = sim.disk().buffers().used() as u64;
                // The cache, one tail block and an open buffer each, and the writes in flight.
                let each = (64 << 10) * count;
                let most = (2 << 20) + each + (8 << 20) + (4 << 20);
                assert!(held <= most, "{held} bytes of buffers, {count} partitions");
                let read = sim.disk().read_bytes_held();
                assert!(read <= (4 << 20) + (2 << 20), "{read} bytes of reads are held");
            }
            for log in &logs {
                log.flush(Ack::Written).await.unwrap();
            }
            sim.clock().sleep(Duration::from_secs(2)).await;
            // Idle: the cache and a tail block each.
            let held = sim.disk().buffers().used() as u64;
            assert!(held <= (2 << 20) + 4096 * count, "{held} bytes, {count} idle partitions");
        });
    }
}

/// The largest batch there is passes through recovery: afterwards nothing of it is held.
#[test]
fn recovery_of_the_largest_batch_holds_nothing_afterwards() {
    let sim = Sim::new(5);
    let largest = corelog_format::BATCH_BYTES_MAX as usize - 256 - 48;
    let config = LogConfig { segment_bytes: 256 << 20, ..LogConfig::default() };
    let model = filled_and_killed(&sim, config.clone(), &[100, largest, 100]);
    sim.run(async {
        let before = sim.disk().bytes(IoOp::Read);
        let (log, report) = try_open(sim.platform(), config).await.unwrap();
        assert_eq!(report.recovered_batches, 3);
        assert!(sim.disk().bytes(IoOp::Read) - before < 4 * largest as u64);
        let (written, read) = (sim.disk().buffers().used(), sim.disk().read_bytes_held());
        assert!(written + read <= 1 << 20, "{written} and {read} bytes are held");
        model.check_all(&log, &mut Rng::new(5)).await;
        sim.clock().sleep(Duration::from_secs(1)).await;
        let read = sim.disk().read_bytes_held();
        assert!(read <= 32 << 20, "{read} bytes are held after it was read: within the cache");
    });
}
