//! The shard threads together: started all or none, joined when all have drained.

use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::affinity;
use super::choice::Runtime;
use super::direct::{self, DirectIo, Probed};
use super::disk::MemoryLimits;
use super::file_threads::FileThreads;
use super::fileops::panic_text;
use super::glommio::watch::Watch;
use super::life::{self, Readiness, Seat};
use super::near::Near;
use super::pages::PoolPages;
use super::placement::{self, Place};
use super::platform::RealPlatform;
use super::spawn::PanicHook;
use super::start_error::StartError;
use super::uring;
use crate::observe::Events;

/// How long a shard thread with a CPU of its own may take to become ready before it is replaced; each
/// next one has twice as long, as it may be the machine that is slow (31 s together). On a busy machine about one start
/// in two thousand is slept over: it is to cost its caller a second and not ten.
const START_PATIENCE: Duration = Duration::from_secs(1);
const START_PATIENCE_MAX: Duration = Duration::from_secs(10);
const START_ATTEMPTS: u32 = 5;

/// How the shards of an engine are to run.
#[derive(Clone)]
pub(crate) struct RuntimeOptions {
    /// What they run on.
    pub(crate) runtime: Runtime,
    /// An existing directory on the file system that will hold the data.
    pub(crate) data_dir: PathBuf,
    /// Shards to start, at least one.
    pub(crate) shards: usize,
    /// The CPUs to use; those that the process may not use do not count. None: all that it may.
    pub(crate) cpus: Option<Vec<usize>>,
    /// Give every shard a CPU of its own where there are enough.
    pub(crate) pin: bool,
    /// How long an executor without work polls before it parks.
    pub(crate) spin: Duration,
    /// Whether a sleep ends just before the operation that is waited for; the ring runtime's.
    pub(crate) anticipate: bool,
    /// What to do where O_DIRECT is refused.
    pub(crate) direct_io: DirectIo,
    /// Bytes of a shard's registered buffer pool, a power of two. It is pinned memory.
    pub(crate) io_memory: usize,
    /// Put the pools on 2 MiB pages where the host's allocator did not.
    pub(crate) huge_pages: bool,
    /// A shard's limits on buffers and leases.
    pub(crate) memory: MemoryLimits,
    /// File-operations threads for all shards together, at least one.
    pub(crate) file_threads: usize,
    /// How long a shard that ends waits for leases before it leaks their memory.
    pub(crate) lease_patience: Duration,
    /// What clocks show at least; raised by the engine's clock keeper, as is `ceiling`.
    pub(crate) floor: Arc<AtomicU64>,
    /// Nothing is stamped above it.
    pub(crate) ceiling: Arc<AtomicU64>,
    /// Told of file operations that are slow or hang.
    pub(crate) events: Events,
    /// Told of every panic in a task.
    pub(crate) on_panic: PanicHook,
    /// Told the number of every shard that has ended, however it did, on its thread.
    pub(crate) on_end: Arc<dyn Fn(usize) + Send + Sync>,
}

/// What runs on a shard: called there once, with the shard's number. The shard ends when the future
/// does; it must have ended the shard's own use of files by then.
pub(crate) type ShardMain =
    Arc<dyn Fn(usize, RealPlatform) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync>;

/// How a shard came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShardEnd {
    /// All I/O drained, all leases back, all memory freed.
    Clean,
    /// All I/O drained; the memory of so many leases was leaked, as somebody still reads it.
    LeasesOut(usize),
    /// The shard's main future panicked; then as above.
    MainPanicked(String),
    /// The executor itself panicked. It and all its memory are leaked: the kernel may still write
    /// into it.
    ExecutorLost(String),
}

/// Running shards.
pub(crate) struct ShardThreads {
    shards: Vec<JoinHandle<ShardEnd>>,
    /// Over glommio's executors, until they have ended.
    watch: Option<Watch>,
    files: FileThreads,
    facts: RuntimeFacts,
}

/// What the start found out; for statistics and the doctor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuntimeFacts {
    /// Files are opened with O_DIRECT. False: buffered handles stand in for them, by request.
    pub(crate) direct: bool,
    /// What differs by shard.
    pub(crate) shards: Vec<ShardFacts>,
}

