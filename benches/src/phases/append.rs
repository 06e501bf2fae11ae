//! Producers append through the public API, each with several appends outstanding: a closed loop.
//!
//! Latency runs from the call to the answer as the producer sees it. A closed loop sends less when
//! the log is slow, so these are service times, not what an open stream of requests would feel.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::{Span, Stage, elapsed};
use crate::content::{BatchId, Outbox};
use crate::latency::Latency;
use crate::outstanding::Outstanding;
use crate::plan::Lane;
use crate::run_error::RunError;
use crate::subject::{Engine, EngineError, Topic};

/// The phase, measured.
#[derive(Debug, Clone)]
pub(crate) struct Appended {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    pub(crate) elapsed: Duration,
    /// Of each batch.
    pub(crate) latency: Latency,
}

/// Appends the plan's batches to [`Topic::Written`]; a lane's first batch before the clock starts.
pub(crate) fn run<E: Engine>(engine: &E, stage: Stage<'_>) -> Result<Appended, RunError> {
    let barrier = Barrier::new(usize::from(stage.plan.producers));
    let producers: Vec<Result<(Span, Latency), RunError>> = thread::scope(|scope| {
        let barrier = &barrier;
        let threads: Vec<_> = (0..stage.plan.producers)
            .map(|producer| scope.spawn(move || produce(engine, stage, producer, barrier)))
            .collect();
        threads.into_iter().map(|one| one.join().expect("a producer panicked")).collect()
    });
    let mut spans = Vec::new();
    let mut latency = Latency::default();
    for producer in producers {
        let (span, its_latency) = producer?;
        spans.push(span);
        latency.merge(&its_latency);
    }
    let batches = stage.plan.timed_batches();
    Ok(Appended {
        bytes: batches * stage.content.batch_len() as u64,
        messages: batches * u64::from(stage.content.message_count()),
        elapsed: elapsed(&spans),
        latency,
    })
}

fn produce<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    number: u16,
    barrier: &Barrier,
) -> Result<(Span, Latency), RunError> {
    let lanes: Vec<Lane> = stage.plan.of_producer(number).collect();
    let mut outbox = Outbox::new(stage.content);
    let last = lanes.iter().map(|lane| lane.batches).max().unwrap_or(0);
    // Over the lanes in turns, so that all of a producer's partitions grow alike.
    let mut send = |sequences: std::ops::Range<u32>| {
        let mut outstanding = Outstanding::on_this_thread();
        let mut latency = Latency::default();
        let mut note = |ended: (Result<(), EngineError>, Duration)| {
            latency.record(ended.1);
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
        Ok::<_, RunError>(latency)
    };
    let warmed = send(0..1);
    // All producers pass, also one that failed: the others must not wait for ever.
    barrier.wait();
    warmed?;
    let start = Instant::now();
    let latency = send(1..last)?;
    Ok((Span { start, end: Instant::now() }, latency))
}
