//! One shard thread: its executor is made, runs, and is left only when it has drained.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use corelog_io::{BLOCK, Spawn};
use glommio::io::{DmaFile, OpenOptions};
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};

use super::error::os_error;
use super::huge_pool::{self, PoolPages, SmallBecause};
use super::spawn::{RealSpawn, apart};
use super::timers::{self, Timers};
use super::watch::Heart;
use crate::observe::Meter;
use crate::runtime::affinity;
use crate::runtime::clock::RealClock;
use crate::runtime::disk::{Phase, RealDisk, ShardIo};
use crate::runtime::file_threads::FileOps;
use crate::runtime::fileops::panic_text;
use crate::runtime::placement::{self, Place};
use crate::runtime::platform::RealPlatform;
use crate::runtime::start_error::StartError;
use crate::runtime::threads::{RuntimeOptions, ShardEnd, ShardFacts, ShardMain};

/// A task queue runs this long before the executor turns to I/O (stock: 100 ms, and a read waits
/// for two of them behind a busy task).
const PREEMPT_EVERY: Duration = Duration::from_micros(200);

/// What a shard thread needs to begin.
#[derive(Clone)]
pub(in crate::runtime) struct Seat {
    pub(in crate::runtime) number: usize,
    pub(in crate::runtime) place: Place,
    pub(in crate::runtime) allowed: Vec<usize>,
    pub(in crate::runtime) options: RuntimeOptions,
    pub(in crate::runtime) ops: FileOps,
    pub(in crate::runtime) heart: Arc<Heart>,
    pub(in crate::runtime) direct: bool,
    /// The probe file, by a path that leads to a descriptor the starter keeps open.
    pub(in crate::runtime) template: PathBuf,
}

/// A shard thread that is ready to go.
struct Ready {
    seat: Seat,
    made: Made,
    pages: PoolPages,
}

/// An executor and what it is never without. Dropped from the top.
struct Made {
    template: DmaFile,
    executor: LocalExecutor,
    timers: Rc<Timers>,
}

/// What a shard thread says before it waits to be told to go on.
pub(in crate::runtime) type Readiness = Result<ShardFacts, StartError>;

/// The life of a shard thread.
pub(in crate::runtime) fn run_shard(
    seat: Seat,
    ready: &mpsc::Sender<Readiness>,
    start: &mpsc::Receiver<()>,
    main: &ShardMain,
) -> ShardEnd {
    let prepared = catch_unwind(AssertUnwindSafe(|| prepare(seat)));
    let shard = match prepared {
        Ok(Ok(shard)) => shard,
        Ok(Err(error)) => return not_started(ready, error),
        Err(panic) => {
            let text = panic_text("starting the executor", &*panic);
            return not_started(ready, StartError::Executor(io::Error::other(text)));
        }
    };
    let facts = ShardFacts { place: shard.seat.place, pages: shard.pages };
    let _ = ready.send(Ok(facts));
    if start.recv().is_err() {
        let Made { executor, template, timers } = shard.made;
        leave(executor, Some(template), &timers, &shard.seat.heart, None);
        return ShardEnd::Clean;
    }
    let (number, on_end) = (shard.seat.number, Arc::clone(&shard.seat.options.on_end));
    let end = serve(shard, main);
    on_end(number);
    end
}

fn not_started(ready: &mpsc::Sender<Readiness>, error: StartError) -> ShardEnd {
    let text = error.to_string();
    let _ = ready.send(Err(error));
    ShardEnd::ExecutorLost(text)
}

/// io-wq affinity, then the executor, then the template file, which primes glommio's probe of the
/// device: in this order, as the first binds what the second creates. Huge pages last, while nothing
/// is in flight.
fn prepare(mut seat: Seat) -> Result<Ready, StartError> {
    let workers = placement::worker_cpus(seat.place, &seat.allowed);
    // A kernel that refuses (before 5.14) leaves the workers where they were: slower, not wrong.
    let _ = affinity::keep_workers_on(&workers);
    let (made, address) = make(&mut seat)?;
    if !seat.options.huge_pages {
        let pages = PoolPages::Small(SmallBecause::NotWanted);
        return Ok(Ready { seat, made, pages });
    }
    match huge_pool::collapse(address, seat.options.io_memory) {
        Ok(pages) => Ok(Ready { seat, made, pages }),
        Err(_) => {
            // The pool could not be registered again, but the executor relies on it: a new one.
            seat.heart.leave();
            drop(made);
            let (made, _) = make(&mut seat)?;
            let pages = PoolPages::Small(SmallBecause::NotRegistered);
            Ok(Ready { seat, made, pages })
        }
    }
}

