//! Why the shards could not be started.

use std::fmt;
use std::io;
use std::time::Duration;

use super::direct::DirectIoError;
use super::uring::UringError;

/// The runtime did not start; nothing of it is left behind.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// io_uring is missing, blocked or limited.
    Uring(UringError),
    /// The data directory refuses the probe.
    DirectIo(DirectIoError),
    /// The CPUs that the process may use cannot be told.
    Cpus(io::Error),
    /// A thread could not be started.
    Thread(io::Error),
    /// An executor could not be made.
    Executor(io::Error),
    /// A shard's thread ended before it was ready.
    Lost {
        /// The shard's number.
        shard: usize,
        /// What is known of its end.
        why: String,
    },
    /// A shard's thread did not become ready, nor did those that were started in its place.
    NotReady {
        /// The shard's number.
        shard: usize,
        /// How long it was waited for them.
        waited: Duration,
    },
}

impl From<UringError> for StartError {
    fn from(error: UringError) -> Self {
        StartError::Uring(error)
    }
}

impl From<DirectIoError> for StartError {
    fn from(error: DirectIoError) -> Self {
        StartError::DirectIo(error)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Uring(error) => error.fmt(f),
            StartError::DirectIo(error) => error.fmt(f),
            StartError::Cpus(error) => write!(f, "cannot read the CPU affinity: {error}"),
            StartError::Thread(error) => write!(f, "cannot start a thread: {error}"),
            StartError::Executor(error) => {
                write!(f, "cannot start a shard's executor: {error}")?;
                advise(f, &error.to_string())
            }
            StartError::Lost { shard, why } => {
                write!(f, "the thread of shard {shard} ended before it was ready: {why}")?;
                advise(f, why)
            }
            StartError::NotReady { shard, waited } => write!(
                f,
                "shard {shard} was not ready after {} s: the machine is overloaded, or it takes fewer \
                 shards, or less registered memory for each",
                waited.as_secs()
            ),
        }
    }
}

/// What helps where descriptors ran out. By the text: where it happens inside of glommio, a panic with
/// this text is all there is.
fn advise(f: &mut fmt::Formatter<'_>, cause: &str) -> fmt::Result {
    match cause.contains("(os error 24)") || cause.contains("(os error 23)") {
        true => f.write_str("; raise RLIMIT_NOFILE (ulimit -n), or start fewer shards"),
        false => Ok(()),
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StartError::Uring(error) => Some(error),
            StartError::DirectIo(error) => Some(error),
            StartError::Cpus(error) | StartError::Thread(error) | StartError::Executor(error) => {
                Some(error)
            }
            StartError::Lost { .. } | StartError::NotReady { .. } => None,
        }
    }
}
