//! Changes, and what was found, as words of a ledger's lines.

use std::fmt;
use std::str::FromStr;

use super::{Change, Found, FoundPartition, FoundTopic, Lies};
use crate::content::BatchKey;
use crate::ledger::{level, level_name, partition, partition_name};

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Create { topic, name, partitions, enforce_fsync } => {
                write!(f, "create {topic} {name} {partitions} {enforce_fsync}")
            }
            Change::Rename { topic, name } => write!(f, "rename {topic} {name}"),
            Change::Purge { topic } => write!(f, "purge {topic}"),
            Change::Delete { topic } => write!(f, "delete {topic}"),
            Change::Add { topic, count } => write!(f, "add {topic} {count}"),
            Change::Remove { topic, count } => write!(f, "remove {topic} {count}"),
            Change::Store { partition, who, offset, level } => {
                let (partition, level) = (partition_name(partition), level_name(*level));
                match offset {
                    Some(offset) => write!(f, "store {partition} {who} {level} {offset}"),
                    None => write!(f, "forget {partition} {who} {level}"),
                }
            }
            Change::Trim { partition, count } => {
                write!(f, "trim {} {count}", partition_name(partition))
            }
        }
    }
}

impl Change {
    /// Reads what is displayed; `None`: something else.
    pub(crate) fn parse<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Change> {
        let verb = words.next()?;
        Some(match verb {
            "create" => Change::Create {
                topic: one(words)?,
                name: one(words)?,
                partitions: one(words)?,
                enforce_fsync: one(words)?,
            },
            "rename" => Change::Rename { topic: one(words)?, name: one(words)? },
            "purge" => Change::Purge { topic: one(words)? },
            "delete" => Change::Delete { topic: one(words)? },
            "add" => Change::Add { topic: one(words)?, count: one(words)? },
            "remove" => Change::Remove { topic: one(words)?, count: one(words)? },
            "store" | "forget" => {
                let (partition, who) = (partition(words.next()?)?, one(words)?);
                let level = level(words.next()?)?;
                let offset = if verb == "store" { Some(one(words)?) } else { None };
                Change::Store { partition, who, offset, level }
            }
            "trim" => Change::Trim { partition: partition(words.next()?)?, count: one(words)? },
            _ => return None,
        })
    }
}

fn one<'a, T: FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Option<T> {
    words.next()?.parse().ok()
}

/// What was found, in words: a mark before each of its parts, so that they can be counted.
pub(crate) fn found_words(found: &Found) -> String {
    let mut text = String::new();
    let mut say = |words: fmt::Arguments<'_>| {
        let _ = fmt::Write::write_fmt(&mut text, words);
    };
    for (topic, FoundTopic { name, enforce_fsync, partitions }) in &found.topics {
        say(format_args!(" topic {topic} {name} {enforce_fsync}"));
        for FoundPartition { start, end, batches, offsets } in partitions {
            say(format_args!(" partition {start} {end}"));
            for Lies { key, base, end, time } in batches {
                let BatchKey { producer, number } = key;
                say(format_args!(" batch {producer} {number} {base} {end} {time}"));
            }
            for (who, offset) in offsets {
                say(format_args!(" stored {who} {offset}"));
            }
        }
    }
    text
}

/// Reads [`found_words`]; `None`: something else.
pub(crate) fn found<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Found> {
    let mut found = Found::default();
    while let Some(mark) = words.next() {
        match mark {
            "topic" => {
                let id = one(words)?;
                let (name, enforce_fsync) = (one(words)?, one(words)?);
                let topic = FoundTopic { name, enforce_fsync, partitions: Vec::new() };
                found.topics.insert(id, topic);
            }
            "partition" => {
                let (start, end) = (one(words)?, one(words)?);
                let partition = FoundPartition { start, end, ..FoundPartition::default() };
                topic_of(&mut found)?.partitions.push(partition);
            }
            "batch" => {
                let key = BatchKey { producer: one(words)?, number: one(words)? };
                let (base, end, time) = (one(words)?, one(words)?, one(words)?);
                let partition = topic_of(&mut found)?.partitions.last_mut()?;
                partition.batches.push(Lies { key, base, end, time });
            }
            "stored" => {
                let (who, offset) = (one(words)?, one(words)?);
                topic_of(&mut found)?.partitions.last_mut()?.offsets.insert(who, offset);
            }
            _ => return None,
        }
    }
    Some(found)
}

/// The topic that is being read: they come by id.
fn topic_of(found: &mut Found) -> Option<&mut FoundTopic> {
    found.topics.values_mut().next_back()
}

#[cfg(test)]
mod tests {
    use corelog::{Ack, PartitionId};

    use super::*;

    #[test]
    fn changes_are_read_as_they_were_written() {
        let partition = PartitionId::new(1, 2, 3);
        let (topic, count, level) = (4, 2, Ack::Written);
        let all = [
            Change::Create { topic, name: 7, partitions: 0, enforce_fsync: true },
            Change::Rename { topic, name: 8 },
            Change::Purge { topic },
            Change::Delete { topic },
            Change::Add { topic, count },
            Change::Remove { topic, count },
            Change::Store { partition, who: 1, offset: Some(9), level },
            Change::Store { partition, who: 1, offset: None, level },
            Change::Trim { partition, count },
        ];
        for change in all {
            let text = change.to_string();
            assert_eq!(Change::parse(&mut text.split(' ')), Some(change), "{text}");
        }
        for other in ["", "create 1", "store 1/2/3 1 written", "trim 1/2 1", "erase 1"] {
            assert_eq!(Change::parse(&mut other.split(' ')), None, "{other}");
        }
    }

    #[test]
    fn what_was_found_is_read_as_it_was_written() {
        let key = BatchKey::new(9, 1, 2);
        let full = FoundPartition {
            start: 3,
            end: 8,
            batches: vec![
                Lies { key, base: 3, end: 5, time: 10 },
                Lies { key: BatchKey::new(9, 1, 3), base: 5, end: 8, time: 11 },
            ],
            offsets: [(0, 4), (2, 7)].into(),
        };
        let partitions = vec![FoundPartition::default(), full];
        let one = FoundTopic { name: 6, enforce_fsync: false, partitions };
        let none = FoundTopic { name: 7, enforce_fsync: true, partitions: Vec::new() };
        for topics in [[].into(), [(2, one.clone())].into(), [(2, one), (5, none)].into()] {
            let world = Found { topics };
            let text = found_words(&world);
            assert_eq!(found(&mut text.split_whitespace()), Some(world), "{text}");
        }
        assert_eq!(found(&mut "partition 1 2".split(' ')), None, "of no topic");
    }
}
