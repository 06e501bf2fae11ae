//! Everything that an engine shows of the stream of changes, when it was just opened.

use corelog::error::PollError;
use corelog::{Client, PartitionId, Poll};

use super::{
    CONSUMERS, Found, FoundPartition, FoundTopic, Lies, PARTITIONS, STREAM, TOPICS, consumer,
};
use crate::content::Content;

/// Bytes a poll asks for.
const STEP: usize = 1 << 20;

/// Reads it, and sees that nothing else of the stream is served.
///
/// # Errors
/// What is served and cannot be right, whatever was changed.
pub fn look(client: &Client, content: Content) -> Result<Found, String> {
    let mut found = Found::default();
    let topics = client.catalog().topics(STREAM).unwrap_or_default();
    for topic in &topics {
        let number = topic.name.strip_prefix("name ").and_then(|number| number.parse().ok());
        let name = number.ok_or_else(|| format!("a topic is called {:?}", topic.name))?;
        let count = topic.partitions.len() as u32;
        let ids = (0..count).map(|partition| PartitionId::new(STREAM, topic.id, partition));
        let partitions = ids.map(|id| read(client, content, id)).collect::<Result<_, _>>()?;
        let enforce_fsync = topic.options.config().enforce_fsync;
        found.topics.insert(topic.id, FoundTopic { name, enforce_fsync, partitions });
    }
    for topic in 0..=TOPICS {
        let count = found.topics.get(&topic).map_or(0, |found| found.partitions.len() as u32);
        for partition in count..=count.max(PARTITIONS) {
            is_unknown(client, PartitionId::new(STREAM, topic, partition))?;
        }
    }
    Ok(found)
}

/// What is not in the catalog is not served.
///
/// # Errors
/// It is.
pub(super) fn is_unknown(client: &Client, id: PartitionId) -> Result<(), String> {
    match client.watermarks_blocking(id) {
        Err(PollError::UnknownPartition(_) | PollError::Closed) => Ok(()),
        other => Err(format!("{id} is not there, and answers {other:?}")),
    }
}

fn read(client: &Client, content: Content, id: PartitionId) -> Result<FoundPartition, String> {
    let marks = client.watermarks_blocking(id).map_err(|error| format!("{id}: {error}"))?;
    if marks.durable() != marks.appended() {
        return Err(format!("{id}: not all of it durable: {marks:?}"));
    }
    let (start, end) = (marks.start(), marks.appended());
    let mut shown = FoundPartition { start, end, ..FoundPartition::default() };
    let mut next = start;
    loop {
        let wrong = |error: &dyn std::fmt::Display| format!("{id}: a poll at {next}: {error}");
        let records = client.poll_blocking(id, Poll::offset(next).max_bytes(STEP));
        let records = records.map_err(|error| wrong(&error))?;
        if records.is_empty() {
            break;
        }
        for batch in records.batches() {
            let batch = batch.map_err(|error| wrong(&error))?;
            let stored = content.identify(id, batch.bytes());
            let stored = stored.map_err(|unlike| wrong(&format_args!("{unlike:?}")))?;
            let (key, header) = (stored.key, stored.header);
            let (base, time) = (header.base_offset, header.base_timestamp);
            let end = base + u64::from(header.message_count);
            shown.batches.push(Lies { key, base, end, time });
        }
        next = records.next_offset();
    }
    for who in 0..CONSUMERS {
        let stored = client.offset(id, consumer(who)).wait();
        let stored = stored.map_err(|error| format!("{id}: consumer {who}: {error}"))?;
        shown.offsets.extend(stored.map(|offset| (who, offset)));
    }
    Ok(shown)
}
