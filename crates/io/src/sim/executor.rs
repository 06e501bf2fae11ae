//! One thread, virtual time, seeded order: runs tasks, timers and I/O completions so that a seed
//! replays a run exactly.
//!
//! Time moves in two ways: every poll of a task costs one microsecond (so that a task that spins on
//! `yield_now` until an I/O completes does meet its completion), and where no task can run, time
//! jumps to the next event. Which of several ready tasks goes next is drawn from the seed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Rng;
use super::task::{Task, TaskPanic, TaskWaker, Woken, text};

/// The future handed to `run`; spawned tasks count from 1.
const MAIN: u64 = 0;

/// When an event happens: its time, a seeded number that orders events of one microsecond, and a
/// unique one.
pub(super) type EventKey = (u64, u64, u64);

struct State {
    now_us: u64,
    rng: Rng,
    /// Tasks that are not being polled right now.
    tasks: BTreeMap<u64, Task>,
    flags: BTreeMap<u64, Arc<TaskWaker>>,
    ready: Vec<u64>,
    events: BTreeMap<EventKey, Box<dyn FnOnce()>>,
    next_id: u64,
    life: u64,
    panics: Vec<TaskPanic>,
}

/// The executor; shared by the clock, the spawner and the disk of one simulation.
pub(super) struct Executor {
    state: RefCell<State>,
    woken: Woken,
    running: Cell<bool>,
    halted: Cell<bool>,
    steps: Cell<u64>,
    steps_max: Cell<u64>,
}

/// Why a run ended before its future did.
pub(super) enum Stopped {
    /// Somebody asked for it.
    Halted,
    /// Nothing can ever run again.
    Deadlock,
    /// More polls than allowed.
    Endless,
}

impl Executor {
    pub(super) fn new(rng: Rng, steps_max: u64) -> Rc<Self> {
        Rc::new(Executor {
            state: RefCell::new(State {
                now_us: 0,
                rng,
                tasks: BTreeMap::new(),
                flags: BTreeMap::new(),
                ready: Vec::new(),
                events: BTreeMap::new(),
                next_id: MAIN + 1,
                life: 0,
                panics: Vec::new(),
            }),
            woken: Arc::default(),
            running: Cell::new(false),
            halted: Cell::new(false),
            steps: Cell::new(0),
            steps_max: Cell::new(steps_max),
        })
    }

    /// Microseconds of virtual time since the simulation began.
    pub(super) fn now_us(&self) -> u64 {
        self.state.borrow().now_us
    }

    /// Polls of tasks so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }

    pub(super) fn set_steps_max(&self, steps: u64) {
        self.steps_max.set(steps);
    }

    /// Ends the run before the next poll.
    pub(super) fn halt(&self) {
        self.halted.set(true);
    }

    pub(super) fn take_panics(&self) -> Vec<TaskPanic> {
        std::mem::take(&mut self.state.borrow_mut().panics)
    }

    /// Calls `event` after `delay_us`, between two polls. The key cancels it.
    pub(super) fn after(&self, delay_us: u64, event: Box<dyn FnOnce()>) -> EventKey {
        let mut state = self.state.borrow_mut();
        let id = state.next_id;
        state.next_id += 1;
        let key = (state.now_us.saturating_add(delay_us), state.rng.next_u64(), id);
        state.events.insert(key, event);
        key
    }

    /// Forgets an event that has not happened yet.
    pub(super) fn cancel(&self, key: EventKey) {
        let event = self.state.borrow_mut().events.remove(&key);
        // Dropped here, after the borrow: what it holds may come back to us in its destructor.
        drop(event);
    }

    pub(super) fn spawn(
        &self,
        future: Pin<Box<dyn Future<Output = ()>>>,
        harness: bool,
        spawned_at: &'static Location<'static>,
    ) {
        let mut state = self.state.borrow_mut();
        let id = state.next_id;
        state.next_id += 1;
        let flag = TaskWaker::queued(id, &self.woken);
        let waker = Waker::from(Arc::clone(&flag));
        let life = state.life;
        state.flags.insert(id, flag);
        state.tasks.insert(id, Task { future, waker, harness, life, spawned_at, polls: 0 });
        state.ready.push(id);
    }

