//! The interleavings of the lock-free protocols, by loom. Run by `scripts/loom.sh`.
//!
//! The files under test are compiled here a second time, over loom's atomics.
#![cfg(loom)]

#[path = "../src/free.rs"]
mod free;
#[path = "../src/home.rs"]
mod home;
mod sync {
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };

    /// A queue whose looks are weaker than the real one's, as [`super::Mailbox`].
    pub(crate) struct Queue<T> {
        items: Mutex<std::collections::VecDeque<T>>,
        waiting: AtomicUsize,
        depth: usize,
    }

    impl<T> Queue<T> {
        pub(crate) fn new(depth: usize) -> Self {
            Queue { items: Mutex::default(), waiting: AtomicUsize::new(0), depth }
        }

        pub(crate) fn push(&self, item: T) -> Result<(), T> {
            let mut items = self.items.lock().unwrap();
            if items.len() == self.depth {
                return Err(item);
            }
            items.push_back(item);
            drop(items);
            self.waiting.fetch_add(1, Ordering::Release);
            Ok(())
        }

        pub(crate) fn pop(&self) -> Option<T> {
            if self.is_empty() {
                return None;
            }
            let item = self.items.lock().unwrap().pop_front();
            if item.is_some() {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
            }
            item
        }

        pub(crate) fn len(&self) -> usize {
            self.waiting.load(Ordering::Acquire)
        }

        pub(crate) fn is_empty(&self) -> bool {
            self.len() == 0
        }
    }
}
mod tasks {
    pub(crate) fn contained<T>(work: impl FnOnce() -> T) -> std::thread::Result<T> {
        Ok(work())
    }
}
#[path = "../src/wake.rs"]
mod wake;

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom::sync::Notify;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// Parks a loom thread; a lost wake is a deadlock, which loom reports.
struct Parker(Notify);

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// A queue that counts. Weaker than the real one: push and look are release and acquire only, so
/// the order that the protocol needs must come from its own fences.
struct Mailbox {
    waiting: AtomicUsize,
    sleep: wake::Sleep,
}

impl Mailbox {
    fn new() -> Self {
        Mailbox { waiting: AtomicUsize::new(0), sleep: wake::Sleep::new() }
    }

    fn send(&self) -> bool {
        self.waiting.fetch_add(1, Ordering::Release);
        self.sleep.notify()
    }

    fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// The receiver as `Ready::poll` and an executor run it: returns when `wanted` have arrived.
    fn drain(&self, wanted: usize) {
        let parker = Arc::new(Parker(Notify::new()));
        let waker = Waker::from(Arc::clone(&parker));
        let mut seen = 0;
        while seen < wanted {
            if self.is_empty() {
                self.sleep.announce(&waker);
                if self.is_empty() {
                    parker.0.wait();
                    continue;
                }
            }
            self.sleep.awake();
            seen += self.waiting.swap(0, Ordering::Acquire);
        }
    }
}

/// `preemptions` bounds how often a thread is interrupted (`None`: all interleavings).
fn senders(count: usize, messages: usize, preemptions: Option<usize>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let mailbox = loom::sync::Arc::new(Mailbox::new());
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let mailbox = loom::sync::Arc::clone(&mailbox);
                loom::thread::spawn(move || {
                    for _ in 0..messages {
                        mailbox.send();
                    }
                })
            })
            .collect();
        mailbox.drain(count * messages);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn no_wake_is_lost_with_one_sender() {
    senders(1, 2, Some(4));
}

#[test]
fn no_wake_is_lost_with_two_senders() {
    senders(2, 1, Some(3));
}

/// A sleeping receiver is woken by one sender, not by each.
#[test]
fn at_most_one_sender_wakes_a_sleep() {
    loom::model(|| {
        let mailbox = loom::sync::Arc::new(Mailbox::new());
        mailbox.sleep.announce(Waker::noop());
        let other = loom::sync::Arc::clone(&mailbox);
        let thread = loom::thread::spawn(move || other.send());
        let here = mailbox.send();
        let there = thread.join().unwrap();
        assert!(here ^ there, "woken by {}", if here { "both" } else { "nobody" });
    });
}

