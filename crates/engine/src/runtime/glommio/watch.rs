//! A thread that wakes executors whose pulse has stopped.
//!
//! An executor can sleep over tasks that are ready to run, and over those that would keep its pulse
//! going (see `timers`): on a machine with more work than CPUs a thread loses its CPU at nearly every
//! wake, so that eight reads in a row are soon slept over, and then it sleeps for ever. A wake from
//! another thread reaches it all the same: glommio asks for the event of those anew before each
//! sleep, without a task. So this thread looks ten times a second whether each pulse has gone on, and
//! wakes a task of the executor where it has not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{io, mem};

/// Between two looks; the slowest pulse beats 25 times in it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Looks between two wakes of an executor that does not come to itself, at most: one that is kept
/// busy by a task takes no wakes, and each that waits costs one of 32,767 references.
const LOOKS_MAX: u32 = 128;

/// What an executor shows of itself.
#[derive(Default)]
pub(in crate::runtime) struct Heart {
    beats: AtomicU64,
    /// Of a task that never ends; `None` before the executor runs and when it is to be dropped.
    waker: Mutex<Option<Waker>>,
}

impl Heart {
    /// The pulse goes on.
    pub(in crate::runtime) fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Whom to wake where it does not.
    pub(in crate::runtime) fn enter(&self, waker: &Waker) {
        let old = self.lock().replace(waker.clone());
        drop(old);
    }

    /// Nobody is woken any more when this returns. Called on the executor's thread, before the
    /// executor is dropped.
    pub(in crate::runtime) fn leave(&self) {
        let old = self.lock().take();
        drop(old);
    }

    /// As [`Heart::leave`], where the executor is leaked and its task may not be touched.
    pub(in crate::runtime) fn forget(&self) {
        mem::forget(self.lock().take());
    }

    /// Wakes the task, under the lock: it is there as long as its waker is.
    fn wake(&self) {
        self.lock().iter().for_each(Waker::wake_by_ref);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread, for all executors of an engine. Ends when this is dropped.
pub(in crate::runtime) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    hearts: Vec<Watched>,
    is_over: bool,
}

struct Watched {
    heart: Arc<Heart>,
    seen: u64,
    /// Looks since the pulse was seen to go on.
    still: u32,
}

impl Watch {
    /// Starts the thread.
    ///
    /// # Errors
    /// There are no threads left.
    pub(in crate::runtime) fn start() -> io::Result<Watch> {
        let shared = Arc::new(Shared::default());
        let watching = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("corelog-watch".to_owned())
            .spawn(move || watching.run())?;
        Ok(Watch { shared, thread: Some(thread) })
    }

    /// The heart of one more executor.
    pub(in crate::runtime) fn heart(&self) -> Arc<Heart> {
        let heart = Arc::new(Heart::default());
        let watched = Watched { heart: Arc::clone(&heart), seen: 0, still: 0 };
        self.shared.lock().hearts.push(watched);
        heart
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.ended.notify_all();
        // It panics nowhere; and if it did, there is nothing left for it to do.
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn run(&self) {
        let mut state = self.lock();
        while !state.is_over {
            state.hearts.iter_mut().for_each(Watched::look);
            let waited = self.ended.wait_timeout(state, LOOK_EVERY);
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn look(&mut self) {
        let beats = self.heart.beats.load(Ordering::Relaxed);
        self.still = if beats == self.seen { self.still.saturating_add(1) } else { 0 };
        self.seen = beats;
        // At once, then after twice as long each time.
        let is_due = self.still.is_power_of_two() || self.still.is_multiple_of(LOOKS_MAX);
        if self.still > 0 && is_due {
            self.heart.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn watched() -> (Watched, Arc<Woken>) {
        let (heart, woken) = (Arc::new(Heart::default()), Arc::new(Woken::default()));
        heart.enter(&Waker::from(Arc::clone(&woken)));
        (Watched { heart, seen: 0, still: 0 }, woken)
    }

    #[test]
    fn a_pulse_that_goes_on_is_left_alone() {
        let (mut watched, woken) = watched();
        for _ in 0..100 {
            watched.heart.beat();
            watched.look();
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_that_has_stopped_is_woken_again_and_again_and_ever_less_often() {
        let (mut watched, woken) = watched();
        let mut at = Vec::new();
        for look in 1..=400_u32 {
            let before = woken.0.load(Ordering::Relaxed);
            watched.look();
            if woken.0.load(Ordering::Relaxed) > before {
                at.push(look);
            }
        }
        assert_eq!(at, [1, 2, 4, 8, 16, 32, 64, 128, 256, 384]);
        watched.heart.beat();
        watched.look();
        watched.look();
        assert_eq!(woken.0.load(Ordering::Relaxed), 11, "at once, when it stops again");
    }

    #[test]
    fn who_has_left_is_not_woken() {
        let (mut watched, woken) = watched();
        watched.heart.leave();
        watched.look();
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        assert_eq!(Arc::strong_count(&woken), 1);
    }

    #[test]
    fn the_thread_looks_by_itself_and_ends() {
        let watch = Watch::start().unwrap();
        let (heart, woken) = (watch.heart(), Arc::new(Woken::default()));
        heart.enter(&Waker::from(Arc::clone(&woken)));
        while woken.0.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        drop(watch);
        assert_eq!(Arc::strong_count(&heart), 1);
    }
}
