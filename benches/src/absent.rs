//! Stands where the engine will be: `run` is built and tested against the seam, and says so.

use std::convert::Infallible;
use std::future::{Future, Ready};
use std::path::Path;

use bytes::Bytes;

use crate::subject::{Demand, Engine, EngineError, Opener, Records, Topic};

/// Opens nothing.
pub(crate) struct Absent;

/// Cannot exist.
pub(crate) struct Never(Infallible);

impl Opener for Absent {
    type Engine = Never;

    fn open(&self, _: &Path, _: Demand) -> Result<Never, EngineError> {
        Err("this build has no engine; `corelog-bench ceiling` measures the disk alone".into())
    }
}

impl Engine for Never {
    type Records = Never;

    fn append(
        &self,
        _: Topic,
        _: u32,
        _: Bytes,
    ) -> impl Future<Output = Result<(), EngineError>> + Send {
        self.never::<()>()
    }

    fn poll(
        &self,
        _: Topic,
        _: u32,
        _: u64,
        _: usize,
    ) -> impl Future<Output = Result<Never, EngineError>> + Send {
        self.never::<Never>()
    }

    fn close(self) -> Result<(), EngineError> {
        match self.0 {}
    }
}

impl Never {
    fn never<T>(&self) -> Ready<Result<T, EngineError>> {
        match self.0 {}
    }
}

impl Records for Never {
    fn slices(&self) -> &[Bytes] {
        match self.0 {}
    }

    fn next_offset(&self) -> u64 {
        match self.0 {}
    }
}
