//! Why the shards could not be started.

use std::fmt;
use std::io;

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
    /// A shard thread ended before it was ready.
    Lost,
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
            StartError::Executor(error) => write!(f, "cannot start a shard's executor: {error}"),
            StartError::Lost => f.write_str("a shard's thread ended before it was ready"),
        }
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
            StartError::Lost => None,
        }
    }
}
