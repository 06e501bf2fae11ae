//! Makes the world misbehave, and keeps book of it: what has no entry must not fail.

use std::rc::Rc;
use std::time::Duration;

use corelog_io::IoOp;
use corelog_io::sim::{Fault, Rng, errno};

use crate::mischief;
use crate::probes::Probe;
use crate::world::World;

/// Operations that are made to fail, and the number they answer.
const ERRORS: &[(IoOp, i32)] = &[
    (IoOp::Write, errno::EIO),
    (IoOp::Write, errno::ENOSPC),
    (IoOp::Sync, errno::EIO),
    (IoOp::Read, errno::EIO),
    (IoOp::Open, errno::EACCES),
    (IoOp::Allocate, errno::EIO),
    (IoOp::SetLen, errno::EIO),
    (IoOp::SyncDir, errno::EIO),
    (IoOp::Rename, errno::EIO),
    (IoOp::Close, errno::EIO),
    (IoOp::List, errno::EIO),
    (IoOp::Remove, errno::EIO),
];

/// Files that a fault is narrowed to.
const FILES: &[&str] = &[".log", ".log", ".index", "manifest", "consumer_offsets", "/"];

/// One thing that goes wrong.
#[derive(Clone, Copy)]
enum Wrong {
    Slow,
    Stall,
    Error,
    Full,
    Descriptors,
    Buffers,
    Clock,
    Rot,
    Lie,
}

/// One after the other, with pauses; ends when the life winds down.
pub(super) async fn do_wrong(world: Rc<World>, mut rng: Rng) {
    let wrongs = world.params.wrongs;
    let kinds = [
        (wrongs.slow, Wrong::Slow),
        (wrongs.stall, Wrong::Stall),
        (wrongs.errors, Wrong::Error),
        (wrongs.errors, Wrong::Error),
        (wrongs.full, Wrong::Full),
        (wrongs.descriptors, Wrong::Descriptors),
        (wrongs.buffers, Wrong::Buffers),
        (wrongs.clock, Wrong::Clock),
        (wrongs.rot, Wrong::Rot),
        (wrongs.lies, Wrong::Lie),
    ];
    let kinds: Vec<Wrong> = kinds.iter().filter(|(is, _)| *is).map(|(_, kind)| *kind).collect();
    for _ in 0..wrongs.actions {
        world.sleep_us(rng.below(20_000)).await;
        if world.winding_down.get() || kinds.is_empty() {
            return;
        }
        match kinds[rng.index(kinds.len())] {
            Wrong::Slow => slow(&world, &mut rng),
            Wrong::Stall => stall(&world, &mut rng).await,
            Wrong::Error => fail(&world, &mut rng),
            Wrong::Full => fill(&world, &mut rng).await,
            Wrong::Descriptors => descriptors(&world, &mut rng).await,
            Wrong::Buffers => buffers(&world, &mut rng).await,
            Wrong::Clock => clock(&world, &mut rng).await,
            Wrong::Rot => {
                let partition = rng.index(world.parts.len());
                mischief::rot(&world, partition, &mut rng);
            }
            Wrong::Lie => lie(&world, &mut rng),
        }
    }
}

/// A write is answered Ok and is lost, or lands elsewhere in its file.
fn lie(world: &World, rng: &mut Rng) {
    let file = [".log", ".log", ".index"][rng.index(3)];
    let by = rng.between(1, 20) as i64 - 10;
    let fault = if by == 0 { Fault::lose_write() } else { Fault::misdirect_write(by) };
    let fault = if rng.chance(1, 2) { Fault::lose_write() } else { fault };
    world.note(&format!("a write to {file} will lie ({by})"));
    world.sim.disk().inject(fault.on(file).from_nth(rng.between(1, 6)));
}

/// Before a life's first opening: some openings meet errors.
pub(crate) fn spoil_opening(world: &World, rng: &mut Rng) {
    if !world.params.wrongs.errors || !rng.chance(1, 2) {
        return;
    }
    if rng.chance(1, 2) {
        return fail(world, rng);
    }
    world.note("a read of a log will fail");
    world.allowed.borrow_mut().inject(IoOp::Read, errno::EIO);
    let fault = Fault::fail(errno::EIO).of(IoOp::Read).on(".log");
    world.sim.disk().inject(fault.from_nth(rng.between(1, 4)));
}

