//! What a process did and was answered, as lines that it writes while it may die.
//!
//! One event, one line, one write: a pipe has a line whole or not at all, and what was written
//! before the end of the process is in the pipe. `offered` is written before its call, so a batch
//! that could be stored is known; answers are written after they came, so what is there was
//! promised.
//!
//! ```text
//! 1700000000000000 offered 0/1/2 3 4294967296 written
//! 1700000000000250 acked 0/1/2 3 4294967296 written 17 2 1700000000000100
//! ```
//!
//! The first number is the time (microseconds since the Unix epoch, which all processes of a
//! machine share), `0/1/2` is stream, topic and partition, then come producer and number, and an
//! answer's base offset, message count and base timestamp.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;
use std::time::SystemTime;

use corelog::{Ack, Appended, PartitionId};

use crate::changes::{Change, Found, found, found_words};
use crate::content::BatchKey;

/// Something that happened in the process under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The engine is about to be opened.
    Opening,
    /// It is open, and this partition's log ends here: nothing of this life is in it yet.
    Recovered {
        /// Where.
        partition: PartitionId,
        /// One past its last offset.
        end: u64,
    },
    /// It is open for everyone.
    Opened,
    /// A batch is about to be offered: from now on it may be stored.
    Offered {
        /// Where.
        partition: PartitionId,
        /// Which.
        key: BatchKey,
        /// The level that is asked for.
        level: Ack,
    },
    /// The answer to it.
    Acked {
        /// Where.
        partition: PartitionId,
        /// Which.
        key: BatchKey,
        /// The level that was asked for.
        level: Ack,
        /// What was answered.
        appended: Appended,
    },
    /// The batch was refused in a way that says that it is not stored. It may be offered again.
    Refused {
        /// Where.
        partition: PartitionId,
        /// Which.
        key: BatchKey,
    },
    /// The batch was answered with an error that leaves it open whether it is stored.
    Failed {
        /// Where.
        partition: PartitionId,
        /// Which.
        key: BatchKey,
    },
    /// A flush or a watermark said that everything below `end` has reached `level`.
    Reached {
        /// Where.
        partition: PartitionId,
        /// One past the last offset that has.
        end: u64,
        /// The level.
        level: Ack,
    },
    /// A poll has served everything below `end`.
    Served {
        /// Where.
        partition: PartitionId,
        /// One past the last offset that was served.
        end: u64,
    },
    /// Something is about to be changed in the stream of changes.
    Changing(Change),
    /// It was done.
    Changed {
        /// What.
        change: Change,
        /// The first retained offset behind it, where segments were deleted.
        start: u64,
    },
    /// All that an engine shows of that stream: nothing of this life is in it yet.
    Found(Found),
    /// The same to somebody who knows nothing of it.
    Told(Found),
    /// The engine is about to be closed.
    Closing,
    /// It is closed, in order.
    Closed,
    /// The process itself saw a promise broken.
    Broken(String),
}

/// An event and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Before the call of what is offered, after the answer of what was answered; microseconds
    /// since the Unix epoch.
    pub at_us: u64,
    /// What happened.
    pub event: Event,
}

/// The entries of one life of a process, in the order in which they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// The entries.
    pub entries: Vec<Entry>,
}

/// A line that is none of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoEntry {
    /// The line.
    pub line: String,
}

/// The time now, as entries have it.
pub fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_micros() as u64)
}

impl Event {
    /// Writes this event with the time of now to `out`, in one write.
    ///
    /// # Errors
    /// As writing.
    pub fn write(self, out: &mut impl Write) -> io::Result<()> {
        let line = format!("{}\n", Entry { at_us: now_us(), event: self });
        out.write_all(line.as_bytes())
    }

    /// [`Event::write`] to the standard output, for whoever watches this process. Where nobody
    /// does any more, the process ends.
    pub fn print(self) {
        if self.write(&mut io::stdout().lock()).is_err() {
            std::process::exit(1);
        }
    }
}

