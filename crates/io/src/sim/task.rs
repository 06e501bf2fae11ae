//! A spawned task, and the waker that is all the rest of the world holds of it.

use std::any::Any;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// A panic of a spawned task.
#[derive(Debug, Clone)]
pub struct TaskPanic {
    /// Where the task was spawned.
    pub spawned_at: &'static Location<'static>,
    /// What it said.
    pub message: String,
}

/// A spawned task that is not done.
pub(super) struct Task {
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
    pub(super) waker: Waker,
    /// Survives power cuts and kills: the harness, not the program under test.
    pub(super) harness: bool,
    pub(super) life: u64,
    pub(super) spawned_at: &'static Location<'static>,
    pub(super) polls: u64,
}

/// Tasks woken since the executor last looked. The only thing a waker touches.
pub(super) type Woken = Arc<Mutex<Vec<u64>>>;

/// Puts a task on the list of the woken, once until it is polled.
pub(super) struct TaskWaker {
    task: u64,
    queued: AtomicBool,
    woken: Woken,
}

impl TaskWaker {
    /// A waker of a task that is on the executor's list already.
    pub(super) fn queued(task: u64, woken: &Woken) -> Arc<Self> {
        Arc::new(TaskWaker { task, queued: AtomicBool::new(true), woken: Arc::clone(woken) })
    }

    /// The task is about to be polled: wakes count again.
    pub(super) fn rearm(&self) {
        self.queued.store(false, Ordering::Release);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.woken.lock().unwrap_or_else(PoisonError::into_inner).push(self.task);
        }
    }
}

/// What a panic said.
pub(super) fn text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a text".to_owned()
    }
}
