//! The side of an executor that other threads see: tasks that they woke, and the way to wake the
//! loop.
//!
//! The rule is the mailbox's. The loop says that it sleeps, fences, looks once more, and only then
//! waits; a thread that wakes a task pushes it, fences, and makes the system call only where the
//! loop said so, once for all who push until it is awake.
#![allow(unsafe_code, reason = "a task goes through the list as a raw pointer: docs/unsafe.md")]

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};

use super::queues::send_message;
use super::tasks::Ready;

/// Shared by an executor and the wakers of all its tasks.
pub(super) struct Remote {
    /// Tasks that other threads have woken: a stack, linked through the tasks. A task is on it once
    /// at most, and only the loop takes any off, all at once, so there is no ABA.
    head: AtomicPtr<()>,
    /// True while the loop waits in the kernel, and nobody has undertaken to wake it.
    sleeping: AtomicBool,
    /// The loop's ring, where the kernel sends messages to it (Linux 6.13) without a ring of the
    /// sender's. Open as long as any waker, as its number must not become another file's.
    ring: Option<OwnedFd>,
    /// What the loop waits for besides: for kernels without messages, and one that refuses one.
    event: OwnedFd,
}

/// The place of a task in the stack.
#[derive(Default)]
pub(super) struct Link(AtomicPtr<()>);

impl Remote {
    /// Of the loop that waits for `event`, and for messages to `ring`.
    pub(super) fn new(event: OwnedFd, ring: Option<OwnedFd>) -> Remote {
        Remote { head: AtomicPtr::default(), sleeping: AtomicBool::new(false), ring, event }
    }

    /// Hands a task that was woken to its executor.
    pub(super) fn push(&self, task: Ready) {
        let raw = task.into_raw();
        // SAFETY: the pointer is of `into_raw`; not dropped, as it is on its way into the stack.
        let task = ManuallyDrop::new(unsafe { Ready::from_raw(raw) });
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            task.metadata().0.store(head, Ordering::Relaxed);
            let (new, release) = (raw.as_ptr(), Ordering::Release);
            // Once it is in, the task is the loop's: it is not touched again here.
            match self.head.compare_exchange_weak(head, new, release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.wake();
    }

    /// Wakes the loop where it sleeps. What it is to see was stored before.
    pub(super) fn wake(&self) {
        fence(Ordering::SeqCst);
        let sleeps = self.sleeping.load(Ordering::Relaxed);
        if sleeps && self.sleeping.swap(false, Ordering::Relaxed) && !self.send() {
            // It fails only where the count is full, and then the loop is being woken already.
            let _ = rustix::io::write(&self.event, &1_u64.to_le_bytes());
        }
    }

    /// Wakes the loop by a ring message; false where there is no ring for that, or it did not go.
    fn send(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| send_message(ring.as_fd()).is_ok())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed).is_null()
    }

    /// Takes all that other threads have woken, in the order in which it came.
    pub(super) fn take(&self, mut each: impl FnMut(Ready)) {
        if self.is_empty() {
            return;
        }
        let mut next = self.head.swap(ptr::null_mut(), Ordering::Acquire);
        let mut first = ptr::null_mut();
        while let Some(raw) = NonNull::new(next) {
            // SAFETY: pushed by `push`, which gave it away; we are the only one who takes any off.
            let task = ManuallyDrop::new(unsafe { Ready::from_raw(raw) });
            next = task.metadata().0.swap(first, Ordering::Relaxed);
            first = raw.as_ptr();
        }
        while let Some(raw) = NonNull::new(first) {
            // SAFETY: as above; it is dropped once, as each is in the list once.
            let task = unsafe { Ready::from_raw(raw) };
            first = task.metadata().0.load(Ordering::Relaxed);
            each(task);
        }
    }

    /// Says that the loop is about to wait. The caller looks for work once more before it does.
    pub(super) fn fall_asleep(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The loop is awake.
    pub(super) fn awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }
}
