//! Latencies: histograms that are merged, never averaged, with nothing cut off at either end.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Decimal digits that every recorded value keeps: percentiles are within 0.1 %.
const DIGITS: u8 = 3;

/// How long operations took. Grows with the values it meets; the maximum is exact.
#[derive(Debug, Clone)]
pub struct Latency {
    nanos: Histogram<u64>,
    max_nanos: u64,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency { nanos: empty_nanos(), max_nanos: 0 }
    }
}

/// A histogram of nanoseconds without a sample, of the same precision as all others.
pub(crate) fn empty_nanos() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("3 digits are within the crate's limits")
}

impl Latency {
    /// Adds one operation.
    pub fn record(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // Not `saturating_record`: that one clamps to the range met so far instead of growing it.
        self.nanos.record(nanos.max(1)).expect("a resizing histogram takes every value");
        self.max_nanos = self.max_nanos.max(nanos);
    }

    /// Adds all operations of another one.
    pub fn merge(&mut self, other: &Latency) {
        self.nanos.add(&other.nanos).expect("a resizing histogram takes every value");
        self.max_nanos = self.max_nanos.max(other.max_nanos);
    }

    /// Operations recorded.
    pub fn count(&self) -> u64 {
        self.nanos.len()
    }

    /// The value in microseconds below or at which `percent` of the operations lie; 0 when empty.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let nanos = self.nanos.value_at_percentile(percent).min(self.max_nanos);
        nanos as f64 / 1000.0
    }

    /// The histogram, in nanoseconds, for those who serialise it. Its own maximum is rounded up.
    pub(crate) fn nanos(&self) -> &Histogram<u64> {
        &self.nanos
    }

    /// The longest operation in microseconds, exact; 0 when empty.
    pub fn max_us(&self) -> f64 {
        self.max_nanos as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn nothing_is_lost_at_either_end() {
        let mut latency = Latency::default();
        latency.record(Duration::ZERO);
        latency.record(Duration::from_nanos(1));
        let longest = Duration::from_secs(3600) + Duration::from_nanos(7);
        latency.record(longest);
        for us in 0..1_000_000 {
            latency.record(Duration::from_micros(us % 500 + 1));
        }
        assert_eq!(latency.count(), 1_000_003);
        assert_eq!(latency.max_us(), longest.as_nanos() as f64 / 1000.0);
        assert_eq!(latency.percentile_us(100.0), latency.max_us());
        let p50 = latency.percentile_us(50.0);
        assert!((249.0..=251.0).contains(&p50), "{p50}");
    }

    #[test]
    fn merged_histograms_equal_one_histogram_of_all_samples() {
        let mut all = Latency::default();
        let mut merged = Latency::default();
        let mut rng = Rng::new(3);
        // Two workers, one far slower and with far fewer samples: averaging percentiles would lie.
        for (samples, scale) in [(10_000, 1_000), (100, 1_000_000)] {
            let mut one = Latency::default();
            for _ in 0..samples {
                let took = Duration::from_nanos(rng.draw() % (200 * scale));
                one.record(took);
                all.record(took);
            }
            merged.merge(&one);
        }
        assert_eq!(merged.count(), all.count());
        for percent in [0.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            assert_eq!(merged.percentile_us(percent), all.percentile_us(percent));
        }
        assert_eq!(merged.max_us(), all.max_us());
    }

    #[test]
    fn an_empty_one_says_zero() {
        let latency = Latency::default();
        assert_eq!((latency.count(), latency.percentile_us(99.0), latency.max_us()), (0, 0.0, 0.0));
    }
}
