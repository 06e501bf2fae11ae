//! An operator: flushes, asks where the log stands, lets its front go, empties it, closes and opens
//! it again, mends what is poisoned.

use std::rc::Rc;

use corelog_format::ConsumerKind;
use corelog_io::sim::Rng;
use corelog_shard::Follow;
use corelog_storage::{Ack, Trimmed};

use crate::door::{Control, Door, Outcome};
use crate::mischief;
use crate::opening::{Engine, judge};
use crate::probes::Probe;
use crate::purge::purge;
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
        match rng.below(20) {
            0..7 => flush(&world, partition, &mut rng).await,
            7..12 => ask(&world, partition).await,
            12 => trim(&world, partition, &mut rng).await,
            13 | 14 => retain(&world, partition, &mut rng).await,
            15 | 16 if params.deletes => delete(&world, partition, &mut rng).await,
            17 if params.purges => purge(&world, &engine, partition).await,
            18 => reopen(&world, &engine, partition).await,
            _ => ask(&world, partition).await,
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
            world.may_poison(partition, cause)
        }
        // A sync needs the file, which a parked partition has to open again.
        Outcome::Unopened(cause) | Outcome::NoFile(cause) => world.allowed.borrow().error(cause),
        Outcome::Closed | Outcome::Busy | Outcome::Gone => true,
        // A flush needs no space, begins no segment and gives no offset away.
        Outcome::Full(_)
        | Outcome::NoSegment(_)
        | Outcome::NoOffsets(_)
        | Outcome::OutOfTurn
        | Outcome::Bug(_) => false,
    };
    if !fine {
        world.fail(format!("partition {partition}: a flush failed without a cause"));
    }
}

async fn ask(world: &World, partition: usize) {
    let Some(door) = world.door(partition) else { return };
    let known = world.parts[partition].oracle.borrow().known_end();
    let Some(marks) = door.watermarks().await else { return };
    world.judge_marks(partition, marks, known);
}

async fn trim(world: &World, partition: usize, rng: &mut Rng) {
    let Some(door) = world.door(partition) else { return };
    let part = &world.parts[partition];
    let up_to = rng.below(part.oracle.borrow().known_end() + 2);
    let Door::Direct(_) = door else { return };
    part.oracle.borrow_mut().trim_asked(up_to);
    let Some(result) = door.trim(up_to).await else { return };
    world.note(&format!("p{partition} trim up to {up_to}: {result:?}"));
    if let Ok(trimmed) = &result
        && trimmed.start > up_to
        && trimmed.segments > 0
    {
        world.fail(format!("partition {partition}: {trimmed:?} is beyond {up_to}"));
    }
    judge_trim(world, partition, "trim", result, Probe::Trimmed);
}

/// Whoever serves the partition learns of its topic's rule and groups, or acts on the rule at once.
async fn retain(world: &World, partition: usize, rng: &mut Rng) {
    let Some(door) = world.door(partition) else { return };
    let params = world.params.partition(partition);
    let part = &world.parts[partition];
    if !part.ruled.get() {
        part.oracle.borrow_mut().start_rests();
    }
    if !params.retention.keeps_all() {
        part.oracle.borrow_mut().rule_is(params.retention);
    }
    if let Some(result) = door.retain(params.retention).await {
        world.note(&format!("p{partition} retention: {result:?}"));
        judge_trim(world, partition, "trim", result, Probe::Retained);
    }
    // A group that goes takes what it stored along.
    let keys: Vec<_> = (0..params.consumers).map(super::key).collect();
    let groups: Vec<_> =
        keys.into_iter().filter(|who| who.kind == ConsumerKind::ConsumerGroup).collect();
    let goes = params.rewinds && rng.chance(1, 4);
    let kept = if goes { Vec::new() } else { groups.iter().map(|who| who.id).collect() };
    let loosen = |loose| {
        for who in groups.iter().filter(|_| goes) {
            part.oracle.borrow_mut().offset_loose(*who, loose);
        }
    };
    loosen(true);
    // The same groups come again here, so none is gone for ever.
    let follow = Follow { retention: params.retention, groups: kept.into(), next_group: 0 };
    let told = door.follow(&follow);
    world.note(&format!("p{partition} follows {follow:?}: {told}"));
    if told && !matches!(door, Door::Direct(_)) && !params.retention.keeps_all() {
        part.ruled.set(true);
    }
    // What is asked behind it is answered behind it.
    while told && !door.has_heard().await {
        world.sleep_us(500).await;
    }
    loosen(false);
}

async fn delete(world: &World, partition: usize, rng: &mut Rng) {
    let Some(door) = world.door(partition) else { return };
    let part = &world.parts[partition];
    let count = [0, 1, 2, u32::MAX][rng.index(4)];
    {
        let mut oracle = part.oracle.borrow_mut();
        oracle.deletion_asked();
        if !part.ruled.get() {
            oracle.start_rests();
        }
    }
    let result = door.delete_segments(count).await;
    world.note(&format!("p{partition} deletion of {count} segments: {result:?}"));
    if let Ok(trimmed) = &result
        && count == u32::MAX
        && mischief::segments(world, partition).len() > 1
        && trimmed.segments == 0
    {
        world.hit(Probe::HeldBack);
    }
    judge_trim(world, partition, "trim", result, Probe::Deleted);
}

fn judge_trim(
    world: &World,
    partition: usize,
    what: &str,
    result: Result<Trimmed, Control>,
    probe: Probe,
) {
    match result {
        Ok(trimmed) => {
            if trimmed.segments > 0 {
                world.hit(probe);
            }
            let latest_us = world.latest_us();
            let told = world.parts[partition].oracle.borrow_mut().trimmed(trimmed.start, latest_us);
            if let Err(broken) = told {
                world.fail(format!("partition {partition}: {broken}"));
            }
        }
        Err(error) => {
            judge(world, partition, what, &error);
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