impl Ledger {
    /// The entries in `text`. A last line without its end is left out: it was being written when
    /// the process died.
    ///
    /// # Errors
    /// The first line that is no entry.
    pub fn parse(text: &str) -> Result<Ledger, NoEntry> {
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let entries = whole.lines().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Ledger { entries })
    }

    /// What had happened by `at_us`: what a crash at that time must be judged by.
    #[must_use]
    pub fn until(&self, at_us: u64) -> Ledger {
        let entries = self.entries.iter().filter(|entry| entry.at_us <= at_us).cloned().collect();
        Ledger { entries }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of, name) = (partition_name, level_name);
        write!(f, "{} ", self.at_us)?;
        match &self.event {
            Event::Opening => f.write_str("opening"),
            Event::Opened => f.write_str("opened"),
            Event::Offered { partition, key, level } => {
                let (level, BatchKey { producer, number }) = (name(*level), key);
                write!(f, "offered {} {producer} {number} {level}", of(partition))
            }
            Event::Acked { partition, key, level, appended } => {
                let (level, BatchKey { producer, number }) = (name(*level), key);
                let Appended { base_offset, base_timestamp, message_count } = appended;
                write!(f, "acked {} {producer} {number} {level} ", of(partition))?;
                write!(f, "{base_offset} {message_count} {base_timestamp}")
            }
            Event::Refused { partition, key: BatchKey { producer, number } } => {
                write!(f, "refused {} {producer} {number}", of(partition))
            }
            Event::Failed { partition, key: BatchKey { producer, number } } => {
                write!(f, "failed {} {producer} {number}", of(partition))
            }
            Event::Reached { partition, end, level } => {
                write!(f, "reached {} {end} {}", of(partition), name(*level))
            }
            Event::Recovered { partition, end } => {
                write!(f, "recovered {} {end}", of(partition))
            }
            Event::Served { partition, end } => write!(f, "served {} {end}", of(partition)),
            Event::Changing(change) => write!(f, "changing {change}"),
            Event::Changed { change, start } => write!(f, "changed {start} {change}"),
            Event::Found(found) => write!(f, "found{}", found_words(found)),
            Event::Told(found) => write!(f, "told{}", found_words(found)),
            Event::Closing => f.write_str("closing"),
            Event::Closed => f.write_str("closed"),
            Event::Broken(what) => write!(f, "broken {}", what.replace('\n', " | ")),
        }
    }
}

impl FromStr for Entry {
    type Err = NoEntry;

    fn from_str(line: &str) -> Result<Entry, NoEntry> {
        parse(line).ok_or_else(|| NoEntry { line: line.to_owned() })
    }
}

fn parse(line: &str) -> Option<Entry> {
    let (at_us, rest) = line.split_once(' ')?;
    let at_us = at_us.parse().ok()?;
    let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    if verb == "broken" {
        return Some(Entry { at_us, event: Event::Broken(rest.to_owned()) });
    }
    let mut words = rest.split(' ').filter(|word| !word.is_empty());
    let event = match verb {
        "opening" => Event::Opening,
        "opened" => Event::Opened,
        "closing" => Event::Closing,
        "closed" => Event::Closed,
        "changing" => Event::Changing(Change::parse(&mut words)?),
        "changed" => {
            let start = words.next()?.parse().ok()?;
            Event::Changed { change: Change::parse(&mut words)?, start }
        }
        "found" => Event::Found(found(&mut words)?),
        "told" => Event::Told(found(&mut words)?),
        _ => about(verb, partition(words.next()?)?, &mut words)?,
    };
    words.next().is_none().then_some(Entry { at_us, event })
}

