//! The loop: tasks run in the order in which they were woken, a few between two looks at the kernel.
//!
//! A turn is: take what other threads have woken, wake who has slept long enough, run tasks for a
//! while, hand over what they asked for, note what has ended. Where nothing is left to run, handing
//! over and waiting are one call, so that a lone write costs one. Neither the queue of tasks nor that
//! of the kernel can keep the other waiting for longer than [`TURN`] and one task.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::AsRawFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::local::{self, Local};
use super::memory::Pool;
use super::ops::Ops;
use super::queues::{Ended, Queues, Wait};
use super::remote::Remote;
use super::tasks::{Alive, guarded};
use super::timers::Timers;
use crate::runtime::pages::PoolPages;

/// Tasks of a turn, at most.
const TASKS: usize = 32;

/// How long tasks of a turn run: no other begins behind that.
const TURN: Duration = Duration::from_micros(50);

/// Completions that are noted at a time.
const RUN: usize = 64;

/// How long operations that nobody waits for may take when a run ends, and again before they are
/// cancelled when the executor goes.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// How long the kernel may take to end what was cancelled, before the memory of it is leaked.
const CANCEL_PATIENCE: Duration = Duration::from_secs(10);

/// How an executor is made.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct Options {
    /// Entries of the ring: as many operations are handed over in one call. The kernel rounds it up to
    /// a power of two. Eight times as many are with the kernel at most, others wait.
    pub(in crate::runtime) entries: u32,
    /// Bytes of the pool for buffers, registered with the ring.
    pub(in crate::runtime) pool: usize,
    /// Whether the pool lies on huge pages where it can.
    pub(in crate::runtime) huge_pages: bool,
    /// How long the loop looks out for work before it sleeps.
    pub(in crate::runtime) spin: Option<Duration>,
    /// Whether other threads wake the loop by ring messages where the kernel has them.
    pub(in crate::runtime) messages: bool,
    /// Places for registered files; further files work without.
    pub(in crate::runtime) files: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { entries: 256, pool: 0, huge_pages: true, spin: None, messages: true, files: 1024 }
    }
}

/// The executor of its thread. Dropping it drops its tasks and ends its I/O.
pub(in crate::runtime) struct Executor {
    local: Rc<Local>,
    spin: Option<Duration>,
    /// Tells whether the pool's memory is registered.
    registered: io::Result<()>,
    /// Local to its thread.
    _not_send: PhantomData<*const ()>,
}

impl Executor {
    /// An executor for this thread, which has none yet.
    pub(in crate::runtime) fn new(options: Options) -> io::Result<Executor> {
        if local::current().is_some() {
            return Err(io::Error::other("this thread has a ring executor already"));
        }
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let queues = Queues::new(options.entries, options.files, event.as_raw_fd())?;
        let ring = if options.messages { queues.messages() } else { None };
        let remote = Arc::new(Remote::new(event, ring));
        let pool = Pool::new(options.pool, options.huge_pages)?;
        let pieces = pool.pieces();
        // Without registration (RLIMIT_MEMLOCK, usually) each call pins its memory: slower, not wrong.
        let registered = if pieces.is_empty() { Ok(()) } else { queues.register_memory(&pieces) };
        pool.set_registered(registered.is_ok());
        let local = Rc::new(Local {
            remote,
            queue: RefCell::new(VecDeque::new()),
            alive: Alive::default(),
            queues: RefCell::new(Some(queues)),
            ops: Ops::default(),
            timers: Rc::new(Timers::default()),
            pool,
            turns: Cell::new(0),
            ran: Cell::new(0),
            turning: RefCell::new(Vec::new()),
            closing: Cell::new(false),
        });
        local::replace(Some(Rc::clone(&local)));
        Ok(Executor { local, spin: options.spin, registered, _not_send: PhantomData })
    }

    /// On what pages the pool lies.
    pub(in crate::runtime) fn pages(&self) -> PoolPages {
        self.local.pool.pages()
    }

    /// Why the pool is not registered with the ring, where it is not.
    pub(in crate::runtime) fn unregistered(&self) -> Option<&io::Error> {
        self.registered.as_ref().err()
    }

    /// Calls of io_uring_enter so far.
    #[cfg(test)]
    pub(in crate::runtime) fn enters(&self) -> u64 {
        self.local.queues.borrow().as_ref().map_or(0, Queues::enters)
    }

    /// Runs `main` to its end, and tasks meanwhile. Then those that are ready are run once more, and
    /// operations under way are waited for, [`DRAIN_PATIENCE`] at most. Other tasks stay, up to the
    /// next call.
    ///
    /// # Panics
    ///
    /// Where `main` does, or the kernel refuses the ring.
    pub(in crate::runtime) fn run<T>(&self, main: impl Future<Output = T>) -> T {
        let local = &self.local;
        let woken =
            Arc::new(Woken { flag: AtomicBool::new(true), remote: Arc::clone(&local.remote) });
        let waker = Waker::from(Arc::clone(&woken));
        let (mut main, mut cx) = (pin!(main), Context::from_waker(&waker));
        let answer = loop {
            local.begin_turn();
            if woken.flag.swap(false, Ordering::Acquire)
                && let Poll::Ready(answer) = main.as_mut().poll(&mut cx)
            {
                break answer;
            }
            local.run_tasks();
            local.end_turn(self.spin, None, &|| woken.flag.load(Ordering::Acquire));
        };
        local.drain(DRAIN_PATIENCE);
        answer
    }
}

