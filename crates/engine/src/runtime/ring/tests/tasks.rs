//! The order of tasks, their end, and their panics.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use super::{executor, reached, run};
use crate::runtime::ring::{Executor, Options, spawn, turn_to_io, turns, yield_now};

#[test]
fn tasks_run_in_the_order_in_which_they_were_spawned_and_not_inside_the_spawner() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    run(async {
        for number in 0..100 {
            let theirs = Rc::clone(&seen);
            spawn(async move { theirs.borrow_mut().push(number) });
        }
        assert!(seen.borrow().is_empty(), "one ran inside its spawner");
        while seen.borrow().len() < 100 {
            yield_now().await;
        }
    });
    assert!(seen.borrow().iter().copied().eq(0..100), "{seen:?}");
}

#[test]
fn who_yields_goes_behind_those_that_are_ready() {
    let seen = Rc::new(RefCell::new(String::new()));
    let ended = Rc::new(Cell::new(0));
    run(async {
        for name in ["a", "b", "c"] {
            let (seen, ended) = (Rc::clone(&seen), Rc::clone(&ended));
            spawn(async move {
                for _ in 0..3 {
                    seen.borrow_mut().push_str(name);
                    yield_now().await;
                }
                ended.set(ended.get() + 1);
            });
        }
        reached(&ended, 3).await;
    });
    assert_eq!(*seen.borrow(), "abcabcabc");
}

#[test]
fn a_task_that_wakes_itself_keeps_nobody_from_running() {
    let count = Rc::new(Cell::new(0));
    run(async {
        let busy = Rc::clone(&count);
        spawn(poll_fn(move |cx| {
            busy.set(busy.get() + 1);
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        for _ in 0..10 {
            turn_to_io().await;
        }
    });
    assert!(count.get() >= 9, "it ran {} times in ten turns", count.get());
}

#[test]
fn a_turn_is_counted_and_waited_for() {
    run(async {
        let before = turns();
        assert_eq!(turns(), before, "no turn inside of a task");
        turn_to_io().await;
        let after = turns();
        assert!(after > before);
        turn_to_io().await;
        assert!(turns() > after);
    });
}

#[test]
fn panics_of_tasks_and_destructors_end_nothing_else() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("from a destructor, on purpose");
        }
    }
    struct PayloadPanics;
    impl Drop for PayloadPanics {
        fn drop(&mut self) {
            panic!("from the payload of a panic, on purpose");
        }
    }
    let ended = Rc::new(Cell::new(0));
    let executor = executor();
    executor.run(async {
        spawn(async { panic!("from a task, on purpose") });
        spawn(async { std::panic::panic_any(PayloadPanics) });
        spawn(async {
            let _guard = Panics;
            yield_now().await;
        });
        let guard = Panics;
        // Dropped with the executor.
        spawn(async move {
            let _guard = guard;
            pending::<()>().await;
        });
        let theirs = Rc::clone(&ended);
        spawn(async move { theirs.set(1) });
        reached(&ended, 1).await;
    });
    drop(executor);
    // The thread can have the next one.
    run(async {});
}

#[test]
fn a_panic_of_the_main_future_comes_out_and_the_executor_can_be_dropped() {
    let executor = executor();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        executor.run(async {
            yield_now().await;
            panic!("from main, on purpose");
        })
    }));
    assert!(panicked.is_err());
    executor.run(yield_now());
}

#[test]
fn tasks_are_dropped_with_the_executor_and_what_they_spawn_then_as_well() {
    struct Spawns(Rc<Cell<usize>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            let count = Rc::clone(&self.0);
            // Nested a few times: each is dropped where it is spawned.
            if count.get() < 10 {
                let next = Spawns(count);
                spawn(async move { drop(next) });
            }
        }
    }
    let count = Rc::new(Cell::new(0));
    let executor = executor();
    executor.run(async {
        let task = Spawns(Rc::clone(&count));
        spawn(async move {
            pending::<()>().await;
            drop(task);
        });
        yield_now().await;
    });
    assert_eq!(count.get(), 0);
    drop(executor);
    assert_eq!((count.get(), Rc::strong_count(&count)), (10, 1));
}

#[test]
fn tasks_live_on_between_two_runs() {
    let count = Rc::new(Cell::new(0));
    let executor = executor();
    let theirs = Rc::clone(&count);
    executor.run(async {
        spawn(async move {
            loop {
                theirs.set(theirs.get() + 1);
                yield_now().await;
            }
        });
    });
    let first = count.get();
    assert!(first >= 1, "what is ready when the main future ends runs once more");
    executor.run(reached(&count, first + 5));
}

#[test]
fn a_thread_has_one_executor_at_a_time() {
    let first = executor();
    let error = Executor::new(Options::default()).map(|_| ()).expect_err("two on a thread");
    assert!(error.to_string().contains("already"), "{error}");
    drop(first);
    drop(executor());
}
