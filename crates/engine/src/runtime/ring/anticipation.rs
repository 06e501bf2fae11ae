//! When the operation that is waited for will end.
//!
//! A core that sleeps takes tens of microseconds to wake, and whoever waits for a lone synced write
//! or read pays for that each time. So the loop has its sleep end a little before the operation is
//! expected to, and looks out for it then: the core wakes while the device is still at work.
//!
//! That is worth it where few operations are under way and their time is short and steady. How long
//! they take, how far that varies and how late this core wakes is learned from the sleeps
//! themselves. Where an end did not come in time, some sleeps go by as they would without this.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Operations under way, at most: more of them keep the device at work without this.
const FEW: usize = 2;

/// The longest operations that are anticipated: behind longer ones a wake is little.
const LONGEST: Duration = Duration::from_micros(500);

/// From the time for which a sleep's end is set to the end of looking out, at most.
const WINDOW: Duration = Duration::from_micros(90);

/// Sleeps that go by after one that ended in vain.
const REST: u32 = 16;

/// What a loop has learned of its operations and its sleeps. All times are what one thread saw.
#[derive(Default)]
pub(super) struct Anticipation {
    /// When the loop began to wait for the operation that ends next.
    since: Cell<Option<Instant>>,
    /// How long such a wait takes, and how far from that.
    usual: Cell<Option<(Duration, Duration)>>,
    /// How much later than it was to a sleep ends.
    lag: Cell<Duration>,
    /// Waits that are left to go by, this one included.
    rest: Cell<u32>,
}

/// What the loop does where it has nothing to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It sleeps until something comes.
    Sleep,
    /// It sleeps until something comes, or up to then, and asks again.
    SleepUntil(Instant),
    /// It looks out for so long, and tells [`Anticipation::missed`] where nothing came.
    LookFor(Duration),
}

impl Anticipation {
    /// What to do at `now`, with `under_way` operations that will end.
    pub(super) fn step(&self, under_way: usize, now: Instant) -> Step {
        if under_way == 0 {
            self.since.set(None);
            return Step::Sleep;
        }
        let since = self.since.get().unwrap_or_else(|| self.begin(now));
        if under_way > FEW || self.rest.get() > 0 {
            return Step::Sleep;
        }
        let Some((usual, off)) = self.usual.get() else { return Step::Sleep };
        let (early, late) = (off + self.lag.get(), 2 * off);
        if usual > LONGEST || early + late > WINDOW {
            return Step::Sleep;
        }
        let from = since + usual.saturating_sub(early);
        if now < from {
            return Step::SleepUntil(from);
        }
        Step::LookFor((since + usual + late).saturating_duration_since(now))
    }

    fn begin(&self, now: Instant) -> Instant {
        self.since.set(Some(now));
        self.rest.set(self.rest.get().saturating_sub(1));
        now
    }

    /// A sleep that was to end at `at` is over at `now`. Where that is earlier, something came.
    pub(super) fn slept(&self, at: Instant, now: Instant) {
        if let Some(late) = now.checked_duration_since(at) {
            self.lag.set(towards(self.lag.get(), late.min(WINDOW)));
        }
    }

    /// What was looked out for has not come.
    pub(super) fn missed(&self) {
        self.rest.set(REST);
    }

    /// An operation has ended by `now`.
    pub(super) fn ended(&self, now: Instant) {
        let Some(since) = self.since.take() else { return };
        let took = now.saturating_duration_since(since).min(2 * LONGEST);
        self.usual.set(Some(match self.usual.get() {
            None => (took, took / 4),
            Some((usual, off)) => (towards(usual, took), towards(off, took.abs_diff(usual))),
        }));
    }
}

