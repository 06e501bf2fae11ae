//! What consumers store beside everything else: deletions, faults of the directory, openings.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Sim, errno};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::{Ack, From, OffsetError, PollQuery};

const FILE: &str = "consumer_offsets";

/// A deletion waits for its turn when somebody goes back: what that one has not read stays.
#[test]
fn an_offset_that_is_stored_while_a_deletion_waits_holds_it_up() {
    let sim = Sim::new(13);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        for tag in 0..80 {
            append_wait(&log, &batch(tag, &[60_000]), Ack::Durable).await;
        }
        sim.clock().sleep(Duration::from_secs(3)).await;
        let segments = logs(&sim);
        log.store_offset(consumer(1), 79, Ack::Durable).await.unwrap();
        let stall = sim.disk().inject(Fault::stall().of(IoOp::Write).on("manifest"));
        let first = log.trim(segments[1]);
        sim.clock().sleep(Duration::from_millis(50)).await;
        assert_eq!(sim.disk().hits(stall), 1, "the first one has the manifest");
        let deleted = Rc::new(RefCell::new(None));
        let (of, slot) = (log.clone(), Rc::clone(&deleted));
        sim.platform().spawn().spawn(async move {
            let result = of.delete_segments(u32::MAX).await;
            *slot.borrow_mut() = Some(result);
        });
        sim.clock().sleep(Duration::from_millis(50)).await;
        log.store_offset(consumer(1), segments[1], Ack::Appended).await.unwrap();
        sim.disk().lift(stall);
        assert_eq!(first.await.unwrap().segments, 1);
        sim.clock().sleep(Duration::from_secs(1)).await;
        let deleted = deleted.borrow_mut().take().expect("it has ended").unwrap();
        assert_eq!((deleted.start, deleted.segments), (segments[1], 0));
        assert_eq!(logs(&sim), segments[1..]);
        log.close().await.unwrap();
    });
}

/// The names of other files are in the same directory: nobody knows any more which are durable.
#[test]
fn a_failed_sync_of_the_directory_poisons() {
    let sim = Sim::new(14);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::SyncDir));
        let error = log.store_offset(consumer(1), 5, Ack::Durable).await.unwrap_err();
        assert!(matches!(error, OffsetError::Io(_)), "{error}");
        let refused = append(&log, &batch(1, &[10]), Ack::Appended).get().unwrap();
        assert!(refused.is_err(), "{refused:?}");
        let (log, _) = log.reopen().await.unwrap();
        log.store_offset(consumer(1), 6, Ack::Durable).await.unwrap();
        append_wait(&log, &batch(1, &[10]), Ack::Durable).await;
    });
    sim.disk().power_cut(1);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        assert_eq!(log.consumer_offset(consumer(1)).unwrap(), Some(6));
        log.close().await.unwrap();
    });
}

/// A longer table took the place of the file, but its directory could not be synced for want of a
/// descriptor. What is stored next, shorter again, must not go into slots of the wrong length.
#[test]
fn a_table_that_grew_half_way_is_made_anew() {
    let sim = Sim::new(15);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        for id in 0..250 {
            log.store_offset(consumer(id), 1, Ack::Appended).await.unwrap();
        }
        log.store_offset(consumer(0), 2, Ack::Durable).await.unwrap();
        let before = sim.disk().contents(place().dir.join(FILE)).unwrap().len();
        let stall = sim.disk().inject(Fault::stall().of(IoOp::Rename).on(FILE));
        for id in 250..300 {
            log.store_offset(consumer(id), 1, Ack::Appended).await.unwrap();
        }
        let growing = log.store_offset(consumer(0), 3, Ack::Durable);
        while sim.disk().hits(stall) == 0 {
            sim.clock().sleep(Duration::from_millis(1)).await;
        }
        sim.disk().set_open_files_max(sim.disk().open_files());
        sim.disk().lift(stall);
        let error = growing.await.unwrap_err();
        assert!(matches!(error, OffsetError::Io(_)), "{error}");
        sim.disk().set_open_files_max(usize::MAX);
        assert!(sim.disk().contents(place().dir.join(FILE)).unwrap().len() > before);
        for id in 100..300 {
            log.delete_offset(consumer(id), Ack::Appended).await.unwrap();
        }
        log.store_offset(consumer(0), 4, Ack::Durable).await.unwrap();
        log.store_offset(consumer(1), 5, Ack::Durable).await.unwrap();
    });
    sim.disk().process_kill(1);
    sim.run(async {
        let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
        assert!(report.damage.is_empty(), "{report:?}");
        let told = [0, 1, 2, 99, 100].map(|id| log.consumer_offset(consumer(id)).unwrap());
        assert_eq!(told, [Some(4), Some(5), Some(1), Some(1), None]);
        log.close().await.unwrap();
    });
}

