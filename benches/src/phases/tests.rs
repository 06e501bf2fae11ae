//! Producers against a log that stalls: what the histograms must show of it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::Stage;
use super::moved::Moved;
use super::produce::{self, Go, Load};
use super::schedule::{Arrivals, Schedule};
use crate::content::Content;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::plan::{Plan, Sent};
use crate::run_error::RunError;
use crate::subject::{Engine, EngineError, Records, Topic};

const STALL: Duration = Duration::from_millis(400);

/// Answers at once, but for one stall: appends block from `stall_at` on, once, for [`STALL`].
struct Stalling {
    stall_at: Mutex<Option<Instant>>,
    fails: bool,
}

struct Nothing;

impl Records for Nothing {
    fn slices(&self) -> &[Bytes] {
        &[]
    }

    fn next_offset(&self) -> u64 {
        0
    }
}

impl Engine for Stalling {
    type Records = Nothing;

    async fn append(&self, _: Topic, _: u32, _: Bytes) -> Result<(), EngineError> {
        let mut stall_at = self.stall_at.lock().unwrap();
        if stall_at.is_some_and(|at| Instant::now() >= at) {
            *stall_at = None;
            std::thread::sleep(STALL);
        }
        if self.fails { Err("no".into()) } else { Ok(()) }
    }

    async fn poll(
        &self,
        _: Topic,
        _: u32,
        _: u64,
        _: usize,
        _: Duration,
    ) -> Result<Nothing, EngineError> {
        Ok(Nothing)
    }

    fn syncs(&self) -> Option<u64> {
        None
    }

    fn close(self) -> Result<(), EngineError> {
        Ok(())
    }
}

fn produce(engine: &Stalling, plan: &Plan, load: Load<'_>) -> Result<(Moved, Sent), RunError> {
    let content = Content::new(1, 1, 100).unwrap();
    let (interrupt, live) = (Interrupt::default(), Live::default());
    let stage =
        Stage { content: &content, round: 0, poll_bytes: 1, interrupt: &interrupt, live: &live };
    let mut sent = Sent::nothing(plan.producers, plan.partitions);
    produce::run(engine, stage, load, &Go::new(&load), None, &mut sent).map(|moved| (moved, sent))
}

fn load(plan: &Plan) -> Load<'_> {
    Load {
        topic: Topic::Written,
        first_partition: 0,
        plan,
        in_flight: 1,
        schedule: None,
        time: None,
        warm_up: Duration::ZERO,
        on_begin: None,
        on_answer: None,
    }
}

/// A start every so many milliseconds.
fn every_ms(ms: u32) -> Schedule {
    let late = Duration::from_secs(60);
    Schedule { per_s: 1000.0 / f64::from(ms), arrivals: Arrivals::Even, burst: 1, seed: 1, late }
}

/// 1000 appends a second for a second, with a stall in the middle.
fn stalled(schedule: Option<Schedule>) -> Moved {
    let plan = Plan::new(1, 1, 1000);
    let stall_at = Instant::now() + Duration::from_millis(300);
    let engine = Stalling { stall_at: Mutex::new(Some(stall_at)), fails: false };
    // In a closed loop a thousand appends would be over before the stall.
    let time = schedule.is_none().then_some(Duration::from_secs(1));
    let endless = plan.clone().endless();
    let plan = if time.is_some() { &endless } else { &plan };
    produce(&engine, plan, Load { schedule, time, ..load(plan) }).unwrap().0
}

#[test]
fn a_stall_is_felt_by_every_append_that_it_held_up() {
    // BEN-1. 400 of 1000 intended starts lie in the stall; each waited until it was over.
    let moved = stalled(Some(every_ms(1)));
    assert_eq!((moved.messages, moved.service.count()), (1000, 1000));
    let response = moved.response.as_ref().unwrap();
    assert_eq!(response.count(), 1000);
    assert!(response.max_us() >= 395_000.0, "{}", response.max_us());
    assert!(response.percentile_us(99.0) >= 300_000.0, "{}", response.percentile_us(99.0));
    assert!(response.percentile_us(80.0) >= 100_000.0, "{}", response.percentile_us(80.0));
    // The rate that was reached is told as it was: all of them, in a second and not in less.
    assert!(moved.elapsed() >= Duration::from_millis(950), "{:?}", moved.elapsed());
    // From the real start the same stall is one append's: that is what is omitted elsewhere.
    assert!(moved.service.max_us() >= 395_000.0);
    assert!(moved.service.percentile_us(80.0) < response.percentile_us(80.0));
}

