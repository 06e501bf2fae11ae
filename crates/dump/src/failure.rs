//! What stops the work on one file, or all of it. Damage in a file is a result, not a failure.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why something could not be done. Each message names the path and what to do.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The operating system refused an operation on a file or directory.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried, as a verb: "open", "read".
        doing: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// A path that is not what the command works on.
    NotOurs {
        /// The path as it was named.
        path: PathBuf,
        /// What it is, and what would be right.
        why: String,
    },
    /// The file became shorter than it was when it was opened.
    Shrank {
        /// The file.
        path: PathBuf,
        /// Its length at open.
        was: u64,
        /// Where a read found its end.
        ends: u64,
    },
    /// A command that was to be fed did not start or did not succeed.
    Command {
        /// As it was given to the shell.
        command: String,
        /// What happened.
        why: String,
    },
    /// Standard input cannot be read.
    Input(io::Error),
    /// Standard output broke. A closed pipe is success and ends the process quietly.
    Stream(io::Error),
}

impl Failure {
    /// An operating system's refusal, to be used with `map_err`.
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Failure {
        let path = path.to_path_buf();
        move |source| Failure::Io { path, doing, source }
    }

    /// A path that the command does not work on.
    pub(crate) fn not_ours(path: &Path, why: impl Into<String>) -> Failure {
        Failure::NotOurs { path: path.to_path_buf(), why: why.into() }
    }

    /// The same failure once more, for another who has to be told.
    pub(crate) fn again(&self) -> Failure {
        let same = |error: &io::Error| match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        match self {
            Failure::Io { path, doing, source } => {
                Failure::Io { path: path.clone(), doing, source: same(source) }
            }
            Failure::NotOurs { path, why } => {
                Failure::NotOurs { path: path.clone(), why: why.clone() }
            }
            Failure::Shrank { path, was, ends } => {
                Failure::Shrank { path: path.clone(), was: *was, ends: *ends }
            }
            Failure::Command { command, why } => {
                Failure::Command { command: command.clone(), why: why.clone() }
            }
            Failure::Input(source) => Failure::Input(same(source)),
            Failure::Stream(source) => Failure::Stream(same(source)),
        }
    }

    /// The file or directory that it is about.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Failure::Io { path, .. }
            | Failure::NotOurs { path, .. }
            | Failure::Shrank { path, .. } => Some(path),
            Failure::Command { .. } | Failure::Input(_) | Failure::Stream(_) => None,
        }
    }

    /// True where the file is simply not there (any more).
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Failure::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Failures of writing to standard output, so that `?` works in everything that prints.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Stream(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Io { path, doing, source } => {
                write!(f, "{}: cannot {doing}: {source}", Shown(path))
            }
            Failure::NotOurs { path, why } => write!(f, "{}: {why}", Shown(path)),
            Failure::Shrank { path, was, ends } => write!(
                f,
                "{}: the file shrank from {was} to {ends} bytes while it was read; an engine may \
                 have cut it, run the command again",
                Shown(path)
            ),
            Failure::Command { command, why } => write!(f, "--pipe {command:?}: {why}"),
            Failure::Input(source) => write!(f, "cannot read standard input: {source}"),
            Failure::Stream(source) => write!(f, "cannot write the output: {source}"),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Io { source, .. } | Failure::Input(source) | Failure::Stream(source) => {
                Some(source)
            }
            Failure::NotOurs { .. } | Failure::Shrank { .. } | Failure::Command { .. } => None,
        }
    }
}

/// A path for people: control characters are escaped, so that a hostile file name can neither
/// break a line nor drive the terminal.
pub(crate) struct Shown<'a>(pub(crate) &'a Path);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string_lossy().chars() {
            if c.is_control() {
                write!(f, "{}", c.escape_default())?;
            } else {
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_drive_the_terminal() {
        let shown = Shown(Path::new("a\u{1b}[2J\nb\u{9b}é")).to_string();
        assert_eq!(shown, "a\\u{1b}[2J\\nb\\u{9b}é");
    }
}
