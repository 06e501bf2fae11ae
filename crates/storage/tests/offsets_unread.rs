//! Stored offsets that cannot be read at an opening: nothing is taken for none, nothing is appended that
//! would count as consumed, nothing is dropped, and it ends by itself when the disk allows it.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use common::*;
use corelog_format::{SLOT_LEN, checksum};
use corelog_io::sim::{Fault, FaultId, Sim, errno};
use corelog_io::{Clock, IoOp};
use corelog_storage::{
    Ack, AppendError, ConsumerKey, From, LogConfig, Notice, Observer, OffsetError, Place,
    PollError, Shared, SharedLimits,
};

const FILE: &str = "consumer_offsets";
/// Time in which they are read again, and what follows from that is done.
const SOON: Duration = Duration::from_millis(1_100);

fn no_descriptor(sim: &Sim) -> FaultId {
    sim.disk().inject(Fault::fail(errno::EMFILE).of(IoOp::Open).on(FILE).for_ever())
}

/// Counts how often the file is opened.
fn opens(sim: &Sim) -> FaultId {
    sim.disk().inject(Fault::delay(Duration::ZERO).of(IoOp::Open).on(FILE).for_ever())
}

fn refused(log: &Log) -> Option<AppendError> {
    append(log, &batch(99, &[10]), Ack::Durable).get().expect("answered at once").err()
}

fn stored(log: &Log, who: ConsumerKey) -> Option<u64> {
    log.consumer_offset(who).expect("they are known")
}

#[test]
fn they_are_read_again_and_everything_goes_on() {
    let sim = Sim::new(1);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        for tag in 0..40 {
            append_wait(&log, &batch(tag, &[60_000]), Ack::Durable).await;
        }
        log.store_offset(consumer(1), 30, Ack::Durable).await.unwrap();
        log.close().await.unwrap();
        let segments = logs(&sim);
        assert!(segments.len() > 2 && segments[1] <= 30, "{segments:?}");

        let fault = no_descriptor(&sim);
        let log = open(sim.platform(), small_segments()).await;
        sim.clock().sleep(Duration::from_secs(5)).await;
        let error = log.consumer_offset(consumer(1)).unwrap_err();
        assert!(matches!(error, OffsetError::Unreadable(_)), "{error}");
        let error = log.store_offset(consumer(1), 1, Ack::Durable).await.unwrap_err();
        assert!(matches!(error, OffsetError::Unreadable(_)), "{error}");
        let next = log.poll(query(From::Next(consumer(1)), 1, 1)).await.map(drop).unwrap_err();
        assert!(matches!(next, PollError::Offsets(_)), "{next}");
        assert_eq!(poll(&log, From::First, 1, 1).await.unwrap().messages, 1);
        let error = refused(&log);
        assert!(matches!(error, Some(AppendError::Offsets(_))), "{error:?}");
        assert_eq!(log.stats().append_errors, 1);
        assert_eq!(log.delete_segments(9).await.unwrap().segments, 0, "nobody knows what may go");
        assert!(sim.disk().hits(fault) >= 5, "it was tried again");

        sim.disk().lift(fault);
        sim.clock().sleep(SOON).await;
        assert_eq!(stored(&log, consumer(1)), Some(30));
        assert_eq!(append_wait(&log, &batch(40, &[10]), Ack::Durable).await.base_offset, 40);
        assert!(log.delete_segments(9).await.unwrap().segments > 0);
        let opens = opens(&sim);
        sim.clock().sleep(Duration::from_secs(10)).await;
        assert_eq!(sim.disk().hits(opens), 0, "once is enough");
        log.close().await.unwrap();
    });
}

/// As `an_offset_above_the_end_is_put_down_before_anything_is_appended`, with the first opening's read
/// failing: the end that counts is where the log ended then.
#[test]
fn an_offset_above_the_end_is_put_down_before_anything_is_appended() {
    for seed in 0..20 {
        let sim = Sim::new(seed);
        sim.run(async {
            let log = log_of(&sim, 3).await;
            log.flush(Ack::Durable).await.unwrap();
            for tag in 3..40 {
                append_wait(&log, &batch(tag, &[5_000]), Ack::Appended).await;
            }
            log.store_offset(consumer(1), 39, Ack::Durable).await.unwrap();
        });
        sim.disk().power_cut(seed);
        let last = sim.run(async {
            let fault = no_descriptor(&sim);
            let log = open(sim.platform(), small_segments()).await;
            let last = log.readable_end() - 1;
            assert!(refused(&log).is_some());
            // It is read now, and cannot be put down: a first write of the file fails.
            sim.disk().lift(fault);
            let full = Fault::fail(errno::ENOSPC).of(IoOp::Write).on(FILE);
            let full = (last < 39).then(|| sim.disk().inject(full.for_ever()));
            sim.clock().sleep(SOON).await;
            if let Some(full) = full {
                assert!(sim.disk().hits(full) > 0);
                assert!(refused(&log).is_some());
                assert!(log.consumer_offset(consumer(1)).is_err());
                sim.disk().lift(full);
                sim.clock().sleep(SOON).await;
            }
            assert_eq!(stored(&log, consumer(1)), Some(last.min(39)), "seed {seed}");
            for tag in 40..80 {
                append_wait(&log, &batch(tag, &[10]), Ack::Written).await;
            }
            last
        });
        sim.disk().process_kill(1);
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            assert_eq!(stored(&log, consumer(1)), Some(last.min(39)), "seed {seed}");
            log.close().await.unwrap();
        });
    }
}

