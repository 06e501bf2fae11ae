//! How far an opening has come, told to whoever waits for it.

use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is told: at least once a second, whatever one partition takes.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// How far an opening has come; see [`EngineBuilder::on_progress`](crate::EngineBuilder::on_progress).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenProgress {
    /// Partitions that were looked at: they are served, or it is known why not.
    pub done: usize,
    /// Partitions that there are.
    pub partitions: usize,
    /// Since the first of them.
    pub elapsed: Duration,
}

/// Whom to tell.
#[derive(Clone)]
pub(crate) struct Listener(Arc<dyn Fn(OpenProgress) -> ControlFlow<()> + Send + Sync>);

impl Listener {
    pub(crate) fn new(
        listener: impl Fn(OpenProgress) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Listener {
        Listener(Arc::new(listener))
    }

    /// Tells; true where the opening is to end. A panic ends it too, as it must not end the engine
    /// half way: its message went to the panic hook.
    fn tell(&self, progress: OpenProgress) -> bool {
        let told = catch_unwind(AssertUnwindSafe(|| (self.0)(progress)));
        told.map_or(true, |told| told.is_break())
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// Counts partitions as they are opened, and says when to stop.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    partitions: AtomicUsize,
    done: AtomicUsize,
    stopped: AtomicBool,
}

impl Meter {
    /// So many partitions are to be opened.
    pub(crate) fn expect(&self, partitions: usize) {
        self.partitions.store(partitions, Ordering::Relaxed);
    }

    /// One more was looked at.
    pub(crate) fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// True where nothing more is to be begun.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Does `work`, and tells `listener` meanwhile, on a thread of its own. Where there is none to be
    /// had nobody is told: that is no reason not to open.
    pub(crate) fn watch<T>(&self, listener: Option<&Listener>, work: impl FnOnce() -> T) -> T {
        let Some(listener) = listener else { return work() };
        let (end, ended) = channel::<()>();
        let begun = Instant::now();
        thread::scope(|scope| {
            let tell = move || {
                while ended.recv_timeout(TELL_EVERY) == Err(RecvTimeoutError::Timeout) {
                    let progress = OpenProgress {
                        done: self.done.load(Ordering::Relaxed),
                        partitions: self.partitions.load(Ordering::Relaxed),
                        elapsed: begun.elapsed(),
                    };
                    if listener.tell(progress) {
                        self.stopped.store(true, Ordering::Relaxed);
                        return;
                    }
                }
            };
            let name = "corelog-progress".to_owned();
            let _ = thread::Builder::new().name(name).spawn_scoped(scope, tell);
            let done = work();
            drop(end);
            done
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn it_is_told_while_the_work_lasts_and_may_end_it() {
        let (meter, heard) = (Meter::default(), Arc::new(Mutex::new(Vec::new())));
        meter.expect(3);
        let notes = Arc::clone(&heard);
        let listener = Listener::new(move |progress| {
            let mut notes = notes.lock().unwrap();
            notes.push((progress.done, progress.partitions));
            if notes.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let work = || {
            meter.count();
            while !meter.is_stopped() {
                thread::sleep(Duration::from_millis(1));
            }
            7
        };
        assert_eq!(meter.watch(Some(&listener), work), 7);
        assert_eq!(*heard.lock().unwrap(), [(1, 3), (1, 3)]);
    }

    #[test]
    fn a_listener_that_panics_ends_the_opening_and_nothing_else() {
        let meter = Meter::default();
        let listener = Listener::new(|_| panic!("in a listener"));
        let work = || {
            while !meter.is_stopped() {
                thread::sleep(Duration::from_millis(1));
            }
        };
        meter.watch(Some(&listener), work);
    }

    #[test]
    fn without_a_listener_it_is_only_work() {
        let meter = Meter::default();
        assert_eq!(meter.watch(None, || 1), 1);
        assert!(!meter.is_stopped());
    }
}