/// The waker of what [`Executor::run`] was given.
struct Woken {
    flag: AtomicBool,
    remote: Arc<Remote>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.flag.store(true, Ordering::Release);
        self.remote.wake();
    }
}

impl Local {
    /// Takes what others have woken, and wakes who has slept long enough.
    fn begin_turn(&self) {
        self.take_woken();
        if self.timers.next().is_some() {
            let now = Instant::now();
            while let Some(waker) = self.timers.pop_due(now) {
                guarded(|| waker.wake());
            }
        }
    }

    fn take_woken(&self) {
        self.remote.take(|ready| self.queue.borrow_mut().push_back(ready));
    }

    /// Runs tasks until none is left, or it is time to turn to the kernel. Whom other threads have woken
    /// need not wait for that.
    fn run_tasks(&self) {
        let mut until = None;
        for _ in 0..TASKS {
            let Some(ready) = self.queue.borrow_mut().pop_front() else { return };
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
    fn end_turn(
        &self,
        spin: Option<Duration>,
        until: Option<Instant>,
        is_woken: &dyn Fn() -> bool,
    ) {
        let is_idle = || self.queue.borrow().is_empty() && self.remote.is_empty() && !is_woken();
        let turning = mem::take(&mut *self.turning.borrow_mut());
        if !turning.is_empty() || !is_idle() {
            self.enter(Wait::No);
        } else if !spin.is_some_and(|spin| self.look_out(spin, &is_idle)) {
            self.remote.fall_asleep();
            let wait = if is_idle() { self.wait(until) } else { Wait::No };
            self.enter(wait);
            self.remote.awake();
        }
        self.note_ended();
        self.turns.set(self.turns.get() + 1);
        for waker in turning {
            guarded(|| waker.wake());
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
        let mut run = [Ended { key: 0, result: 0 }; RUN];
        loop {
            let count = match &mut *self.queues.borrow_mut() {
                Some(queues) => queues.take(&mut run),
                None => 0,
            };
            run[..count].iter().for_each(|ended| self.ops.end(*ended));
            if count < RUN {
                return;
            }
        }
    }

    fn under_way(&self) -> usize {
        self.queues.borrow().as_ref().map_or(0, Queues::under_way)
    }

    /// Runs what is ready now, and goes on until no operation is under way or `patience` has passed.
    fn drain(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut ready = self.queue.borrow().len() as u64;
        loop {
            self.begin_turn();
            let before = self.ran.get();
            self.run_tasks();
            ready = ready.saturating_sub(self.ran.get() - before);
            let is_over = (ready == 0 && self.under_way() == 0) || Instant::now() >= until;
            // The last turn is for who waits for one.
            self.end_turn(None, Some(until), &|| is_over);
            if is_over {
                return;
            }
        }
    }

    /// Drops every task. False where one is not there to be dropped: another thread, which has woken it,
    /// stands still before it has handed it over.
    fn drop_tasks(&self) -> bool {
        let until = Instant::now() + DRAIN_PATIENCE;
        loop {
            // A task that is woken is dropped as it comes out of the queue.
            for waker in self.alive.all() {
                guarded(|| waker.wake());
            }
            self.take_woken();
            while let Some(ready) = { self.queue.borrow_mut().pop_front() } {
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
    fn end_io(&self) -> bool {
        let ended = |patience: Duration, cancel: bool| {
            let until = Instant::now() + patience;
            while self.under_way() > 0 {
                let now = Instant::now();
                if now >= until {
                    return false;
                }
                if cancel && let Some(queues) = &mut *self.queues.borrow_mut() {
                    queues.cancel_all();
                }
                // Those that were waiting for room come with the next round, and are cancelled then.
                self.enter(Wait::AtMost((until - now).min(Duration::from_millis(100))));
                self.note_ended();
            }
            true
        };
        ended(DRAIN_PATIENCE, false) || ended(CANCEL_PATIENCE, true)
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        let local = &self.local;
        local.closing.set(true);
        let dropped = local.drop_tasks();
        let mut ended = false;
        guarded(|| ended = local.end_io());
        // Wakers in there are of tasks that are gone.
        drop(mem::take(&mut *local.turning.borrow_mut()));
        local::replace(None);
        if ended && dropped {
            let queues = local.queues.borrow_mut().take();
            drop(queues);
            local.pool.set_registered(false);
        } else {
            // The kernel may still write to what it was given, and a task may still come.
            mem::forget(Rc::clone(local));
        }
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

/// Ends when the thread has turned to its I/O: what was asked for before is with the kernel, what has
/// ended is known. The turn follows the task that waits.
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

/// Turns of this thread's executor so far: with each, what was asked for is with the kernel, and who was
/// to be woken by then was.
///
/// # Panics
///
/// On a thread without an executor.
pub(in crate::runtime) fn turns() -> u64 {
    local::expect().turns.get()
}
