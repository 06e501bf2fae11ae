//! Durations in histograms: two significant digits, from 64 ns to a minute, in 24 KiB each that are
//! allocated when the shard starts and never grow.

use std::fmt;
use std::ops::Index;
use std::time::Duration;

use corelog_io::IoOp;
use hdrhistogram::Histogram;

/// Shorter ones count as this long, longer ones as the other.
const SHORTEST_NS: u64 = 64;
const LONGEST_NS: u64 = 60_000_000_000;
/// A figure is at most 1 % beside the truth.
const DIGITS: u8 = 2;

/// What took its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Timed {
    /// An append with `Ack::Appended`, from its admission to its answer. As all requests, of a
    /// thread that makes more than 50,000 a second, one in eight is timed.
    AppendAppended,
    /// One with `Ack::Written`.
    AppendWritten,
    /// One with `Ack::Durable`.
    AppendDurable,
    /// A poll that found all it wanted in memory, from the call to its answer.
    PollMemory,
    /// A poll that had to look into files, or into what was read ahead from them. Polls that waited
    /// for messages are in neither.
    PollFiles,
    /// The way of an append or a poll through the mailbox.
    Crossing,
    /// A read of a file.
    DeviceRead,
    /// A write to a file; with `enforce_fsync` those of logs are synced.
    DeviceWrite,
    /// A sync of a file.
    DeviceSync,
    /// Another operation on a file or directory: open, allocate, cut, sync a directory, rename,
    /// remove. The wait for a thread that does it is part of it.
    FileOperation,
}

impl Timed {
    /// All of them, in order.
    pub const ALL: [Timed; 10] = [
        Timed::AppendAppended,
        Timed::AppendWritten,
        Timed::AppendDurable,
        Timed::PollMemory,
        Timed::PollFiles,
        Timed::Crossing,
        Timed::DeviceRead,
        Timed::DeviceWrite,
        Timed::DeviceSync,
        Timed::FileOperation,
    ];

    pub(crate) fn of_io(op: IoOp) -> Timed {
        match op {
            IoOp::Read => Timed::DeviceRead,
            IoOp::Write => Timed::DeviceWrite,
            IoOp::Sync => Timed::DeviceSync,
            _ => Timed::FileOperation,
        }
    }
}

/// How long something took, many times.
#[derive(Clone, PartialEq)]
pub struct Latency {
    histogram: Histogram<u64>,
}

impl Latency {
    fn new() -> Latency {
        let histogram = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, DIGITS);
        Latency { histogram: histogram.expect("the bounds are in order") }
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// How many were timed.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The time within which the share `quantile` of them ended: 0.5 is the median, 0.99 the time
    /// that one in a hundred exceeds. Zero where none was timed.
    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_quantile(quantile))
    }

    /// The longest one; zero where none was timed.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.histogram.max())
    }

    /// The mean; zero where none was timed.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.histogram.mean() as u64)
    }

    /// Adds what `other` has, of another shard for example.
    pub fn merge(&mut self, other: &Latency) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
    }

    /// The times that occurred, ascending, to two digits, and how often each did.
    pub fn each(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let recorded = self.histogram.iter_recorded();
        recorded.map(|step| (Duration::from_nanos(step.value_iterated_to()), step.count_at_value()))
    }
}

#[cfg(feature = "metrics")]
impl Latency {
    /// As [`Latency::each`], but what `before` has already is not in it.
    pub(crate) fn since<'a>(
        &'a self,
        before: Option<&'a Latency>,
    ) -> impl Iterator<Item = (Duration, u64)> + 'a {
        self.histogram.iter_recorded().filter_map(move |step| {
            let value = step.value_iterated_to();
            let known = before.map_or(0, |before| before.histogram.count_at(value));
            let new = step.count_at_value().saturating_sub(known);
            (new > 0).then_some((Duration::from_nanos(value), new))
        })
    }
}

impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latency")
            .field("count", &self.count())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

/// How long everything took on one shard, or on several together.
#[derive(Clone, PartialEq)]
pub struct Latencies {
    /// In the order of [`Timed::ALL`].
    all: Vec<Latency>,
}

impl Latencies {
    pub(crate) fn new() -> Latencies {
        Latencies { all: Timed::ALL.iter().map(|_| Latency::new()).collect() }
    }

    pub(crate) fn record(&mut self, what: Timed, ns: u64) {
        self.all[what as usize].record(ns);
    }

    /// Adds what `other` has.
    pub fn merge(&mut self, other: &Latencies) {
        self.all.iter_mut().zip(&other.all).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    /// All of them, each with what it is of.
    pub fn iter(&self) -> impl Iterator<Item = (Timed, &Latency)> {
        Timed::ALL.into_iter().zip(&self.all)
    }
}

impl Index<Timed> for Latencies {
    type Output = Latency;

    fn index(&self, what: Timed) -> &Latency {
        &self.all[what as usize]
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().filter(|(_, latency)| latency.count() > 0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_within_one_percent_and_memory_never_grows() {
        let mut latency = Latency::new();
        let before = latency.histogram.distinct_values();
        for us in 1..=1000 {
            latency.record(us * 1000);
        }
        latency.record(0);
        latency.record(u64::MAX);
        for (quantile, us) in [(0.5, 500.0), (0.9, 900.0), (0.1, 100.0)] {
            let found = latency.quantile(quantile).as_nanos() as f64 / 1000.0;
            assert!((found / us - 1.0_f64).abs() < 0.011, "{quantile}: {found}");
        }
        assert_eq!(latency.count(), 1002);
        assert!(latency.max() >= Duration::from_secs(60) && latency.max().as_secs() < 70);
        assert_eq!(latency.histogram.distinct_values(), before);
        assert!(before * 8 <= 24 << 10, "{before} counters");
    }

    #[test]
    fn merged_ones_are_as_if_recorded_in_one() {
        let [mut one, mut other, mut both] = [(); 3].map(|()| Latencies::new());
        for ns in (0..50_000).step_by(77) {
            one.record(Timed::Crossing, ns);
            other.record(Timed::DeviceSync, ns * 3);
            both.record(Timed::Crossing, ns);
            both.record(Timed::DeviceSync, ns * 3);
        }
        one.merge(&other);
        assert_eq!(one, both);
        assert_eq!(one[Timed::DeviceSync].each().map(|(_, count)| count).sum::<u64>(), 650);
    }

    #[test]
    fn each_has_its_place() {
        for (place, what) in Timed::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, place);
        }
    }
}
