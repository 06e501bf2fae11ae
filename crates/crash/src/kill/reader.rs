//! A consumer beside the producers: what it is served is what was offered, without a gap.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use corelog::error::PollError;
use corelog::{Client, PartitionId, Poll, Records};

use crate::ledger::Event;
use crate::random::Random;

use super::life::Stage;

const PAUSE: Duration = Duration::from_micros(300);

/// Polls partitions in turn until the life is over.
pub(super) fn read(client: &Client, stage: &Stage) {
    let mut random = Random::of(&[stage.content.seed(), u64::from(stage.life), u64::MAX]);
    let mut ends: HashMap<PartitionId, u64> = HashMap::new();
    while !stage.is_over() {
        let partition = random.pick(&stage.partitions);
        let from = ends.get(&partition).copied().filter(|_| !random.once_in(16));
        let bytes = random.pick(&[1, 10_000, 100_000, 1 << 20]);
        let poll = from.map_or_else(Poll::first, Poll::offset).max_bytes(bytes);
        match client.poll_blocking(partition, poll) {
            Ok(records) if records.is_empty() => thread::sleep(PAUSE),
            Ok(records) => match check(stage, partition, from.unwrap_or(0), &records) {
                Ok(end) => {
                    let known = ends.entry(partition).or_insert(0);
                    if end > *known {
                        *known = end;
                        Event::Served { partition, end }.print();
                    }
                }
                Err(what) => return Event::Broken(format!("{partition}: a poll {what}")).print(),
            },
            Err(PollError::Busy) => thread::sleep(PAUSE),
            Err(PollError::Closed) => return,
            Err(error) => {
                let what = format!("{partition}: a poll from {from:?} was answered: {error}");
                return Event::Broken(what).print();
            }
        }
    }
}

/// One past the last offset that `records` hold, which must begin at `from` and be what was
/// offered.
fn check(
    stage: &Stage,
    partition: PartitionId,
    from: u64,
    records: &Records,
) -> Result<u64, String> {
    let mut next = from;
    for batch in records.batches() {
        let batch = batch.map_err(|error| format!("at {next}: {error}"))?;
        let stored = stage.content.identify(partition, batch.bytes());
        let header = stored.map_err(|unlike| format!("at {next}: {unlike:?}"))?.header;
        if header.base_offset != next {
            return Err(format!("served offset {} at {next}", header.base_offset));
        }
        next += u64::from(header.message_count);
    }
    match next == records.next_offset() {
        true => Ok(next),
        false => Err(format!("ended at {next} and says {}", records.next_offset())),
    }
}