/// The running mean, with a sample more.
fn towards(mean: Duration, sample: Duration) -> Duration {
    (7 * mean + sample) / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    /// Waits that took so many microseconds each, on a core that wakes in no time.
    fn learned(took: &[u64]) -> (Anticipation, Instant) {
        let (anticipation, mut now) = (Anticipation::default(), Instant::now());
        for took in took {
            anticipation.step(1, now);
            now += US(*took);
            anticipation.ended(now);
        }
        (anticipation, now)
    }

    #[test]
    fn a_sleep_ends_before_a_steady_operation_and_the_loop_looks_out_beyond_its_end() {
        let (anticipation, start) = learned(&[80; 40]);
        let Step::SleepUntil(at) = anticipation.step(1, start) else { panic!("no sleep until") };
        assert!(at > start + US(70) && at <= start + US(80), "{:?}", at - start);
        anticipation.slept(at, at);
        let Step::LookFor(time) = anticipation.step(1, at) else { panic!("no look") };
        assert!(at + time >= start + US(80) && time <= WINDOW, "{time:?}");
        // The next one is counted from its own beginning.
        anticipation.ended(start + US(80));
        let next = start + US(1000);
        assert!(matches!(anticipation.step(1, next), Step::SleepUntil(at) if at > next + US(60)));
    }

    #[test]
    fn it_looks_out_for_longer_where_operations_vary() {
        let took: Vec<u64> = (0..40).map(|n| if n % 2 == 0 { 75 } else { 85 }).collect();
        let (anticipation, now) = learned(&took);
        assert!(matches!(anticipation.step(1, now), Step::SleepUntil(_)));
        let Step::LookFor(time) = anticipation.step(1, now + US(80)) else { panic!("no look") };
        assert!(time >= US(5), "{time:?}");
    }

    #[test]
    fn a_core_that_wakes_late_is_woken_earlier() {
        let (anticipation, start) = learned(&[80; 40]);
        let mut now = start;
        for _ in 0..40 {
            let Step::SleepUntil(at) = anticipation.step(1, now) else { panic!("no sleep until") };
            anticipation.slept(at, at + US(20));
            now += US(80);
            anticipation.ended(now);
        }
        let Step::SleepUntil(at) = anticipation.step(1, now) else { panic!("no sleep until") };
        assert!(at < now + US(62), "{:?}", at - now);
        // Woken by something else, it says nothing of how late the core wakes.
        let lag = anticipation.lag.get();
        anticipation.slept(at, at - US(30));
        assert_eq!(anticipation.lag.get(), lag);
    }

    #[test]
    fn what_cannot_be_anticipated_is_slept_through() {
        let unsteady: Vec<u64> = (0..40).map(|n| if n % 2 == 0 { 40 } else { 300 }).collect();
        let cases: [(&str, &[u64], usize); 6] = [
            ("nothing is known yet", &[], 1),
            ("nothing is under way", &[80; 40], 0),
            ("many are under way", &[80; 40], FEW + 1),
            ("long ones", &[900; 40], 1),
            ("unsteady ones", &unsteady, 1),
            ("one that the others are not like", &[80, 80, 80, 900], 1),
        ];
        for (what, took, under_way) in cases {
            let (anticipation, now) = learned(took);
            assert_eq!(anticipation.step(under_way, now), Step::Sleep, "{what}");
        }
    }

    #[test]
    fn what_does_not_come_is_slept_for_and_so_are_some_behind_it() {
        let (anticipation, mut now) = learned(&[80; 40]);
        assert!(matches!(anticipation.step(1, now), Step::SleepUntil(_)));
        assert!(matches!(anticipation.step(1, now + US(80)), Step::LookFor(_)));
        anticipation.missed();
        assert_eq!(anticipation.step(1, now + US(120)), Step::Sleep);
        now += US(84);
        anticipation.ended(now);
        let slept = (0..2 * REST).take_while(|_| {
            let step = anticipation.step(1, now);
            now += US(80);
            anticipation.ended(now);
            step == Step::Sleep
        });
        assert_eq!(slept.count() as u32, REST - 1);
    }

    #[test]
    fn an_end_that_nobody_slept_for_teaches_nothing() {
        let (anticipation, now) = learned(&[80; 40]);
        let usual = anticipation.usual.get();
        anticipation.ended(now + US(400));
        // Nor does one that was under way when nothing was any more.
        anticipation.step(1, now);
        anticipation.step(0, now + US(10));
        anticipation.ended(now + US(400));
        assert_eq!(anticipation.usual.get(), usual);
    }
}