    /// Drops every task of the program under test, as the death of a process does. A task that
    /// calls this is dropped when its poll returns.
    pub(super) fn end_life(&self) {
        let dead: Vec<Task> = {
            let mut state = self.state.borrow_mut();
            state.life += 1;
            let ids: Vec<u64> =
                state.tasks.iter().filter(|(_, t)| !t.harness).map(|(id, _)| *id).collect();
            state.flags.retain(|id, _| !ids.contains(id));
            ids.iter().filter_map(|id| state.tasks.remove(id)).collect()
        };
        drop(dead);
    }

    /// Drops everything: tasks hold the disk, the disk holds the executor.
    pub(super) fn clear(&self) {
        let mut state = self.state.borrow_mut();
        let tasks = std::mem::take(&mut state.tasks);
        let events = std::mem::take(&mut state.events);
        drop(state);
        drop((tasks, events));
    }

    /// Polls `future` to its end, with every spawned task beside it.
    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> Result<T, Stopped> {
        assert!(!self.running.replace(true), "this simulation is running already: await instead");
        let _running = Running(&self.running);
        self.halted.set(false);
        let mut future = pin!(future);
        let flag = TaskWaker::queued(MAIN, &self.woken);
        let waker = Waker::from(Arc::clone(&flag));
        {
            let mut state = self.state.borrow_mut();
            state.flags.insert(MAIN, flag);
            state.ready.retain(|id| *id != MAIN);
            state.ready.push(MAIN);
        }
        loop {
            if self.halted.replace(false) {
                return Err(Stopped::Halted);
            }
            let Some(id) = self.next_ready() else { return Err(Stopped::Deadlock) };
            if self.steps.get() >= self.steps_max.get() {
                return Err(Stopped::Endless);
            }
            self.steps.set(self.steps.get() + 1);
            if id == MAIN {
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                self.state.borrow_mut().now_us += 1;
                if let Poll::Ready(value) = polled {
                    return Ok(value);
                }
            } else {
                self.poll_task(id);
                self.state.borrow_mut().now_us += 1;
            }
        }
    }

    /// A seeded one of the tasks that can run, after all events that are due; `None` where nothing
    /// ever will.
    fn next_ready(&self) -> Option<u64> {
        loop {
            self.fire_due();
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            state.ready.append(&mut self.woken.lock().unwrap_or_else(PoisonError::into_inner));
            if !state.ready.is_empty() {
                let at = state.rng.index(state.ready.len());
                let id = state.ready.swap_remove(at);
                let Some(flag) = state.flags.get(&id) else { continue };
                // Cleared before the poll: a wake during it must count.
                flag.rearm();
                return Some(id);
            }
            let ((time, ..), _) = state.events.first_key_value()?;
            state.now_us = state.now_us.max(*time);
        }
    }

    fn fire_due(&self) {
        loop {
            let event = {
                let mut state = self.state.borrow_mut();
                let now_us = state.now_us;
                match state.events.first_entry() {
                    Some(first) if first.key().0 <= now_us => first.remove(),
                    _ => return,
                }
            };
            event();
        }
    }

    fn poll_task(&self, id: u64) {
        let Some(mut task) = self.state.borrow_mut().tasks.remove(&id) else { return };
        task.polls += 1;
        let waker = task.waker.clone();
        let polled = catch_unwind(AssertUnwindSafe(|| {
            task.future.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        let (done, panicked) = match polled {
            Ok(Poll::Pending) => (false, None),
            Ok(Poll::Ready(())) => (true, None),
            Err(payload) => (true, Some(text(payload.as_ref()))),
        };
        let mut state = self.state.borrow_mut();
        if let Some(message) = panicked {
            state.panics.push(TaskPanic { spawned_at: task.spawned_at, message });
        }
        if done || (task.life != state.life && !task.harness) {
            state.flags.remove(&id);
            drop(state);
            // Destructors may spawn, close files or panic: outside the borrow, and caught.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
        } else {
            state.tasks.insert(id, task);
        }
    }

    /// The tasks that wait, one a line, for the message of a run that cannot end.
    pub(super) fn describe(&self) -> String {
        let state = self.state.borrow();
        let mut out = format!(
            "virtual time {} us, {} polls, {} timers and I/O completions to come\n  the future \
             given to run: waiting\n",
            state.now_us,
            self.steps.get(),
            state.events.len()
        );
        for (id, task) in &state.tasks {
            let _ = writeln!(
                out,
                "  task {id}, spawned at {}: waiting, polled {} times",
                task.spawned_at, task.polls
            );
        }
        out
    }
}

/// Clears the flag on every way out, a panic of the main future included.
struct Running<'a>(&'a Cell<bool>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
