//! The wake rule of a mailbox: a flag that says "the receiver sleeps" and one registered waker.
//!
//! A wake of a parked executor costs a system call on the sender's side and tens of microseconds
//! until the receiver runs, so a sender wakes only a receiver that sleeps, and only one sender of
//! many does it. The rule:
//!
//! | receiver | sender |
//! | --- | --- |
//! | registers its waker, sets `sleeping` | pushes |
//! | fence | fence |
//! | looks into the queue again | reads `sleeping`; wakes if it turned it off |
//! | parks, or turns `sleeping` off and goes on | |
//!
//! The two fences are one total order: either the receiver's is the later one, and then its second
//! look sees the push, or the sender's is, and then it sees `sleeping`. Without them both may read
//! the past (store, then load, is the one order that x86 too turns round) and the message would lie
//! in the queue of a receiver that sleeps. `tests/loom.rs` walks through the interleavings.

use std::sync::PoisonError;
use std::task::Waker;

use crate::sync::{AtomicBool, Mutex, Ordering, fence};

/// The receiver's sleep, seen by both sides. One receiver, any number of senders.
pub(crate) struct Sleep {
    sleeping: AtomicBool,
    /// Locked for a move of the waker only: it is cloned before, and woken or dropped after, so
    /// that no foreign code runs inside and neither side can be held up here.
    waker: Mutex<Option<Waker>>,
}

impl Sleep {
    /// A receiver that is awake.
    pub(crate) fn new() -> Self {
        Sleep { sleeping: AtomicBool::new(false), waker: Mutex::new(None) }
    }

    /// Receiver: announces sleep. It must look into the queue once more after this call, and park
    /// only if that look finds nothing; otherwise [`Sleep::awake`] takes the announcement back.
    pub(crate) fn announce(&self, waker: &Waker) {
        let mine = waker.clone();
        let old = self.swap(Some(mine));
        // Both sides change the flag by exchange only, so that each change has seen the one before.
        self.sleeping.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        drop(old);
    }

    /// Receiver: takes its announcement back, so that senders do not wake a receiver that runs.
    pub(crate) fn awake(&self) {
        // Only the receiver turns the flag on, so it never misses that it is on.
        if self.sleeping.load(Ordering::Relaxed) {
            self.sleeping.swap(false, Ordering::AcqRel);
        }
    }

    /// Sender: to be called after each push. True where it woke the receiver.
    ///
    /// A sender that comes late may take the waker of a newer sleep than the one whose flag it
    /// turned off. The receiver then runs once for nothing and registers again.
    pub(crate) fn notify(&self) -> bool {
        fence(Ordering::SeqCst);
        // The load keeps the flag's cache line shared while the receiver is busy.
        if !self.sleeping.load(Ordering::Relaxed) || !self.sleeping.swap(false, Ordering::AcqRel) {
            return false;
        }
        match self.swap(None) {
            Some(waker) => {
                waker.wake();
                true
            }
            None => false,
        }
    }

    fn swap(&self, waker: Option<Waker>) -> Option<Waker> {
        let mut slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *slot, waker)
    }
}
