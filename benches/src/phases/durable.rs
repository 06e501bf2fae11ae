//! One producer, one small batch at a time, durable before each answer; then all read back.

use std::time::{Duration, Instant};

use super::moved::{Moved, Operation};
use super::{Stage, poll};
use crate::content::{BatchId, Outbox};
use crate::outstanding::Outstanding;
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
    let bytes = stage.content.batch_len() as u64;
    let mut outbox = Outbox::new(stage.content);
    let mut append = |sequence| {
        let id = BatchId { round: stage.round, producer: 0, partition: 0, sequence };
        let batch = outbox.batch(id);
        let since = Instant::now();
        let mut alone = Outstanding::on_this_thread();
        let (result, took) = match alone.push(since, engine.append(Topic::Durable, 0, batch)) {
            Some(ended) => ended,
            None => alone.wait_any(stage.interrupt)?.expect("the append was just pushed"),
        };
        let doing = || "appending durably".to_owned();
        result.map_err(|source| RunError::Engine { doing: doing(), source })?;
        let answered = Instant::now();
        let sent = answered.checked_sub(took).unwrap_or(answered);
        Ok::<_, RunError>((Operation { intended: None, sent, bytes, messages: 1 }, answered))
    };
    // Opens the file and writes its first blocks, off the clock.
    append(0)?;
    let start = Instant::now();
    let mut moved = Moved::new(start);
    let mut made = 0;
    while made < samples && (made < SAMPLES_MIN || start.elapsed() < budget) {
        stage.interrupt.check()?;
        made += 1;
        let (operation, answered) = append(made)?;
        moved.record(operation, answered);
    }
    let mut read = Moved::new(Instant::now());
    poll::read_partition(engine, stage, Topic::Durable, 0, &[made + 1], &mut read)?;
    Ok(moved)
}
