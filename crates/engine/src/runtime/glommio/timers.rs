//! The timers of an executor, off glommio's own.
//!
//! Where any glommio timer is pending, glommio 0.9 hands the next one to the kernel before each
//! sleep and takes it back after each wake: two calls a cycle, and the one after the wake delays
//! whatever the I/O has woken. A read that waits for a timerfd costs nothing until it ends.
//!
//! There are two of them. `alarm` is set to the next sleep that is due. `pulse` ticks for ever,
//! because glommio can go to sleep over tasks that are ready to run: it arms its preempt timer, and
//! then looks whether it has fired BEFORE it runs the first task. Where the thread was off its CPU
//! in between, for longer than the timer (200 us; a busy neighbour is enough), it runs nothing,
//! takes that for "nothing to run", and parks: until some later event, for ever where there is none.
//! Measured on a loaded machine: once in about 50,000 wakes. Any event ends such a sleep, so there
//! is always one to come.
//!
//! Always: the read that a tick has ended is renewed by a task, and that task may be the one that is
//! slept over. So several reads wait. A tick ends one of them, also after a standstill in which many
//! were due, so that all of them must be slept over one after the other before none is left. On a
//! machine with far more work than CPUs that happens, too: `watch` has a thread for it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use glommio::TaskQueueHandle;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::counts::counts;
use super::fd;
use super::watch::Heart;

/// Reads that wait for the next tick.
const BEATS: usize = 8;

/// The period while the shard works: the bound of a stall.
const FAST: Duration = Duration::from_millis(1);

/// The period of a shard that has nothing to do, and so the bound of a stall of its first request.
/// 250 wakes a second; with 32 ms instead, one durable append in a thousand took as long.
const SLOW: Duration = Duration::from_millis(4);

/// How long the end of a shard waits for the reads behind its timers.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

thread_local! {
    static CURRENT: RefCell<Weak<Timers>> = const { RefCell::new(Weak::new()) };
}

/// The timers of the executor of this thread. Kept until the executor is gone: its rings read from
/// the descriptors.
pub(in crate::runtime) struct Timers {
    alarm: OwnedFd,
    pulse: OwnedFd,
    /// Who sleeps, by the time it is due and a number that tells equal times apart.
    due: RefCell<BTreeMap<(Instant, u64), Waker>>,
    numbers: Cell<u64>,
    /// What `alarm` is set to.
    armed: Cell<Option<Instant>>,
    period: Cell<Duration>,
    /// Tasks the executor had run at the last tick.
    tasks: Cell<u64>,
    /// Tasks that read ticks; they end with the next one where `stopping` is set.
    waiting: Cell<usize>,
    stopping: Cell<bool>,
    heart: Arc<Heart>,
}

impl Timers {
    /// Starts the timers of the executor this is called on. They run over all its `run` calls, up
    /// to [`Timers::stop`].
    pub(in crate::runtime) fn start(heart: Arc<Heart>) -> io::Result<Rc<Timers>> {
        let timers = Rc::new(Timers {
            alarm: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?,
            pulse: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?,
            due: RefCell::default(),
            numbers: Cell::new(0),
            armed: Cell::new(None),
            period: Cell::new(FAST),
            tasks: Cell::new(0),
            waiting: Cell::new(0),
            stopping: Cell::new(false),
            heart: Arc::clone(&heart),
        });
        // Without a handle: another thread wakes it.
        let asleep = poll_fn(move |cx| -> Poll<()> {
            heart.enter(cx.waker());
            Poll::Pending
        });
        let queued = glommio::spawn_local_into(asleep, TaskQueueHandle::default());
        queued.expect("the default queue is always there").detach();
        set(&timers.pulse, FAST, FAST)?;
        CURRENT.replace(Rc::downgrade(&timers));
        for _ in 0..BEATS {
            on_each(&timers, &timers.pulse, |timers| timers.beat(counts().tasks));
        }
        on_each(&timers, &timers.alarm, |timers| timers.ring(Instant::now()));
        Ok(timers)
    }

    /// Wakes everyone who sleeps, before their time.
    pub(in crate::runtime) fn wake_all(&self) {
        self.due.take().into_values().for_each(Waker::wake);
    }

    /// Ends the reads behind the timers, in the executor's last `run`. One that is on its way when its
    /// executor is dropped is never freed, nor is its buffer, nor the pool that the buffer is from.
    ///
    /// The pulse goes on until the executor is gone, by glommio's own timers: their tasks are leaked
    /// as well, and hold nothing.
    pub(in crate::runtime) async fn stop(&self) {
        for beat in 1..=BEATS as u32 {
            glommio::spawn_local(beats(FAST * beat)).detach();
        }
        self.stopping.set(true);
        let (soon, until) = (Duration::from_micros(20), Instant::now() + STOP_PATIENCE);
        // Each read needs a tick of its own.
        let ticking = set(&self.pulse, soon, soon).and_then(|()| set(&self.alarm, soon, soon));
        while ticking.is_ok() && self.waiting.get() > 0 && Instant::now() < until {
            // Not `sleep`, which needs the alarm.
            glommio::timer::sleep(Duration::from_micros(100)).await;
        }
    }

