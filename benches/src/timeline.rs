//! Work over time: what was done in each tenth of a second of a phase.
//!
//! Each worker keeps its own timeline from the same origin; they are merged slot by slot. A phase
//! that goes on for long gets longer slots, so that memory is bounded. A rate is always work over
//! the time that its slot really covers: the last slot of a phase ends with the phase.

use std::time::Duration;

/// Length of a slot until a phase is too long for it.
const STEP: Duration = Duration::from_millis(100);

/// Slots at most; with one more, all become twice as long.
const SLOTS_MAX: usize = 1024;

/// What ended in a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slot {
    /// Bytes appended or read.
    pub bytes: u64,
    /// Messages in them.
    pub messages: u64,
    /// Operations that ended.
    pub operations: u64,
    /// The longest of these, in nanoseconds.
    pub max_nanos: u64,
}

/// The slots of a phase, from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    step: Duration,
    slots: Vec<Slot>,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline { step: STEP, slots: Vec::new() }
    }
}

/// A slot with the time it covers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Covered {
    /// Since the phase began.
    pub start: Duration,
    /// How much of it the phase had: the step, less in the last slot.
    pub length: Duration,
    /// What ended in it.
    pub slot: Slot,
}

impl Timeline {
    /// Adds one operation that ended `at` after the phase began.
    pub fn add(&mut self, at: Duration, took: Duration, bytes: u64, messages: u64) {
        let index = self.make_room(at);
        let slot = &mut self.slots[index];
        slot.bytes += bytes;
        slot.messages += messages;
        slot.operations += 1;
        slot.max_nanos = slot.max_nanos.max(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all of another timeline with the same origin.
    pub fn merge(&mut self, other: &Timeline) {
        let mut other = other.clone();
        while other.step < self.step {
            other.double();
        }
        while self.step < other.step {
            self.double();
        }
        if self.slots.len() < other.slots.len() {
            self.slots.resize(other.slots.len(), Slot::default());
        }
        for (slot, its) in self.slots.iter_mut().zip(&other.slots) {
            slot.add(its);
        }
    }

    /// The slots of a phase that took `elapsed`. What ended a little later than that, since clocks
    /// are read one after the other, counts in the last one.
    pub fn covered(&self, elapsed: Duration) -> Vec<Covered> {
        let mut covered: Vec<Covered> = Vec::new();
        for (number, slot) in self.slots.iter().enumerate() {
            let start = self.step * u32::try_from(number).expect("at most SLOTS_MAX");
            match covered.last_mut() {
                Some(last) if start >= elapsed => last.slot.add(slot),
                _ => {
                    let length = self.step.min(elapsed.saturating_sub(start));
                    covered.push(Covered { start, length, slot: *slot });
                }
            }
        }
        covered
    }

    fn make_room(&mut self, at: Duration) -> usize {
        loop {
            let index = at.as_nanos() / self.step.as_nanos();
            if index < SLOTS_MAX as u128 {
                let index = index as usize;
                if index >= self.slots.len() {
                    self.slots.resize(index + 1, Slot::default());
                }
                return index;
            }
            self.double();
        }
    }

    fn double(&mut self) {
        self.step *= 2;
        let pairs = self.slots.chunks(2).map(|pair| {
            let mut slot = pair[0];
            pair[1..].iter().for_each(|other| slot.add(other));
            slot
        });
        self.slots = pairs.collect();
    }
}

impl Slot {
    fn add(&mut self, other: &Slot) {
        self.bytes += other.bytes;
        self.messages += other.messages;
        self.operations += other.operations;
        self.max_nanos = self.max_nanos.max(other.max_nanos);
    }
}

impl Covered {
    /// MB/s over the time that is covered; 0 when that is nothing.
    pub fn mb_per_s(&self) -> f64 {
        if self.length.is_zero() {
            0.0
        } else {
            crate::stats::mb_per_s(self.slot.bytes, self.length)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_rate_is_over_the_time_that_a_slot_covers() {
        // BEN-2: 1.5 s an operation. No slot claims more than was done in its own time, and the
        // last one is not taken for a whole one.
        let mut timeline = Timeline::default();
        timeline.add(1500 * MS, 1500 * MS, 3_000_000, 3);
        timeline.add(3050 * MS, 1550 * MS, 3_000_000, 3);
        let covered = timeline.covered(3050 * MS);
        assert_eq!(covered.len(), 31);
        assert_eq!(covered[15].mb_per_s(), 30.0);
        assert_eq!((covered[30].length, covered[30].mb_per_s()), (50 * MS, 60.0));
        let total: f64 = covered.iter().map(|one| one.mb_per_s() * one.length.as_secs_f64()).sum();
        assert!((total - 6.0).abs() < 1e-9, "{total}");
        let length: Duration = covered.iter().map(|one| one.length).sum();
        assert_eq!(length, 3050 * MS);
    }

    #[test]
    fn what_ends_behind_the_phase_is_in_its_last_slot() {
        let mut timeline = Timeline::default();
        timeline.add(50 * MS, MS, 10, 1);
        timeline.add(101 * MS, 7 * MS, 20, 1);
        let covered = timeline.covered(100 * MS);
        assert_eq!(covered.len(), 1);
        assert_eq!((covered[0].slot.bytes, covered[0].slot.operations), (30, 2));
        assert_eq!(covered[0].slot.max_nanos, 7_000_000);
        assert!(Timeline::default().covered(100 * MS).is_empty());
    }

    #[test]
    fn a_long_phase_has_longer_slots_and_loses_nothing() {
        let mut timeline = Timeline::default();
        for second in 0..1000 {
            timeline.add(second * 1000 * MS, second * MS, 5, 1);
        }
        assert!(timeline.slots.len() <= SLOTS_MAX);
        assert_eq!(timeline.step, Duration::from_millis(1600));
        let covered = timeline.covered(1000 * 1000 * MS);
        assert_eq!(covered.iter().map(|one| one.slot.bytes).sum::<u64>(), 5000);
        assert_eq!(covered.last().unwrap().slot.max_nanos, 999_000_000);
        // The far end of time is a slot like any other.
        timeline.add(Duration::MAX / 2, MS, 1, 1);
        assert!(timeline.slots.len() <= SLOTS_MAX);
    }

    #[test]
    fn merged_timelines_equal_one_of_all() {
        let (mut all, mut left, mut right) =
            (Timeline::default(), Timeline::default(), Timeline::default());
        for second in 0..500 {
            let one = if second % 3 == 0 { &mut left } else { &mut right };
            // The left one ends early: it keeps short slots until it meets the other.
            let at = if second % 3 == 0 { second * MS } else { second * 1000 * MS };
            one.add(at, second * MS, 7, 2);
            all.add(at, second * MS, 7, 2);
        }
        assert!(left.step < right.step);
        let mut merged = left.clone();
        merged.merge(&right);
        assert_eq!(merged, all);
        right.merge(&left);
        assert_eq!(right, all);
    }
}
