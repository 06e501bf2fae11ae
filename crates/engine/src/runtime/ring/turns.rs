//! The turns of the loop, and its end.
//!
//! A turn is: take what other threads have woken, wake who has slept long enough, run tasks for a
//! while, hand over what they asked for, note what has ended. Where nothing is left to run, handing
//! over and waiting are one call, so that a lone write costs one. Neither the queue of tasks nor
//! that of the kernel can keep the other waiting for longer than [`TURN`] and one task.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::anticipation::Step;
use super::local::{self, Local};
use super::queues::{Ended, Queues, Wait};
use super::tasks::{Ready, guarded};

/// Tasks of a turn, at most.
const TASKS: usize = 32;

/// How long tasks of a turn run: no other begins behind that.
const TURN: Duration = Duration::from_micros(50);

/// Completions that are noted at a time.
const RUN: usize = 64;

/// How long operations that nobody waits for may take when a run ends, and again before they are
/// cancelled when the executor goes.
pub(super) const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// How long the kernel may take to end what was cancelled, before the memory of it is leaked.
const CANCEL_PATIENCE: Duration = Duration::from_secs(10);

impl Local {
    /// Takes what others have woken, and wakes who has slept long enough.
    pub(super) fn begin_turn(&self) {
        self.take_woken();
        if self.timers.next().is_some() {
            let now = Instant::now();
            while let Some(waker) = self.timers.pop_due(now) {
                guarded(|| waker.wake());
            }
        }
    }

    fn take_woken(&self) {
        self.remote.take(|ready| self.visitors.borrow_mut().push_back(ready));
    }

    /// The task that runs next. One that another thread has woken and one of this thread run by
    /// turns, however many of either there are: what waits for it waits for the way there and back.
    fn next_task(&self) -> Option<Ready> {
        let (mut first, mut second) = (&self.visitors, &self.queue);
        if self.ran.get() % 2 == 1 {
            mem::swap(&mut first, &mut second);
        }
        let next = first.borrow_mut().pop_front();
        next.or_else(|| second.borrow_mut().pop_front())
    }

    /// Tasks that are ready.
    fn ready(&self) -> usize {
        self.visitors.borrow().len() + self.queue.borrow().len()
    }

    /// Runs tasks until none is left, or it is time to turn to the kernel. Whom other threads have
    /// woken need not wait for that.
    pub(super) fn run_tasks(&self) {
        let mut until = None;
        for _ in 0..TASKS {
            let Some(ready) = self.next_task() else { return };
            self.ran.set(self.ran.get() + 1);
            let until = *until.get_or_insert_with(|| Instant::now() + TURN);
            guarded(|| _ = ready.run());
            if !self.turning.borrow().is_empty() || Instant::now() >= until {
                return;
            }
            self.take_woken();
        }
    }

    /// Hands over what was asked for and notes what has ended. Where there is nothing to run, waits
    /// for something, up to `until`, after having looked out for it for `spin`.
    pub(super) fn end_turn(
        &self,
        spin: Option<Duration>,
        until: Option<Instant>,
        is_woken: &dyn Fn() -> bool,
    ) {
        let is_idle = || self.ready() == 0 && self.remote.is_empty() && !is_woken();
        let turning = mem::take(&mut *self.turning.borrow_mut());
        if !turning.is_empty() || !is_idle() {
            self.enter(Wait::No);
        } else if !spin.is_some_and(|spin| self.look_out(spin, &is_idle)) {
            self.fall_asleep(until, &is_idle);
        }
        self.note_ended();
        self.turns.set(self.turns.get() + 1);
        for waker in turning {
            guarded(|| waker.wake());
        }
    }

    /// Sleeps until something comes, or until just before that.
    fn fall_asleep(&self, until: Option<Instant>, is_idle: &dyn Fn() -> bool) {
        let mut early = None;
        if let Some(anticipation) = &self.anticipation {
            match anticipation.step(self.count(Queues::ending), Instant::now()) {
                Step::Sleep => {}
                Step::SleepUntil(at) => early = Some((anticipation, at)),
                Step::LookFor(time) if self.look_out(time, is_idle) => return,
                Step::LookFor(_) => anticipation.missed(),
            }
        }
        self.remote.fall_asleep();
        let until = until.into_iter().chain(early.map(|(_, at)| at)).min();
        let wait = if is_idle() { self.wait(until) } else { Wait::No };
        self.enter(wait);
        self.remote.awake();
        if let Some((anticipation, at)) = early {
            anticipation.slept(at, Instant::now());
        }
    }

    /// How long the loop may sleep.
    fn wait(&self, until: Option<Instant>) -> Wait {
        let next = self.timers.next().into_iter().chain(until).min();
        next.map_or(Wait::Ever, |at| Wait::AtMost(at.saturating_duration_since(Instant::now())))
    }