    /// Fast where the shard has run anything but beats since the last one; slower step by step
    /// where it has not.
    fn beat(&self, tasks: u64) {
        self.heart.beat();
        // The count is taken while this beat's run is not yet in it: between two beats of an idle
        // shard it grows by one.
        let worked = tasks.saturating_sub(self.tasks.replace(tasks)) > 1;
        let period = if worked { FAST } else { (self.period.get() * 2).min(SLOW) };
        if self.period.replace(period) != period {
            // It cannot fail with a descriptor and a time that are valid; the old period would stay.
            let _ = set(&self.pulse, period, period);
        }
    }

    /// Wakes who is due, and sets the alarm to who is next.
    fn ring(&self, now: Instant) {
        self.armed.set(None);
        loop {
            let mut due = self.due.borrow_mut();
            let Some(first) = due.first_entry() else { return };
            let at = first.key().0;
            if at > now {
                drop(due);
                return self.arm(at, now);
            }
            let waker = first.remove();
            drop(due);
            waker.wake();
        }
    }

    /// Sets the alarm to `at` where it would ring later.
    fn arm(&self, at: Instant, now: Instant) {
        if self.armed.get().is_some_and(|armed| armed <= at) {
            return;
        }
        // As above; a sleep would last until a later one is due.
        let _ = set(&self.alarm, at.saturating_duration_since(now), Duration::ZERO);
        self.armed.set(Some(at));
    }
}

impl Drop for Timers {
    fn drop(&mut self) {
        // Those who sleep still are tasks of an executor that is gone, and so is what their wakers
        // would call.
        std::mem::forget(self.due.take());
    }
}

/// Calls `then` each time that `fd` has ticked, in a task of its own.
fn on_each(timers: &Rc<Timers>, fd: &OwnedFd, then: fn(&Timers)) {
    let file = fd::ticking(fd.as_fd());
    timers.waiting.set(timers.waiting.get() + 1);
    let timers = Rc::downgrade(timers);
    glommio::spawn_local(async move {
        loop {
            let ticked = file.read_at(0, size_of::<u64>()).await;
            let Some(timers) = timers.upgrade() else { return };
            if timers.stopping.get() {
                timers.waiting.set(timers.waiting.get() - 1);
                return;
            }
            then(&timers);
            if ticked.is_err() {
                // The kernel refuses the read for now: not as fast as it can be asked again.
                glommio::timer::sleep(FAST).await;
            }
        }
    })
    .detach();
}

async fn beats(period: Duration) {
    loop {
        glommio::timer::sleep(period).await;
    }
}

/// Sets a timerfd to tick in `first` and then every `period`, where it is not zero.
fn set(fd: &OwnedFd, first: Duration, period: Duration) -> io::Result<()> {
    // Zero would switch it off.
    let first = first.max(Duration::from_nanos(1));
    let value = Itimerspec { it_interval: timespec(period), it_value: timespec(first) };
    timerfd_settime(fd, TimerfdTimerFlags::empty(), &value)?;
    Ok(())
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Ends when `duration` has passed since it was polled first. Dropping it takes it off the list.
///
/// # Panics
///
/// When it is polled on a thread without timers.
pub(in crate::runtime) fn sleep(duration: Duration) -> impl Future<Output = ()> + 'static {
    Sleep { duration, key: None, timers: Weak::new() }
}

struct Sleep {
    duration: Duration,
    key: Option<(Instant, u64)>,
    timers: Weak<Timers>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        if self.key.is_none() {
            self.timers = CURRENT.with_borrow(Weak::clone);
        }
        let timers = self.timers.upgrade().expect("a shard's thread has timers");
        let key = match self.key {
            Some(key) if key.0 <= now => {
                timers.due.borrow_mut().remove(&key);
                return Poll::Ready(());
            }
            Some(key) => key,
            None => {
                let number = timers.numbers.replace(timers.numbers.get() + 1);
                let key = (now + self.duration, number);
                timers.arm(key.0, now);
                self.key = Some(key);
                key
            }
        };
        timers.due.borrow_mut().insert(key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let (Some(key), Some(timers)) = (self.key, self.timers.upgrade()) {
            timers.due.borrow_mut().remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timers() -> Timers {
        let fd = || timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).expect("fd");
        Timers {
            alarm: fd(),
            pulse: fd(),
            due: RefCell::default(),
            numbers: Cell::new(0),
            armed: Cell::new(None),
            period: Cell::new(FAST),
            tasks: Cell::new(0),
            waiting: Cell::new(0),
            stopping: Cell::new(false),
            heart: Arc::default(),
        }
    }

    #[test]
    fn an_idle_shard_beats_slower_and_a_working_one_fast() {
        let timers = timers();
        for tasks in 1..20 {
            timers.beat(tasks);
        }
        assert_eq!(timers.period.get(), SLOW);
        timers.beat(40);
        assert_eq!(timers.period.get(), FAST);
        timers.beat(41);
        assert_eq!(timers.period.get(), 2 * FAST);
    }

    #[test]
    fn the_alarm_is_set_to_the_first_that_is_due() {
        let timers = timers();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        for (number, ms) in [(0, 30), (1, 10), (2, 20)] {
            timers.due.borrow_mut().insert((at(ms), number), Waker::noop().clone());
            timers.arm(at(ms), start);
        }
        assert_eq!(timers.armed.get(), Some(at(10)));
        timers.ring(at(20));
        assert_eq!(timers.armed.get(), Some(at(30)));
        assert_eq!(timers.due.borrow().len(), 1);
        timers.ring(at(30));
        assert_eq!((timers.armed.get(), timers.due.borrow().len()), (None, 0));
    }
}
