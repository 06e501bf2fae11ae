//! Why a run could not be finished, and what its exit status says about it.

use std::fmt;

use corelog_format::BuildError;

use crate::ceiling::{CeilingError, Step};
use crate::check::Mismatch;
use crate::interrupt::Interrupted;
use crate::place::PlaceError;
use crate::subject::EngineError;

/// A run that could not be finished.
#[derive(Debug)]
pub(crate) enum RunError {
    /// The messages cannot be made into batches.
    Content(BuildError),
    /// The directory.
    Place(PlaceError),
    /// The raw ring.
    Ceiling(CeilingError),
    /// The engine refused or failed.
    Engine { doing: String, source: EngineError },
    /// The bytes that came back are not the ones that were sent.
    Mismatch(Mismatch),
    /// The user stopped it.
    Interrupted,
}

impl RunError {
    /// True when the user ended it: not a fault.
    pub(crate) fn is_interrupt(&self) -> bool {
        match self {
            RunError::Interrupted => true,
            RunError::Ceiling(error) => error.step == Step::Interrupted,
            _ => false,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Content(error) => write!(f, "building batches: {error}"),
            RunError::Place(error) => error.fmt(f),
            RunError::Ceiling(error) => write!(f, "the ceiling: {error}"),
            RunError::Engine { doing, source } => write!(f, "{doing}: {source}"),
            RunError::Mismatch(mismatch) => write!(f, "bytes differ: {mismatch}"),
            RunError::Interrupted => write!(f, "stopped"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<BuildError> for RunError {
    fn from(error: BuildError) -> RunError {
        RunError::Content(error)
    }
}

impl From<PlaceError> for RunError {
    fn from(error: PlaceError) -> RunError {
        RunError::Place(error)
    }
}

impl From<CeilingError> for RunError {
    fn from(error: CeilingError) -> RunError {
        RunError::Ceiling(error)
    }
}

impl From<Mismatch> for RunError {
    fn from(mismatch: Mismatch) -> RunError {
        RunError::Mismatch(mismatch)
    }
}

impl From<Interrupted> for RunError {
    fn from(_: Interrupted) -> RunError {
        RunError::Interrupted
    }
}
