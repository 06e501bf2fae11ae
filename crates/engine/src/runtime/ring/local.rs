//! What the executor of a thread, its tasks, files and buffers share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use super::anticipation::Anticipation;
use super::memory::Pool;
use super::ops::Ops;
use super::queues::Queues;
use super::remote::Remote;
use super::tasks::{Alive, Ready};
use super::timers::Timers;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}

/// One executor's state, local to its thread. Files keep it, so it may outlive the executor.
pub(super) struct Local {
    pub(super) remote: Arc<Remote>,
    /// Tasks that are to run, in their order.
    pub(super) queue: RefCell<VecDeque<Ready>>,
    /// The same, woken by other threads.
    pub(super) visitors: RefCell<VecDeque<Ready>>,
    pub(super) alive: Alive,
    /// None once the executor has gone.
    pub(super) queues: RefCell<Option<Queues>>,
    pub(super) ops: Ops,
    pub(super) timers: Rc<Timers>,
    pub(super) pool: Rc<Pool>,
    /// Where sleeps end just before what they wait for.
    pub(super) anticipation: Option<Anticipation>,
    pub(super) turns: Cell<u64>,
    /// Tasks run, each time that one was run.
    pub(super) ran: Cell<u64>,
    /// Who waits for the end of a turn that has not begun yet, or of this one.
    pub(super) turning: RefCell<Vec<Waker>>,
    /// The executor is being dropped, and its tasks with it.
    pub(super) closing: Cell<bool>,
}

/// The executor of this thread. None as well while the thread ends.
pub(super) fn current() -> Option<Rc<Local>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// The executor of this thread.
///
/// # Panics
///
/// Where there is none.
pub(super) fn expect() -> Rc<Local> {
    current().expect("this thread has no ring executor")
}

/// Makes `local` the executor of this thread, or none; answers who was.
pub(super) fn replace(local: Option<Rc<Local>>) -> Option<Rc<Local>> {
    CURRENT.replace(local)
}
