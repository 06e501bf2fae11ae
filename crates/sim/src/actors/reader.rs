//! A reader: polls of every kind, each answer held against the oracle.

use std::rc::Rc;

use corelog_io::IoOp;
use corelog_io::sim::Rng;
use corelog_storage::{From, PollQuery};

use crate::door::{Door, Read};
use crate::mischief;
use crate::oracle::Asked;
use crate::probes::Probe;
use crate::world::World;

/// Polls until the life winds down.
pub(super) async fn consume(world: Rc<World>, partition: usize, mut rng: Rng) {
    let params = world.params.partition(partition).clone();
    let mut next = 0;
    while !world.winding_down.get() {
        world.sleep_us(1 + rng.below(params.pause_us * 2 + 100)).await;
        let Some(door) = world.door(partition) else { continue };
        let times = world.parts[partition].oracle.borrow().times();
        let end = world.parts[partition].oracle.borrow().known_end();
        let from = match rng.below(8) {
            0 => From::First,
            1 => From::Last([0, 1, 5, 100, u32::MAX][rng.index(5)]),
            2 if !times.is_empty() => From::Timestamp(times[rng.index(times.len())] - rng.below(2)),
            3 => From::Offset(rng.below(end + 3)),
            4 => From::Offset([0, end, u64::MAX][rng.index(3)]),
            // Mostly one after the other, as consumers do.
            _ => From::Offset(next),
        };
        let max_messages = [0, 1, 3, 1_000, u32::MAX][rng.index(5)];
        let max_bytes = [0, 1_000, 100_000, 8 << 20][rng.index(4)];
        let query = PollQuery::new(from, max_messages, max_bytes);
        if let Some(after) = poll(&world, partition, &door, query).await {
            next = after;
        }
    }
}

/// One poll, judged. Where it was served, the offset to go on from.
async fn poll(world: &World, partition: usize, door: &Door, query: PollQuery) -> Option<u64> {
    let fsync = world.params.partition(partition).config.enforce_fsync;
    let faults = || world.allowed.borrow().has_errors();
    let before = door.bounds(door.watermarks().await?, fsync, faults());
    let read = world.sim.disk().count(IoOp::Read);
    let PollQuery { from, max_messages, max_bytes, .. } = query;
    let asked = Asked { from, max_messages, max_bytes, before };
    let answer = door.poll(query).await;
    if world.sim.disk().count(IoOp::Read) > read {
        world.hit(Probe::FromDisk);
    }
    let Read::Ok(got) = &answer else { return judge(world, partition, from, &answer) };
    // Busy, or the partition is closed meanwhile: what it may serve is not known any more.
    let after = door.bounds(door.watermarks().await?, fsync, true);
    world.note(&format!(
        "p{partition} poll {from:?} ({max_messages}, {max_bytes}): {} messages from {:?} to {}",
        got.messages, got.first, got.next
    ));
    let seen = world.parts[partition].oracle.borrow_mut().served(&asked, got, after);
    match seen {
        Ok(seen) => {
            if seen.sliced {
                world.hit(Probe::Sliced);
            }
            if seen.unanswered {
                world.hit(Probe::UnansweredKept);
            }
            if seen.by_time {
                world.hit(Probe::TimePoll);
            }
            Some(got.next)
        }
        Err(broken) => {
            world.fail(format!("partition {partition}: {broken}"));
            None
        }
    }
}

/// Judges an answer that served nothing.
fn judge(world: &World, partition: usize, from: From, answer: &Read) -> Option<u64> {
    world.note(&format!("p{partition} poll: {answer:?}"));
    let allowed = world.allowed.borrow();
    let fine = match answer {
        Read::Ok(_) | Read::Closed | Read::Busy => true,
        Read::Io(cause) | Read::Unopened(cause) => {
            world.hit(Probe::ReadError);
            allowed.error(*cause)
        }
        Read::Corrupt(reported, _) => {
            drop(allowed);
            mischief::look(world);
            world.hit(Probe::CorruptRead);
            let told = world.parts[partition].oracle.borrow().may_report(from, *reported);
            if let Err(broken) = told {
                world.fail(format!("partition {partition}, {from:?}: {answer:?}, but {broken}"));
            }
            return reported.resume;
        }
        Read::Bug(_) => false,
    };
    drop(allowed);
    if !fine {
        world.fail(format!("partition {partition}: a poll without a cause: {answer:?}"));
    }
    None
}

/// Polls everything from the first retained offset to the end, in steps of random size, and holds
/// the whole against the oracle.
pub(crate) async fn read_all(world: &World, partition: usize, rng: &mut Rng) {
    let Some(door) = world.door(partition) else { return };
    let fsync = world.params.partition(partition).config.enforce_fsync;
    let known = world.parts[partition].oracle.borrow().known_end();
    let marks = loop {
        match door.watermarks().await {
            Some(marks) => break marks,
            None => world.sleep_us(500).await,
        }
    };
    let told = world.parts[partition].oracle.borrow_mut().watermarks(marks, known);
    if let Err(broken) = told {
        return world.fail(format!("partition {partition}: {broken}"));
    }
    let end = door.bounds(marks, fsync, world.allowed.borrow().has_errors()).must;
    let mut next = marks.start();
    let mut tries = 0;
    while next < end && !world.has_failed() {
        let max_bytes = [1, 10_000, 300_000, 8 << 20][rng.index(4)];
        let max_messages = [u32::MAX, u32::MAX, 7][rng.index(3)];
        let query = PollQuery::new(From::Offset(next), max_messages, max_bytes);
        let corrupt = world.probes().count(Probe::CorruptRead);
        let after = poll(world, partition, &door, query).await;
        if world.probes().count(Probe::CorruptRead) > corrupt {
            // Over the damage, or it hides all that follows.
            let resume = after.unwrap_or(end);
            let told = world.parts[partition].oracle.borrow().may_skip(next..resume);
            if let Err(broken) = told {
                return world.fail(format!("partition {partition}: {broken}"));
            }
            world.hit(Probe::SteppedOver);
            next = resume;
            continue;
        }
        match after {
            Some(after) if after > next => next = after,
            // Busy, or an error that has a cause: again, but not for ever.
            _ if tries < 1_000 => {
                tries += 1;
                if tries == 100 {
                    super::right_again(world);
                }
                world.sleep_us(1_000).await;
            }
            _ => return world.fail(format!("partition {partition}: no way past offset {next}")),
        }
    }
    if !world.has_failed() {
        let whole = world.parts[partition].oracle.borrow_mut().read_whole(marks.start(), end);
        if let Err(broken) = whole {
            world.fail(format!("partition {partition}: {broken}"));
        }
    }
}
