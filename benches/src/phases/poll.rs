//! Consumers read partitions from their beginning and check every byte.
//!
//! The engine was closed and opened since the append, so nothing is answered from its memory, and
//! O_DIRECT leaves the page cache out. A consumer asks for the next records before it checks the
//! ones it got, as a consumer that works on them would.

use std::thread;
use std::time::{Duration, Instant};

use super::moved::{Moved, Operation};
use super::{LOOK, Stage};
use crate::check::{Checker, Mismatch, What};
use crate::outstanding::Outstanding;
use crate::plan::Sent;
use crate::run_error::RunError;
use crate::subject::{Engine, Records, Topic};

/// Reads all partitions of [`Topic::Written`], several at a time, each by one of the consumers.
/// Where `is_retained`, what is old may have been deleted meanwhile.
///
/// A poll's time runs from the call until the consumer came back for the reply; the check of the
/// reply before lies in between.
pub(crate) fn run<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    sent: &Sent,
    partitions: u32,
    consumers: u32,
    is_retained: bool,
) -> Result<Moved, RunError> {
    let consumers = consumers.clamp(1, partitions.max(1));
    let start = Instant::now();
    let read: Vec<Result<Moved, RunError>> = thread::scope(|scope| {
        let consume = move |consumer: u32| {
            let mut moved = Moved::new(start);
            for partition in (consumer..partitions).step_by(consumers as usize) {
                let batches = sent.batches(partition);
                let producers = u16::try_from(batches.len()).expect("producers are counted by u16");
                let Stage { content, round, .. } = stage;
                let checker = if is_retained {
                    Checker::retained(content, round, partition, producers).jumping()
                } else {
                    Checker::new(content, round, partition, producers)
                };
                let end = sent.end(partition, content, round);
                let log = Log { topic: Topic::Written, partition, end };
                if let Some(checker) = read_log(engine, stage, log, checker, &mut moved)? {
                    checker.end_log(batches)?;
                }
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

/// A log to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    pub(crate) topic: Topic,
    pub(crate) partition: u32,
    /// The offset behind its last message.
    pub(crate) end: u64,
}

/// Reads a log from where the checker stands to its end; None when the user stopped it before.
pub(crate) fn read_log<'a, E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    log: Log,
    mut checker: Checker<'a>,
    moved: &mut Moved,
) -> Result<Option<Checker<'a>>, RunError> {
    let Log { topic, partition, end } = log;
    let mut outstanding = Outstanding::on_this_thread();
    let poll = |offset| {
        let call = engine.poll(topic, partition, offset, stage.poll_bytes, Duration::ZERO);
        let sent = Instant::now();
        async move { (sent, call.await) }
    };
    if checker.next_offset() >= end {
        return Ok(Some(checker));
    }
    let mut ended = outstanding.push(Instant::now(), poll(checker.next_offset()));
    while checker.next_offset() < end {
        if stage.interrupt.is_raised() {
            return Ok(None);
        }
        let Some(((sent, records), _)) =
            ended.take().or_else(|| outstanding.wait_until(Instant::now() + LOOK))
        else {
            continue;
        };
        let answered = Instant::now();
        let (before, seen) = (checker.next_offset(), checker.seen());
        let records = records.map_err(|source| RunError::Engine {
            doing: format!("polling partition {partition} at {before}"),
            source,
        })?;
        let next = records.next_offset();
        if next < end {
            ended = outstanding.push(Instant::now(), poll(next));
        }
        for slice in records.slices() {
            checker.feed(slice)?;
        }
        if checker.next_offset() == before {
            let what = What::Missing { appended: end };
            return Err(Mismatch { partition, offset: before, what, file: None }.into());
        }
        checker.end_reply(next)?;
        let bytes = records.slices().iter().map(|slice| slice.len() as u64).sum();
        let messages = checker.seen() - seen;
        stage.live.add(bytes, messages);
        moved.record(Operation { intended: None, sent, bytes, messages }, answered);
    }
    Ok(Some(checker))
}
