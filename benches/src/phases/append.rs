//! Producers append through the public API, each with several appends outstanding: a closed loop.
//!
//! Latency runs from the call to the answer as the producer sees it. A closed loop sends less when
//! the log is slow, so these are service times, not what an open stream of requests would feel.

use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use super::Stage;
use super::moved::{Moved, Operation};
use crate::content::{BatchId, Outbox};
use crate::outstanding::Outstanding;
use crate::plan::Lane;
use crate::run_error::RunError;
use crate::subject::{Engine, EngineError, Topic};

/// Appends the plan's batches to [`Topic::Written`]; a lane's first batch before the clock starts.
pub(crate) fn run<E: Engine>(engine: &E, stage: Stage<'_>) -> Result<Moved, RunError> {
    let go =
        Go { all_warm: Barrier::new(usize::from(stage.plan.producers)), start: OnceLock::new() };
    let producers: Vec<Result<Moved, RunError>> = thread::scope(|scope| {
        let go = &go;
        let threads: Vec<_> = (0..stage.plan.producers)
            .map(|producer| scope.spawn(move || produce(engine, stage, producer, go)))
            .collect();
        threads.into_iter().map(|one| one.join().expect("a producer panicked")).collect()
    });
    let mut all = Moved::new(*go.start.get().expect("the producers started"));
    for producer in producers {
        all.merge(&producer?);
    }
    Ok(all)
}

/// The start that all producers share.
struct Go {
    all_warm: Barrier,
    start: OnceLock<Instant>,
}

fn produce<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    number: u16,
    go: &Go,
) -> Result<Moved, RunError> {
    let lanes: Vec<Lane> = stage.plan.of_producer(number).collect();
    let mut outbox = Outbox::new(stage.content);
    let last = lanes.iter().map(|lane| lane.batches).max().unwrap_or(0);
    // Over the lanes in turns, so that all of a producer's partitions grow alike.
    let mut send = |sequences: std::ops::Range<u32>, moved: &mut Moved| {
        let mut outstanding = Outstanding::on_this_thread();
        let bytes = stage.content.batch_len() as u64;
        let messages = u64::from(stage.content.message_count());
        let mut note = |ended: (Result<(), EngineError>, Duration)| {
            let answered = Instant::now();
            let sent = answered.checked_sub(ended.1).unwrap_or(answered);
            moved.record(Operation { intended: None, sent, bytes, messages }, answered);
            ended.0.map_err(|source| RunError::Engine { doing: "appending".to_owned(), source })
        };
        for sequence in sequences {
            for lane in lanes.iter().filter(|lane| sequence < lane.batches) {
                stage.interrupt.check()?;
                let Lane { producer, partition, .. } = *lane;
                let id = BatchId { round: stage.round, producer, partition, sequence };
                let batch = outbox.batch(id);
                let since = Instant::now();
                let future = engine.append(Topic::Written, partition, batch);
                outstanding.push(since, future).map_or(Ok(()), &mut note)?;
                if outstanding.in_flight() >= stage.in_flight {
                    outstanding.wait_any(stage.interrupt)?.map_or(Ok(()), &mut note)?;
                }
            }
        }
        while let Some(ended) = outstanding.wait_any(stage.interrupt)? {
            note(ended)?;
        }
        Ok::<_, RunError>(())
    };
    let warmed = send(0..1, &mut Moved::new(Instant::now()));
    // All producers pass, also one that failed: the others must not wait for ever.
    go.all_warm.wait();
    let start = *go.start.get_or_init(Instant::now);
    warmed?;
    let mut moved = Moved::new(start);
    send(1..last, &mut moved)?;
    Ok(moved)
}
