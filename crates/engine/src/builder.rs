//! How an engine is opened.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use corelog_shard::{ControlError, PartitionId, ShardThread, Shards};
use corelog_storage::OpenReport;

use crate::Engine;
use crate::catalog::CatalogKeeper;
use crate::clock_keeper::{Bounds, ClockKeeper};
use crate::control::{Control, Panics};
use crate::data_dir::DataDir;
use crate::error::OpenError;
use crate::guests::Door;
use crate::limits::{InvalidLimit, Limits};
use crate::lock::DirLock;
use crate::observe::{Events, ticks};
use crate::opening::{Opened, Opener};
use crate::progress::{Listener, Meter, OpenProgress};
use crate::runtime::{DirectIo, PoolPages, Runtime, RuntimeOptions, ShardThreads, StartError};
use crate::shard_main;
use crate::trash::Trash;
use crate::works::Works;

/// What a device that is well takes for nothing, a write of 16 MiB behind others included.
const SLOW_IO: Duration = Duration::from_millis(500);
/// More shards than this are a mistake.
const SHARDS_MAX: usize = 1024;

/// How an engine is opened; [`Engine::builder`] makes one.
#[derive(Debug, Clone)]
#[must_use = "`open` opens the engine"]
pub struct EngineBuilder {
    path: PathBuf,
    runtime: Runtime,
    shards: Option<usize>,
    cpus: Option<Vec<usize>>,
    pin: bool,
    spin: Duration,
    anticipate: bool,
    huge_pages: bool,
    direct_io: DirectIo,
    limits: Limits,
    slow_io: Duration,
    listener: Option<Listener>,
}

/// What opening the engine found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct OpenSummary {
    /// Partitions that are served.
    pub partitions: usize,
    /// Every partition that was not found as a clean close leaves it, that had to be created since
    /// nothing of it was there, or that could not be opened, by id. Data that is damaged is
    /// reported by its partition and never stops another.
    pub not_clean: Vec<(PartitionId, Result<OpenReport, ControlError>)>,
    /// The file system refused O_DIRECT, and [`DirectIo::Preferred`] lets the engine go on
    /// through the page cache: memory use and speed are the kernel's.
    pub without_direct_io: bool,
    /// What drives the shards.
    pub runtime: Runtime,
    /// Of each shard, by number: its CPU (`None`: it runs anywhere) and what its buffers lie on.
    pub shards: Vec<(Option<usize>, PoolPages)>,
}

impl EngineBuilder {
    pub(crate) fn new(path: &Path) -> EngineBuilder {
        EngineBuilder {
            path: path.to_owned(),
            runtime: Runtime::default(),
            shards: None,
            cpus: None,
            pin: true,
            spin: Duration::ZERO,
            anticipate: true,
            huge_pages: true,
            direct_io: DirectIo::default(),
            limits: Limits::default(),
            slow_io: SLOW_IO,
            listener: None,
        }
    }

