//! A reader: polls of every kind, each answer held against the oracle.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use corelog_io::sim::Rng;
use corelog_io::{Clock, IoOp, Platform};
use corelog_storage::{ConsumerKey, From, PollQuery, Watermarks};

use crate::door::{Door, Read};
use crate::mischief;
use crate::oracle::{Asked, Bounds, Broken, Got, Seen, Value};
use crate::probes::Probe;
use crate::world::World;

/// So long a wait is longer than anything that holds up a read.
const LONG: Duration = Duration::from_secs(10);

/// Polls until the life winds down.
pub(super) async fn read(world: Rc<World>, partition: usize, mut rng: Rng) {
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
        let max_wait = Duration::from_millis([0, 0, 0, 5][rng.index(4)]);
        let query = PollQuery { max_wait, ..PollQuery::new(from, max_messages, max_bytes) };
        if let Some(after) = poll(&world, partition, &door, query).await {
            next = after;
        }
    }
}

/// One poll, judged. Where it was served, the offset to go on from.
pub(super) async fn poll(
    world: &World,
    partition: usize,
    door: &Door,
    query: PollQuery,
) -> Option<u64> {
    let part = &world.parts[partition];
    let fsync = world.params.partition(partition).config.enforce_fsync;
    let known = part.oracle.borrow().known_end();
    let life = part.oracle.borrow().incarnation();
    let marks = door.watermarks().await?;
    if part.oracle.borrow().incarnation() != life || !world.judge_marks(partition, marks, known) {
        return None;
    }
    let before = door.bounds(marks, fsync, world.allowed.borrow().has_errors());
    let read = world.sim.disk().count(IoOp::Read);
    let PollQuery { from, max_messages, max_bytes, .. } = query;
    let next = match from {
        From::Next(who) => part.oracle.borrow().next_of(who),
        _ => None,
    };
    let loosened = part.oracle.borrow().loosened();
    let commit = Commit::begin(world, partition, query.commit);
    let begun = Waiting::begin(world, partition);
    let (answer, middle) = begun.answer(world, door, query).await;
    if world.sim.disk().count(IoOp::Read) > read {
        world.hit(Probe::FromDisk);
    }
    // Of a life that is over: nobody knows any more what it held.
    if part.oracle.borrow().incarnation() != life {
        return None;
    }
    // A fault that came meanwhile has taken what was not written.
    let faults = world.allowed.borrow().has_errors();
    let before = if faults { door.bounds(marks, fsync, true) } else { before };
    let next = next.filter(|_| part.oracle.borrow().loosened() == loosened);
    let asked = Asked { from, max_messages, max_bytes, next, before };
    commit.settle(world, partition, &answer, begun.is_disturbed(world, partition));
    let Read::Ok(got) = &answer else {
        // What was asked for may have been trimmed meanwhile: it begins at the new start.
        let start = door.watermarks().await.map_or(marks.start(), |marks| marks.start());
        let from = match from {
            From::Offset(offset) => From::Offset(offset.max(start)),
            other => other,
        };
        return judge(world, partition, from, &answer);
    };
    // Busy, or the partition is closed meanwhile: what it may serve is not known any more.
    let after = door.bounds(door.watermarks().await?, fsync, true);
    if part.oracle.borrow().incarnation() != life {
        return None;
    }
    world.note(&format!(
        "p{partition} poll {from:?} ({max_messages}, {max_bytes}): {} messages from {:?} to {}",
        got.messages, got.first, got.next
    ));
    let middle = middle.map(|marks| door.bounds(marks, fsync, faults).without_trimmed(after));
    let waited = begun.judge(world, partition, &query, next, got, middle);
    let seen = waited.and_then(|()| part.oracle.borrow_mut().served(&asked, got, after));
    match seen {
        Ok(seen) => {
            probe(world, seen, next.flatten().is_some() && got.messages > 0);
            Some(got.next)
        }
        Err(broken) => {
            world.fail(format!("partition {partition}: {broken}"));
            None
        }
    }
}

fn probe(world: &World, seen: Seen, is_next: bool) {
    if is_next {
        world.hit(Probe::NextServed);
    }
    if seen.sliced {
        world.hit(Probe::Sliced);
    }
    if seen.unanswered {
        world.hit(Probe::UnansweredKept);
    }
    if seen.by_time {
        world.hit(Probe::TimePoll);
    }
}

/// What a poll is to commit, if anything.
struct Commit(Option<Attempt>);

struct Attempt {
    who: ConsumerKey,
    number: usize,
    /// As many others as may had stored something by then.
    was_full: bool,
    /// How often something was to be stored by then.
    called: u64,
}

