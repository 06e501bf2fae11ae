//! Counts of values by size: eight buckets for each power of two, whatever the values are.

/// Buckets for each power of two: a value is known to an eighth.
const PARTS: u64 = 8;

/// A histogram of u64 values in 4 KiB.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    sum: u128,
    /// Number of values.
    pub(crate) count: u64,
    /// The smallest value; only where there is one.
    pub(crate) min: u64,
    /// The largest.
    pub(crate) max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        let counts = vec![0; bucket(u64::MAX) + 1];
        Histogram { counts, sum: 0, count: 0, min: u64::MAX, max: 0 }
    }
}

/// The bucket of a value.
fn bucket(value: u64) -> usize {
    if value < PARTS {
        return value as usize;
    }
    let power = u64::from(value.ilog2());
    let part = (value >> (power - 3)) & (PARTS - 1);
    ((power - 2) * PARTS + part) as usize
}

/// The smallest value of a bucket.
fn floor(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    match bucket / PARTS {
        0 | 1 => bucket,
        power => (PARTS + bucket % PARTS) << (power - 1),
    }
}

impl Histogram {
    /// Counts a value.
    pub(crate) fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// The mean; zero of nothing.
    pub(crate) fn mean(&self) -> u64 {
        self.sum.checked_div(u128::from(self.count)).unwrap_or(0) as u64
    }

    /// The value that `percent` of all values do not exceed, to an eighth.
    pub(crate) fn percentile(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100) as u64;
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return floor(at).clamp(self.min, self.max);
            }
        }
        0
    }

    /// Counts by power of two, from the one with the smallest value to the one with the largest:
    /// `(from, up to but not including, count)`; the last of all ends at `u64::MAX`.
    pub(crate) fn powers(&self) -> Vec<(u64, u64, u64)> {
        if self.count == 0 {
            return Vec::new();
        }
        let power = |value: u64| value.checked_ilog2().map_or(0, |power| power + 1);
        let mut rows = Vec::new();
        for power in power(self.min)..=power(self.max) {
            let (from, to) = match power {
                0 => (0, 1),
                64 => (1 << 63, u64::MAX),
                power => (1 << (power - 1), 1 << power),
            };
            let end = if power == 64 { self.counts.len() } else { bucket(to) };
            rows.push((from, to, self.counts[bucket(from)..end].iter().sum()));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_numbers() {
        for at in 0..bucket(u64::MAX) {
            let (first, next) = (floor(at), floor(at + 1));
            assert!(first < next, "{at}");
            assert_eq!((bucket(first), bucket(next - 1)), (at, at));
        }
        assert_eq!(bucket(u64::MAX), 495);
    }

    #[test]
    fn percentiles_are_exact_to_an_eighth() {
        let mut histogram = Histogram::default();
        (1..=10_000u64).for_each(|value| histogram.add(value));
        for percent in [1, 50, 90, 99, 100] {
            let (exact, found) = (percent * 100, histogram.percentile(percent));
            assert!(found <= exact && exact - found <= exact / 8, "{percent}: {found}");
        }
        assert_eq!((histogram.min, histogram.max, histogram.mean()), (1, 10_000, 5_000));
        assert_eq!(Histogram::default().percentile(50), 0);
    }

    #[test]
    fn powers_count_everything_once() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, 7, 8, 1 << 63, u64::MAX] {
            histogram.add(value);
        }
        let rows = histogram.powers();
        assert_eq!(rows[..5], [(0, 1, 1), (1, 2, 1), (2, 4, 2), (4, 8, 2), (8, 16, 1)]);
        assert_eq!((rows.len(), rows[64]), (65, (1 << 63, u64::MAX, 2)));
        assert_eq!(rows.iter().map(|row| row.2).sum::<u64>(), 9);
    }
}