/// What the start found out about one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardFacts {
    /// Where it runs.
    pub(crate) place: Place,
    /// What its buffers lie on.
    pub(crate) pages: PoolPages,
}

impl ShardThreads {
    /// Starts the shards and the file threads. Nothing of `main` runs unless all could start.
    pub(crate) fn start(
        options: RuntimeOptions,
        main: ShardMain,
    ) -> Result<ShardThreads, StartError> {
        uring::check(options.runtime)?;
        let probed = direct::probe(&options.data_dir, options.direct_io)?;
        Self::start_with(options, main, probed)
    }

    /// [`ShardThreads::start`] with what a probe has found.
    pub(super) fn start_with(
        options: RuntimeOptions,
        main: ShardMain,
        probed: Probed,
    ) -> Result<ShardThreads, StartError> {
        let allowed = usable_cpus(options.cpus.as_deref()).map_err(StartError::Cpus)?;
        let (files, ops) =
            FileThreads::start(options.file_threads.max(1)).map_err(StartError::Thread)?;
        let watch = match options.runtime {
            Runtime::Glommio => Some(Watch::start().map_err(StartError::Thread)?),
            Runtime::Ring => None,
        };
        let places = placement::places(options.shards, options.pin, &allowed);
        let template = PathBuf::from(format!("/proc/self/fd/{}", probed.file.as_raw_fd()));
        let near = probed.direct.then(|| Near::of(&options.data_dir)).flatten().map(Arc::new);

        let seat = |(number, place)| Seat {
            number,
            place,
            allowed: allowed.clone(),
            options: options.clone(),
            ops: ops.clone(),
            heart: Arc::default(),
            direct: probed.direct,
            near: near.clone(),
            template: template.clone(),
        };
        let seats: Vec<_> = places.into_iter().enumerate().map(seat).collect();
        // Each thread has a heart of its own, those included that are given up.
        let heart = || watch.as_ref().map(Watch::heart).unwrap_or_default();
        let launch = |seat: &Seat| Launched::new(Seat { heart: heart(), ..seat.clone() }, &main);
        let launched = seats.iter().map(launch).collect::<Result<Vec<_>, _>>()?;
        let patience = patience(seats.len(), allowed.len());
        let mut ready = Vec::with_capacity(seats.len());
        for (shard, seat) in launched.into_iter().zip(&seats) {
            ready.push(shard.ready_or_replaced(patience, || launch(seat))?);
        }
        let (mut shards, mut found) = (Vec::new(), Vec::new());
        for (shard, facts) in ready {
            found.push(facts);
            shards.push(shard.told_to_go()?);
        }
        let facts = RuntimeFacts { direct: probed.direct, shards: found };
        Ok(ShardThreads { shards, watch, files, facts })
    }

    /// What the start found out.
    pub(crate) fn facts(&self) -> &RuntimeFacts {
        &self.facts
    }

    /// Waits until every shard's main future has ended and the shard has drained. Never call it on
    /// a shard.
    pub(crate) fn join(self) -> Vec<ShardEnd> {
        let lost = |panic: Box<dyn std::any::Any + Send>| {
            ShardEnd::ExecutorLost(panic_text("shard thread", &*panic))
        };
        let ends = self.shards.into_iter().map(|shard| shard.join().unwrap_or_else(lost)).collect();
        drop(self.watch);
        self.files.join();
        ends
    }
}

/// The CPUs this process may use, and of these the wished ones.
pub(crate) fn usable_cpus(wish: Option<&[usize]>) -> io::Result<Vec<usize>> {
    let mut allowed = affinity::allowed()?;
    allowed.retain(|cpu| wish.is_none_or(|wish| wish.contains(cpu)));
    Ok(allowed)
}

/// How long the first thread of a shard may take where `shards` of them start on `cpus` CPUs: they
/// share these, so that all of them are ready late rather than some of them soon.
fn patience(shards: usize, cpus: usize) -> Duration {
    let on_each = u32::try_from(shards.div_ceil(cpus.max(1))).unwrap_or(u32::MAX);
    START_PATIENCE.saturating_mul(on_each).min(START_PATIENCE_MAX)
}

