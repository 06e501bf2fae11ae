//! What a killed process left, read to its end.

use std::time::{Duration, Instant};

use crate::check::Checker;
use crate::outstanding::Outstanding;
use crate::phases::Stage;
use crate::plan::Sent;
use crate::run_error::RunError;
use crate::subject::{Engine, Records, Topic};

/// What is there.
#[derive(Debug)]
pub(crate) struct Found {
    /// Batches, by partition and producer: at least those that were acknowledged.
    pub(crate) sent: Sent,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// Reads every partition from its first message to its end: every byte is one that was sent, each
/// producer's batches are there from its first one on without a gap, and none that was answered
/// (`acked`) is missing.
pub(crate) fn check<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    acked: &Sent,
    partitions: u32,
) -> Result<Found, RunError> {
    let mut found = Found { sent: acked.clone(), messages: 0, bytes: 0 };
    for partition in 0..partitions {
        let batches = acked.batches(partition);
        let producers = u16::try_from(batches.len()).expect("producers are counted by u16");
        let mut checker = Checker::new(stage.content, stage.round, partition, producers);
        loop {
            let offset = checker.next_offset();
            let records = poll(engine, stage, partition, offset)?;
            for slice in records.slices() {
                checker.feed(slice)?;
                found.bytes += slice.len() as u64;
            }
            if checker.next_offset() == offset {
                break;
            }
            checker.end_reply(records.next_offset())?;
        }
        checker.end_crashed(batches)?;
        found.messages += checker.seen();
        for (producer, batches) in (0..).zip(checker.sequences()) {
            found.sent.raise(producer, partition, batches);
        }
    }
    Ok(found)
}

fn poll<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    partition: u32,
    offset: u64,
) -> Result<E::Records, RunError> {
    let mut alone = Outstanding::on_this_thread();
    let call = engine.poll(Topic::Written, partition, offset, stage.poll_bytes, Duration::ZERO);
    let (records, _) = match alone.push(Instant::now(), call) {
        Some(ended) => ended,
        None => alone.wait_any(stage.interrupt)?.expect("the poll was just pushed"),
    };
    let doing = || format!("polling partition {partition} at {offset} after a kill");
    records.map_err(|source| RunError::Engine { doing: doing(), source })
}