#[test]
fn a_closed_loop_has_service_times_only() {
    let moved = stalled(None);
    assert!(moved.response.is_none());
    assert!(moved.service.max_us() >= 395_000.0);
}

#[test]
fn a_phase_that_ends_by_time_stops_sending_and_takes_all_answers() {
    let plan = Plan::new(2, 3, 1).endless();
    let engine = Stalling { stall_at: Mutex::new(None), fails: false };
    let times = Load { time: Some(Duration::from_millis(60)), ..load(&plan) };
    let (moved, sent) = produce(&engine, &plan, times).unwrap();
    // Warm-up batches were sent and are not counted.
    assert_eq!(moved.messages + 3, sent.total());

    let warm_up = Duration::from_millis(30);
    let (moved, sent) = produce(&engine, &plan, Load { warm_up, ..times }).unwrap();
    assert!(moved.messages + 3 < sent.total());
    assert!(moved.elapsed() <= Duration::from_secs(60));
}

#[test]
fn what_counts_begins_once_and_not_before_the_warm_up_is_over() {
    let plan = Plan::new(2, 3, 1).endless();
    for warm_up in [Duration::ZERO, Duration::from_millis(40)] {
        let engine = Stalling { stall_at: Mutex::new(None), fails: false };
        let begun = Mutex::new(Vec::new());
        let begin = || begun.lock().unwrap().push(Instant::now());
        let time = Some(Duration::from_millis(80));
        let load = Load { time, warm_up, on_begin: Some(&begin), ..load(&plan) };
        let (moved, _) = produce(&engine, &plan, load).unwrap();
        let [begun] = begun.into_inner().unwrap()[..] else { panic!("not once") };
        if warm_up.is_zero() {
            assert!(begun <= moved.start(), "producers wait for it");
        } else {
            assert!(begun >= moved.start(), "{:?} too early", moved.start() - begun);
        }
    }
}

#[test]
fn a_warm_up_can_be_stopped() {
    let plan = Plan::new(1, 1000, 1).endless();
    let content = Content::new(1, 1, 100).unwrap();
    let (interrupt, live) = (Interrupt::default(), Live::default());
    interrupt.raise();
    let stage =
        Stage { content: &content, round: 0, poll_bytes: 1, interrupt: &interrupt, live: &live };
    let engine = Stalling { stall_at: Mutex::new(None), fails: false };
    let (load, mut sent) = (load(&plan), Sent::nothing(1, 1000));
    produce::run(&engine, stage, load, &Go::new(&load), None, &mut sent).unwrap();
    assert_eq!(sent.total(), 0);
}

#[test]
fn a_schedule_ends_with_its_time_and_not_with_the_answers() {
    // 20 starts of 5 ms lie in 100 ms, and the first of them is stalled for longer than that.
    let answered = |late| {
        let plan = Plan::new(1, 1, 1).endless();
        let engine = Stalling { stall_at: Mutex::new(None), fails: false };
        let stall = || *engine.stall_at.lock().unwrap() = Some(Instant::now());
        let load = Load {
            schedule: Some(Schedule { late, ..every_ms(5) }),
            time: Some(Duration::from_millis(100)),
            on_begin: Some(&stall),
            ..load(&plan)
        };
        produce(&engine, &plan, load).unwrap().0.response.unwrap().count()
    };
    assert_eq!(answered(Duration::from_secs(60)), 20);
    // A log that is far too slow is not asked for ever.
    assert_eq!(answered(Duration::from_millis(1)), 1);
}

#[test]
fn a_failed_append_ends_the_phase_with_its_error() {
    let plan = Plan::new(3, 3, 10);
    let engine = Stalling { stall_at: Mutex::new(None), fails: true };
    let error = produce(&engine, &plan, load(&plan)).unwrap_err();
    assert_eq!(error.to_string(), "appending: no");
}