/// Groups that went meanwhile keep nothing from being dropped.
#[test]
fn groups_that_were_told_of_meanwhile_count() {
    let sim = Sim::new(3);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        let all = [ConsumerKey::group(1), ConsumerKey::group(2), consumer(1)];
        for who in all {
            log.store_offset(who, 4, Ack::Durable).await.unwrap();
        }
        log.close().await.unwrap();
        let fault = no_descriptor(&sim);
        let log = open(sim.platform(), small_segments()).await;
        log.keep_groups(&Arc::from([2]), 3);
        sim.disk().lift(fault);
        sim.clock().sleep(SOON).await;
        assert_eq!(all.map(|who| stored(&log, who)), [None, Some(4), Some(4)]);
        let error = log.store_offset(all[0], 4, Ack::Durable).await.unwrap_err();
        assert!(matches!(error, OffsetError::GroupIsGone { id: 1 }), "{error}");
        sim.clock().sleep(SOON).await;
    });
    sim.disk().process_kill(1);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        assert_eq!(stored(&log, ConsumerKey::group(1)), None, "that is durable");
        log.close().await.unwrap();
    });
}

/// Descriptors that nobody needs now are given back for them, as for every other file.
#[test]
fn idle_handles_make_room_for_them() {
    let sim = Sim::new(4);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        log.store_offset(consumer(1), 4, Ack::Durable).await.unwrap();
        log.close().await.unwrap();
        let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
        let shared = Shared::new(sim.platform().clone(), limits);
        let other = Place { dir: place().dir.join("other"), ..place() };
        let (other, _) = Log::open(shared.clone(), other, small_segments()).await.unwrap();
        for tag in 0..40 {
            append_wait(&other, &batch(tag, &[60_000]), Ack::Durable).await;
        }
        assert_eq!(poll(&other, From::First, 1, 1).await.unwrap().messages, 1);
        sim.disk().inject(Fault::fail(errno::EMFILE).of(IoOp::Open).on(FILE));
        let (log, _) = Log::open(shared, place(), small_segments()).await.unwrap();
        assert_eq!(stored(&log, consumer(1)), Some(4), "without a second's delay");
        log.close().await.unwrap();
    });
}

/// A file that a newer release wrote is not read again and again, and stays as it is.
#[test]
fn a_newer_releases_offsets_stay() {
    let sim = Sim::new(5);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        log.store_offset(consumer(1), 4, Ack::Durable).await.unwrap();
        log.close().await.unwrap();
        let path = place().dir.join(FILE);
        let mut newer = sim.disk().contents(&path).unwrap();
        newer[16] = 2;
        let sum = checksum::xxh3(&newer[16..SLOT_LEN]);
        newer[8..16].copy_from_slice(&sum.to_le_bytes());
        sim.disk().put(&path, &newer).unwrap();
        let log = open(sim.platform(), small_segments()).await;
        let error = log.consumer_offset(consumer(1)).unwrap_err();
        assert!(matches!(error, OffsetError::Unreadable(_)), "{error}");
        assert!(matches!(refused(&log), Some(AppendError::Offsets(_))));
        let opens = opens(&sim);
        sim.clock().sleep(Duration::from_secs(10)).await;
        assert_eq!(sim.disk().hits(opens), 0);
        log.close().await.unwrap();
        assert_eq!(sim.disk().contents(&path).unwrap(), newer);
    });
}

/// It closes, and opens again, in the middle of it; what was told of it goes to the observer.
#[test]
fn a_close_does_not_wait_for_it_and_observers_are_told() {
    struct Seen(RefCell<Vec<String>>);
    impl Observer for Seen {
        fn notice(&self, notice: &Notice<'_>) {
            let text = match notice {
                Notice::OffsetsUnread(error) => format!("unread: {:?}", error.op),
                Notice::OffsetsRead { damaged } => format!("read, damaged: {damaged}"),
                _ => return,
            };
            self.0.borrow_mut().push(text);
        }
    }
    let sim = Sim::new(6);
    sim.run(async {
        let log = log_of(&sim, 10).await;
        log.store_offset(consumer(1), 4, Ack::Durable).await.unwrap();
        log.close().await.unwrap();
        let fault = no_descriptor(&sim);
        let seen = Rc::new(Seen(RefCell::default()));
        let observer: Rc<dyn Observer> = Rc::<Seen>::clone(&seen);
        let shared = Shared::new(sim.platform().clone(), SharedLimits::default());
        let shared = shared.observed_by(observer);
        for pause_ms in [0, 10, 1_000] {
            let (log, _) = Log::open(shared.clone(), place(), LogConfig::default()).await.unwrap();
            sim.clock().sleep(Duration::from_millis(pause_ms)).await;
            log.close().await.unwrap();
            assert!(matches!(refused(&log), Some(AppendError::Closed)));
        }
        let (log, _) = Log::open(shared.clone(), place(), LogConfig::default()).await.unwrap();
        sim.disk().lift(fault);
        // In the middle of the attempt the file goes bad.
        sim.disk().put(place().dir.join(FILE), &[0xA5; 8192]).unwrap();
        sim.clock().sleep(SOON).await;
        assert_eq!(stored(&log, consumer(1)), None);
        log.close().await.unwrap();
        let told = seen.0.take();
        assert_eq!(told.len(), 5, "{told:?}");
        assert!(told[..4].iter().all(|text| text == "unread: Open"), "{told:?}");
        assert_eq!(told[4], "read, damaged: true");
    });
}
