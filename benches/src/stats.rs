//! Medians of paired rounds and their intervals: what turns noisy pairs into one ratio.

/// The middle value, the mean of the two middle ones for an even count; None when empty.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// An interval that holds the true median with at least 95 %, from order statistics, so without
/// any assumption about the distribution. None below 6 values: no such interval exists.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(values);
    // The interval between the k-th smallest and k-th largest misses the median when fewer than k
    // values lie on one side: 2 * P(Binomial(n, 1/2) < k). Take the largest k that keeps it <= 5 %.
    let mut outside = 0.0;
    let mut k = 0;
    let mut probability = 0.5_f64.powi(i32::try_from(sorted.len()).ok()?);
    while k < sorted.len() / 2 && 2.0 * (outside + probability) <= 0.05 {
        outside += probability;
        probability *= (sorted.len() - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    (k > 0).then(|| (sorted[k - 1], sorted[sorted.len() - k]))
}

/// The rate of all of it together where as much was done at each of these rates; None when empty.
pub fn overall_rate(rates: &[f64]) -> Option<f64> {
    let times: f64 = rates.iter().map(|rate| rate.recip()).sum();
    (!rates.is_empty()).then(|| rates.len() as f64 / times)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Throughput in MB/s, MB = 10^6 bytes, over the time that was measured.
pub fn mb_per_s(bytes: u64, elapsed: std::time::Duration) -> f64 {
    bytes as f64 / 1e6 / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_overall_rate_is_all_work_over_all_time() {
        assert_eq!(overall_rate(&[]), None);
        // 300 units at 100 a second and 300 at 300: 600 in 4 s.
        assert!((overall_rate(&[100.0, 300.0]).unwrap() - 150.0).abs() < 1e-9);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn intervals_are_those_of_the_binomial_tables() {
        let upto = |n: i32| (1..=n).map(f64::from).collect::<Vec<_>>();
        assert_eq!(median_interval(&upto(5)), None);
        assert_eq!(median_interval(&upto(6)), Some((1.0, 6.0)));
        assert_eq!(median_interval(&upto(9)), Some((2.0, 8.0)));
        assert_eq!(median_interval(&upto(15)), Some((4.0, 12.0)));
        assert_eq!(median_interval(&upto(20)), Some((6.0, 15.0)));
    }

    #[test]
    fn a_rate_is_work_over_measured_time() {
        // BEN-2: 1.5 s an operation, never rounded to a nominal second.
        assert_eq!(mb_per_s(3_000_000, Duration::from_millis(1500)), 2.0);
    }
}