/// An executor, and the address of one of its pool's buffers.
fn make(seat: &mut Seat) -> Result<(Made, usize), StartError> {
    let executor = match build(seat, seat.place) {
        // Topology files may be missing in a container; the shard runs unpinned then.
        Err(_) if seat.place != Place::Anywhere => {
            seat.place = Place::Anywhere;
            build(seat, Place::Anywhere)
        }
        other => other,
    }
    .map_err(StartError::Executor)?;
    let (path, heart) = (seat.template.clone(), Arc::clone(&seat.heart));
    let opened = executor.run(async move {
        let timers = Timers::start(heart)?;
        let template = OpenOptions::new().read(true).write(true).dma_open(path).await;
        let address = glommio::allocate_dma_buffer(BLOCK).as_ptr().addr();
        Ok((timers, template.map_err(os_error::<()>)?, address))
    });
    // The executor is dropped where it failed.
    let (timers, template, address) = opened.map_err(|error| {
        seat.heart.leave();
        StartError::Executor(error)
    })?;
    Ok((Made { template, executor, timers }, address))
}

fn build(seat: &Seat, place: Place) -> io::Result<LocalExecutor> {
    let placement = match place {
        Place::Pinned(cpu) => Placement::Fixed(cpu),
        Place::Anywhere => Placement::Unbound,
    };
    LocalExecutorBuilder::new(placement)
        .name("corelog")
        .io_memory(seat.options.io_memory)
        .preempt_timer(PREEMPT_EVERY)
        .spin_before_park(seat.options.spin)
        .blocking_thread_pool_placement(PoolPlacement::Unbound(1))
        .make()
        .map_err(os_error)
}

/// Runs `main` to its end, then leaves the executor in the one order that is safe: all I/O has
/// ended, files are closed, leases are back, one more turn of the loop for closes that nobody
/// awaited, and only then is the executor dropped.
fn serve(shard: Ready, main: &ShardMain) -> ShardEnd {
    let Ready { seat, made: Made { executor, template, timers }, pages: _ } = shard;
    let (options, number, main) = (&seat.options, seat.number, Arc::clone(main));
    let meter = Rc::new(Meter::new(number, options.events.clone()));
    let io = Rc::new(ShardIo::new(seat.ops, template, seat.direct, options.memory, meter));
    let spawn = RealSpawn::new(seat.number, Arc::clone(&options.on_panic));
    let platform = RealPlatform::new(
        RealDisk::new(Rc::clone(&io)),
        RealClock::new(Arc::clone(&options.floor), Arc::clone(&options.ceiling)),
        spawn.clone(),
    );
    let turned = catch_unwind(AssertUnwindSafe(|| {
        executor.run(async {
            // Not awaited right here: `run` holds a handle to this block, and `main` is woken by
            // other threads. It may panic before it answers a future: hence the block around it.
            let ended = apart(async move { main(number, platform).await }).await;
            io.phase.set(Phase::Ending);
            io.flights.idle().await;
            wait_for_leases(&io, options.lease_patience).await;
            io.phase.set(Phase::Left);
            io.meter.leave();
            ended.map_err(|panic| panic.to_string())
        })
    }));
    let ended = match turned {
        Ok(ended) => ended,
        Err(panic) => {
            seat.heart.forget();
            std::mem::forget(io);
            std::mem::forget(executor);
            std::mem::forget(timers);
            return ShardEnd::ExecutorLost(panic_text("executor", &*panic));
        }
    };
    let out = io.leases.out();
    let template = io.template.take();
    drop(io);
    leave(executor, template, &timers, &seat.heart, Some(&spawn));
    match ended {
        Err(panic) => ShardEnd::MainPanicked(panic),
        Ok(()) if out > 0 => ShardEnd::LeasesOut(out),
        Ok(()) => ShardEnd::Clean,
    }
}

/// The last turn of the loop: what only sleeps still is dropped, what nobody awaits is closed. Then the
/// executor can be dropped, before the timers that its rings read from.
///
/// glommio leaks a task that still waits when its executor is dropped, with all that it holds: a
/// buffer, and so the whole pool, or a partition, and so the shard.
fn leave(
    executor: LocalExecutor,
    template: Option<DmaFile>,
    timers: &Timers,
    heart: &Heart,
    tasks: Option<&RealSpawn>,
) {
    executor.run(async {
        if let Some(tasks) = tasks {
            tasks.end();
            timers.wake_all();
            tasks.yield_now().await;
        }
        close(template).await;
        timers.stop().await;
    });
    heart.leave();
    drop(executor);
}

/// Closes the template file. Dropping it leaves that to the executor, which may end first: then the
/// file stays open as long as the process, and its file system cannot be unmounted.
async fn close(template: Option<DmaFile>) {
    if let Some(template) = template {
        // It has no name and nothing in it; nobody can use the error.
        let _ = template.close().await;
    }
}

async fn wait_for_leases(io: &ShardIo, patience: Duration) {
    let until = Instant::now() + patience;
    io.leases.reclaim();
    while io.leases.out() > 0 && Instant::now() < until {
        timers::sleep(Duration::from_millis(1)).await;
        io.leases.reclaim();
    }
}