    /// What drives the shards. Default: [`Runtime::Glommio`]; `docs/operations.md` says when the other
    /// is the better choice. An engine may be opened with another one every time.
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = runtime;
        self
    }

    /// How many shards. Default: one for each CPU that the engine may use. More than that is fine
    /// for tests; such shards share the CPUs. An engine may be opened with another number every
    /// time.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// The CPUs that shards may run on, by number; those that the process may not use do not count.
    /// Default: all that it may use.
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.cpus = Some(cpus.into_iter().collect());
        self
    }

    /// Give each shard a CPU of its own where there are enough. Default true.
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// How long a shard that has nothing to do looks out for work before it sleeps. Default zero.
    ///
    /// For cores that are the shards' own: a sleeping core takes some 20 to 50 us to wake, and each
    /// small synced write of a lone producer pays for it. With 100 to 200 us, a shard that waits for
    /// such writes uses its whole core; an idle one looks out as long a few hundred times a second.
    /// Let fewer shards run than there are CPUs, as the kernel needs one to end the I/O on. No effect
    /// on shards that are not pinned.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.spin = spin;
        self
    }

    /// Let a shard that waits for one or two operations of the device wake just before they end, where
    /// their time is steady and below 500 us, and look out for them: the wake of a sleeping core is
    /// then over when the device is done. Default true.
    ///
    /// A lone synced write is answered sooner by a sixth for that and takes some 5 us more of a CPU; a
    /// shard without I/O under way is not woken. The ring runtime has it, on shards that are pinned
    /// and do not [spin](Self::spin); no effect elsewhere.
    pub fn anticipate(mut self, anticipate: bool) -> Self {
        self.anticipate = anticipate;
        self
    }

    /// Put buffers on 2 MiB pages where the kernel allows it, which makes large reads and writes
    /// faster. Default true; without it a start is a little quicker.
    pub fn huge_pages(mut self, huge_pages: bool) -> Self {
        self.huge_pages = huge_pages;
        self
    }

    /// What to do on a file system that refuses O_DIRECT. Default: refuse to open.
    pub fn direct_io(mut self, direct_io: DirectIo) -> Self {
        self.direct_io = direct_io;
        self
    }

    /// What the engine may use.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// File operations that take so long are told as slow (`io_slow`), and as hanging (`io_hangs`)
    /// when they take ten times as long: see `docs/operations.md`. At least a millisecond. Default
    /// 500 ms.
    pub fn slow_io(mut self, slow_io: Duration) -> Self {
        self.slow_io = slow_io.max(Duration::from_millis(1));
        self
    }

    /// Calls `listener` about twice a second while partitions are opened: after a crash each is read
    /// from its last mark on, up to 64 MiB, and with many of them that takes a while. Where it
    /// answers `Break`, [`EngineBuilder::open`] begins no further ones, closes those that are open
    /// and answers `Cancelled`; what was recovered needs no recovery the next time. So does one
    /// that panics. It is called on a thread of its own, which the opening waits for at its end.
    pub fn on_progress(
        mut self,
        listener: impl Fn(OpenProgress) -> ControlFlow<()> + Send + Sync + 'static,
    ) -> Self {
        self.listener = Some(Listener::new(listener));
        self
    }

    /// Opens the engine, creating the data directory where it is missing, and every partition of
    /// its catalog. Blocks: the time grows with the number of segments, not with their bytes.
    ///
    /// # Errors
    /// See [`OpenError`]; what a partition finds is no error but in [`Engine::opened`].
    pub fn open(self) -> Result<Engine, OpenError> {
        if ShardThread::is_current() {
            return Err(OpenError::OnShard);
        }
        let began = Instant::now();
        self.limits.validate()?;
        let count = self.count()?;
        let dir = DataDir::create(&self.path).map_err(OpenError::Directory)?;
        let lock = DirLock::take(&dir)?;

        let events = Events::new(dir.root(), self.slow_io);
        let (shards, seats) = Shards::timed(count, &self.limits.shard(), ticks);
        let doors: Arc<[Door]> = (0..count).map(|_| Door::default()).collect();
        let (bounds, panics) = (Bounds::default(), Arc::new(Panics::default()));
        let main = shard_main::main(seats, Arc::clone(&doors), &self.limits, &panics);
        let options = self.options(&dir, &bounds, &shards, &doors, &panics, &events);
        let runtime = ShardThreads::start(options, main)?;
        let facts = runtime.facts().clone();
        // From here on an error closes what runs: see `Starting`.
        let starting = Starting { shards: &shards, runtime: Some(runtime) };
        let (clock, clock_is_new) = ClockKeeper::open(&dir.clock(), &bounds, &events)?;
        let catalog = CatalogKeeper::open(&dir.catalog(), self.limits.groups(), &events)?;
        let runtime = starting.done();

        let clock = Arc::new(clock);
        let meter = Meter::default();
        let (works, opened) = {
            let model = catalog.model();
            let opener = Opener::new(dir.clone(), shards.clone(), Arc::clone(&clock), clock_is_new);
            let trash = Trash::new(dir.clone(), model.first_incarnation());
            let works = Works::new(dir, shards.clone(), opener, trash);
            let open = || works.open_catalog(&model, &meter);
            let opened = summary(meter.watch(self.listener.as_ref(), open));
            (works, opened)
        };
        let opened = OpenSummary {
            without_direct_io: !facts.direct,
            runtime: self.runtime,
            shards: facts.shards.iter().map(|shard| (shard.place.cpu(), shard.pages)).collect(),
            ..opened
        };
        let control = Control {
            shards,
            doors: Arc::clone(&doors),
            catalog,
            works: Arc::new(works),
            clock,
            panics,
            direct_io: facts.direct,
            runtime: self.runtime,
            events,
        };
        control.events.engine_opened(count, &opened, began.elapsed());
        let client_limits = self.limits.client();
        let engine = Engine::new(Arc::new(control), runtime, lock, client_limits, opened);
        match meter.is_stopped() {
            // Dropped, it closes what was opened.
            true => Err(OpenError::Cancelled),
            false => Ok(engine),
        }
    }

    fn count(&self) -> Result<usize, OpenError> {
        let usable = crate::runtime::usable_cpus(self.cpus.as_deref()).map_err(StartError::Cpus)?;
        if usable.is_empty() {
            let allowed = "CPUs that the process may use (its affinity, its cpuset)".to_owned();
            return Err(InvalidLimit { option: "cpus", value: 0, allowed }.into());
        }
        let count = self.shards.unwrap_or(usable.len());
        if !(1..=SHARDS_MAX).contains(&count) {
            let allowed = format!("a value from 1 to {SHARDS_MAX}");
            return Err(InvalidLimit { option: "shards", value: count, allowed }.into());
        }
        Ok(count)
    }

    fn options(
        &self,
        dir: &DataDir,
        bounds: &Bounds,
        shards: &Shards,
        doors: &Arc<[Door]>,
        panics: &Arc<Panics>,
        events: &Events,
    ) -> RuntimeOptions {
        let (watched, panics, told) = (shards.clone(), Arc::clone(panics), events.clone());
        let doors = Arc::clone(doors);
        RuntimeOptions {
            runtime: self.runtime,
            data_dir: dir.root().to_owned(),
            shards: shards.count(),
            cpus: self.cpus.clone(),
            pin: self.pin,
            spin: self.spin,
            anticipate: self.anticipate,
            direct_io: self.direct_io,
            io_memory: self.limits.registered_bytes,
            huge_pages: self.huge_pages,
            memory: self.limits.memory(),
            file_threads: self.limits.file_threads,
            lease_patience: self.limits.lease_patience,
            ceiling: Arc::clone(&bounds.ceiling),
            floor: Arc::clone(&bounds.floor),
            on_panic: Arc::new(move |shard, message| {
                panics.note(shard, message);
                told.task_panicked(shard, message);
            }),
            events: events.clone(),
            // An executor that died cannot answer any more: everyone who waits hears `Closed`.
            on_end: Arc::new(move |shard| {
                watched.fail_all(shard);
                doors[shard].fail();
            }),
        }
    }
}

/// Shards that run while the rest is opened. Dropped, it closes them.
struct Starting<'a> {
    shards: &'a Shards,
    runtime: Option<ShardThreads>,
}

impl Starting<'_> {
    fn done(mut self) -> ShardThreads {
        self.runtime.take().expect("taken once")
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            let ends: Vec<_> =
                (0..self.shards.count()).map(|shard| self.shards.close_all(shard)).collect();
            drop(ends);
            runtime.join();
        }
    }
}

fn summary(opened: Vec<Opened>) -> OpenSummary {
    let partitions = opened.iter().filter(|(_, result)| result.is_ok()).count();
    let is_clean = |opened: &Opened| opened.1.as_ref().is_ok_and(is_clean);
    let not_clean = opened.into_iter().filter(|opened| !is_clean(opened)).collect();
    OpenSummary { partitions, not_clean, ..OpenSummary::default() }
}

/// As a clean close leaves it. One that had to be created was lost: partitions are created when their
/// topic is.
pub(crate) fn is_clean(report: &OpenReport) -> bool {
    !report.adopted
        && !report.created
        && report.recovered_batches == 0
        && report.cut_bytes == 0
        && report.quarantined.is_empty()
        && report.damage.is_empty()
        && report.ignored.is_empty()
}
