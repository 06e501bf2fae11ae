//! Tasks: queued by whoever wakes them, run by the loop, dropped on their own thread.
//!
//! The crate `async-task` keeps a task's state and its references in one allocation. A task that is
//! woken, on any thread, comes here as a [`Ready`]: on its own thread it goes into the queue, from
//! others through [`Remote`]. Where the last waker goes on another thread, the task is sent home in
//! the same way, to be dropped there.

#![allow(unsafe_code, reason = "a pinned task that is dropped by hand: docs/unsafe.md")]

use std::cell::RefCell;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_task::{Builder, Runnable};

use super::local::{self, Local};
use super::remote::{Link, Remote};

/// A task that is to run.
pub(super) type Ready = Runnable<Link>;

/// Wakers of all tasks that have not ended, by which the end of the executor finds them.
#[derive(Default)]
pub(super) struct Alive {
    wakers: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
}

impl Alive {
    fn enter(&self) -> usize {
        self.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut wakers = self.wakers.borrow_mut();
            wakers.push(None);
            wakers.len() - 1
        })
    }

    fn set(&self, place: usize, waker: Waker) {
        self.wakers.borrow_mut()[place] = Some(waker);
    }

    fn leave(&self, place: usize) {
        let waker = self.wakers.borrow_mut()[place].take();
        self.free.borrow_mut().push(place);
        drop(waker);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wakers.borrow().len() == self.free.borrow().len()
    }

    /// Wakers of all of them by now.
    pub(super) fn all(&self) -> Vec<Waker> {
        self.wakers.borrow().iter().flatten().cloned().collect()
    }
}

/// A task's place among those that have not ended.
struct Place {
    number: usize,
    local: Rc<Local>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.local.alive.leave(self.number);
    }
}

/// A task whose panics stay in here: those of its destructor, too, over which `async-task` would
/// abort.
struct Caught<F> {
    task: ManuallyDrop<F>,
    _place: Place,
}

impl<F: Future<Output = ()>> Future for Caught<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the task is not moved out of its place, neither here nor when `self` is dropped.
        let task = unsafe { self.map_unchecked_mut(|this| &mut *this.task) };
        let mut polled = Poll::Ready(());
        guarded(|| polled = task.poll(cx));
        polled
    }
}

impl<F> Drop for Caught<F> {
    fn drop(&mut self) {
        // SAFETY: dropped in its place, once, and not touched behind that.
        guarded(|| unsafe { ManuallyDrop::drop(&mut self.task) });
    }
}

/// Queues `task` behind those that are ready; never runs it before this returns. It runs to its
/// end, or is dropped with the executor. A panic ends the task, and nobody hears of it.
///
/// # Panics
///
/// On a thread without an executor.
pub(in crate::runtime) fn spawn(task: impl Future<Output = ()> + 'static) {
    let local = local::expect();
    if local.closing.get() {
        // The destructor of a task has spawned one.
        return guarded(|| drop(task));
    }
    let place = Place { number: local.alive.enter(), local: Rc::clone(&local) };
    let number = place.number;
    let caught = Caught { task: ManuallyDrop::new(task), _place: place };
    let remote = Arc::clone(&local.remote);
    let schedule = move |ready: Ready| schedule(&remote, ready);
    let builder = Builder::new().propagate_panic(false).metadata(Link::default());
    let (ready, handle) = builder.spawn_local(move |_| caught, schedule);
    handle.detach();
    local.alive.set(number, ready.waker());
    local.queue.borrow_mut().push_back(ready);
}

/// Where a task goes that was woken on this thread.
fn schedule(remote: &Arc<Remote>, ready: Ready) {
    let elsewhere = match local::current() {
        Some(local) if Arc::ptr_eq(&local.remote, remote) => {
            local.queue.borrow_mut().push_back(ready);
            None
        }
        _ => Some(ready),
    };
    if let Some(ready) = elsewhere {
        remote.push(ready);
    }
}

/// Calls what is not ours: a task, a waker, the destructor of either. A panic in it stays in here.
pub(super) fn guarded(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        // Its own destructor may panic, and then that of the new one: such a chain is not followed.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
    }
}