/// A task on a shard that waits for an answer; woken it is when somebody has called its waker.
struct Task(Notify);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Another thread answers tasks of a shard that looks into its queue, and ends after `looks` of them:
/// whoever is answered is woken, by the shard or by the thread. `depth` wakes find room.
fn answers(tasks: usize, looks: usize, depth: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let sleep = Arc::new(wake::Sleep::new());
        let home = loom::sync::Arc::new(home::Home::new(depth, Arc::clone(&sleep)));
        let tasks: Vec<_> = (0..tasks).map(|_| Arc::new(Task(Notify::new()))).collect();
        let wakers: Vec<_> = tasks.iter().map(|task| Waker::from(Arc::clone(task))).collect();
        let other = loom::sync::Arc::clone(&home);
        let thread = loom::thread::spawn(move || {
            wakers.into_iter().for_each(|waker| other.send(waker));
        });
        let parker = Arc::new(Parker(Notify::new()));
        let waker = Waker::from(Arc::clone(&parker));
        for _ in 0..looks {
            // As the shard's loop and an executor do it.
            while home.is_empty() {
                sleep.announce(&waker);
                if home.is_empty() {
                    parker.0.wait();
                } else {
                    sleep.awake();
                }
            }
            sleep.awake();
            home.deliver();
        }
        home.end();
        tasks.iter().for_each(|task| task.0.wait());
        thread.join().unwrap();
    });
}

#[test]
fn an_answer_reaches_a_shard_that_sleeps() {
    answers(1, 1, 4);
}

#[test]
fn an_answer_reaches_a_shard_that_ends() {
    answers(1, 0, 4);
    answers(2, 1, 4);
}

#[test]
fn an_answer_that_finds_no_room_is_given_by_its_thread() {
    answers(2, 0, 1);
}

/// The free stack over plain slots, each with a flag that says who must not take it.
struct Slots {
    stack: free::FreeStack,
    links: Vec<AtomicU32>,
    held: Vec<AtomicBool>,
}

impl Slots {
    fn new(count: u32) -> Self {
        let slots = Slots {
            stack: free::FreeStack::new(),
            links: (0..count).map(|_| AtomicU32::new(0)).collect(),
            held: (0..count).map(|_| AtomicBool::new(false)).collect(),
        };
        (0..count).for_each(|slot| slots.stack.push(slot, |n| &slots.links[n as usize]));
        slots
    }

    fn take(&self) -> Option<u32> {
        let slot = self.stack.pop(|n| &self.links[n as usize])?;
        let held = self.held[slot as usize].swap(true, Ordering::Relaxed);
        assert!(!held, "slot {slot} has two holders");
        Some(slot)
    }

    fn give(&self, slot: u32) {
        self.held[slot as usize].store(false, Ordering::Relaxed);
        self.stack.push(slot, |n| &self.links[n as usize]);
    }
}

/// Threads take and give back; no slot is ever held by two, and none is lost. One takes two and
/// gives the first back while it holds the second: a taker that saw the first on top before all
/// that must not put the second on top.
#[test]
fn a_slot_has_one_holder() {
    const SLOTS: u32 = 2;
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let slots = loom::sync::Arc::new(Slots::new(SLOTS));
        let other = loom::sync::Arc::clone(&slots);
        let thread = loom::thread::spawn(move || {
            let (first, second) = (other.take(), other.take());
            first.into_iter().for_each(|slot| other.give(slot));
            second.into_iter().for_each(|slot| other.give(slot));
        });
        let (first, second) = (slots.take(), slots.take());
        first.into_iter().chain(second).for_each(|slot| slots.give(slot));
        thread.join().unwrap();
        let left = std::iter::from_fn(|| slots.take()).count();
        assert_eq!(left, SLOTS as usize, "a slot was lost");
    });
}
