//! One who stores offsets: goes on behind what is stored, with and without auto-commit, waits for
//! messages, goes back, and deletes what it stored. Nobody else stores for it.

use std::rc::Rc;
use std::time::Duration;

use corelog_format::ConsumerKind;
use corelog_io::sim::Rng;
use corelog_io::{Clock, Platform};
use corelog_storage::{Ack, ConsumerKey, From, PollQuery, Watermarks};

use super::reader::poll;
use crate::door::Door;
use crate::oracle::{Bounds, Value};
use crate::probes::Probe;
use crate::stored::Told;
use crate::world::World;

/// The name of a partition's consumer of this number: consumers and groups by turns.
pub(crate) fn key(number: usize) -> ConsumerKey {
    let kind = [ConsumerKind::Consumer, ConsumerKind::ConsumerGroup][number % 2];
    ConsumerKey { kind, id: number as u32 }
}

/// Consumes until the life winds down.
pub(super) async fn consume(world: Rc<World>, partition: usize, number: usize, mut rng: Rng) {
    let params = world.params.partition(partition).clone();
    let who = key(number);
    while !world.winding_down.get() {
        world.sleep_us(1 + rng.below(params.pause_us * 2 + 100)).await;
        let Some(door) = world.door(partition) else { continue };
        match rng.below(8) {
            0..4 => go_on(&world, partition, &door, who, &mut rng).await,
            4 | 5 => store(&world, partition, &door, who, &mut rng).await,
            6 if params.rewinds => delete(&world, partition, &door, who, &mut rng).await,
            _ => ask(&world, partition, &door, who).await,
        }
    }
}

async fn go_on(world: &World, partition: usize, door: &Door, who: ConsumerKey, rng: &mut Rng) {
    let from = match rng.below(4) {
        0 => From::Offset(rng.below(world.parts[partition].oracle.borrow().known_end() + 2)),
        _ => From::Next(who),
    };
    let max_messages = [1, 3, 1_000][rng.index(3)];
    let query = PollQuery {
        commit: rng.chance(3, 4).then_some(who),
        max_wait: Duration::from_millis([0, 0, 20, 10_000][rng.index(4)]),
        ..PollQuery::new(from, max_messages, [1_000, 100_000][rng.index(2)])
    };
    poll(world, partition, door, query).await;
}

async fn store(world: &World, partition: usize, door: &Door, who: ConsumerKey, rng: &mut Rng) {
    let params = world.params.partition(partition);
    let Some(marks) = door.watermarks().await else { return };
    let before = bounds(world, partition, door, marks);
    let (next, life) = {
        let oracle = world.parts[partition].oracle.borrow();
        (oracle.next_of(who), oracle.incarnation())
    };
    let (least, end) = match (params.rewinds, next) {
        (true, _) | (false, Some(None)) => (0, before.may + 1),
        (false, Some(Some(stored))) => (stored, before.may + 1),
        // It could go back without knowing it.
        (false, None) => return ask(world, partition, door, who).await,
    };
    let offset = match rng.below(6) {
        0 => [before.may, before.may + 1, u64::MAX][rng.index(3)].max(least),
        _ => least + rng.below(end.saturating_sub(least).max(1)),
    };
    let ack = [Ack::Appended, Ack::Durable][rng.index(2)];
    let now_us = world.platform().clock().now_us();
    let value = Value::At(offset);
    let (attempt, many) = {
        let mut oracle = world.parts[partition].oracle.borrow_mut();
        let many = oracle.others_stored(who) >= world.params.limits.consumers;
        (oracle.offset_called(who, value, now_us), many)
    };
    let called = world.parts[partition].oracle.borrow().offsets_called();
    let told = door.store(who, Some(offset), ack).await;
    world.note(&format!("p{partition} {who:?} stores {offset} for {ack:?}: {told:?}"));
    let after = door.watermarks().await.map(|marks| bounds(world, partition, door, marks));
    // A fault that came meanwhile has taken what was not written.
    let must = match world.allowed.borrow().has_errors() {
        true => bounds(world, partition, door, marks).must,
        false => before.must,
    };
    if world.parts[partition].oracle.borrow().incarnation() != life {
        return;
    }
    match &told {
        Told::OutOfRange if offset < must => {
            world.fail(format!("partition {partition}: offset {offset} is there, and refused"));
        }
        Told::Ok(()) if after.is_some_and(|after| offset >= after.may) => {
            world.fail(format!("partition {partition}: offset {offset} is not there, and stored"));
        }
        // One that others had stored may be gone when this is answered.
        Told::TooMany
            if !many && world.parts[partition].oracle.borrow().offsets_called() == called =>
        {
            world.fail(format!("partition {partition}: there are not too many who store"));
        }
        _ => settle(world, partition, who, attempt, ack, &told),
    }
}

