//! Small batches that are durable before each answer, one producer alone or many at once; and what
//! they left, read back by itself so that it is on nobody's account.

use std::time::{Duration, Instant};

use super::moved::{Moved, Operation};
use super::poll::{Log, read_log};
use super::produce::{self, Go, Load};
use super::{LOOK, Stage};
use crate::check::Checker;
use crate::content::{BatchId, Outbox};
use crate::outstanding::Outstanding;
use crate::plan::{Plan, Sent};
use crate::run_error::RunError;
use crate::subject::{Engine, Topic};

/// Appends that are made whatever the budget.
const SAMPLES_MIN: u32 = 20;

/// Appends up to `samples` batches (at least 1) to partition 0 of [`Topic::Durable`], less once
/// `budget` has passed. The stage's content is the small batch. Also what was sent.
/// `begin` is called when answers begin to count.
pub(crate) fn run<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    samples: u32,
    budget: Duration,
    begin: &(dyn Fn() + Sync),
) -> Result<(Moved, Sent), RunError> {
    let mut outbox = Outbox::new(stage.content);
    // Opens the file and writes its first blocks, off the clock.
    append(engine, stage, &mut outbox, 0)?;
    begin();
    let start = Instant::now();
    let mut moved = Moved::new(start);
    let mut made = 0;
    while made < samples && (made < SAMPLES_MIN || start.elapsed() < budget) {
        if stage.interrupt.is_raised() {
            break;
        }
        made += 1;
        let (operation, answered) = append(engine, stage, &mut outbox, made)?;
        stage.live.add(operation.bytes, operation.messages);
        moved.record(operation, answered);
    }
    let mut sent = Sent::nothing(1, 1);
    sent.raise(0, 0, made + 1);
    Ok((moved, sent))
}

/// Producers that append to partitions `first_partition` and up of [`Topic::Durable`] for `time`, one
/// batch each at a time; their plan's lanes say who appends where. Also what they sent.
/// `begin` is called when answers begin to count.
pub(crate) fn many<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    first_partition: u32,
    plan: &Plan,
    time: Duration,
    begin: &(dyn Fn() + Sync),
) -> Result<(Moved, Sent), RunError> {
    let load = Load {
        topic: Topic::Durable,
        first_partition,
        plan,
        in_flight: 1,
        schedule: None,
        time: Some(time),
        warm_up: Duration::ZERO,
        on_begin: Some(begin),
        on_answer: None,
    };
    let mut sent = Sent::nothing(plan.producers, plan.partitions);
    let moved = produce::run(engine, stage, load, &Go::new(&load), None, &mut sent)?;
    Ok((moved, sent))
}

/// Reads back what was `sent` to partitions `first_partition` and up of [`Topic::Durable`]: every
/// batch is there, byte by byte.
pub(crate) fn check<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    first_partition: u32,
    sent: &Sent,
) -> Result<(), RunError> {
    for number in 0..sent.partitions() {
        let (partition, batches) = (first_partition + number, sent.batches(number));
        let end = batches.iter().map(|batches| u64::from(*batches)).sum();
        let log = Log { topic: Topic::Durable, partition, end };
        let checker = Checker::new(stage.content, stage.round, partition, sent.producers());
        let mut read = Moved::new(Instant::now());
        if let Some(checker) = read_log(engine, stage, log, checker, &mut read)? {
            checker.end_log(batches)?;
        }
    }
    Ok(())
}

/// One append, alone, to its answer.
fn append<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    outbox: &mut Outbox<'_>,
    sequence: u32,
) -> Result<(Operation, Instant), RunError> {
    let id = BatchId { round: stage.round, producer: 0, partition: 0, sequence };
    let batch = outbox.batch(id);
    let (bytes, messages) = (batch.len() as u64, u64::from(stage.content.message_count(id)));
    let sent = Instant::now();
    let mut alone = Outstanding::on_this_thread();
    let mut ended = alone.push(sent, engine.append(Topic::Durable, 0, batch));
    let result = loop {
        if let Some((result, _)) = ended.or_else(|| alone.wait_until(Instant::now() + LOOK)) {
            break result;
        }
        stage.interrupt.check()?;
        ended = None;
    };
    let answered = Instant::now();
    let doing = || "appending durably".to_owned();
    result.map_err(|source| RunError::Engine { doing: doing(), source })?;
    Ok((Operation { intended: None, sent, bytes, messages }, answered))
}
