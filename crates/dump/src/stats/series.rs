//! Bytes over time, in a fixed number of stretches that grow with the time they cover.

/// Stretches, at most.
const STRETCHES: usize = 64;

/// The shortest stretch, in microseconds.
const WIDTH_US: u64 = 1_000;

/// What came when.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    start: Option<u64>,
    width_us: u64,
    bytes: Vec<u64>,
}

impl Default for Series {
    fn default() -> Series {
        Series { start: None, width_us: WIDTH_US, bytes: Vec::new() }
    }
}

impl Series {
    /// `bytes` came at `time`, in microseconds. A time before the first is taken for the first.
    pub(crate) fn add(&mut self, time: u64, bytes: u64) {
        let since = time.saturating_sub(*self.start.get_or_insert(time));
        while since / self.width_us >= STRETCHES as u64 {
            self.width_us *= 2;
            self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let at = (since / self.width_us) as usize;
        if self.bytes.len() <= at {
            self.bytes.resize(at + 1, 0);
        }
        self.bytes[at] += bytes;
    }

    /// The first time.
    pub(crate) fn start(&self) -> Option<u64> {
        self.start
    }

    /// Length of a stretch in microseconds.
    pub(crate) fn width_us(&self) -> u64 {
        self.width_us
    }

    /// Bytes a second in each stretch.
    pub(crate) fn rates(&self) -> Vec<u64> {
        let rate = |bytes: &u64| u128::from(*bytes) * 1_000_000 / u128::from(self.width_us);
        self.bytes.iter().map(|bytes| rate(bytes) as u64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_grow_and_lose_nothing() {
        let mut series = Series::default();
        for second in 0..1000 {
            series.add(5 + second * 1_000_000, 10);
        }
        series.add(0, 7);
        series.add(u64::MAX, 3);
        assert!(series.bytes.len() <= STRETCHES);
        assert_eq!(series.bytes.iter().sum::<u64>(), 10_010);
        assert_eq!(series.start(), Some(5));
        let mut short = Series::default();
        short.add(100, 1_000);
        short.add(1_099, 1_000);
        short.add(3_100, 500);
        assert_eq!(short.rates(), [2_000_000, 0, 0, 500_000]);
    }
}
