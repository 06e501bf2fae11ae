//! One run: lives, one after the other, each ended by a crash or in order, on one disk.

use std::any::Any;
use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use corelog_io::sim::{Event, Fault, Rng};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::Ack;

use crate::actors::{Cast, read_all, reopen, right_again, settle, spoil_opening};
use crate::allowed::Allowed;
use crate::batches::ProducerBatch;
use crate::door::Outcome;
use crate::idle;
use crate::mischief;
use crate::opening::{Engine, judge};
use crate::oracle::Crash;
use crate::params::Params;
use crate::probes::{Probe, Probes};
use crate::purge;
use crate::world::World;

/// Virtual time in which everything outstanding must be answered once nothing is wrong any more.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

/// Failed operations of the disk that a failure is told with.
const FAILED_SHOWN: usize = 8;

/// Openings that fail one after the other, most of them while nothing is wrong any more.
const OPENINGS_MAX: usize = 100;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Hash over everything that happened: the same for the same seed.
    pub hash: u64,
    /// Events that happened.
    pub events: u64,
    /// Rare states that were reached.
    pub probes: Probes,
}

/// A broken promise, with what is needed to see it again.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// What is wrong.
    pub broken: String,
    /// The last events before.
    pub history: String,
    /// The run's parameters.
    pub params: String,
    /// Hash over everything up to the failure.
    pub hash: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, broken, history, params, .. } = self;
        writeln!(f, "{params}\n\nthe last events:\n{history}")?;
        writeln!(f, "seed {seed}: {broken}")?;
        write!(f, "replay: cargo run --release -p corelog-sim -- --seed {seed}")
    }
}

impl std::error::Error for Failure {}

/// Runs one seed to its end.
///
/// # Errors
/// The first broken promise, or the first panic of storage, shard or the simulated disk, with the
/// last `events` events before it.
pub fn run(seed: u64, events: usize) -> Result<Report, Box<Failure>> {
    #[cfg(feature = "canary")]
    let canary = corelog_storage::canary::get();
    // On a thread of its own, or a seed of a campaign would not replay: a shard that crashed stays
    // entered on its thread (`shard/src/here.rs`), which decides who wakes whom in the next run.
    let apart = move || {
        #[cfg(feature = "canary")]
        corelog_storage::canary::set(canary);
        run_here(seed, events)
    };
    thread::spawn(apart).join().unwrap_or_else(|panic| resume_unwind(panic))
}

fn run_here(seed: u64, events: usize) -> Result<Report, Box<Failure>> {
    let mut rng = Rng::new(seed);
    let params = Params::draw(&mut rng.fork());
    let world = World::new(rng.next_u64(), params, events);
    let lived = catch_unwind(AssertUnwindSafe(|| lives(&world, &mut rng)));
    let failed = failed_operations(&world);
    world.hash_disk();
    let panicked = lived.err().map(|payload| text(payload.as_ref()));
    // A panic is often the cause of what the oracle noticed.
    let tasks: Vec<String> = world.sim.take_panics().iter().map(|p| p.message.clone()).collect();
    match world.take_failure().or(panicked) {
        None => Ok(Report { hash: world.hash(), events: world.events(), probes: world.probes() }),
        Some(mut broken) => {
            for task in tasks {
                broken += &format!("\n  a task panicked: {task}");
            }
            let params = format!("{:#?}", world.params);
            let (history, hash) = (world.tail() + &failed, world.hash());
            Err(Box::new(Failure { seed, broken, history, params, hash }))
        }
    }
}

/// What the disk answered with an error last: often the cause, and never told by the actors.
fn failed_operations(world: &World) -> String {
    let trace = world.sim.disk().trace();
    let failed: Vec<&Event> = trace.iter().filter(|event| event.errno.is_some()).collect();
    let mut out = String::new();
    for event in failed.iter().rev().take(FAILED_SHOWN).rev() {
        let Event { op, path, at, len, errno, .. } = event;
        let (at, errno) = (at.unwrap_or(0), errno.unwrap_or(0));
        let _ = writeln!(out, "disk: {op:?} of {} at {at}, {len} bytes: {errno}", path.display());
    }
    out
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

fn lives(world: &Rc<World>, rng: &mut Rng) {
    for number in 0..world.params.lives {
        world.note(&format!("life {number} begins"));
        *world.allowed.borrow_mut() = Allowed::of(&world.params);
        life(world, &mut rng.fork());
        if world.has_failed() {
            return;
        }
    }
    world.note("the last life begins");
    *world.allowed.borrow_mut() = Allowed::of(&world.params);
    let mut last = rng.fork();
    let ended = world.sim.run_until_halt(u64::MAX / 2, async {
        world.unless_failed(last_life(world, &mut last)).await
    });
    assert!(ended.is_some(), "nothing halts the last life");
}

/// Where a life is to end.
enum End {
    InOrder,
    /// After so many polls of tasks.
    AtStep(u64),
    /// When the so-many-th operation of this kind on such a file begins.
    AtOperation(Fault),
}

impl End {
    fn draw(rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 | 1 => End::InOrder,
            2..5 => End::AtStep(rng.between(1, 200)),
            5 => End::AtStep(rng.between(1, 20_000)),
            _ => {
                let ops = [
                    (IoOp::Write, ".log", 100),
                    (IoOp::Write, "manifest", 3),
                    (IoOp::Sync, ".log", 20),
                    (IoOp::SyncDir, "/", 8),
                    (IoOp::SetLen, ".log", 3),
                    (IoOp::Allocate, ".log", 6),
                    (IoOp::Open, ".log", 8),
                    (IoOp::Open, ".index", 4),
                    (IoOp::Remove, ".log", 3),
                    (IoOp::Write, "consumer_offsets", 6),
                    (IoOp::Rename, "consumer_offsets", 1),
                    (IoOp::Rename, "trash", 1),
                ];
                let (op, file, most) = ops[rng.index(ops.len())];
                let nth = rng.between(1, most);
                End::AtOperation(Fault::halt().of(op).on(file).from_nth(nth))
            }
        }
    }
}

