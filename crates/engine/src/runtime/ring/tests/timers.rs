//! Sleeps: their order, their end, and what becomes of those that nobody waits for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::{executor, poll_once, reached, run};
use crate::runtime::ring::{Executor, Options, local, sleep, spawn, yield_now};

#[test]
fn sleeps_end_in_their_order_and_not_before_their_time() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let ended = Rc::new(Cell::new(0));
    run(async {
        for ms in [30_u64, 10, 20, 0, 10] {
            let (seen, ended) = (Rc::clone(&seen), Rc::clone(&ended));
            spawn(async move {
                let start = Instant::now();
                sleep(Duration::from_millis(ms)).await;
                assert!(start.elapsed() >= Duration::from_millis(ms));
                seen.borrow_mut().push(ms);
                ended.set(ended.get() + 1);
            });
        }
        while ended.get() < 5 {
            sleep(Duration::from_millis(1)).await;
        }
    });
    assert_eq!(*seen.borrow(), [0, 10, 10, 20, 30]);
}

#[test]
fn thousands_of_sleeps_end() {
    let ended = Rc::new(Cell::new(0));
    run(async {
        for number in 0..10_000_u64 {
            let ended = Rc::clone(&ended);
            spawn(async move {
                sleep(Duration::from_micros(number * 7919 % 50_000)).await;
                ended.set(ended.get() + 1);
            });
        }
        while ended.get() < 10_000 {
            sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(local::expect().timers.len(), 1, "the test's own");
    });
}

#[test]
fn a_sleep_that_is_dropped_wakes_nobody_and_leaves_nothing() {
    let executor = executor();
    executor.run(async {
        let mut far = Box::pin(sleep(Duration::from_secs(3600)));
        assert!(!poll_once(&mut far).await);
        assert_eq!(local::expect().timers.len(), 1);
        drop(far);
        assert_eq!(local::expect().timers.len(), 0);
        // One beyond the clock's range never ends, and does no harm.
        let mut never = Box::pin(sleep(Duration::MAX));
        assert!(!poll_once(&mut never).await);
        assert_eq!(local::expect().timers.len(), 0);
    });
}

#[test]
fn a_sleeper_is_dropped_with_its_executor_and_a_sleep_outlives_it() {
    let executor = executor();
    let held = Rc::new(());
    let mut kept = Box::pin(sleep(Duration::from_secs(3600)));
    executor.run(async {
        let theirs = Rc::clone(&held);
        spawn(async move {
            sleep(Duration::from_secs(3600)).await;
            drop(theirs);
        });
        yield_now().await;
        assert!(!poll_once(&mut kept).await);
    });
    drop(executor);
    assert_eq!(Rc::strong_count(&held), 1);
    drop(kept);
}

#[test]
fn sleeps_end_in_time_beside_busy_tasks_and_while_the_loop_spins() {
    let spins = Some(Duration::from_millis(50));
    for spin in [None, spins] {
        let executor = Executor::new(Options { spin, ..Options::default() }).expect("a ring");
        executor.run(async {
            let ended = Rc::new(Cell::new(0));
            let theirs = Rc::clone(&ended);
            spawn(async move {
                sleep(Duration::from_millis(5)).await;
                theirs.set(1);
            });
            // One that never lets the queue run empty.
            reached(&ended, 1).await;
            sleep(Duration::from_millis(5)).await;
        });
    }
}
