//! The executor of a thread: made, run, dropped.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use super::anticipation::Anticipation;
use super::local::{self, Local};
use super::memory::Pool;
use super::ops::Ops;
use super::queues::Queues;
use super::remote::Remote;
use super::tasks::{Alive, guarded};
use super::timers::Timers;
use super::turns::DRAIN_PATIENCE;
use crate::runtime::pages::PoolPages;

/// How an executor is made.
#[derive(Clone, Copy, Debug)]
pub(in crate::runtime) struct Options {
    /// Entries of the ring: as many operations are handed over in one call. The kernel rounds it up
    /// to a power of two. Eight times as many are with the kernel at most, others wait.
    pub(in crate::runtime) entries: u32,
    /// Bytes of the pool for buffers, registered with the ring.
    pub(in crate::runtime) pool: usize,
    /// Whether the pool lies on huge pages where it can.
    pub(in crate::runtime) huge_pages: bool,
    /// How long the loop looks out for work before it sleeps.
    pub(in crate::runtime) spin: Option<Duration>,
    /// Whether a sleep ends just before the operation that is waited for, as far as one can know.
    pub(in crate::runtime) anticipate: bool,
    /// Whether other threads wake the loop by ring messages where the kernel has them.
    pub(in crate::runtime) messages: bool,
    /// Places for registered files; further files work without.
    pub(in crate::runtime) files: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            entries: 256,
            pool: 0,
            huge_pages: true,
            spin: None,
            anticipate: true,
            messages: true,
            files: 1024,
        }
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
        // Without registration (RLIMIT_MEMLOCK, usually) each call pins its memory: slower, not
        // wrong.
        let registered = if pieces.is_empty() { Ok(()) } else { queues.register_memory(&pieces) };
        pool.set_registered(registered.is_ok());
        let local = Rc::new(Local {
            remote,
            queue: RefCell::new(VecDeque::new()),
            visitors: RefCell::new(VecDeque::new()),
            alive: Alive::default(),
            queues: RefCell::new(Some(queues)),
            ops: Ops::default(),
            timers: Rc::new(Timers::default()),
            pool,
            anticipation: options.anticipate.then(Anticipation::default),
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

    /// Runs `main` to its end, and tasks meanwhile. Then those that are ready are run once more,
    /// and operations under way are waited for, [`DRAIN_PATIENCE`] at most. Other tasks stay, up to
    /// the next call.
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