/// One life with everything in it, and its end.
fn life(world: &Rc<World>, rng: &mut Rng) {
    let end = End::draw(rng);
    let steps = match &end {
        End::AtStep(steps) => *steps,
        // A life that does not come to its end is cut short here; `ANSWERED_WITHIN` is sooner.
        _ => 5_000_000,
    };
    let halt = match end {
        End::AtOperation(fault) => Some(world.sim.disk().inject(fault)),
        _ => None,
    };
    world.winding_down.set(false);
    let opened = Cell::new(false);
    let mut inner = rng.fork();
    let ended = world.sim.run_until_halt(steps, async {
        world.unless_failed(live(world, &opened, &mut inner)).await
    });
    if world.has_failed() {
        return;
    }
    let now_us = world.sim.clock().now_us();
    let crash = if rng.chance(1, 2) { Crash::Kill } else { Crash::PowerCut };
    let how = if ended.is_some() { "in order" } else { "in the middle" };
    world.note(&format!("the life ends {how}, then {crash:?}"));
    if ended.is_none() {
        note_crash(world, opened.get());
    }
    match crash {
        Crash::Kill => {
            world.hit(Probe::Kill);
            world.sim.disk().process_kill(rng.next_u64());
        }
        Crash::PowerCut => {
            world.hit(Probe::PowerCut);
            world.sim.disk().power_cut(rng.next_u64());
        }
    }
    if let Some(halt) = halt {
        world.sim.disk().lift(halt);
    }
    for part in &world.parts {
        *part.door.borrow_mut() = None;
        part.changing.set(false);
        part.unread_before.set(world.allowed.borrow().injected_any(IoOp::Read));
        let mut oracle = part.oracle.borrow_mut();
        if world.is_honest() {
            oracle.offsets_aged(now_us);
        }
        if part.incarnation.get() > oracle.incarnation() {
            world.hit(Probe::PurgeCut);
        }
        oracle.crashed(crash);
    }
    right_again(world);
    world.hash_disk();
    if world.params.wrongs.indexes {
        mischief::bend_indexes(world, rng);
    }
    if world.params.wrongs.rot && rng.chance(1, 2) {
        mischief::rot(world, rng.index(world.parts.len()), rng);
    }
    world.latest_us();
    if rng.chance(1, 2) {
        world.sim.clock().step(rng.below(4_000_000) as i64 - 2_000_000);
    }
    let (used, read) = (world.sim.disk().buffers().used(), world.sim.disk().read_bytes_held());
    if used != 0 || read != 0 {
        world.fail(format!("{used} bytes of buffers and {read} of reads outlive their process"));
    }
}

/// What was in flight at a crash.
fn note_crash(world: &World, opened: bool) {
    if !opened {
        world.hit(Probe::CrashInOpening);
    }
    let trace = world.sim.disk().trace();
    let in_flight = |op: IoOp, file: &str| {
        let is = |event: &&Event| {
            event.ended.is_none() && event.op == op && event.path.to_string_lossy().contains(file)
        };
        trace.iter().filter(is).count()
    };
    let note = |is: bool, probe: Probe| {
        if is {
            world.hit(probe);
        }
    };
    note(in_flight(IoOp::Write, ".log") > 0, Probe::CrashInWrite);
    note(in_flight(IoOp::Write, ".log") > 1, Probe::CrashInTwoWrites);
    note(in_flight(IoOp::Sync, ".log") > 0, Probe::CrashInSync);
    note(in_flight(IoOp::Write, "manifest") > 0, Probe::CrashInManifest);
    note(in_flight(IoOp::SetLen, ".log") > 0, Probe::CrashInCut);
    note(in_flight(IoOp::Remove, ".log") > 0, Probe::CrashInRemoval);
    note(in_flight(IoOp::Write, "consumer_offsets") > 0, Probe::CrashInOffsets);
    note(in_flight(IoOp::SyncDir, "/") > 0, Probe::CrashInDirSync);
    note(in_flight(IoOp::Allocate, ".log") > 0, Probe::CrashInAllocation);
}