impl Commit {
    fn begin(world: &World, partition: usize, who: Option<ConsumerKey>) -> Self {
        let now_us = world.platform().clock().now_us();
        let was_full = who.is_some_and(|who| is_full(world, partition, who));
        let mut oracle = world.parts[partition].oracle.borrow_mut();
        Commit(who.map(|who| {
            // How far it will get nobody knows before its answer.
            let number = oracle.offset_called(who, Value::Anything, now_us);
            Attempt { who, number, was_full, called: oracle.offsets_called() }
        }))
    }

    fn settle(self, world: &World, partition: usize, answer: &Read, disturbed: bool) {
        let Some(Attempt { who, number, was_full, called }) = self.0 else { return };
        let is_full = was_full || is_full(world, partition, who);
        let mut oracle = world.parts[partition].oracle.borrow_mut();
        match answer {
            Read::Ok(got) if got.messages > 0 => {
                world.hit(Probe::AutoStored);
                // Another one may have come in between, and gone again.
                let too_many = world.params.partition(partition).consumers
                    > world.params.limits.consumers
                    && (is_full || oracle.offsets_called() != called);
                let may_fail = too_many || disturbed || world.allowed.borrow().has_causes();
                oracle.auto_stored(who, number, got.next - 1, may_fail);
            }
            Read::Closed | Read::Unopened(_) | Read::Bug(_) => {}
            _ => oracle.offset_refused(who, number),
        }
    }
}

fn is_full(world: &World, partition: usize, who: ConsumerKey) -> bool {
    let others = world.parts[partition].oracle.borrow().others_stored(who);
    others >= world.params.limits.consumers
}

/// A poll that may wait: since when, and what had been closed by then.
#[derive(Clone, Copy)]
struct Waiting {
    begun: Duration,
    endings: u64,
}

impl Waiting {
    fn begin(world: &World, partition: usize) -> Self {
        let endings = world.parts[partition].endings.get();
        Waiting { begun: world.sim.clock().elapsed(), endings }
    }

    /// Somebody has begun to close the partition: it need not wait then.
    fn is_disturbed(self, world: &World, partition: usize) -> bool {
        let part = &world.parts[partition];
        part.endings.get() != self.endings || part.changing.get()
    }

    /// The answer, and where the log stood when half of the time was over.
    async fn answer(
        self,
        world: &World,
        door: &Door,
        query: PollQuery,
    ) -> (Read, Option<Watermarks>) {
        let mut answer = pin!(door.poll(query));
        let half = query.max_wait / 2;
        let mut look = pin!(async {
            world.platform().clock().sleep(half).await;
            door.watermarks().await
        });
        let mut middle = None;
        let answer = poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
            if !half.is_zero()
                && middle.is_none()
                && let Poll::Ready(marks) = look.as_mut().poll(cx)
            {
                middle = Some(marks);
            }
            Poll::Pending
        })
        .await;
        (answer, middle.flatten())
    }

    /// It waited as long as it was asked to, and no longer than it had to.
    fn judge(
        self,
        world: &World,
        partition: usize,
        query: &PollQuery,
        next: Option<Option<u64>>,
        got: &Got,
        middle: Option<Bounds>,
    ) -> Result<(), Broken> {
        let PollQuery { from, max_wait, max_messages, .. } = *query;
        if max_wait.is_zero() || max_messages == 0 || self.is_disturbed(world, partition) {
            return Ok(());
        }
        let waited = world.sim.clock().elapsed() - self.begun;
        if got.messages == 0 && waited < max_wait {
            return Err(format!("nothing after {waited:?} of {max_wait:?}"));
        }
        let first = match (from, next) {
            (From::Offset(offset), _) => offset,
            (From::Next(_), Some(Some(stored))) => stored + 1,
            _ => return Ok(()),
        };
        let was_there = middle.is_some_and(|middle| first < middle.must && middle.start <= first);
        if !was_there {
            if got.messages == 0 {
                world.hit(Probe::WaitedInVain);
            } else if middle.is_some() {
                world.hit(Probe::Woken);
            }
            return Ok(());
        }
        // What is read may be slow; only where half of the time is long that cannot be the reason.
        if got.messages == 0 || (max_wait >= LONG && waited >= max_wait) {
            return Err(format!(
                "{from:?} was there after half of {max_wait:?}; {} messages after {waited:?}",
                got.messages
            ));
        }
        Ok(())
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
    if !world.judge_marks(partition, marks, known) {
        return;
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
