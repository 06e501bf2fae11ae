//! What the operator is told: events for `tracing`, and the subscriber that the program installs.
//!
//! | file | what it is |
//! | --- | --- |
//! | `events` | the broker's own events: names, levels and fields that stay |
//! | `pace` | how many of a kind go out in a second |
//! | `subscriber` | takes the events of the broker and of the engine, and drops what nobody wants |
//! | `line` | one event as text or as JSON |
//! | `writer` | a thread that writes lines, with a bounded queue before it |

mod events;
mod line;
mod pace;
mod subscriber;
mod writer;

use std::fmt;
use std::io;
use std::str::FromStr;

pub(crate) use events::Events;

use subscriber::Lines;
use writer::Writer;

/// Which events are logged: those of this level and of the graver ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What is lost or broken.
    Error,
    /// And what may become so, and clients that were put out.
    Warn,
    /// And what happens in the life of the broker.
    #[default]
    Info,
    /// And what happens often.
    Debug,
    /// All of it.
    Trace,
}

/// What a line of the log looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LogFormat {
    /// For people: time, level, target, event, text, fields.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

const LEVELS: [(&str, LogLevel); 6] = [
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

const FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];

/// A word that is none of those that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownWord {
    known: &'static str,
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected one of {}", self.known)
    }
}

impl std::error::Error for UnknownWord {}

impl FromStr for LogLevel {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<LogLevel, UnknownWord> {
        let found = LEVELS.iter().find(|(name, _)| *name == word).map(|(_, level)| *level);
        found.ok_or(UnknownWord { known: "off, error, warn, info, debug, trace" })
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LEVELS[*self as usize].0)
    }
}

impl FromStr for LogFormat {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<LogFormat, UnknownWord> {
        let found = FORMATS.iter().find(|(name, _)| *name == word).map(|(_, format)| *format);
        found.ok_or(UnknownWord { known: "text, json" })
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(FORMATS[*self as usize].0)
    }
}

/// The log of a process, from [`log_to_stderr`].
#[must_use = "finish it before the process ends, or its last lines are lost"]
pub struct Log {
    writer: Writer,
}

impl Log {
    /// Waits until what was logged so far is written, a second at most.
    pub fn finish(&self) {
        self.writer.flush();
    }
}

/// Writes the events of this process to standard error, from a thread of its own: no shard waits
/// for a terminal or a pipe.
///
/// # Errors
/// There is no thread for it, or the process has a subscriber already.
pub fn log_to_stderr(level: LogLevel, format: LogFormat) -> io::Result<Log> {
    let writer = Writer::start(io::stderr())?;
    let lines = Lines::new(level, format, writer.clone());
    tracing::subscriber::set_global_default(lines).map_err(io::Error::other)?;
    Ok(Log { writer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_both_ways() {
        for (word, level) in LEVELS {
            assert_eq!(word.parse(), Ok(level));
            assert_eq!(level.to_string(), word);
        }
        for (word, format) in FORMATS {
            assert_eq!(word.parse(), Ok(format));
            assert_eq!(format.to_string(), word);
        }
        assert!("loud".parse::<LogLevel>().unwrap_err().to_string().contains("warn"));
        assert!("xml".parse::<LogFormat>().is_err());
    }
}
