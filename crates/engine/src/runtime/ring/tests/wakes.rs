//! Wakes from other threads: none is lost, whatever the loop is at.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use super::{executor, in_time, reached, run, wait_until};
use crate::runtime::ring::{Executor, Options, sleep, spawn, yield_now};

/// A number that one side raises and the other waits for.
#[derive(Default)]
struct Signal {
    count: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    fn raise(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        let waker = self.waker.lock().expect("no panic").take();
        waker.into_iter().for_each(Waker::wake);
    }

    async fn reach(&self, wanted: u64) {
        poll_fn(|cx| {
            *self.waker.lock().expect("no panic") = Some(cx.waker().clone());
            if self.count.load(Ordering::SeqCst) >= wanted {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// Raises one and waits for the other, `rounds` times, in a thread of its own with an executor of
/// its own; every `pause` rounds it dawdles for a random time before it answers. It plays in a
/// task, or in the main future, is woken by messages, or events, and beside it may write all the
/// time, so that the loop sleeps until something is about to end, and looks out for it.
fn player(
    rounds: u64,
    pause: u64,
    spin: Option<Duration>,
    (mine, theirs): (Arc<Signal>, Arc<Signal>),
    how: (bool, bool, bool),
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let (in_task, messages, writes) = how;
        let options = Options { spin, messages, ..Options::default() };
        let executor = Executor::new(options).expect("a ring");
        let play = async move {
            let mut seed = rounds ^ pause;
            for round in 1..=rounds {
                theirs.reach(round).await;
                if round.is_multiple_of(pause) {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (0..seed >> 53).for_each(|_| std::hint::spin_loop());
                }
                mine.raise();
            }
        };
        let dir = super::io::dir();
        executor.run(async {
            if writes {
                spawn(super::io::write_on(dir.path().join("beside")));
            }
            match in_task {
                false => in_time(play).await,
                true => {
                    // Nothing else ends the loop's sleep than a wake.
                    let ended = Arc::new(Signal::default());
                    let theirs = Arc::clone(&ended);
                    spawn(async move {
                        play.await;
                        theirs.raise();
                    });
                    in_time(ended.reach(1)).await;
                }
            }
        });
    })
}

#[test]
fn no_wake_is_lost_between_two_executors() {
    let spin = Some(Duration::from_micros(20));
    // Tasks and main futures, ring messages and events, beside writes or not, looking out or not.
    let cases = [
        (60_000, None, (true, true, false)),
        (60_000, None, (true, false, false)),
        (60_000, None, (false, true, false)),
        (60_000, None, (true, true, true)),
        (200_000, spin, (true, true, false)),
    ];
    for (rounds, spin, how) in cases {
        let (a, b) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
        let one = player(rounds, 3, spin, (Arc::clone(&a), Arc::clone(&b)), how);
        let two = player(rounds, 7, spin, (Arc::clone(&b), Arc::clone(&a)), how);
        b.raise();
        one.join().expect("the first player ends");
        two.join().expect("the second player ends");
        assert_eq!(a.count.load(Ordering::SeqCst), rounds);
    }
}

#[test]
fn a_million_wakes_of_many_tasks_arrive() {
    const TASKS: usize = 64;
    const EACH: u64 = 16_384;
    let signals: Vec<Arc<Signal>> = (0..TASKS).map(|_| Arc::default()).collect();
    let theirs = signals.clone();
    let senders: Vec<_> = (0..2)
        .map(|sender| {
            let signals = theirs.clone();
            thread::spawn(move || {
                for round in 0..EACH / 2 {
                    signals.iter().for_each(|signal| signal.raise());
                    if round.is_multiple_of(64) && sender == 0 {
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    run(async {
        let ended = Arc::new(Signal::default());
        for signal in &signals {
            let (signal, ended) = (Arc::clone(signal), Arc::clone(&ended));
            spawn(async move {
                for wanted in 1..=EACH {
                    signal.reach(wanted).await;
                }
                ended.raise();
            });
        }
        ended.reach(TASKS as u64).await;
    });
    senders.into_iter().for_each(|sender| sender.join().expect("it sends"));
}

#[test]
fn tasks_that_another_thread_wakes_run_in_the_order_of_the_wakes() {
    let signals: Vec<Arc<Signal>> = (0..100).map(|_| Arc::default()).collect();
    let seen = Rc::new(RefCell::new(Vec::new()));
    run(async {
        for (number, signal) in signals.iter().enumerate() {
            let (signal, seen) = (Arc::clone(signal), Rc::clone(&seen));
            spawn(async move {
                signal.reach(1).await;
                seen.borrow_mut().push(number);
            });
        }
        while signals.iter().any(|signal| signal.waker.lock().expect("no panic").is_none()) {
            yield_now().await;
        }
        // The loop stands still meanwhile, so that it finds all of them at once.
        let raise = || signals.iter().rev().for_each(|signal| signal.raise());
        thread::scope(|scope| scope.spawn(raise).join()).expect("it raises");
        while seen.borrow().len() < signals.len() {
            yield_now().await;
        }
    });
    assert!(seen.borrow().iter().copied().eq((0..100).rev()), "{seen:?}");
}

#[test]
fn a_task_that_another_thread_wakes_takes_its_turn_with_all_others() {
    let signal = Arc::new(Signal::default());
    let (seen, theirs) = (Rc::new(Cell::new(None)), Arc::clone(&signal));
    let count = Rc::new(Cell::new(0));
    run(async {
        let (answer, before) = (Rc::clone(&seen), Rc::clone(&count));
        spawn(async move {
            theirs.reach(1).await;
            answer.set(Some(before.get()));
        });
        yield_now().await;
        for _ in 0..1_000 {
            let count = Rc::clone(&count);
            spawn(async move { count.set(count.get() + 1) });
        }
        thread::scope(|scope| scope.spawn(|| signal.raise()).join()).expect("it raises");
        reached(&count, 1_000).await;
    });
    let before = seen.get().expect("it ran");
    assert!(before < 40, "{before} tasks of this thread ran before it");
}

#[test]
fn a_busy_loop_sees_wakes_as_well() {
    let (signal, echo) = (Arc::new(Signal::default()), Arc::new(Signal::default()));
    let theirs = (Arc::clone(&signal), Arc::clone(&echo));
    let sender = thread::spawn(move || {
        for round in 1..=1_000 {
            theirs.0.raise();
            wait_until(|| theirs.1.count.load(Ordering::SeqCst) >= round);
        }
    });
    run(async {
        let ended = Rc::new(Cell::new(0));
        let theirs = Rc::clone(&ended);
        spawn(async move {
            for round in 1..=1_000 {
                signal.reach(round).await;
                echo.raise();
            }
            theirs.set(1);
        });
        // The queue never runs empty.
        reached(&ended, 1).await;
    });
    sender.join().expect("it sends");
}

/// Keeps wakers of tasks on a thread of its own, which wakes and drops them when it is told to.
fn keeper() -> (Sender<Waker>, Sender<()>, thread::JoinHandle<usize>) {
    let (give, wakers): (_, Receiver<Waker>) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        told.recv().expect("it is told");
        wakers.into_iter().map(|waker| waker.wake_by_ref()).count()
    });
    (give, tell, thread)
}

#[test]
fn wakers_may_outlive_their_tasks_and_their_executor() {
    let (give, tell, thread) = keeper();
    let executor = executor();
    executor.run(async {
        for number in 0..100 {
            let give = give.clone();
            spawn(poll_fn(move |cx| {
                give.send(cx.waker().clone()).expect("the keeper lives");
                if number % 2 == 0 { Poll::Ready(()) } else { Poll::Pending }
            }));
        }
        yield_now().await;
        yield_now().await;
    });
    drop(executor);
    drop(give);
    tell.send(()).expect("the keeper lives");
    // The pending ones were polled once or, being woken at the end, dropped unpolled.
    assert!(thread.join().expect("no panic") >= 100);
}

#[test]
fn a_task_whose_last_waker_goes_elsewhere_is_dropped_at_home() {
    struct Home(thread::ThreadId, Rc<Cell<usize>>);
    impl Drop for Home {
        fn drop(&mut self) {
            assert_eq!(thread::current().id(), self.0, "dropped on another thread");
            self.1.set(self.1.get() + 1);
        }
    }
    let dropped = Rc::new(Cell::new(0));
    run(async {
        let (give, wakers) = mpsc::channel::<Waker>();
        let thread = thread::spawn(move || wakers.into_iter().for_each(drop));
        for _ in 0..1_000 {
            let home = Home(thread::current().id(), Rc::clone(&dropped));
            let give = give.clone();
            spawn(async move {
                let _home = home;
                poll_fn(|cx| {
                    give.send(cx.waker().clone()).expect("the thread lives");
                    Poll::<()>::Pending
                })
                .await;
            });
        }
        drop(give);
        yield_now().await;
        drop(thread);
    });
    assert_eq!(dropped.get(), 1_000);
}

#[test]
fn threads_that_wake_while_the_executor_goes_do_no_harm() {
    for _ in 0..50 {
        let stop = Arc::new(AtomicBool::new(false));
        let signals: Vec<Arc<Signal>> = (0..8).map(|_| Arc::default()).collect();
        let (theirs, stopped) = (signals.clone(), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                theirs.iter().for_each(|signal| signal.raise());
            }
        });
        let held = Rc::new(());
        let executor = executor();
        executor.run(async {
            for signal in &signals {
                let (signal, held) = (Arc::clone(signal), Rc::clone(&held));
                spawn(async move {
                    for wanted in 0.. {
                        signal.reach(wanted).await;
                    }
                    drop(held);
                });
            }
            sleep(Duration::from_millis(1)).await;
        });
        drop(executor);
        assert_eq!(Rc::strong_count(&held), 1, "a task was not dropped");
        stop.store(true, Ordering::Relaxed);
        thread.join().expect("no panic");
    }
}

#[test]
fn a_waker_that_panics_ends_nothing() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("from a waker, on purpose");
        }
    }
    run(async {
        let waker = Waker::from(Arc::new(Panics));
        let mut slept = pin!(sleep(Duration::from_millis(1)));
        assert!(slept.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        sleep(Duration::from_millis(5)).await;
        assert!(slept.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    });
}
