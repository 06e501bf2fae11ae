//! Where the log begins: what may move that, and what must not.
//!
//! | the contract | here |
//! | --- | --- |
//! | the first retained offset never goes back, whatever crashes | [`Oracle::check_start`] |
//! | it moves to where a batch begins, and only where somebody asked for that | [`Oracle::check_start`] |
//! | retention and deletions stop at the lowest offset that anybody has stored | [`Oracle::barrier_may_rise`] |
//! | by age goes what is old, by size what is too much | `check_rule` |

use corelog_storage::Retention;

use super::{Broken, Fate, Oracle};

/// Who may move the start, and how far.
#[derive(Debug, Default)]
pub(super) struct Retained {
    /// As it was told last.
    pub(super) start: u64,
    /// The highest offset below which a trim was asked to drop what it can.
    trim_most: u64,
    /// Segments were to be deleted by count.
    deletes: bool,
    /// The rule that was in force, if any.
    rule: Option<Retention>,
    /// The highest that the lowest stored offset may have been since nobody was about to move the
    /// start; `None` where perhaps nobody had stored one.
    barrier: Option<u64>,
}

impl Oracle {
    /// A trim up to this offset is asked for: from now on the log may begin later.
    pub(crate) fn trim_asked(&mut self, up_to: u64) {
        self.retained.trim_most = self.retained.trim_most.max(up_to);
    }

    /// Segments are to be deleted by count.
    pub(crate) fn deletion_asked(&mut self) {
        self.retained.deletes = true;
    }

    /// This rule is in force from now on.
    pub(crate) fn rule_is(&mut self, rule: Retention) {
        self.retained.rule = Some(rule);
    }

    /// Nobody is about to move the start: what consumers had stored before does not matter.
    pub(crate) fn start_rests(&mut self) {
        self.retained.barrier = self.consumers.lowest_at_most();
    }

    /// The lowest stored offset may have become another one.
    pub(super) fn barrier_may_rise(&mut self) {
        self.retained.barrier = match (self.retained.barrier, self.consumers.lowest_at_most()) {
            (Some(before), Some(now)) => Some(before.max(now)),
            _ => None,
        };
    }

    /// A trim or a deletion has ended: the start is durable.
    pub(crate) fn trimmed(&mut self, start: u64, latest_us: u64) -> Result<(), Broken> {
        self.check_start(start, latest_us)
    }

    /// Whether the message at `offset` may have been let go: it lies below the start, or a step that
    /// moves that may have been cut short.
    pub(crate) fn may_be_trimmed(&self, offset: u64) -> bool {
        let Retained { start, trim_most, deletes, rule, .. } = self.retained;
        offset < start.max(trim_most) || deletes || rule.is_some()
    }

    /// The manifest is lost, and files of segments that were dropped are there again: the log may seem
    /// to begin at any of them, with a hole at `offset`.
    pub(crate) fn start_is_lost(&mut self, offset: u64) {
        self.retained.start = 0;
        // Whatever stands before it may be missing in part.
        for segment in self.damage.segments_to(offset) {
            self.harmed(segment, 0..u64::MAX);
        }
    }

    /// Where it begins, as it was told last.
    pub(crate) fn start(&self) -> u64 {
        self.retained.start
    }

    /// Whether a batch may begin at `start`: one that is known to, or one of an earlier life whose append
    /// was never answered, and that nobody has read since.
    fn may_begin_at(&self, start: u64) -> bool {
        let before = self.log.range(..start).next_back();
        let is_gap = before.is_none_or(|(_, entry)| entry.end <= start);
        let is_open = self.sent.iter().any(|sent| sent.fate == Fate::Unknown);
        self.log.contains_key(&start) || is_gap && is_open
    }

    /// The log is told to begin at `start`. No clock was ever beyond `latest_us`.
    pub(super) fn check_start(&mut self, start: u64, latest_us: u64) -> Result<(), Broken> {
        let least = self.retained.start;
        if start < least {
            return Err(format!("the log begins at {start}, but it began at {least} before"));
        }
        if start == least {
            return Ok(());
        }
        if start < self.known_end() && !self.may_begin_at(start) && !self.damage.has_any() {
            return Err(format!("the log was trimmed to {start}, where no batch begins"));
        }
        if start > self.retained.trim_most {
            let Retained { deletes, rule, barrier, .. } = self.retained;
            if !deletes && rule.is_none() {
                return Err(format!("the log begins at {start}, and nobody asked for that"));
            }
            if let Some(barrier) = barrier
                && start > barrier.saturating_add(1)
            {
                return Err(format!(
                    "the log begins at {start}, but somebody has read only up to {barrier}"
                ));
            }
            if let (Some(rule), false) = (rule, deletes) {
                self.check_rule(rule, least, start, latest_us)?;
            }
        }
        self.retained.start = start;
        Ok(())
    }

    /// What stood from `from` to `start` was old, or too much.
    fn check_rule(
        &self,
        rule: Retention,
        from: u64,
        start: u64,
        latest_us: u64,
    ) -> Result<(), Broken> {
        // What lay below was asked to go, whatever its age.
        let trimmed = from.max(self.retained.trim_most);
        let young = rule.expiry.and_then(|expiry| {
            let expiry_us = expiry.as_micros() as u64;
            let mut gone = self.log.range(trimmed.min(start)..start);
            gone.find(|(_, entry)| entry.time.saturating_add(expiry_us) > latest_us)
        });
        let is_old = rule.expiry.is_some() && young.is_none();
        let bytes = |call: usize| self.sent[call].batch.bytes.len() as u64;
        let known: u64 = self.log.range(from..).map(|(_, entry)| bytes(entry.call)).sum();
        let unknown = (0..self.sent.len()).filter(|call| self.sent[*call].fate == Fate::Unknown);
        let most = known + unknown.map(bytes).sum::<u64>();
        let is_much = rule.sealed_bytes.is_some_and(|budget| most > budget);
        if is_old || is_much || self.damage.has_any() {
            return Ok(());
        }
        Err(format!(
            "the log was trimmed to {start} by {rule:?}, but {young:?} is young, and there were \
             {most} bytes at most"
        ))
    }

    /// Sealed segments that must be gone by now, of these, which are their first offsets and
    /// lengths with the active one last: `now_us` is well behind the last pass.
    pub(crate) fn overdue(&self, segments: &[(u64, u64)], now_us: u64) -> Option<u64> {
        let rule = self.retained.rule?;
        if self.damage.has_any() {
            return None;
        }
        let first = segments.first().filter(|_| segments.len() > 1)?.0;
        let end = segments[1].0;
        let lowest = self.consumers.lowest_at_least();
        if lowest.is_some_and(|lowest| end > lowest + 1) {
            return None;
        }
        let last = self.log.range(first..end).next_back().filter(|(_, last)| last.end == end);
        let is_old = rule.expiry.is_some_and(|expiry| {
            last.is_some_and(|(_, last)| last.time + (expiry.as_micros() as u64) < now_us)
        });
        let sealed: u64 = segments[..segments.len() - 1].iter().map(|(_, len)| len).sum();
        let is_much = rule.sealed_bytes.is_some_and(|budget| sealed > budget);
        (is_old || is_much).then_some(first)
    }
}
