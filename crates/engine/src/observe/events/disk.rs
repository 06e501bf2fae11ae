//! Events of file operations.

use std::path::Path;
use std::time::Duration;

use corelog_io::IoOp;

use super::{Events, tell};

impl Events {
    /// An operation has ended that was slow; it may have been told to hang before.
    pub(crate) fn io_slow(
        &self,
        shard: usize,
        op: IoOp,
        path: &Path,
        position: Option<u64>,
        took: Duration,
        hung: bool,
    ) {
        let (op, took_ms) = (op.name(), millis(took));
        tell!(self, "io_slow", "corelog::io", WARN,
            { shard, op, path = %path.display(), position, took_ms, hung, },
            "a file operation was slow");
    }

    pub(crate) fn io_hangs(
        &self,
        shard: usize,
        op: IoOp,
        path: &Path,
        position: Option<u64>,
        since: Duration,
    ) {
        let (op, since_ms) = (op.name(), millis(since));
        tell!(self, "io_hangs", "corelog::io", ERROR,
            { shard, op, path = %path.display(), position, since_ms, },
            "a file operation does not end");
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
