//! One shard thread, whichever executor it has: made, run, and left only when it has drained.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::affinity;
use super::choice::Runtime;
use super::clock::RealClock;
use super::disk::{Phase, RealDisk, ShardIo};
use super::file_threads::FileOps;
use super::fileops::panic_text;
use super::glommio::executor::Glommio;
use super::glommio::watch::Heart;
use super::handle::Adopter;
use super::near::Near;
use super::pages::PoolPages;
use super::placement::{self, Place};
use super::platform::RealPlatform;
use super::ring_executor::Ring;
use super::spawn::RealSpawn;
use super::start_error::StartError;
use super::threads::{RuntimeOptions, ShardEnd, ShardFacts, ShardMain};
use crate::observe::Meter;

/// What a shard thread needs to begin.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) number: usize,
    pub(super) place: Place,
    pub(super) allowed: Vec<usize>,
    pub(super) options: RuntimeOptions,
    pub(super) ops: FileOps,
    /// Of glommio's executors; nobody looks at another's.
    pub(super) heart: Arc<Heart>,
    pub(super) direct: bool,
    pub(super) near: Option<Arc<Near>>,
    /// The probe file, by a path that leads to a descriptor the starter keeps open.
    pub(super) template: PathBuf,
}

/// A runtime's executor, on its thread.
pub(super) trait Executor: Sized {
    /// Makes one; io-wq workers have their place by now. Changes the seat's place where the executor
    /// cannot have it.
    fn make(seat: &mut Seat) -> Result<Self, StartError>;

    /// On what pages its pool lies.
    fn pages(&self) -> PoolPages;

    /// What makes its files. Asked for once.
    fn adopter(&mut self) -> Adopter;

    /// Runs `main` to its end. No other thread wakes `main` itself, only tasks.
    fn run<T>(&self, main: impl Future<Output = T>) -> T;

    /// Ends it, when all I/O has: the last turn of its loop, for what only sleeps still, which is
    /// dropped, and for closes that nobody awaited. `tasks` is missing where `run` was never called.
    fn leave(self, adopter: Option<Adopter>, tasks: Option<&RealSpawn>);

    /// Leaks it and all its memory: the kernel may still write into it.
    fn lose(self);
}

/// A shard thread that is ready to go.
struct Ready<E> {
    seat: Seat,
    executor: E,
}

/// What a shard thread says before it waits to be told to go on.
pub(super) type Readiness = Result<ShardFacts, StartError>;

/// The life of a shard thread.
pub(super) fn run_shard(
    seat: Seat,
    ready: &mpsc::Sender<Readiness>,
    start: &mpsc::Receiver<()>,
    main: &ShardMain,
) -> ShardEnd {
    match seat.options.runtime {
        Runtime::Glommio => run_on::<Glommio>(seat, ready, start, main),
        Runtime::Ring => run_on::<Ring>(seat, ready, start, main),
    }
}

fn run_on<E: Executor>(
    seat: Seat,
    ready: &mpsc::Sender<Readiness>,
    start: &mpsc::Receiver<()>,
    main: &ShardMain,
) -> ShardEnd {
    let prepared = catch_unwind(AssertUnwindSafe(|| prepare::<E>(seat)));
    let mut shard = match prepared {
        Ok(Ok(shard)) => shard,
        Ok(Err(error)) => return not_started(ready, error),
        Err(panic) => {
            let text = panic_text("starting the executor", &*panic);
            return not_started(ready, StartError::Executor(io::Error::other(text)));
        }
    };
    let facts = ShardFacts { place: shard.seat.place, pages: shard.executor.pages() };
    let _ = ready.send(Ok(facts));
    if start.recv().is_err() {
        let adopter = shard.executor.adopter();
        shard.executor.leave(Some(adopter), None);
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

/// io-wq affinity, then the executor: the first binds what the second creates.
fn prepare<E: Executor>(mut seat: Seat) -> Result<Ready<E>, StartError> {
    let workers = placement::worker_cpus(seat.place, &seat.allowed);
    // A kernel that refuses (before 5.14) leaves the workers where they were: slower, not wrong.
    let _ = affinity::keep_workers_on(&workers);
    let executor = E::make(&mut seat)?;
    Ok(Ready { seat, executor })
}

/// Runs `main` to its end, then leaves the executor in the one order that is safe: all I/O has
/// ended, files are closed, leases are back, one more turn of the loop for closes that nobody
/// awaited, and only then is the executor dropped.
fn serve<E: Executor>(shard: Ready<E>, main: &ShardMain) -> ShardEnd {
    let Ready { seat, mut executor } = shard;
    let (runtime, adopter) = (seat.options.runtime, executor.adopter());
    let (options, number, main) = (&seat.options, seat.number, Arc::clone(main));
    let meter = Rc::new(Meter::new(number, options.events.clone()));
    let place = (seat.direct, seat.near);
    let io = Rc::new(ShardIo::new(runtime, seat.ops, adopter, place, options.memory, meter));
    let spawn = RealSpawn::new(runtime, seat.number, Arc::clone(&options.on_panic));
    let platform = RealPlatform::new(
        RealDisk::new(Rc::clone(&io)),
        RealClock::new(runtime, Arc::clone(&options.floor), Arc::clone(&options.ceiling)),
        spawn.clone(),
    );
    let turned = catch_unwind(AssertUnwindSafe(|| {
        executor.run(async {
            // Not awaited right here: `run` holds a handle to this block, and `main` is woken by
            // other threads. It may panic before it answers a future: hence the block around it.
            let ended = runtime.spawned(async move {
                main(number, platform).await;
                Ok(())
            });
            let ended = ended.await;
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
            std::mem::forget(io);
            executor.lose();
            return ShardEnd::ExecutorLost(panic_text("executor", &*panic));
        }
    };
    let out = io.leases.out();
    let (adopter, _) = (io.adopter.take(), io.near.take());
    drop(io);
    executor.leave(adopter, Some(&spawn));
    match ended {
        Err(panic) => ShardEnd::MainPanicked(panic),
        Ok(()) if out > 0 => ShardEnd::LeasesOut(out),
        Ok(()) => ShardEnd::Clean,
    }
}

async fn wait_for_leases(io: &ShardIo, patience: Duration) {
    let until = Instant::now() + patience;
    io.leases.reclaim();
    while io.leases.out() > 0 && Instant::now() < until {
        io.runtime.sleep(Duration::from_millis(1)).await;
        io.leases.reclaim();
    }
}
