//! Keeps the engine's time: a durable ceiling, raised ahead of use, that no shard stamps above.
//!
//! What a crash takes back may have been read by then. So that its timestamps are never used again,
//! the clock record in `{data}/clock` always names a time that no stamp has passed: it is raised
//! about once a second, made durable, and only then shown to the shards. At open every clock starts
//! at it; a clean close, after which nothing can be lost any more, puts it back to the present.
//!
//! Where the record cannot be written the ceiling stays: appends go on for up to [`AHEAD`], then
//! they wait until a later attempt succeeds.

mod file;
mod timeline;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use corelog_format::SlotError;
use corelog_io::{IoError, IoOp};

use file::ClockFile;
use timeline::Timeline;

use crate::observe::Events;

/// The ceiling is raised this often.
const RAISE_EVERY: Duration = Duration::from_secs(1);
/// The ceiling is raised this far ahead: a sync may take so long without an append waiting for it.
const AHEAD: Duration = Duration::from_secs(4);
/// After a failure the next attempt comes sooner.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// What the shards' clocks read: they start at `floor` and may stamp up to `ceiling`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    /// No clock shows less. Microseconds since the Unix epoch.
    pub(crate) floor: Arc<AtomicU64>,
    /// Durable: stored (Release) only after the record that names it was synced.
    pub(crate) ceiling: Arc<AtomicU64>,
}

/// The engine's time could not be found out.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClockError {
    /// The record cannot be read or written.
    Io(IoError),
    /// The record is not one that this version can use.
    Record {
        /// The file that holds it.
        path: PathBuf,
        /// What is wrong with it.
        why: SlotError,
    },
}

/// The thread that raises the ceiling. Dropped without [`ClockKeeper::close`] it leaves the record
/// as it is.
#[derive(Debug)]
pub(crate) struct ClockKeeper {
    /// `None` once it has ended.
    asks: Mutex<Option<Sender<Ask>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: AtomicU64,
    last_failure: Mutex<Option<String>>,
}

enum Ask {
    /// The clock is to show at least this.
    Lift(u64, Sender<Result<(), IoError>>),
    Close(Sender<Result<(), IoError>>),
}

impl ClockKeeper {
    /// Reads or creates the record at `path`, raises it for the first time, and sets `bounds`.
    /// True beside it where there was none.
    pub(crate) fn open(
        path: &Path,
        bounds: &Bounds,
        events: &Events,
    ) -> Result<(ClockKeeper, bool), ClockError> {
        let (file, floor) = ClockFile::open(path)?;
        let state = Arc::new(State::default());
        let timeline = Timeline::new(floor, system_us());
        let (bounds, ticks, events) = (bounds.clone(), Instant::now(), events.clone());
        let state_too = Arc::clone(&state);
        let mut keeper = Keeper { file, timeline, ticks, bounds, state: state_too, events };
        keeper.raise()?;
        let (asks, inbox) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("corelog-clock".to_owned())
            .spawn(move || keeper.run(&inbox))
            .map_err(|source| IoError::new(IoOp::Open, path, source))?;
        let (asks, thread) = (Mutex::new(Some(asks)), Mutex::new(Some(thread)));
        Ok((ClockKeeper { asks, thread, state }, floor == 0))
    }

    /// Makes every clock show at least `us`, for stamps that must come behind others that are in
    /// the future. Blocks until the ceiling is durable.
    pub(crate) fn lift(&self, us: u64) -> Result<(), IoError> {
        self.ask(|done| Ask::Lift(us, done))
    }

    /// Puts the record back to the present and ends the thread. To be called when everything that
    /// was stamped is durable.
    pub(crate) fn close(&self) -> Result<(), IoError> {
        let closed = self.ask(Ask::Close);
        self.stop();
        closed
    }

    /// How often the record could not be written, and the last reason.
    pub(crate) fn failures(&self) -> (u64, Option<String>) {
        let last = self.state.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
        (self.state.failures.load(Ordering::Relaxed), last.clone())
    }

    fn ask(&self, ask: impl FnOnce(Sender<Result<(), IoError>>) -> Ask) -> Result<(), IoError> {
        let (done, answer) = mpsc::channel();
        if let Some(asks) = self.asks.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // Where the thread has ended, `answer` says so.
            let _ = asks.send(ask(done));
        }
        answer.recv().unwrap_or_else(|_| {
            let ended = io::Error::other("the clock's thread has ended");
            Err(IoError::new(IoOp::Write, "clock", ended))
        })
    }

    /// Ends the thread and leaves the record ahead, as after a crash.
    pub(crate) fn stop(&self) {
        drop(self.asks.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for ClockKeeper {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the thread works with.
struct Keeper {
    file: ClockFile,
    timeline: Timeline,
    ticks: Instant,
    bounds: Bounds,
    state: Arc<State>,
    events: Events,
}

impl Keeper {
    fn run(mut self, inbox: &Receiver<Ask>) {
        let (mut wait, mut failures) = (RAISE_EVERY, 0);
        loop {
            let raised = match inbox.recv_timeout(wait) {
                Ok(Ask::Lift(us, done)) => {
                    self.timeline.lift(us);
                    let raised = self.raise();
                    let told = raised.as_ref().copied().map_err(IoError::duplicate);
                    let _ = done.send(told);
                    raised
                }
                Ok(Ask::Close(done)) => {
                    let now = self.now();
                    let _ = done.send(self.file.store(now));
                    return;
                }
                Err(RecvTimeoutError::Timeout) => self.raise(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            wait = RAISE_EVERY;
            if raised.is_ok() && failures > 0 {
                self.events.clock_stored_again(std::mem::take(&mut failures));
            }
            if let Err(error) = raised {
                wait = RETRY_AFTER;
                failures += 1;
                self.events.clock_not_stored(&error);
                self.state.failures.fetch_add(1, Ordering::Relaxed);
                let mut last =
                    self.state.last_failure.lock().unwrap_or_else(PoisonError::into_inner);
                *last = Some(error.to_string());
            }
        }
    }

    fn now(&mut self) -> u64 {
        let since = self.ticks.elapsed();
        self.ticks += since;
        self.timeline.tick(system_us(), since)
    }

    /// The floor first: it only repeats what clocks may show already. The ceiling when it is
    /// durable.
    fn raise(&mut self) -> Result<(), IoError> {
        let now = self.now();
        self.bounds.floor.store(now, Ordering::Relaxed);
        let ceiling = now.saturating_add(AHEAD.as_micros() as u64);
        self.file.store(ceiling)?;
        self.bounds.ceiling.store(ceiling, Ordering::Release);
        Ok(())
    }
}

/// Microseconds since the Unix epoch, 0 before it.
fn system_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

impl From<IoError> for ClockError {
    fn from(error: IoError) -> Self {
        ClockError::Io(error)
    }
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockError::Io(error) => error.fmt(f),
            ClockError::Record { path, why: why @ SlotError::BothDamaged { .. } } => write!(
                f,
                "{}: {why}; where the system's clock is right, move the file away: timestamps \
                 then start from that clock",
                path.display()
            ),
            ClockError::Record { path, why } => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for ClockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClockError::Io(error) => Some(error),
            ClockError::Record { why, .. } => Some(why),
        }
    }
}

#[cfg(test)]
mod tests;
