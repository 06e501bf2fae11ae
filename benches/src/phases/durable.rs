//! Small batches that are durable before each answer, one producer alone or many at once; then all
//! are read back.

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
/// `budget` has passed. The stage's content is the small batch.
pub(crate) fn run<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    samples: u32,
    budget: Duration,
) -> Result<Moved, RunError> {
    let mut outbox = Outbox::new(stage.content);
    // Opens the file and writes its first blocks, off the clock.
    append(engine, stage, &mut outbox, 0)?;
    let start = Instant::now();
    let mut moved = Moved::new(start);
    let mut made = 0;
    while made < samples && (made < SAMPLES_MIN || start.elapsed() < budget) {
        if stage.interrupt.is_raised() {
            return Ok(moved);
        }
        made += 1;
        let (operation, answered) = append(engine, stage, &mut outbox, made)?;
        moved.record(operation, answered);
    }
    let log = Log { topic: Topic::Durable, partition: 0, end: u64::from(made) + 1 };
    let checker = Checker::new(stage.content, stage.round, 0, 1);
    let mut read = Moved::new(Instant::now());
    if let Some(checker) = read_log(engine, stage, log, checker, &mut read)? {
        checker.end_log(&[made + 1])?;
    }
    Ok(moved)
}

/// Producers that append to partitions `first_partition` and up of [`Topic::Durable`] for `time`, one
/// batch each at a time; their plan's lanes say who appends where.
pub(crate) fn many<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    first_partition: u32,
    plan: &Plan,
    time: Duration,
) -> Result<Moved, RunError> {
    let load = Load {
        topic: Topic::Durable,
        first_partition,
        plan,
        in_flight: 1,
        period: None,
        time: Some(time),
        warm_up: Duration::ZERO,
        on_answer: None,
    };
    let mut sent = Sent::nothing(plan.producers, plan.partitions);
    let moved = produce::run(engine, stage, load, &Go::new(&load), None, &mut sent)?;
    for number in 0..plan.partitions {
        let (partition, batches) = (first_partition + number, sent.batches(number));
        let end = batches.iter().map(|batches| u64::from(*batches)).sum();
        let log = Log { topic: Topic::Durable, partition, end };
        let checker = Checker::new(stage.content, stage.round, partition, plan.producers);
        let mut read = Moved::new(Instant::now());
        if let Some(checker) = read_log(engine, stage, log, checker, &mut read)? {
            checker.end_log(batches)?;
        }
    }
    Ok(moved)
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
