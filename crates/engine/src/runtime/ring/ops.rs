//! Operations under way: what each of them keeps until the kernel has answered, and who waits for
//! it.
#![allow(unsafe_code, reason = "entries that name memory: docs/unsafe.md")]

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use io_uring::squeue;

use super::buffer::Buffer;
use super::file::Opened;
use super::local::Local;
use super::queues::{Ended, Queues};
use super::tasks::guarded;

/// What an operation keeps alive: the kernel may read or write it until it has answered.
pub(super) struct Kept {
    /// Of a read.
    pub(super) buffer: Option<Buffer>,
    /// Of a write.
    #[expect(dead_code, reason = "kept, not used")]
    pub(super) bytes: Option<Rc<Buffer>>,
    #[expect(dead_code, reason = "kept, not used")]
    pub(super) file: Rc<Opened>,
}

/// The operations of one executor, by the number that the kernel gives back.
#[derive(Default)]
pub(super) struct Ops {
    slots: RefCell<Slots>,
}

#[derive(Default)]
struct Slots {
    all: Vec<Slot>,
    free: Vec<usize>,
}

enum Slot {
    Free,
    /// With the kernel.
    Running {
        kept: Kept,
        waiter: Waiter,
    },
    Ended {
        kept: Kept,
        result: i32,
    },
}

enum Waiter {
    /// It has not been polled yet.
    Soon,
    Waits(Waker),
    /// Dropped.
    Nobody,
}

impl Slots {
    /// Frees the slot of an operation that has ended.
    fn leave(&mut self, key: usize) -> (i32, Kept) {
        let Slot::Ended { kept, result } = mem::replace(&mut self.all[key], Slot::Free) else {
            unreachable!("an operation keeps its slot")
        };
        self.free.push(key);
        (result, kept)
    }
}

impl Ops {
    fn enter(&self, kept: Kept) -> usize {
        let slots = &mut *self.slots.borrow_mut();
        let slot = Slot::Running { kept, waiter: Waiter::Soon };
        match slots.free.pop() {
            Some(key) => {
                slots.all[key] = slot;
                key
            }
            None => {
                slots.all.push(slot);
                slots.all.len() - 1
            }
        }
    }

    /// Notes the kernel's answer and wakes whoever waits for it.
    pub(super) fn end(&self, ended: Ended) {
        let mut slots = self.slots.borrow_mut();
        let key = usize::try_from(ended.key).expect("a number that we gave");
        let slot = slots.all.get_mut(key).expect("a number that we gave");
        let Slot::Running { kept, waiter } = mem::replace(slot, Slot::Free) else {
            unreachable!("the kernel answers once")
        };
        let mut left = (None, None);
        if matches!(waiter, Waiter::Nobody) {
            slots.free.push(key);
            left.1 = Some(kept);
        } else {
            *slot = Slot::Ended { kept, result: ended.result };
        }
        if let Waiter::Waits(waker) = waiter {
            left.0 = Some(waker);
        }
        drop(slots);
        // Wakers are anybody's code, and what is kept may be the last of a file.
        guarded(|| match left {
            (Some(waker), _) => waker.wake(),
            (None, kept) => drop(kept),
        });
    }
}

/// An operation that the kernel has or is about to get. Its future ends with the kernel's answer;
/// dropped before, it loses the answer and nothing else.
pub(super) struct Op {
    local: Rc<Local>,
    /// None once it has ended.
    key: Option<usize>,
}

impl Op {
    /// Queues the operation that `entry` describes.
    ///
    /// # Safety
    ///
    /// The entry names no memory and no file but those of `kept`, which do not move with it.
    pub(super) unsafe fn start(
        local: &Rc<Local>,
        entry: squeue::Entry,
        kept: Kept,
    ) -> Result<Op, (io::Error, Kept)> {
        // SAFETY: passed on.
        unsafe { Op::start_as(Queues::push, local, entry, kept) }
    }

    /// # Safety
    ///
    /// As [`Op::start`].
    unsafe fn start_as(
        push: unsafe fn(&mut Queues, squeue::Entry, u64),
        local: &Rc<Local>,
        entry: squeue::Entry,
        kept: Kept,
    ) -> Result<Op, (io::Error, Kept)> {
        let mut queues = local.queues.borrow_mut();
        let Some(queues) = &mut *queues else {
            return Err((io::Error::other("the executor has ended"), kept));
        };
        let key = local.ops.enter(kept);
        // SAFETY: the slot keeps both until `Ops::end` is called with the completion; it is leaked
        // with the queues where the kernel never answers.
        unsafe { push(queues, entry, key as u64) };
        Ok(Op { local: Rc::clone(local), key: Some(key) })
    }
}

impl Future for Op {
    type Output = (i32, Kept);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(i32, Kept)> {
        let key = self.key.expect("polled after it was ready");
        // Nothing that is not ours is called while the slots are borrowed.
        let new = cx.waker().clone();
        let mut slots = self.local.ops.slots.borrow_mut();
        if let Slot::Running { waiter, .. } = &mut slots.all[key] {
            let old = mem::replace(waiter, Waiter::Waits(new));
            drop(slots);
            drop(old);
            return Poll::Pending;
        }
        let (result, kept) = slots.leave(key);
        drop(slots);
        self.key = None;
        Poll::Ready((result, kept))
    }
}

/// An operation that may never end, and is of no use without its answer: dropped, it is cancelled.
pub(super) struct Wanted {
    op: Op,
}

impl Wanted {
    /// As [`Op::start`].
    ///
    /// # Safety
    ///
    /// As [`Op::start`].
    pub(super) unsafe fn start(
        local: &Rc<Local>,
        entry: squeue::Entry,
        kept: Kept,
    ) -> Result<Wanted, (io::Error, Kept)> {
        // SAFETY: passed on.
        let op = unsafe { Op::start_as(Queues::push_wait, local, entry, kept) }?;
        Ok(Wanted { op })
    }
}

impl Future for Wanted {
    type Output = (i32, Kept);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<(i32, Kept)> {
        Pin::new(&mut self.op).poll(cx)
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let Some(key) = self.op.key else { return };
        let local = &self.op.local;
        if matches!(local.ops.slots.borrow().all[key], Slot::Running { .. })
            && let Some(queues) = &mut *local.queues.borrow_mut()
        {
            queues.cancel_wait(key as u64);
        }
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut slots = self.local.ops.slots.borrow_mut();
        let left = match &mut slots.all[key] {
            Slot::Running { waiter, .. } => (mem::replace(waiter, Waiter::Nobody), None),
            _ => (Waiter::Nobody, Some(slots.leave(key))),
        };
        drop(slots);
        drop(left);
    }
}
