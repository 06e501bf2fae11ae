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

/// Two threads take and give back; no slot is ever held by both, and none is lost.
#[test]
fn a_slot_has_one_holder() {
    loom::model(|| {
        const SLOTS: usize = 2;
        struct Slots {
            stack: free::FreeStack,
            links: Vec<AtomicU32>,
            held: Vec<AtomicBool>,
        }
        impl Slots {
            fn turn(&self) {
                let Some(slot) = self.stack.pop(|n| &self.links[n as usize]) else { return };
                let held = &self.held[slot as usize];
                assert!(!held.swap(true, Ordering::Relaxed), "slot {slot} has two holders");
                held.store(false, Ordering::Relaxed);
                self.stack.push(slot, |n| &self.links[n as usize]);
            }
        }
        let slots = loom::sync::Arc::new(Slots {
            stack: free::FreeStack::new(),
            links: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(),
            held: (0..SLOTS).map(|_| AtomicBool::new(false)).collect(),
        });
        for n in 0..SLOTS as u32 {
            slots.stack.push(n, |n| &slots.links[n as usize]);
        }
        let other = loom::sync::Arc::clone(&slots);
        let thread = loom::thread::spawn(move || {
            other.turn();
            other.turn();
        });
        slots.turn();
        thread.join().unwrap();
        let mut left = 0;
        while slots.stack.pop(|n| &slots.links[n as usize]).is_some() {
            left += 1;
        }
        assert_eq!(left, SLOTS, "a slot was lost");
    });
}