/// A shard thread on its way: it says when it is ready, and runs on only when told so.
struct Launched {
    shard: usize,
    ready: mpsc::Receiver<Readiness>,
    go: mpsc::Sender<()>,
    thread: JoinHandle<ShardEnd>,
}

impl Launched {
    fn new(seat: Seat, main: &ShardMain) -> Result<Launched, StartError> {
        let ((say, ready), (go, start)) = (mpsc::channel(), mpsc::channel());
        let shard = seat.number;
        let name = format!("corelog-{shard}");
        let main = Arc::clone(main);
        let body = move || life::run_shard(seat, &say, &start, &main);
        let thread = thread::Builder::new().name(name).spawn(body).map_err(StartError::Thread)?;
        Ok(Launched { shard, ready, go, thread })
    }

    /// Waits until the shard is ready. The very first turn of an executor of glommio's has no pulse
    /// yet, so it can be slept over (`glommio/timers.rs`): such a thread is given up for a new one. It
    /// ends by itself should it ever wake, as nobody tells it to go on.
    fn ready_or_replaced(
        mut self,
        mut patience: Duration,
        again: impl Fn() -> Result<Launched, StartError>,
    ) -> Result<(Launched, ShardFacts), StartError> {
        let began = Instant::now();
        for attempt in 1..=START_ATTEMPTS {
            match self.ready.recv_timeout(patience) {
                Ok(readiness) => return readiness.map(|facts| (self, facts)),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(self.lost()),
                Err(mpsc::RecvTimeoutError::Timeout) if attempt < START_ATTEMPTS => {
                    self = again()?;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            patience *= 2;
        }
        Err(StartError::NotReady { shard: self.shard, waited: began.elapsed() })
    }

    fn told_to_go(self) -> Result<JoinHandle<ShardEnd>, StartError> {
        match self.go.send(()) {
            Ok(()) => Ok(self.thread),
            Err(_) => Err(self.lost()),
        }
    }

    /// Why the thread has ended without a word.
    fn lost(self) -> StartError {
        let why = match self.thread.join() {
            Ok(end) => format!("{end:?}"),
            Err(panic) => panic_text("it", &*panic),
        };
        StartError::Lost { shard: self.shard, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launched(
        body: impl FnOnce(mpsc::Sender<Readiness>) -> ShardEnd + Send + 'static,
    ) -> Launched {
        let ((say, ready), (go, _)) = (mpsc::channel(), mpsc::channel());
        Launched { shard: 7, ready, go, thread: thread::spawn(move || body(say)) }
    }

    fn no_other() -> Result<Launched, StartError> {
        panic!("it is not replaced")
    }

    #[test]
    fn a_thread_that_ends_without_a_word_is_told_with_the_cause() {
        let panics = launched(|_say| panic!("for want of luck"));
        let error = panics.ready_or_replaced(Duration::MAX, no_other).map(drop).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("shard 7") && text.contains("for want of luck"), "{text}");
        let ends = launched(|_say| ShardEnd::ExecutorLost("no memory".to_owned()));
        let text = ends.told_to_go().map(drop).unwrap_err().to_string();
        assert!(text.contains("shard 7") && text.contains("no memory"), "{text}");
    }

    #[test]
    fn one_that_is_never_ready_is_replaced_a_few_times_and_then_told_as_slow() {
        let never = || {
            launched(|say| {
                thread::sleep(Duration::from_millis(200));
                drop(say);
                ShardEnd::Clean
            })
        };
        let replaced = std::cell::Cell::new(1);
        let again = || {
            replaced.set(replaced.get() + 1);
            Ok(never())
        };
        let patience = Duration::from_millis(1);
        let error = never().ready_or_replaced(patience, again).map(drop).unwrap_err();
        assert_eq!(replaced.get(), START_ATTEMPTS);
        let text = error.to_string();
        assert!(text.contains("shard 7") && text.contains("fewer shards"), "{text}");
    }

    #[test]
    fn many_shards_on_few_cpus_have_more_time() {
        assert_eq!(patience(2, 2), START_PATIENCE);
        assert_eq!(patience(7, 2), 4 * START_PATIENCE);
        assert_eq!(patience(1000, 2), START_PATIENCE_MAX);
        assert_eq!(patience(1, 64), START_PATIENCE);
    }
}