async fn delete(world: &World, partition: usize, door: &Door, who: ConsumerKey, rng: &mut Rng) {
    let ack = [Ack::Appended, Ack::Durable][rng.index(2)];
    let now_us = world.platform().clock().now_us();
    let (life, loosened) = life_of(world, partition);
    let (attempt, fine) = {
        let mut oracle = world.parts[partition].oracle.borrow_mut();
        let fine = oracle.may_have_nothing(who);
        (oracle.offset_called(who, Value::Nothing, now_us), fine)
    };
    let told = door.store(who, None, ack).await;
    world.note(&format!("p{partition} {who:?} deletes what it stored for {ack:?}: {told:?}"));
    let now = life_of(world, partition);
    if now.0 != life {
        return;
    }
    // The group may have gone meanwhile, in front of this.
    if matches!(told, Told::NothingStored) && !fine && now.1 == loosened {
        return world.fail(format!("partition {partition}: {who:?} has stored something"));
    }
    settle(world, partition, who, attempt, ack, &told);
}

async fn ask(world: &World, partition: usize, door: &Door, who: ConsumerKey) {
    let (life, loosened) = life_of(world, partition);
    let told = door.stored(who).await;
    world.note(&format!("p{partition} {who:?} asks what it stored: {told:?}"));
    let mut oracle = world.parts[partition].oracle.borrow_mut();
    if oracle.incarnation() != life {
        return;
    }
    let broken = match told {
        Told::Ok(told) => match oracle.offset_told(who, told, loosened) {
            Ok(true) => {
                world.hit(Probe::OffsetLost);
                None
            }
            Ok(false) => None,
            Err(broken) => Some(broken),
        },
        other => (!is_allowed(world, &other)).then(|| format!("{other:?} without a cause")),
    };
    drop(oracle);
    if let Some(broken) = broken {
        world.fail(format!("partition {partition}: {broken}"));
    }
}

/// Which life of the partition this is, and how often others have changed what is stored in it.
fn life_of(world: &World, partition: usize) -> (u64, u64) {
    let oracle = world.parts[partition].oracle.borrow();
    (oracle.incarnation(), oracle.loosened())
}

/// Where polls end now: an offset at or above it is not there.
fn bounds(world: &World, partition: usize, door: &Door, marks: Watermarks) -> Bounds {
    let fsync = world.params.partition(partition).config.enforce_fsync;
    door.bounds(marks, fsync, world.allowed.borrow().has_errors())
}

/// Tells the oracle how a store or a deletion was answered.
fn settle(
    world: &World,
    partition: usize,
    who: ConsumerKey,
    attempt: usize,
    ack: Ack,
    told: &Told<()>,
) {
    let part = &world.parts[partition];
    let mut oracle = part.oracle.borrow_mut();
    let durable = ack == Ack::Durable || world.params.partition(partition).config.enforce_fsync;
    let fine = is_allowed(world, told);
    match told {
        Told::Ok(()) => {
            if durable {
                world.hit(Probe::OffsetStored);
            }
            oracle.offset_stored(who, attempt, durable);
        }
        Told::NotDurable(_) => {
            world.hit(Probe::OffsetFailed);
            oracle.offset_stored(who, attempt, false);
        }
        Told::TooMany => {
            world.hit(Probe::OffsetsMany);
            oracle.offset_refused(who, attempt);
        }
        Told::OutOfRange | Told::NothingStored => {
            world.hit(Probe::OffsetRefused);
            oracle.offset_refused(who, attempt);
        }
        Told::Busy | Told::Away | Told::Unreadable(_) => oracle.offset_refused(who, attempt),
        Told::Closed | Told::Unopened(_) | Told::Bug(_) => {}
    }
    drop(oracle);
    if !fine {
        world.fail(format!("partition {partition}: {told:?} without a cause"));
    }
}

/// Whether the world has given cause for this answer.
fn is_allowed<T>(world: &World, told: &Told<T>) -> bool {
    match told {
        Told::NotDurable(cause) | Told::Unreadable(cause) | Told::Unopened(cause) => {
            world.allowed.borrow().error(*cause)
        }
        Told::Bug(_) => false,
        _ => true,
    }
}