/// A life's course: open, act, wind down, hold everything against the oracle, perhaps close.
async fn live(world: &Rc<World>, opened: &Cell<bool>, rng: &mut Rng) {
    let engine = Engine::start(world);
    spoil_opening(world, rng);
    if rng.chance(1, 2) {
        purge::empty_trash(world).await;
    }
    if !open_all(world, &engine).await {
        return;
    }
    opened.set(true);
    for partition in 0..world.parts.len() {
        if rng.chance(3, 4) {
            read_all(world, partition, rng).await;
        }
    }
    let cast = Cast::begin(world, &engine, rng);
    let most_us = world.params.partitions.iter().map(|p| p.appends * (p.pause_us + 300)).max();
    let mut left_us = most_us.unwrap_or(0).min(3_000_000);
    // Operators and readers do not end by themselves.
    while cast.acting() > 0 && left_us > 0 {
        let step = left_us.min(5_000);
        world.sleep_us(step).await;
        left_us -= step;
    }
    if !wind_down(world, &engine, &cast, rng).await {
        return;
    }
    for partition in 0..world.parts.len() {
        read_all(world, partition, rng).await;
    }
    idle::judge(world, &engine).await;
    if rng.chance(1, 2) {
        close_all(world, &engine).await;
    }
}

/// Opens all partitions, side by side with nothing else. False where that can not be.
async fn open_all(world: &World, engine: &Engine) -> bool {
    for partition in 0..world.parts.len() {
        let mut tries = 0;
        while let Err(error) = engine.open(world, partition).await {
            if !judge(world, partition, "open", &error) {
                return false;
            }
            tries += 1;
            if tries == 5 {
                right_again(world);
            }
            if tries == OPENINGS_MAX {
                world.fail(format!("partition {partition} does not open: {error:?}"));
                return false;
            }
            world.sleep_us(5_000).await;
        }
    }
    true
}

/// Nothing is wrong any more and nobody begins anything: everything is answered in bounded time,
/// and then appends work again.
async fn wind_down(world: &Rc<World>, engine: &Rc<Engine>, cast: &Cast, rng: &mut Rng) -> bool {
    world.winding_down.set(true);
    right_again(world);
    let all = async {
        while cast.acting() > 0 {
            world.sleep_us(1_000).await;
        }
    };
    if world.within(ANSWERED_WITHIN, all).await.is_none() {
        let left = cast.acting();
        world.fail(format!("{left} actors wait for an answer {ANSWERED_WITHIN:?} after the end"));
        return false;
    }
    for partition in 0..world.parts.len() {
        let works = works_again(world, engine, partition, rng);
        if world.within(ANSWERED_WITHIN, works).await.is_none() {
            world.fail(format!("partition {partition}: no append in {ANSWERED_WITHIN:?}"));
            return false;
        }
    }
    !world.has_failed()
}

/// One durable append, after a reopening only where the partition is poisoned.
async fn works_again(world: &Rc<World>, engine: &Rc<Engine>, partition: usize, rng: &mut Rng) {
    while !world.has_failed() {
        let Some(door) = world.door(partition) else {
            reopen(world, engine, partition).await;
            continue;
        };
        let oracle = &world.parts[partition].oracle;
        let sizes = world.params.partition(partition).sizes;
        let batch = ProducerBatch::draw(oracle.borrow().next_number() as u64, sizes, rng);
        let bytes = batch.bytes.clone();
        let call = oracle.borrow_mut().called(batch, Ack::Durable);
        let outcome = door.append(bytes, Ack::Durable).await;
        settle(world, partition, call, outcome.clone());
        match outcome {
            Outcome::Ok(_) => return,
            Outcome::Poisoned(_) => reopen(world, engine, partition).await,
            Outcome::Busy => world.sleep_us(1_000).await,
            // The error of the last try before the end may still be on its way.
            _ => world.sleep_us(100_000).await,
        }
    }
}

async fn close_all(world: &World, engine: &Engine) {
    for partition in 0..world.parts.len() {
        if let Err(error) = engine.close(world, partition).await {
            judge(world, partition, "close", &error);
        }
    }
    engine.end(world).await;
}

/// Nothing goes wrong: everything that is owed is there, appends work, all of it closes.
async fn last_life(world: &Rc<World>, rng: &mut Rng) {
    let engine = Engine::start(world);
    world.winding_down.set(true);
    if !open_all(world, &engine).await {
        return;
    }
    for partition in 0..world.parts.len() {
        read_all(world, partition, rng).await;
        works_again(world, &engine, partition, rng).await;
        read_all(world, partition, rng).await;
    }
    close_all(world, &engine).await;
    world.platform().spawn().yield_now().await;
}
