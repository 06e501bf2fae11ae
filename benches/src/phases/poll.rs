//! Consumers read partitions from their beginning and check every byte.
//!
//! The engine was closed and opened since the append, so nothing is answered from its memory, and
//! O_DIRECT leaves the page cache out. A consumer asks for the next records before it checks the
//! ones it got, as a consumer that works on them would.

use std::thread;
use std::time::Instant;

use super::Stage;
use super::moved::{Moved, Operation};
use crate::check::{Checker, Mismatch, What};
use crate::outstanding::Outstanding;
use crate::run_error::RunError;
use crate::subject::{Engine, Records, Topic};

/// Reads all partitions of [`Topic::Written`], several at a time, each by one consumer.
///
/// A poll's time runs from the call until the consumer came back for the reply; the check of the
/// reply before lies in between.
pub(crate) fn run<E: Engine>(engine: &E, stage: Stage<'_>) -> Result<Moved, RunError> {
    let partitions = stage.plan.partitions;
    let consumers = partitions.min(u32::from(stage.plan.producers));
    let start = Instant::now();
    let read: Vec<Result<Moved, RunError>> = thread::scope(|scope| {
        let consume = move |consumer: u32| {
            let mut moved = Moved::new(start);
            for partition in (consumer..partitions).step_by(consumers as usize) {
                let batches = stage.plan.batches_of_partition(partition);
                read_partition(engine, stage, Topic::Written, partition, &batches, &mut moved)?;
            }
            Ok(moved)
        };
        let threads: Vec<_> =
            (0..consumers).map(|consumer| scope.spawn(move || consume(consumer))).collect();
        threads.into_iter().map(|one| one.join().expect("a consumer panicked")).collect()
    });
    let mut all = Moved::new(start);
    for one in read {
        all.merge(&one?);
    }
    Ok(all)
}

/// Reads a partition, into which each producer appended `batches`, from offset 0 to its end.
pub(super) fn read_partition<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    topic: Topic,
    partition: u32,
    batches: &[u32],
    moved: &mut Moved,
) -> Result<(), RunError> {
    let appended: u64 = batches.iter().map(|batches| u64::from(*batches)).sum();
    let end = appended * u64::from(stage.content.message_count());
    let producers = u16::try_from(batches.len()).expect("producers are counted by u16");
    let mut checker = Checker::new(stage.content, stage.round, partition, producers);
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
        let answered = Instant::now();
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
        }
        checker.end_reply(next)?;
        let bytes = records.slices().iter().map(|slice| slice.len() as u64).sum();
        let messages = checker.next_offset() - before;
        let sent = answered.checked_sub(took).unwrap_or(answered);
        moved.record(Operation { intended: None, sent, bytes, messages }, answered);
        if checker.next_offset() == before {
            let what = What::Missing { appended: end };
            return Err(Mismatch { partition, offset: before, what }.into());
        }
    }
    Ok(checker.end_log(batches)?)
}
