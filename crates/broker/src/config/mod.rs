//! How an operator says what he wants: flags, variables of the environment, a file.
//!
//! | file | what it is |
//! | --- | --- |
//! | `options` | the table of all options: the one place that knows them |
//! | `kinds` | sizes, times, addresses: text to values and back |
//! | `file` | the file, in TOML: keys and values with their lines |
//! | `flags` | the command line |
//! | `read` | all of them together; what holds, and from where |
//!
//! An option `log_level` is `--log-level` on the command line, `CORELOG_LOG_LEVEL` in the environment
//! and `log_level` in the file. The command line holds before the environment, the environment before
//! the file, the file before the default.

mod file;
mod flags;
mod kinds;
mod options;
mod read;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub use read::read;

use crate::{Config, LogFormat, LogLevel};

/// What a broker process is started with.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The broker's own.
    pub broker: Config,
    /// Which events are logged.
    pub log_level: LogLevel,
    /// How.
    pub log_format: LogFormat,
    /// Time for connections to finish what they do when the process is asked to stop.
    pub stop_timeout: Duration,
    /// Where each option is from, in the order of the table.
    sources: Vec<Source>,
    /// True where the operator wants to see all this instead of a broker.
    pub print: bool,
}

/// Where the value of an option is from. The last one that has any holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Default,
    File { line: usize },
    Environment,
    CommandLine,
}

/// What an operator said that cannot be.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The command line; also where it asks for help or for the version.
    Flags(Box<clap::Error>),
    /// The file cannot be read, or is no TOML, or has a key or a value that cannot be.
    File {
        /// Which one.
        path: PathBuf,
        /// The line, where it is about one.
        line: Option<usize>,
        /// What is wrong.
        why: String,
    },
    /// A value of a flag or of a variable.
    Value {
        /// The flag or the variable.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// There is no data directory.
    NoData,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Flags(error) => error.fmt(f),
            ConfigError::File { path, line: Some(line), why } => {
                write!(f, "{}:{line}: {why}", path.display())
            }
            ConfigError::File { path, line: None, why } => write!(f, "{}: {why}", path.display()),
            ConfigError::Value { name, why } => write!(f, "{name}: {why}"),
            ConfigError::NoData => f.write_str(
                "no data directory: give one by --data, by CORELOG_DATA, or by data in the file of \
                 --config",
            ),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConfigError::Flags(error) => Some(error),
            _ => None,
        }
    }
}
