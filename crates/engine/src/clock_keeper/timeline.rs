//! Engine time from system time: never back, and slowly back to the system where it is ahead.

use std::time::Duration;

/// Engine time is system time, unless that is behind what was shown before (a restart after a
/// crash, which begins at the ceiling; a system clock that was set back). Then it goes on at half
/// speed, so that the system catches up, yet every second has room for half a million distinct
/// stamps in each partition.
///
/// Worked example: shown 100.0 s, the system steps back to 90.0 s. One second later (system 91.0)
/// it shows 100.5, after 20 s both show 110.0, and it follows the system again.
#[derive(Debug)]
pub(super) struct Timeline {
    shown_us: u64,
}

impl Timeline {
    /// Starts at `floor_us` or at the system's time, whichever is later.
    pub(super) fn new(floor_us: u64, system_us: u64) -> Timeline {
        Timeline { shown_us: floor_us.max(system_us) }
    }

    /// The time now, `since` after the last call.
    pub(super) fn tick(&mut self, system_us: u64, since: Duration) -> u64 {
        let half_us = u64::try_from(since.as_micros() / 2).unwrap_or(u64::MAX);
        self.shown_us = system_us.max(self.shown_us.saturating_add(half_us));
        self.shown_us
    }

    /// Shows at least `us` from now on.
    pub(super) fn lift(&mut self, us: u64) {
        self.shown_us = self.shown_us.max(us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn follows_the_system_and_never_goes_back() {
        let mut time = Timeline::new(0, 1_000_000);
        assert_eq!(time.tick(2_000_000, SECOND), 2_000_000);
        assert_eq!(time.tick(9_000_000, SECOND), 9_000_000, "a step forward is followed");
        assert_eq!(time.tick(3_000_000, SECOND), 9_500_000, "a step back is not");
        assert_eq!(time.tick(9_700_000, SECOND), 10_000_000);
        assert_eq!(time.tick(10_700_000, SECOND), 10_700_000, "the system has caught up");
    }

    #[test]
    fn starts_at_the_floor_and_is_lifted() {
        let mut time = Timeline::new(50, 20);
        assert_eq!(time.tick(21, Duration::ZERO), 50);
        time.lift(80);
        time.lift(10);
        assert_eq!(time.tick(22, Duration::from_micros(9)), 84);
        time.lift(u64::MAX);
        assert_eq!(time.tick(23, SECOND), u64::MAX, "no overflow");
    }
}
