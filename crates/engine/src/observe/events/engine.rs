//! Events of the engine as a whole: its life, its clock, its catalog, panics.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use corelog_io::IoError;

use super::disk::millis;
use super::{Events, tell};
use crate::builder::OpenSummary;
use crate::error::{CatalogError, CloseError};

impl Events {
    pub(crate) fn engine_opened(&self, shards: usize, summary: &OpenSummary, took: Duration) {
        let (partitions, not_clean) = (summary.partitions, summary.not_clean.len());
        let (direct_io, took_ms) = (!summary.without_direct_io, millis(took));
        tell!(self, "engine_opened", "corelog::engine", INFO,
            { shards, partitions, not_clean, runtime = %summary.runtime, direct_io, took_ms, },
            "the engine is open");
    }

    pub(crate) fn engine_closed(&self, result: &Result<(), CloseError>, took: Duration) {
        let took_ms = millis(took);
        match result {
            Ok(()) => {
                tell!(self, "engine_closed", "corelog::engine", INFO,
                    { took_ms, }, "the engine is closed, in order");
            }
            Err(error) => {
                tell!(self, "engine_closed_badly", "corelog::engine", ERROR,
                    { took_ms, error = %error, }, "the engine is closed, but not in order");
            }
        }
    }

    /// Code on a shard, the embedder's or the engine's own.
    pub(crate) fn task_panicked(&self, shard: usize, message: &str) {
        tell!(self, "task_panicked", "corelog::panic", ERROR,
            { shard, panic = message, }, "a task on a shard panicked, the shard lives");
    }

    pub(crate) fn clock_not_stored(&self, error: &IoError) {
        tell!(self, "clock_not_stored", "corelog::clock", ERROR, { error = %error, },
            "the clock record could not be stored, appends stop when what it allows is used up");
    }

    pub(crate) fn clock_stored_again(&self, failures: u64) {
        tell!(self, "clock_stored_again", "corelog::clock", INFO,
            { failures, }, "the clock record could be stored again");
    }

    pub(crate) fn catalog_failed(&self, path: &Path, error: &impl Display) {
        tell!(self, "catalog_failed", "corelog::catalog", ERROR,
            { path = %path.display(), error = %error, },
            "a change of the catalog failed, its file is written anew");
    }

    pub(crate) fn catalog_renewed(&self, path: &Path) {
        tell!(self, "catalog_renewed", "corelog::catalog", WARN,
            { path = %path.display(), }, "the catalog was written anew, from memory");
    }

    pub(crate) fn catalog_not_renewed(&self, path: &Path, error: &CatalogError) {
        tell!(self, "catalog_not_renewed", "corelog::catalog", ERROR,
            { path = %path.display(), error = %error, },
            "the catalog could not be written anew, the next change tries again");
    }
}
