//! An operator: flushes, asks where the log stands, closes and opens again, mends what is poisoned.

use std::rc::Rc;

use corelog_io::sim::Rng;
use corelog_storage::Ack;

use crate::door::Outcome;
use crate::opening::{Engine, judge};
use crate::probes::Probe;
use crate::world::World;

/// Works on one partition until the life winds down.
pub(super) async fn operate(
    world: Rc<World>,
    engine: Rc<Engine>,
    partition: usize,
    mut rng: Rng,
) {
    let params = world.params.partition(partition).clone();
    while !world.winding_down.get() {
        world.sleep_us(1 + rng.below(params.pause_us * 8 + 500)).await;
        let part = &world.parts[partition];
        if part.poisoned.get() && rng.chance(1, 2) {
            reopen(&world, &engine, partition).await;
            continue;
        }
        match rng.below(12) {
            0..6 => flush(&world, partition, &mut rng).await,
            6..11 => ask(&world, partition).await,
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
    let Some(marks) = door.watermarks().await else { return };
    let told = world.parts[partition].oracle.borrow_mut().watermarks(marks);
    if let Err(broken) = told {
        world.fail(format!("partition {partition}: {broken}"));
    }
}

/// Closes the partition and opens it again, until that works.
pub(crate) async fn reopen(world: &World, engine: &Engine, partition: usize) {
    let part = &world.parts[partition];
    if part.changing.replace(true) {
        return;
    }
    let was_poisoned = part.poisoned.get();
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
    if was_poisoned {
        world.hit(Probe::ReopenedInPlace);
    }
    part.changing.set(false);
}
