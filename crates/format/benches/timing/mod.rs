//! What both benchmarks share: interleaved rounds and their medians.

use std::time::{Duration, Instant};

/// Rounds of each case. The cases take turns, so that a slow second of the machine hits all alike,
/// and rounds are short, so that most of them are not interrupted.
const ROUNDS: usize = 101;

/// One thing to measure.
pub(crate) struct Case<'a> {
    pub(crate) name: String,
    /// Bytes that one call works on.
    pub(crate) bytes: usize,
    /// Does the work once.
    pub(crate) run: Box<dyn FnMut() + 'a>,
}

/// What a case took.
pub(crate) struct Timed {
    pub(crate) name: String,
    pub(crate) bytes: usize,
    /// Nanoseconds a call, median of the rounds.
    pub(crate) median_ns: f64,
    low_ns: f64,
    high_ns: f64,
}

impl Timed {
    /// Median with quartiles, and 10^9 bytes a second by the median.
    pub(crate) fn cell(&self) -> String {
        let gb_per_s = self.bytes as f64 / self.median_ns;
        let (median, low, high) = (self.median_ns, self.low_ns, self.high_ns);
        format!("{median:>9.1} ns ({low:.1} .. {high:.1}) {gb_per_s:>6.2} GB/s")
    }
}

/// Measures the cases in turns; `low` and `high` are the quartiles of the rounds.
pub(crate) fn measure(mut cases: Vec<Case<'_>>, round: Duration) -> Vec<Timed> {
    let calls: Vec<u32> = cases.iter_mut().map(|case| calls_for(case, round)).collect();
    let mut samples = vec![Vec::with_capacity(ROUNDS); cases.len()];
    for _ in 0..ROUNDS {
        for (index, case) in cases.iter_mut().enumerate() {
            samples[index].push(time(case, calls[index]));
        }
    }
    cases
        .into_iter()
        .zip(samples)
        .map(|(case, mut samples)| {
            samples.sort_by(f64::total_cmp);
            Timed {
                name: case.name,
                bytes: case.bytes,
                median_ns: samples[ROUNDS / 2],
                low_ns: samples[ROUNDS / 4],
                high_ns: samples[ROUNDS * 3 / 4],
            }
        })
        .collect()
}

/// How many calls fill a round; also warms the caches.
fn calls_for(case: &mut Case<'_>, round: Duration) -> u32 {
    let mut calls = 1;
    loop {
        let took = time(case, calls) * f64::from(calls);
        if took * 8.0 >= round.as_nanos() as f64 || calls >= 1 << 24 {
            return ((f64::from(calls) * round.as_nanos() as f64 / took.max(1.0)) as u32).max(1);
        }
        calls *= 2;
    }
}

fn time(case: &mut Case<'_>, calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        (case.run)();
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}
