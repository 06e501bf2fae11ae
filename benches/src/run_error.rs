//! Why a run could not be finished, and what its exit status says about it.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;

use corelog_format::BuildError;
use rustix::io::Errno;

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
    /// The engine could not be opened, or the user stopped that.
    pub(crate) fn opening(dir: &Path, source: EngineError) -> RunError {
        if source.is::<Interrupted>() {
            return RunError::Interrupted;
        }
        RunError::Engine { doing: format!("opening the engine in {}", dir.display()), source }
    }

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
            RunError::Engine { doing, source } => {
                write!(f, "{doing}: {source}{}", advice(source.as_ref()))
            }
            RunError::Mismatch(mismatch) => write!(f, "bytes differ: {mismatch}"),
            RunError::Interrupted => write!(f, "stopped"),
        }
    }
}

/// What to do about a limit of this process, which the engine may meet at any file.
fn advice(error: &(dyn Error + 'static)) -> &'static str {
    let mut cause = Some(error);
    let mut errno = None;
    while let Some(error) = cause.filter(|_| errno.is_none()) {
        errno = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        cause = error.source();
    }
    match errno.map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => {
            "; raise the limit of open files (`ulimit -n`) or use fewer \
                               --partitions"
        }
        Some(Errno::NOSPC) => {
            "; the disk filled up meanwhile: free some space, lower --total or \
                               name another --dir"
        }
        _ => "",
    }
}

impl Error for RunError {}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opening_that_the_user_stopped_is_no_fault() {
        assert!(RunError::opening(Path::new("/x"), Interrupted.into()).is_interrupt());
        let error = RunError::opening(Path::new("/x"), "no".into());
        assert!(!error.is_interrupt());
        assert_eq!(error.to_string(), "opening the engine in /x: no");
    }

    #[test]
    fn limits_that_the_engine_met_come_with_what_to_do() {
        for (errno, words) in
            [(Errno::MFILE, "`ulimit -n`"), (Errno::NOSPC, "lower --total"), (Errno::IO, "")]
        {
            let source: EngineError = io::Error::from(errno).into();
            let error = RunError::Engine { doing: "appending".to_owned(), source }.to_string();
            assert!(error.starts_with("appending: ") && error.contains(words), "{error}");
            assert_eq!(error.contains("; "), !words.is_empty(), "{error}");
        }
    }
}
