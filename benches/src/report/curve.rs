//! A histogram as a few points: how long the fastest so-many percent took.

use serde_json::{Value, json};

use crate::latency::Latency;

/// Percentiles of a curve; each is given only where the samples reach it.
const PERCENTS: [f64; 20] = [
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.9, 99.95,
    99.99, 99.995, 99.999, 99.9999,
];

/// The percentiles that reports have, in microseconds; all null without a sample.
pub(crate) fn percentiles(latency: &Latency) -> Value {
    let known = latency.count() > 0;
    let at = |percent| known.then(|| latency.percentile_us(percent));
    json!({
        "p50": at(50.0),
        "p90": at(90.0),
        "p99": at(99.0),
        "p999": at(99.9),
        "max": known.then(|| latency.max_us()),
        "count": latency.count(),
    })
}

/// Pairs of percent and microseconds, up to the maximum at 100.
///
/// With 300 samples there is no 99.9th percentile that differs from the maximum: one sample in a
/// thousand does not exist. Points end where fewer than one sample lies above.
pub(super) fn points(latency: &Latency) -> Vec<(f64, f64)> {
    let count = latency.count() as f64;
    if count == 0.0 {
        return Vec::new();
    }
    let supported = |percent: &f64| (1.0 - percent / 100.0) * count >= 1.0;
    let mut points: Vec<(f64, f64)> = PERCENTS
        .into_iter()
        .filter(supported)
        .map(|percent| (percent, latency.percentile_us(percent)))
        .collect();
    points.push((100.0, latency.max_us()));
    points
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_curve_ends_where_the_samples_do() {
        let mut latency = Latency::default();
        assert!(points(&latency).is_empty());
        assert!(percentiles(&latency)["p50"].is_null() && percentiles(&latency)["max"].is_null());
        (1..=300).for_each(|us| latency.record(Duration::from_micros(us)));
        let points = points(&latency);
        // One of 300 is a third of a percent: the 99.5th percentile lies above it, the 99th below.
        let percents: Vec<f64> = points.iter().rev().take(3).map(|point| point.0).collect();
        assert_eq!(percents, [100.0, 99.5, 99.0]);
        assert_eq!(points.last().unwrap().1, 300.0);
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{points:?}");
    }
}
