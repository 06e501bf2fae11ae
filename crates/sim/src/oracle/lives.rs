//! Crashes and openings: what must have survived, and what must never come back.

use corelog_storage::{Ack, Watermarks};

use super::{Broken, Fate, Oracle};

/// How a life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The process died.
    Kill,
    /// The power failed.
    PowerCut,
}

/// What an opening told about what was lost.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Openness {
    /// Batches that were answered and that the crash was allowed to take.
    pub(crate) answered_lost: u64,
    /// Stored offsets that may have been above the end, and were put down to it.
    pub(crate) put_down: u64,
}

impl Oracle {
    /// The life ends.
    pub(crate) fn crashed(&mut self, crash: Crash) {
        if crash == Crash::PowerCut {
            self.safe_from_kill = self.safe_from_cut;
        }
        self.flushed = [0; 2];
        self.consumers.crashed();
    }

    /// The partition was closed in order, after so many calls.
    pub(crate) fn closed(&mut self, calls: usize) {
        self.flushed(Ack::Durable, calls);
        self.consumers.closed();
    }

    /// Which life of the partition's id this is.
    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The id is about to be opened in this life. With a new one everything begins anew: nothing that
    /// was sent before may ever be seen again.
    pub(crate) fn life_is(&mut self, incarnation: u64) {
        if incarnation == self.incarnation {
            return;
        }
        self.sent.iter_mut().for_each(|sent| sent.fate = Fate::Nowhere);
        *self = Oracle {
            incarnation,
            sent: std::mem::take(&mut self.sent),
            calls: self.calls,
            first_call: self.calls,
            life_call: self.calls,
            ..Oracle::new(self.partition_id, self.enforce_fsync)
        };
    }

    /// True where the batch was sent to a life of the id that is over.
    pub(super) fn is_over(&self, call: usize) -> bool {
        self.sent[call].order < self.life_call
    }

    /// Whether a log may end there when it is opened.
    pub(super) fn check_end(&self, end: u64) -> Result<(), Broken> {
        let owed = self.damage.owed(self.safe_from_kill);
        if end < owed {
            return Err(format!("the log ends at {end}, but everything below {owed} was promised"));
        }
        Ok(())
    }

    /// The partition was opened and stands at `marks`.
    /// Stored offsets are in doubt where they are `lost`.
    pub(crate) fn opened(
        &mut self,
        marks: Watermarks,
        lost: bool,
        latest_us: u64,
    ) -> Result<Openness, Broken> {
        let end = marks.appended();
        self.check_end(end)?;
        let mut openness = Openness::default();
        if let Some((base, entry)) = self.log.range(..end).next_back()
            && entry.end > end
            && !self.damage.has_any()
        {
            return Err(format!("the log ends at {end}, within batch {} at {base}", entry.call));
        }
        for (_, entry) in self.log.split_off(&end) {
            self.sent[entry.call].fate = Fate::Nowhere;
            openness.answered_lost += 1;
        }
        self.safe_from_kill = self.safe_from_kill.min(end);
        self.safe_from_cut = self.safe_from_cut.min(end);
        openness.put_down = self.consumers.opened(end, lost, latest_us);
        self.barrier_may_rise();
        self.watermarks(marks, 0, latest_us)?;
        self.opening_is_over();
        self.opened_at = end;
        self.first_call = self.calls;
        self.time_at_opening = self.time_max;
        self.flushed = [0; 2];
        Ok(openness)
    }

    /// Everything from `start` to `end` was polled: what was sent before the
    /// opening and not seen is gone for good.
    pub(crate) fn read_whole(&mut self, start: u64, end: u64) -> Result<(), Broken> {
        let mut next = start;
        for (base, entry) in self.log.range(start..end) {
            if *base != next && !self.explains_hole(next, *base) {
                return Err(format!("offsets {next} to {base} are missing"));
            }
            next = entry.end;
        }
        if next < end && !self.explains_hole(next, end) {
            return Err(format!("offsets {next} to {end} are missing"));
        }
        if self.damage.has_any() {
            return Ok(());
        }
        for sent in self.sent.iter_mut().filter(|sent| sent.order < self.first_call) {
            if sent.fate == Fate::Unknown {
                sent.fate = Fate::Nowhere;
            }
        }
        Ok(())
    }
}
