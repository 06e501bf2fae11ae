//! What a poll holds while it waits: buffers are finite, and polls that hold what is not counted
//! may all wait for each other's.

mod common;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Sim, errno};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::{Ack, From, LogConfig, PollError, SharedLimits};

/// Nothing is kept for readers, and windows are small.
fn bare() -> SharedLimits {
    SharedLimits {
        cache_bytes: 0,
        read_bytes: 64 << 10,
        read_ahead_bytes: 0,
        ..SharedLimits::default()
    }
}

/// Most bytes that reads had filled and somebody held, while a read was on its way.
async fn held_while_waiting<T>(sim: &Sim, work: impl Future<Output = T>) -> (T, usize) {
    let (most, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let (seen, ended) = (Rc::clone(&most), Rc::clone(&done));
    let platform = sim.platform().clone();
    sim.platform().spawn().spawn(async move {
        while !ended.get() {
            // Every operation takes 1,000 us: in between all who want something wait.
            platform.clock().sleep(Duration::from_micros(333)).await;
            seen.set(seen.get().max(platform.disk().read_bytes_held()));
        }
    });
    let result = work.await;
    done.set(true);
    (result, most.get())
}

#[test]
fn a_poll_on_its_way_holds_nothing_of_what_it_has_passed() {
    let sim = Sim::new(1);
    sim.run(filled(sim.platform(), small_segments(), &[20_000; 60]));
    // Without an index everything before is walked.
    sim.disk().delete(index_file(0)).unwrap();
    sim.run(async {
        let (log, _) = open_limited(sim.platform(), small_segments(), bare()).await.unwrap();
        sim.disk().set_delay_us(1_000..=1_000);
        let one = poll(&log, From::Offset(40), 1, 1);
        let (got, held) = held_while_waiting(&sim, one).await;
        assert_eq!(got.unwrap().messages, 1);
        assert!(log.stats().disk_read_bytes > 500_000, "many windows were passed");
        assert_eq!(held, 0, "held while the next window was waited for");
    });
}

#[test]
fn a_poll_that_holds_too_much_ends_at_the_end_of_a_segment_too() {
    let sim = Sim::new(2);
    let model = sim.run(filled(sim.platform(), small_segments(), &[200_000; 12]));
    let next = logs(&sim)[1];
    sim.run(async {
        let limits = SharedLimits { held_bytes: 0, ..bare() };
        let (log, _) = open_limited(sim.platform(), small_segments(), limits).await.unwrap();
        let got = poll(&log, From::Offset(next - 1), u32::MAX, 1 << 20).await.unwrap();
        assert_eq!(got.next, next, "the next segment would have to be waited for");
        model.check_all(&log, &mut corelog_io::sim::Rng::new(1)).await;
    });
}

#[test]
fn a_partition_with_a_fault_holds_only_what_it_serves() {
    let sim = Sim::new(3);
    sim.run(async {
        let limits = SharedLimits { write_bytes: 64 << 10, ..SharedLimits::default() };
        let (log, _) = open_limited(sim.platform(), LogConfig::default(), limits).await.unwrap();
        let kept = batch(1, &[10_000]);
        append_wait(&log, &kept, Ack::Written).await;
        let before = sim.disk().buffers().used();
        sim.disk().set_delay_us(1_000..=1_000);
        let fault = Fault::fail(errno::EIO).of(IoOp::Write).on(".log").for_ever();
        let fault = sim.disk().inject(fault);
        for tag in 2..100 {
            append(&log, &batch(tag, &[30_000]), Ack::Appended);
        }
        sim.clock().sleep(Duration::from_secs(2)).await;
        assert!(log.fault().is_some());
        let held = sim.disk().buffers().used();
        assert!(held <= before, "{held} bytes of buffers for nobody, {before} before the fault");
        assert_eq!(poll(&log, From::First, 9, 1 << 20).await.unwrap().messages, 1);
        sim.disk().lift(fault);
        let (log, _) = log.reopen().await.unwrap();
        assert!(log.watermarks().appended() >= 1);
        log.close().await.unwrap();
    });
}

/// Design: an idle partition holds at most its tail block, and the cache its budget.
#[test]
fn an_idle_partition_holds_no_buffer_beyond_the_budget_of_the_cache() {
    for (seed, enforce_fsync) in [(4, true), (5, false)] {
        for cache_bytes in [0, 8 << 10] {
            let sim = Sim::new(seed);
            sim.disk().set_delay_us(1..=900);
            sim.run(async {
                let limits = SharedLimits {
                    cache_bytes,
                    write_bytes: 4 << 10,
                    writes_in_flight: 2,
                    ..SharedLimits::default()
                };
                let config = LogConfig { enforce_fsync, ..small_segments() };
                let (log, _) = open_limited(sim.platform(), config, limits).await.unwrap();
                for tag in 0..200 {
                    append(
                        &log,
                        &batch(tag, &[1 + (tag as usize * 7_919) % 40_000]),
                        Ack::Appended,
                    );
                    sim.clock().sleep(Duration::from_micros(tag * 13 % 700)).await;
                }
                log.flush(Ack::Written).await.unwrap();
                sim.clock().sleep(Duration::from_secs(2)).await;
                // But for the block that the shard keeps apart.
                let held = sim.disk().buffers().used() - 4096;
                assert!(held <= cache_bytes, "{held} bytes held, {cache_bytes} may be");
                log.close().await.unwrap();
            });
        }
    }
}

/// Both want the same window, the second poll runs first when its read has failed.
#[test]
fn the_error_of_a_shared_read_is_that_of_who_asked_for_it() {
    for (times, fails) in [(1, false), (u64::MAX, true)] {
        let sim = Sim::new(6);
        sim.run(filled(sim.platform(), LogConfig::default(), &[20_000; 20]));
        sim.run(async {
            let limits = SharedLimits { cache_bytes: 1 << 20, ..bare() };
            let opened = open_limited(sim.platform(), LogConfig::default(), limits).await;
            let (log, _) = opened.unwrap();
            poll(&log, From::Offset(0), 1, 1).await.unwrap();
            sim.disk().set_delay_us(1_000..=1_000);
            let fault = Fault::fail(errno::EIO).of(IoOp::Read).on(".log");
            let fault = if fails { fault.for_ever() } else { fault.times(times) };
            sim.disk().inject(fault);
            let (mut asks, mut follows) = (
                pin!(poll(&log, From::Offset(10), 1, 1)),
                pin!(poll(&log, From::Offset(10), 1, 1)),
            );
            let (mut begun, mut first, mut second) = (false, None, None);
            poll_fn(|cx| {
                for turn in [begun, !begun] {
                    let (future, result) = match turn {
                        false => (asks.as_mut(), &mut first),
                        true => (follows.as_mut(), &mut second),
                    };
                    if result.is_none()
                        && let Poll::Ready(got) = future.poll(cx)
                    {
                        *result = Some(got);
                    }
                }
                begun = true;
                if first.is_some() && second.is_some() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            for got in [first.unwrap(), second.unwrap()] {
                match got {
                    Ok(got) => assert!(!fails && got.messages == 1),
                    Err(PollError::Unreadable { error, .. }) => {
                        assert!(fails, "the read of the batch alone works: {error}");
                        assert_eq!(error.source.raw_os_error(), Some(errno::EIO), "{error}");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
}

/// Readers that sit on all of the shard's write buffers hold up no close, and no mark.
#[test]
fn a_close_needs_no_buffer_that_readers_hold() {
    let sim = Sim::new(7);
    sim.run(async {
        sim.disk().buffers().set_limit(64 << 10);
        let log = open(sim.platform(), LogConfig::default()).await;
        let mut views = Vec::new();
        while sim.disk().buffers().alloc(4096).is_some() {
            let offset = append_wait(&log, &batch(1, &[3_000]), Ack::Durable).await.base_offset;
            views.push(log.poll(query(From::Offset(offset), 1, 1)).await.unwrap());
            assert!(views.len() < 100, "the views hold what they show");
        }
        log.close().await.unwrap();
        drop(views);
    });
    sim.run(async {
        let (_, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert_eq!((report.row, report.rewritten_bytes), ("whole", 0), "the mark is at the end");
    });
}
