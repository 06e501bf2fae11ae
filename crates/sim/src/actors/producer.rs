//! A producer: appends without waiting for the answers, which tasks of their own hold against the
//! oracle.

use std::future::Future;
use std::rc::Rc;

use corelog_io::sim::Rng;
use corelog_shard::Producer;
use corelog_storage::{Ack, Appended};

use super::Cast;
use crate::batches::ProducerBatch;
use crate::door::{Door, Outcome, crossed};
use crate::opening::now_us;
use crate::params::Way;
use crate::probes::Probe;
use crate::world::World;

/// Appends its share of a life.
pub(super) async fn produce(
    world: Rc<World>,
    partition: usize,
    number: usize,
    cast: Cast,
    mut rng: Rng,
) {
    let params = world.params.partition(partition).clone();
    let mut producer: Option<Producer> = None;
    for _ in 0..params.appends {
        world.pause(&mut rng, params.pause_us).await;
        if world.winding_down.get() {
            break;
        }
        let Some(door) = world.door(partition) else {
            world.sleep_us(1_000).await;
            continue;
        };
        if params.way == Way::Producer {
            let of = Rc::clone(&world);
            let kept = producer.get_or_insert_with(|| door.producer().expect("it has a client"));
            in_turn(&of, partition, kept, &cast, &mut rng).await;
            continue;
        }
        let batch = draw(&world, partition, &mut rng);
        let ack = [Ack::Appended, Ack::Written, Ack::Durable][rng.index(3)];
        let (call, answer) = append(&world, partition, number, &door, batch, ack);
        let of = Rc::clone(&world);
        let waits = async move {
            let outcome = answer.await;
            settle(&of, partition, call, outcome);
        };
        // Mostly the next append does not wait for the answer of this one.
        if rng.chance(1, 4) { waits.await } else { cast.act(&world, waits) }
    }
}

fn draw(world: &World, partition: usize, rng: &mut Rng) -> ProducerBatch {
    let number = world.parts[partition].oracle.borrow().next_number() as u64;
    ProducerBatch::draw(number, world.params.partition(partition).sizes, rng)
}

fn append(
    world: &World,
    partition: usize,
    number: usize,
    door: &Door,
    batch: ProducerBatch,
    ack: Ack,
) -> (usize, impl Future<Output = Outcome<Appended>> + use<>) {
    let bytes = batch.bytes.clone();
    world.note(&format!(
        "p{partition} producer {number} appends batch {} ({} messages, {} bytes) for {ack:?}",
        world.parts[partition].oracle.borrow().next_number(),
        batch.messages(),
        bytes.len()
    ));
    let call = world.parts[partition].oracle.borrow_mut().called(batch, ack);
    (call, door.append(bytes, ack))
}

/// One append of a `Producer`, tried until it is on its way.
async fn in_turn(
    world: &Rc<World>,
    partition: usize,
    producer: &mut Producer,
    cast: &Cast,
    rng: &mut Rng,
) {
    let batch = draw(world, partition, rng);
    let ack = [Ack::Appended, Ack::Written, Ack::Durable][rng.index(3)];
    let bytes = batch.bytes.clone();
    let call = world.parts[partition].oracle.borrow_mut().called(batch, ack);
    world.note(&format!("p{partition} batch {call} ({} bytes) in turn for {ack:?}", bytes.len()));
    let answer = producer.append(bytes.clone(), ack);
    if !producer.is_behind() {
        return wait_apart(world, partition, call, answer, cast);
    }
    settle(world, partition, call, crossed(answer.await));
    // Whoever appends now is out of turn.
    let late = producer.append(bytes, ack).await;
    match crossed(late) {
        Outcome::OutOfTurn => world.hit(Probe::OutOfTurn),
        other => world.fail(format!("a producer that is behind took an append: {other:?}")),
    }
    let mut pause_us = 200;
    while producer.is_behind() && !world.winding_down.get() {
        world.sleep_us(pause_us).await;
        pause_us = (pause_us * 2).min(10_000);
        // What waits for the end of an opening may be answered before the oracle hears of it, and
        // would count as recovered.
        if world.parts[partition].opening.get() {
            continue;
        }
        // Each try takes its place anew: other producers' appends may stand before it by now.
        world.parts[partition].oracle.borrow_mut().called_again(call);
        let Some(answer) = producer.retry() else { break };
        if !producer.is_behind() {
            return wait_apart(world, partition, call, answer, cast);
        }
        settle(world, partition, call, crossed(answer.await));
    }
    producer.skip();
}

fn wait_apart(
    world: &Rc<World>,
    partition: usize,
    call: usize,
    answer: corelog_shard::AppendCall,
    cast: &Cast,
) {
    let of = Rc::clone(world);
    cast.act(world, async move {
        let outcome = crossed(answer.await);
        settle(&of, partition, call, outcome);
    });
}

/// Tells the oracle how an append was answered.
pub(crate) fn settle(world: &World, partition: usize, call: usize, outcome: Outcome<Appended>) {
    world.note(&format!("p{partition} batch {call}: {outcome:?}"));
    let part = &world.parts[partition];
    let allowed = world.allowed.borrow();
    let mut oracle = part.oracle.borrow_mut();
    let (settled, fine) = match outcome {
        Outcome::Ok(appended) => {
            if part.full.get() {
                world.hit(Probe::FullRecovered);
            }
            let ceiling = corelog_io::Clock::ceiling_us(world.sim.clock());
            if appended.base_timestamp > ceiling {
                let time = appended.base_timestamp;
                drop((oracle, allowed));
                world.fail(format!("stamped {time}, above the ceiling {ceiling}"));
                return;
            }
            (oracle.answered(call, appended), true)
        }
        Outcome::Full(cause) => {
            world.hit(Probe::StorageFull);
            part.full.set(true);
            (oracle.refused(call), allowed.full(cause))
        }
        Outcome::NoSegment(cause) => {
            world.hit(Probe::NoSegment);
            (oracle.refused(call), allowed.error(cause))
        }
        Outcome::NoFile(cause) => {
            world.hit(Probe::NoFile);
            (oracle.refused(call), allowed.error(cause))
        }
        Outcome::NoOffsets(cause) => {
            world.hit(Probe::NoOffsets);
            (oracle.refused(call), allowed.error(cause))
        }
        Outcome::Closed => {
            world.hit(Probe::ClosedMidway);
            (oracle.refused(call), true)
        }
        Outcome::Busy => {
            world.hit(Probe::Busy);
            (oracle.refused(call), true)
        }
        Outcome::OutOfTurn => (oracle.refused(call), false),
        Outcome::Poisoned(cause) => {
            world.hit(Probe::Poisoned);
            part.poisoned.set(true);
            (Ok(()), world.may_poison(partition, cause))
        }
        Outcome::Unopened(cause) => (Ok(()), allowed.error(cause)),
        Outcome::Gone => (Ok(()), true),
        Outcome::Bug(text) => (Err(text), true),
    };
    drop((oracle, allowed));
    if let Err(broken) = settled {
        world.fail(format!("partition {partition}, at {} us: {broken}", now_us(world)));
    } else if !fine {
        world.fail(format!("partition {partition}: batch {call} was refused without a cause"));
    }
}
