//! An operator: flushes, asks where the log stands, closes and opens again, mends what is poisoned.

use std::rc::Rc;

use corelog_io::sim::Rng;
use corelog_storage::Ack;

use crate::door::Outcome;
use crate::opening::{Engine, judge};
use crate::probes::Probe;
use crate::world::World;

/// Works on one partition until the life winds down.
pub(super) async fn operate(world: Rc<World>, engine: Rc<Engine>, partition: usize, mut rng: Rng) {
    let params = world.params.partition(partition).clone();
    while !world.winding_down.get() {
        world.sleep_us(1 + rng.below(params.pause_us * 8 + 500)).await;
        let part = &world.parts[partition];
        if part.poisoned.get() {
            reopen(&world, &engine, partition).await;
            continue;
        }
        match rng.below(12) {
            0..6 => flush(&world, partition, &mut rng).await,
            6..10 => ask(&world, partition).await,
            10 => trim(&world, partition, &mut rng).await,
            _ => reopen(&world, &engine, partition).await,
        }
    }
}

async fn flush(world: &World, partition: usize, rng: &mut Rng) {
    let Some(door) = world.door(partition) else { return };
    let ack = [Ack::Appended, Ack::Written, Ack::Durable][rng.index(3)];
    let part = &world.parts[partition];
    let calls = part.oracle.borrow().calls();
    let outcome = door.flush(ack).await;
    world.note(&format!("p{partition} flush to {ack:?} of {calls} calls: {outcome:?}"));
    let fine = match outcome {
        Outcome::Ok(()) => {
            part.oracle.borrow_mut().flushed(ack, calls);
            true
        }
        Outcome::Poisoned(cause) => {
            part.poisoned.set(true);
            world.allowed.borrow().poison(cause)
        }
        Outcome::Unopened(cause) => world.allowed.borrow().error(cause),
        Outcome::Closed | Outcome::Busy | Outcome::Gone => true,
        Outcome::Full(_) | Outcome::NoSegment(_) | Outcome::OutOfTurn | Outcome::Bug(_) => false,
    };
    if !fine {
        world.fail(format!("partition {partition}: a flush failed without a cause"));
    }
}

async fn ask(world: &World, partition: usize) {
    let Some(door) = world.door(partition) else { return };
    let known = world.parts[partition].oracle.borrow().known_end();
    let Some(marks) = door.watermarks().await else { return };
    let told = world.parts[partition].oracle.borrow_mut().watermarks(marks, known);
    if let Err(broken) = told {
        world.fail(format!("partition {partition}: {broken}"));
    }
}

async fn trim(world: &World, partition: usize, rng: &mut Rng) {
    let Some(door) = world.door(partition) else { return };
    let part = &world.parts[partition];
    let up_to = rng.below(part.oracle.borrow().known_end() + 2);
    part.oracle.borrow_mut().trim_asked(up_to);
    let Some(result) = door.trim(up_to).await else { return };
    world.note(&format!("p{partition} trim up to {up_to}: {result:?}"));
    match result {
        Ok(trimmed) => {
            if trimmed.segments > 0 {
                world.hit(Probe::Trimmed);
            }
            if trimmed.start > up_to && trimmed.segments > 0 {
                world.fail(format!("partition {partition}: {trimmed:?} is beyond {up_to}"));
            }
            let told = part.oracle.borrow_mut().trimmed(trimmed.start);
            if let Err(broken) = told {
                world.fail(format!("partition {partition}: {broken}"));
            }
        }
        Err(error) => {
            judge(world, partition, "trim", &error);
        }
    }
}

/// Closes the partition and opens it again, until that works.
pub(crate) async fn reopen(world: &World, engine: &Engine, partition: usize) {
    let part = &world.parts[partition];
    if part.changing.replace(true) {
        return;
    }
    let was_poisoned = part.poisoned.get();
    if was_poisoned {
        match engine.reopen(world, partition).await {
            Ok(()) => return part.changing.set(false),
            Err(error) => judge(world, partition, "open", &error),
        };
    }
    if let Err(error) = engine.close(world, partition).await {
        judge(world, partition, "close", &error);
    }
    while !world.has_failed() {
        match engine.open(world, partition).await {
            Ok(()) => break,
            Err(error) => judge(world, partition, "open", &error),
        };
        world.sleep_us(5_000).await;
    }
    part.changing.set(false);
}
