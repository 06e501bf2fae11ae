//! Latencies second by second, so that a log shows when a phase was slow and not only that it was.
//!
//! One histogram is filled at a time. Of a second that is over only the values that were met are
//! kept: some hundreds, where a histogram of all possible ones has 100 KiB. An hour of many
//! producers then fits.

use std::collections::BTreeMap;
use std::mem;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::latency::{self, Latency};

/// Latencies of one phase of a round, by the second since `start` in which the answer came.
#[derive(Debug, Clone)]
pub(crate) struct Seconds {
    start: Instant,
    filled: u64,
    filling: Latency,
    over: Vec<Second>,
}

/// A second that is over; threads that are merged have one each.
#[derive(Debug, Clone)]
struct Second {
    number: u64,
    /// Nanoseconds, and how many operations took so long.
    values: Vec<(u64, u64)>,
}

impl Seconds {
    /// None yet; the phase's clock starts at `start`.
    pub(crate) fn new(start: Instant) -> Seconds {
        Seconds { start, filled: 0, filling: Latency::default(), over: Vec::new() }
    }

    /// Counts an operation that was answered at `at`. One from before the start is the first
    /// second's.
    pub(crate) fn record(&mut self, at: Instant, took: Duration) {
        let number = at.saturating_duration_since(self.start).as_secs();
        if number != self.filled {
            let ended = self.end_second();
            self.over.extend(ended);
            self.filled = number;
        }
        self.filling.record(took);
    }

    /// Adds another thread's, with the same start (asserted).
    pub(crate) fn merge(&mut self, other: &Seconds) {
        assert_eq!(self.start, other.start, "seconds of one phase have one start");
        self.over.extend(other.over.iter().cloned());
        self.over.extend(other.clone().end_second());
    }

    /// The second that is being filled, which is empty then.
    fn end_second(&mut self) -> Option<Second> {
        let ended = mem::take(&mut self.filling);
        let values = ended.nanos().iter_recorded();
        let values: Vec<_> =
            values.map(|value| (value.value_iterated_to(), value.count_at_value())).collect();
        (!values.is_empty()).then_some(Second { number: self.filled, values })
    }

    /// Each second in which something was answered: when it begins, its true length, and the
    /// histogram in nanoseconds. The last one ends with the phase, after `elapsed`.
    pub(crate) fn histograms(
        &self,
        elapsed: Duration,
    ) -> Vec<(Duration, Duration, Histogram<u64>)> {
        let mut merged: BTreeMap<u64, Histogram<u64>> = BTreeMap::new();
        let filling = self.clone().end_second();
        for Second { number, values } in self.over.iter().chain(&filling) {
            let histogram = merged.entry(*number).or_insert_with(latency::empty_nanos);
            for (nanos, count) in values {
                histogram.record_n(*nanos, *count).expect("a resizing histogram takes every value");
            }
        }
        let with_place = |(number, histogram)| {
            let begin = Duration::from_secs(number);
            let len = elapsed.saturating_sub(begin);
            (begin, len.clamp(Duration::from_nanos(1), Duration::from_secs(1)), histogram)
        };
        merged.into_iter().map(with_place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn seconds_of_all_threads_together_are_the_whole_histogram() {
        let start = Instant::now();
        let mut whole = Latency::default();
        let mut by_second = [Latency::default(), Latency::default(), Latency::default()];
        let mut all = Seconds::new(start);
        let mut rng = Rng::new(5);
        for thread in 0..3_u64 {
            let mut one = Seconds::new(start);
            // Nobody is answered in the second second; the last one is half a second.
            for ms in (0..900).chain(2000..2500) {
                let took = Duration::from_nanos(rng.draw() % (1000 << (10 * thread)));
                one.record(start + Duration::from_millis(ms), took);
                whole.record(took);
                by_second[ms as usize / 1000].record(took);
            }
            all.merge(&one);
        }
        let ms = Duration::from_millis;
        let seconds = all.histograms(ms(2500));
        let places: Vec<_> = seconds.iter().map(|(begin, len, _)| (*begin, *len)).collect();
        assert_eq!(places, [(ms(0), ms(1000)), (ms(2000), ms(500))]);
        assert_eq!(&seconds[0].2, by_second[0].nanos());
        assert_eq!(&seconds[1].2, by_second[2].nanos());
        let mut sum = latency::empty_nanos();
        seconds.iter().for_each(|(_, _, one)| sum.add(one).unwrap());
        assert_eq!((&sum, sum.len()), (whole.nanos(), 3 * 1400));
    }

    #[test]
    fn nothing_answered_is_no_second() {
        let start = Instant::now();
        assert!(Seconds::new(start).histograms(Duration::from_secs(9)).is_empty());
    }
}
