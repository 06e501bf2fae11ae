//! How long opening takes, and that what was answered is there.

use std::fs;
use std::time::Instant;

use super::{Outcome, Runner, State, uninterrupted};
use crate::account::Meter;
use crate::crash::{self, Appender, Killed};
use crate::phases::moved::Moved;
use crate::run_error::RunError;
use crate::subject::Opener;

impl<O: Opener> Runner<'_, O> {
    /// Opening after a clean close, then after a kill of another process that appended.
    pub(super) fn opening(
        &self,
        state: &mut State<O::Engine>,
        outcome: &mut Outcome,
    ) -> Result<(), RunError> {
        self.close(state)?;
        self.open_timed(state, outcome, "open_clean", false)?;
        self.close(state)?;
        let appender = Appender {
            settings: self.settings,
            data: &state.dir,
            round: state.number,
            batches: self.plan.timed_batches(),
            // In the midst of its appends.
            kill_after: self.plan.timed_batches().div_ceil(4),
        };
        let Killed { acked } = appender.run_and_kill(&state.sent, self.interrupt)?;
        self.open_timed(state, outcome, "open_killed", true)?;
        let stage = self.stage(state.number, &self.content);
        let engine = state.engine.as_ref().expect("opened before");
        let found = crash::check(engine, stage, &acked, self.settings.partitions)?;
        state.sent = found.sent;
        Ok(())
    }

    fn open_timed(
        &self,
        state: &mut State<O::Engine>,
        outcome: &mut Outcome,
        name: &str,
        after_kill: bool,
    ) -> Result<(), RunError> {
        self.place.settle()?;
        let read_before = bytes_read();
        let meter = Meter::start(self.place.path());
        let start = Instant::now();
        state.engine = Some(self.opened(&state.dir, after_kill)?);
        let mut moved = Moved::new(start);
        let bytes = bytes_read().saturating_sub(read_before);
        moved.record_whole(bytes, Instant::now());
        let used = meter.stop();
        self.place.settle()?;
        let bytes = bytes.max(4096);
        let shape = self.settings.shape;
        let ring = self.ceiling.write_once(bytes, shape).and_then(|_| {
            let read = self.ceiling.read_once(bytes, shape)?;
            Ok(read.elapsed.as_secs_f64() * 1e3)
        });
        self.add(outcome, name, (moved, used), uninterrupted(ring)?);
        Ok(())
    }
}

/// Bytes that this process has read from the device so far; 0 where the kernel does not count.
fn bytes_read() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}