    /// Looks out for work for `spin`; true where there is some.
    fn look_out(&self, spin: Duration, is_idle: &dyn Fn() -> bool) -> bool {
        self.enter(Wait::No);
        let (start, next) = (Instant::now(), self.timers.next());
        loop {
            if self.has_news() {
                // What the kernel has put off is done in a call.
                self.enter(Wait::No);
                return true;
            }
            let now = Instant::now();
            if !is_idle() || next.is_some_and(|next| next <= now) {
                return true;
            }
            if now.saturating_duration_since(start) >= spin {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    fn has_news(&self) -> bool {
        self.queues.borrow_mut().as_mut().is_some_and(Queues::has_news)
    }

    fn enter(&self, wait: Wait) {
        let entered = match &mut *self.queues.borrow_mut() {
            Some(queues) => queues.enter(wait),
            None => Ok(()),
        };
        if let Err(error) = entered {
            panic!("the kernel refuses the ring: {error}");
        }
    }

    /// Wakes who waits for operations that have ended.
    fn note_ended(&self) {
        let before = self.count(Queues::ending);
        let mut run = [Ended { key: 0, result: 0 }; RUN];
        loop {
            let count = match &mut *self.queues.borrow_mut() {
                Some(queues) => queues.take(&mut run),
                None => 0,
            };
            run[..count].iter().for_each(|ended| self.ops.end(*ended));
            if count < RUN {
                break;
            }
        }
        if let Some(anticipation) = &self.anticipation
            && self.count(Queues::ending) < before
        {
            anticipation.ended(Instant::now());
        }
    }

    fn count(&self, of: impl Fn(&Queues) -> usize) -> usize {
        self.queues.borrow().as_ref().map_or(0, of)
    }

    /// Runs what is ready now, and goes on until no operation is under way or `patience` has
    /// passed. Waits, which may never end, are not waited for.
    pub(super) fn drain(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut ready = self.ready() as u64;
        loop {
            self.begin_turn();
            let before = self.ran.get();
            self.run_tasks();
            ready = ready.saturating_sub(self.ran.get() - before);
            let is_over =
                (ready == 0 && self.count(Queues::ending) == 0) || Instant::now() >= until;
            // The last turn is for who waits for one.
            self.end_turn(None, Some(until), &|| is_over);
            if is_over {
                return;
            }
        }
    }

    /// Drops every task. False where one is not there to be dropped: another thread, which has
    /// woken it, stands still before it has handed it over.
    pub(super) fn drop_tasks(&self) -> bool {
        let until = Instant::now() + DRAIN_PATIENCE;
        loop {
            // A task that is woken is dropped as it comes out of the queue.
            for waker in self.alive.all() {
                guarded(|| waker.wake());
            }
            self.take_woken();
            while let Some(ready) = self.next_task() {
                guarded(|| drop(ready));
            }
            if self.alive.is_empty() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// Waits until the kernel has answered every operation; true where it has.
    pub(super) fn end_io(&self) -> bool {
        let ended = |patience: Duration, cancel: bool| {
            let until = Instant::now() + patience;
            while self.count(Queues::under_way) > 0 {
                let now = Instant::now();
                if now >= until {
                    return false;
                }
                if cancel && let Some(queues) = &mut *self.queues.borrow_mut() {
                    queues.cancel_all();
                }
                // Those that were waiting for room come with the next round, and are cancelled
                // then.
                self.enter(Wait::AtMost((until - now).min(Duration::from_millis(100))));
                self.note_ended();
            }
            true
        };
        ended(DRAIN_PATIENCE, false) || ended(CANCEL_PATIENCE, true)
    }
}

/// Lets the tasks run that are ready now, and goes on behind them.
pub(in crate::runtime) fn yield_now() -> impl Future<Output = ()> + 'static {
    let mut yielded = false;
    std::future::poll_fn(move |cx| {
        if mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Ends when the thread has turned to its I/O: what was asked for before is with the kernel, what
/// has ended is known. The turn follows the task that waits.
pub(in crate::runtime) fn turn_to_io() -> impl Future<Output = ()> + 'static {
    Turn { seen: None }
}

struct Turn {
    seen: Option<u64>,
}

impl Future for Turn {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let local = local::expect();
        let turns = local.turns.get();
        if *self.seen.get_or_insert(turns) != turns {
            return Poll::Ready(());
        }
        local.turning.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }
}

/// Turns of this thread's executor so far: with each, what was asked for is with the kernel, and
/// who was to be woken by then was.
///
/// # Panics
///
/// On a thread without an executor.
pub(in crate::runtime) fn turns() -> u64 {
    local::expect().turns.get()
}