/// A log is opened again, one more message comes, and a consumer that goes on with auto-commit gets each
/// message once, wherever the segments and blocks end (OFF-1).
#[test]
fn nothing_is_passed_over_behind_an_opening() {
    // 18 of these batches fill a segment.
    for (messages, killed) in (0..40).map(|n| (n % 20 + 10, n < 20)) {
        let sim = Sim::new(messages);
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            for tag in 0..messages {
                append_wait(&log, &batch(tag, &[60_000]), Ack::Written).await;
            }
            if !killed {
                log.close().await.unwrap();
            }
        });
        sim.disk().process_kill(messages);
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            append(&log, &batch(messages, &[100]), Ack::Appended);
            let writer = log.clone();
            let clock = sim.clock().clone();
            sim.platform().spawn().spawn(async move {
                for tag in 1..6 {
                    clock.sleep(Duration::from_micros(700)).await;
                    append(&writer, &batch(messages + tag, &[100]), Ack::Appended);
                }
            });
            let mut served = Vec::new();
            while served.len() < messages as usize + 6 {
                let polled = log
                    .poll(PollQuery {
                        commit: Some(consumer(1)),
                        max_wait: Duration::from_secs(5),
                        ..PollQuery::new(From::Next(consumer(1)), 3, 1 << 20)
                    })
                    .await
                    .unwrap();
                assert!(polled.messages > 0, "{served:?}");
                served.extend(polled.first_offset.unwrap()..polled.next_offset);
            }
            assert_eq!(served, (0..messages + 6).collect::<Vec<_>>(), "killed: {killed}");
            log.close().await.unwrap();
        });
    }
}

/// What comes first behind an opening wakes whoever waits, and is served from memory: it need not be
/// written for that, wherever in a block or a segment the log ended.
#[test]
fn the_first_message_behind_an_opening_is_served_at_once() {
    for (messages, killed) in (0..20).map(|n| (n % 10 * 2 + 1, n < 10)) {
        let sim = Sim::new(messages);
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            for tag in 0..messages {
                append_wait(&log, &batch(tag, &[60_000]), Ack::Durable).await;
            }
            if !killed {
                log.close().await.unwrap();
            }
        });
        sim.disk().process_kill(messages);
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            let stall = sim.disk().inject(Fault::stall().of(IoOp::Write).on(".log").for_ever());
            let (writer, clock) = (log.clone(), sim.clock().clone());
            sim.platform().spawn().spawn(async move {
                clock.sleep(Duration::from_millis(50)).await;
                append(&writer, &batch(messages, &[100]), Ack::Appended);
            });
            let begun = sim.clock().now_us();
            let ask = PollQuery {
                max_wait: Duration::from_secs(3_600),
                ..PollQuery::new(From::Offset(messages), 9, 1 << 20)
            };
            let polled = log.poll(ask).await.unwrap();
            assert_eq!((polled.messages, polled.first_offset), (1, Some(messages)));
            let waited_us = sim.clock().now_us() - begun;
            assert!(waited_us < 1_000_000, "{waited_us} us, killed: {killed}");
            assert_eq!(log.watermarks().written(), messages, "it is not written yet");
            sim.disk().lift(stall);
            log.close().await.unwrap();
        });
    }
}
