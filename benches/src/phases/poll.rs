//! Consumers read partitions from their beginning and check every byte.
//!
//! The engine was closed and opened since the append, so nothing is answered from its memory, and
//! O_DIRECT leaves the page cache out. A consumer asks for the next records before it checks the
//! ones it got, as a consumer that works on them would.

use std::thread;
use std::time::{Duration, Instant};

use super::{Span, Stage, elapsed};
use crate::check::{Checker, Mismatch, What};
use crate::latency::Latency;
use crate::outstanding::Outstanding;
use crate::run_error::RunError;
use crate::subject::{Engine, Records, Topic};

/// The phase, measured.
#[derive(Debug, Clone)]
pub(crate) struct Polled {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    pub(crate) elapsed: Duration,
    /// Of each poll, from the call until the consumer came back for the reply; the check of the
    /// reply before lies in between.
    pub(crate) latency: Latency,
}

/// Reads all partitions of [`Topic::Written`], several at a time, each by one consumer.
pub(crate) fn run<E: Engine>(engine: &E, stage: Stage<'_>) -> Result<Polled, RunError> {
    let partitions = stage.plan.partitions;
    let consumers = partitions.min(u32::from(stage.plan.producers));
    let read: Vec<Result<(Span, Read), RunError>> = thread::scope(|scope| {
        let consume = move |consumer: u32| {
            let start = Instant::now();
            let mut all = Read::default();
            for partition in (consumer..partitions).step_by(consumers as usize) {
                let batches = stage.plan.batches_of_partition(partition);
                all.add(read_partition(engine, stage, Topic::Written, partition, &batches)?);
            }
            Ok((Span { start, end: Instant::now() }, all))
        };
        let threads: Vec<_> =
            (0..consumers).map(|consumer| scope.spawn(move || consume(consumer))).collect();
        threads.into_iter().map(|one| one.join().expect("a consumer panicked")).collect()
    });
    let mut spans = Vec::new();
    let mut all = Read::default();
    for one in read {
        let (span, read) = one?;
        spans.push(span);
        all.add(read);
    }
    let Read { bytes, messages, latency } = all;
    Ok(Polled { bytes, messages, elapsed: elapsed(&spans), latency })
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Read {
    bytes: u64,
    messages: u64,
    latency: Latency,
}

impl Read {
    fn add(&mut self, other: Read) {
        self.bytes += other.bytes;
        self.messages += other.messages;
        self.latency.merge(&other.latency);
    }
}

/// Reads a partition, into which each producer appended `batches`, from offset 0 to its end.
pub(super) fn read_partition<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    topic: Topic,
    partition: u32,
    batches: &[u32],
) -> Result<Read, RunError> {
    let appended: u64 = batches.iter().map(|batches| u64::from(*batches)).sum();
    let end = appended * u64::from(stage.content.message_count());
    let producers = u16::try_from(batches.len()).expect("producers are counted by u16");
    let mut checker = Checker::new(stage.content, stage.round, partition, producers);
    let mut read = Read { messages: end, ..Read::default() };
    let mut outstanding = Outstanding::on_this_thread();
    let poll = |offset| engine.poll(topic, partition, offset, stage.poll_bytes);
    let mut ended = outstanding.push(Instant::now(), poll(0));
    while checker.next_offset() < end {
        stage.interrupt.check()?;
        let (records, took) = match ended.take() {
            Some(ended) => ended,
            None => {
                let ended = outstanding.wait_any(stage.interrupt)?;
                ended.expect("a poll is in flight until the end")
            }
        };
        read.latency.record(took);
        let records = records.map_err(|source| {
            let offset = checker.next_offset();
            RunError::Engine { doing: format!("polling partition {partition} at {offset}"), source }
        })?;
        let next = records.next_offset();
        if next < end {
            ended = outstanding.push(Instant::now(), poll(next));
        }
        let before = checker.next_offset();
        for slice in records.slices() {
            checker.feed(slice)?;
            read.bytes += slice.len() as u64;
        }
        checker.end_reply(next)?;
        if checker.next_offset() == before {
            let what = What::Missing { appended: end };
            return Err(Mismatch { partition, offset: before, what }.into());
        }
    }
    checker.end_log(batches)?;
    Ok(read)
}