/// An event about a partition.
fn about<'a>(
    verb: &str,
    partition: PartitionId,
    words: &mut impl Iterator<Item = &'a str>,
) -> Option<Event> {
    fn number<'a, T: FromStr>(words: &mut impl Iterator<Item = &'a str>) -> Option<T> {
        words.next()?.parse().ok()
    }
    if let "recovered" | "served" | "reached" = verb {
        let end = number(words)?;
        return match verb {
            "recovered" => Some(Event::Recovered { partition, end }),
            "served" => Some(Event::Served { partition, end }),
            _ => Some(Event::Reached { partition, end, level: level(words.next()?)? }),
        };
    }
    let key = BatchKey { producer: number(words)?, number: number(words)? };
    match verb {
        "offered" => Some(Event::Offered { partition, key, level: level(words.next()?)? }),
        "refused" => Some(Event::Refused { partition, key }),
        "failed" => Some(Event::Failed { partition, key }),
        "acked" => {
            let level = level(words.next()?)?;
            let (base_offset, message_count) = (number(words)?, number(words)?);
            let appended = Appended { base_offset, message_count, base_timestamp: number(words)? };
            Some(Event::Acked { partition, key, level, appended })
        }
        _ => None,
    }
}

/// A partition in a line: stream, topic and partition.
pub(crate) fn partition_name(id: &PartitionId) -> String {
    format!("{}/{}/{}", id.stream, id.topic, id.partition)
}

/// Reads [`partition_name`]; `None`: something else.
pub(crate) fn partition(word: &str) -> Option<PartitionId> {
    let mut ids = word.split('/').map(|id| id.parse().ok());
    let id = PartitionId::new(ids.next()??, ids.next()??, ids.next()??);
    ids.next().is_none().then_some(id)
}

/// An ack in a line.
pub(crate) fn level_name(level: Ack) -> &'static str {
    match level {
        Ack::Appended => "appended",
        Ack::Written => "written",
        Ack::Durable => "durable",
    }
}

/// Reads [`level_name`]; `None`: something else.
pub(crate) fn level(word: &str) -> Option<Ack> {
    [Ack::Appended, Ack::Written, Ack::Durable].into_iter().find(|level| level_name(*level) == word)
}

impl fmt::Display for NoEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no entry of a ledger: {:?}", self.line)
    }
}

impl std::error::Error for NoEntry {}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Event> {
        let (partition, key) = (PartitionId::new(0, 1, 2), BatchKey::new(3, 1, 7));
        let appended = Appended { base_offset: 17, base_timestamp: 99, message_count: 2 };
        let level = Ack::Durable;
        vec![
            Event::Opening,
            Event::Recovered { partition, end: 17 },
            Event::Opened,
            Event::Offered { partition, key, level: Ack::Appended },
            Event::Acked { partition, key, level: Ack::Written, appended },
            Event::Refused { partition, key },
            Event::Failed { partition, key },
            Event::Reached { partition, end: 19, level },
            Event::Served { partition, end: 19 },
            Event::Changing(Change::Purge { topic: 3 }),
            Event::Changed { change: Change::Trim { partition, count: 1 }, start: 17 },
            Event::Found(Found::default()),
            Event::Told(Found::default()),
            Event::Closing,
            Event::Closed,
            Event::Broken("it said 1, not 2".to_owned()),
        ]
    }

    #[test]
    fn every_event_comes_back_and_a_cut_line_is_left_out() {
        let mut text = Vec::new();
        for event in all() {
            event.write(&mut text).expect("memory takes it");
        }
        let text = String::from_utf8(text).expect("it is text");
        let events = |text: &str| -> Vec<Event> {
            let ledger = Ledger::parse(text).expect("these are entries");
            ledger.entries.into_iter().map(|entry| entry.event).collect()
        };
        assert_eq!(events(&text), all());
        for end in 0..text.len() {
            let whole = text[..end].matches('\n').count();
            assert_eq!(events(&text[..end]), all()[..whole], "cut at {end}");
        }
    }

    #[test]
    fn lines_that_say_something_else_are_refused() {
        for line in ["", "x opened", "1 offered", "1 acked 0/1 1 1 written 1 1 1", "1 opened 2"] {
            let error = Ledger::parse(&format!("{line}\n")).expect_err(line);
            assert_eq!(error.line, line);
        }
    }

    #[test]
    fn a_crash_is_judged_by_what_came_before_it() {
        let entries = (0..5).map(|at_us| Entry { at_us, event: Event::Opened }).collect();
        assert_eq!(Ledger { entries }.until(2).entries.len(), 3);
    }
}
