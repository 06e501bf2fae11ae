//! The simulated clock and spawner: virtual time that tests can step, and tasks of the executor.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::executor::{EventKey, Executor};
use crate::{Clock, Spawn};

/// Where simulated wall time begins: 2023-11-14, so that timestamps look like timestamps.
const EPOCH_US: i64 = 1_700_000_000_000_000;

/// How far ahead of the clock the ceiling is put, and when it is put there again: as the engine's
/// clock record does, about once a second and ahead of use.
const CEILING_AHEAD_US: u64 = 2_000_000;
const CEILING_LEFT_US: u64 = 1_000_000;

/// Wall time of the simulation. Clones are one clock.
#[derive(Clone)]
pub struct SimClock {
    executor: Rc<Executor>,
    wall: Rc<Wall>,
}

struct Wall {
    /// Added to virtual time; tests step it.
    offset_us: Cell<i64>,
    /// No time below this is told: the ceiling that the last life left behind.
    floor_us: Cell<u64>,
    ceiling_us: Cell<u64>,
    held: Cell<bool>,
}

impl SimClock {
    pub(super) fn new(executor: Rc<Executor>) -> Self {
        let wall = Wall {
            offset_us: Cell::new(EPOCH_US),
            floor_us: Cell::new(0),
            ceiling_us: Cell::new(0),
            held: Cell::new(false),
        };
        SimClock { executor, wall: Rc::new(wall) }
    }

    /// Moves wall time by `by_us` microseconds, either way. Timers and sleeps do not notice.
    pub fn step(&self, by_us: i64) {
        self.wall.offset_us.set(self.wall.offset_us.get().saturating_add(by_us));
    }

    /// While `held`, the ceiling stays where it is: as if the clock record could not be written.
    pub fn hold_ceiling(&self, held: bool) {
        self.ceiling_us();
        self.wall.held.set(held);
    }

    /// Virtual time since the simulation began; never goes back.
    pub fn elapsed(&self) -> Duration {
        Duration::from_micros(self.executor.now_us())
    }

    /// The next life's clock starts at this life's ceiling (design section 7).
    pub(super) fn end_life(&self) {
        let ceiling = self.wall.ceiling_us.get();
        self.wall.floor_us.set(self.wall.floor_us.get().max(ceiling));
        let behind = self.wall.floor_us.get().saturating_sub(self.wall_us());
        self.step(i64::try_from(behind).unwrap_or(i64::MAX));
        self.wall.held.set(false);
    }

    fn wall_us(&self) -> u64 {
        self.executor.now_us().saturating_add_signed(self.wall.offset_us.get())
    }
}

impl Clock for SimClock {
    fn now_us(&self) -> u64 {
        self.wall_us().max(self.wall.floor_us.get())
    }

    fn ceiling_us(&self) -> u64 {
        let now = self.now_us();
        if !self.wall.held.get() && self.wall.ceiling_us.get() < now + CEILING_LEFT_US {
            self.wall.ceiling_us.set(now + CEILING_AHEAD_US);
        }
        self.wall.ceiling_us.get()
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        let micros = u64::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
        Sleep { executor: Rc::clone(&self.executor), micros, armed: None }
    }
}

/// A timer that starts when it is first polled and is forgotten when it is dropped.
struct Sleep {
    executor: Rc<Executor>,
    micros: u64,
    armed: Option<(EventKey, Rc<Alarm>)>,
}

struct Alarm {
    rang: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some((_, alarm)) = &self.armed {
            if alarm.rang.get() {
                return Poll::Ready(());
            }
            alarm.waker.set(Some(cx.waker().clone()));
            return Poll::Pending;
        }
        let alarm =
            Rc::new(Alarm { rang: Cell::new(false), waker: Cell::new(Some(cx.waker().clone())) });
        let ring = Rc::clone(&alarm);
        let key = self.executor.after(
            self.micros,
            Box::new(move || {
                ring.rang.set(true);
                if let Some(waker) = ring.waker.take() {
                    waker.wake();
                }
            }),
        );
        self.armed = Some((key, alarm));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some((key, alarm)) = &self.armed
            && !alarm.rang.get()
        {
            self.executor.cancel(*key);
        }
    }
}

/// Tasks of the simulation.
#[derive(Clone)]
pub struct SimSpawn {
    executor: Rc<Executor>,
    harness: bool,
}

impl SimSpawn {
    pub(super) fn new(executor: Rc<Executor>) -> Self {
        SimSpawn { executor, harness: false }
    }

    /// A spawner whose tasks survive power cuts and kills: for the test's own actors.
    pub fn harness(&self) -> SimSpawn {
        SimSpawn { executor: Rc::clone(&self.executor), harness: true }
    }
}

impl Spawn for SimSpawn {
    #[track_caller]
    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.executor.spawn(Box::pin(task), self.harness, Location::caller());
    }

    /// Each poll of a task is followed by a turn.
    fn turns(&self) -> u64 {
        self.executor.steps()
    }

    fn yield_now(&self) -> impl Future<Output = ()> + 'static {
        let mut yielded = false;
        poll_fn(move |cx| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }
}
