//! Sleeps, the pulse behind them, and what the executor counts.

use std::cell::RefCell;
use std::rc::Rc;

use corelog_io::{Clock, Spawn};

use super::*;
use crate::runtime::glommio::counts::counts;

#[test]
fn sleeps_end_in_the_order_of_their_times_and_none_before() {
    on_shard("sleeps", |platform, _| async move {
        let ended = Rc::new(RefCell::new(Vec::new()));
        for ms in [30, 10, 20, 10] {
            let (platform, ended) = (platform.clone(), Rc::clone(&ended));
            platform.clone().spawn().spawn(async move {
                let begun = std::time::Instant::now();
                platform.clock().sleep(Duration::from_millis(ms)).await;
                assert!(begun.elapsed() >= Duration::from_millis(ms));
                ended.borrow_mut().push(ms);
            });
        }
        // One that nobody waits for any more does not stand in the way of the others.
        let mut dropped = Box::pin(platform.clock().sleep(Duration::from_millis(5)));
        std::future::poll_fn(|cx| {
            assert!(dropped.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(dropped);
        platform.clock().sleep(Duration::from_millis(60)).await;
        assert_eq!(*ended.borrow(), [10, 10, 20, 30]);
    });
}

#[test]
fn readers_of_the_counts_do_not_take_them_from_each_other() {
    on_shard_of(Runtime::Glommio, "counts", |platform, _| async move {
        let before = counts();
        for _ in 0..10 {
            platform.spawn().spawn(async {
                let _ = counts();
            });
        }
        // They are added up when the queue has been run.
        platform.clock().sleep(Duration::from_millis(1)).await;
        let after = counts();
        assert!(after.tasks >= before.tasks + 10, "{before:?} to {after:?}");
        assert!(after.turns > before.turns, "{before:?} to {after:?}");
    });
}

/// What storage asks for after it has kept the shard busy.
#[test]
fn a_turn_to_io_is_a_turn() {
    on_shard("turns", |platform, _| async move {
        let spawn = platform.spawn();
        for _ in 0..100 {
            let before = spawn.turns();
            spawn.turn_to_io().await;
            assert!(spawn.turns() > before, "still at {before}");
        }
        let before = spawn.turns();
        assert_eq!(spawn.turns(), before, "no turn in the middle of a task");
    });
}

#[test]
fn timers_and_rings_go_with_their_executor() {
    let open = || {
        let numbers = std::fs::read_dir("/proc/self/fd").expect("there is /proc").flatten();
        let names = numbers.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let is_ours = |name: &PathBuf| {
            ["[timerfd]", "[io_uring]"].iter().any(|kind| name.to_string_lossy().contains(kind))
        };
        names.filter(is_ours).count()
    };
    // Other tests have executors as well: only what stays is counted.
    let stays = |atleast: usize| {
        (0..200).all(|_| {
            std::thread::sleep(Duration::from_millis(20));
            open() >= atleast
        })
    };
    let before = open();
    for round in 0..40 {
        on_shard(&format!("timers_go_{round}"), |platform, _| async move {
            platform.clock().sleep(Duration::from_millis(1)).await;
            // Still asleep when the shard ends.
            let forgotten = platform.clone();
            platform.spawn().spawn(async move {
                forgotten.clock().sleep(Duration::from_secs(3600)).await;
            });
            platform.spawn().yield_now().await;
        });
    }
    assert!(!stays(before + 40), "{before} timers and rings before, {} now", open());
}