/// Everything works again.
pub(crate) fn right_again(world: &World) {
    let disk = world.sim.disk();
    disk.lift_all();
    disk.set_capacity(u64::MAX);
    disk.set_open_files_max(usize::MAX);
    disk.buffers().set_limit(world.params.pool_bytes);
    world.sim.clock().hold_ceiling(false);
    world.note("everything works again");
}

fn some_op(rng: &mut Rng) -> IoOp {
    ERRORS[rng.index(ERRORS.len())].0
}

fn some_file(rng: &mut Rng) -> &'static str {
    FILES[rng.index(FILES.len())]
}

fn slow(world: &World, rng: &mut Rng) {
    let (op, file) = (some_op(rng), some_file(rng));
    let by = Duration::from_micros(rng.between(1_000, 100_000));
    let times = rng.between(1, 20);
    world.note(&format!("{times} x {op:?} of {file} take {by:?} longer"));
    world.sim.disk().inject(Fault::delay(by).of(op).on(file).times(times));
}

async fn stall(world: &World, rng: &mut Rng) {
    let (op, file) = (some_op(rng), some_file(rng));
    world.note(&format!("{op:?} of {file} stalls"));
    let fault = Fault::stall().of(op).on(file).from_nth(rng.between(1, 4));
    let fault = world.sim.disk().inject(fault.times(rng.between(1, 3)));
    world.sleep_us(rng.between(1_000, 300_000)).await;
    world.sim.disk().lift(fault);
    if world.sim.disk().hits(fault) > 0 {
        world.hit(Probe::Stalled);
    }
}

fn fail(world: &World, rng: &mut Rng) {
    let ((op, errno), file) = (ERRORS[rng.index(ERRORS.len())], some_file(rng));
    let (nth, times) = (rng.between(1, 8), [1, 1, 3, u64::MAX][rng.index(4)]);
    world.note(&format!("{op:?} of {file} answers {errno}, from the {nth}th on, {times} times"));
    world.allowed.borrow_mut().inject(op, errno);
    world.sim.disk().inject(Fault::fail(errno).of(op).on(file).from_nth(nth).times(times));
}

/// Space runs out, and returns.
async fn fill(world: &World, rng: &mut Rng) {
    let disk = world.sim.disk();
    let left = [0, 4 << 10, 100 << 10, 2 << 20][rng.index(4)];
    world.note(&format!("{left} bytes of space are left"));
    world.allowed.borrow_mut().full = true;
    disk.set_capacity(disk.used() + left);
    world.sleep_us(rng.between(1_000, 100_000)).await;
    disk.set_capacity(u64::MAX);
    world.note("space is back");
}

async fn descriptors(world: &World, rng: &mut Rng) {
    let disk = world.sim.disk();
    let left = rng.below(2) as usize;
    world.note(&format!("{left} descriptors are left"));
    world.allowed.borrow_mut().descriptors = true;
    disk.set_open_files_max(disk.open_files() + left);
    world.sleep_us(rng.between(1_000, 300_000)).await;
    disk.set_open_files_max(usize::MAX);
    world.note("descriptors are back");
}

/// Others use the shard's memory.
async fn buffers(world: &World, rng: &mut Rng) {
    let buffers = world.sim.disk().buffers();
    let left = [0, 4 << 10, 64 << 10][rng.index(3)];
    world.note(&format!("{left} bytes of buffers are left"));
    world.allowed.borrow_mut().buffers = true;
    buffers.set_limit(buffers.used() + left);
    world.sleep_us(rng.between(1_000, 50_000)).await;
    buffers.set_limit(world.params.pool_bytes);
    world.note("buffers are back");
}

async fn clock(world: &World, rng: &mut Rng) {
    world.latest_us();
    let clock = world.sim.clock();
    if rng.chance(1, 3) {
        world.note("the ceiling of the clock is held");
        clock.hold_ceiling(true);
        // The ceiling lies up to two seconds ahead: only a step brings the clock there.
        clock.step(rng.between(0, 3_000_000) as i64);
        world.latest_us();
        world.sleep_us(rng.between(1_000, 100_000)).await;
        if corelog_io::Clock::now_us(clock) >= corelog_io::Clock::ceiling_us(clock) {
            world.hit(Probe::CeilingHeld);
        }
        clock.hold_ceiling(false);
        return;
    }
    let by = [-3_600_000_000, -1_500_000, -1, 500_000, 3_600_000_000][rng.index(5)];
    world.note(&format!("the clock steps by {by} us"));
    if by < 0 {
        world.hit(Probe::ClockBack);
    }
    clock.step(by);
}
