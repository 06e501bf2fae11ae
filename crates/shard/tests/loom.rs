//! The interleavings of the two lock-free protocols, by loom. Run by `scripts/loom.sh`.
//!
//! The files under test are compiled here a second time, over loom's atomics.
#![cfg(loom)]

#[path = "../src/free.rs"]
mod free;
mod sync {
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
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
