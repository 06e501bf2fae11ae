//! How much larger one set of measurements is than another: the Hodges-Lehmann estimate with the
//! interval of Mann and Whitney's test.
//!
//! No assumption about the distribution, none about pairs: two runs have no rounds in common. The
//! interval is exact for up to 120 measurements together, so it holds what it says for the handful
//! of rounds that a run has, where a bootstrap is too narrow.

/// Measurements of both sides together for which the distribution is counted out; above, the normal
/// one is close enough.
const EXACT_MAX: usize = 120;

/// How many times as large `b` is as `a`, and between which bounds that lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shift {
    /// Median of all quotients of one of `b` and one of `a`.
    pub(crate) ratio: f64,
    /// Holds the true ratio with the confidence asked for; None for too few measurements.
    pub(crate) interval: Option<(f64, f64)>,
}

/// Compares two sets. None when one is empty, or a measurement is not above 0 and finite.
///
/// `confidence` is a share such as 0.99.
pub(crate) fn shift(a: &[f64], b: &[f64], confidence: f64) -> Option<Shift> {
    let is_fit = |value: &f64| value.is_finite() && *value > 0.0;
    if a.is_empty() || b.is_empty() || !a.iter().chain(b).all(is_fit) {
        return None;
    }
    let mut quotients: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b / a)).collect();
    quotients.sort_by(f64::total_cmp);
    let ratio = crate::stats::median(&quotients)?;
    let outside = outside(a.len(), b.len(), 1.0 - confidence);
    let interval = outside.map(|k| (quotients[k], quotients[quotients.len() - 1 - k]));
    Some(Shift { ratio, interval })
}

/// How many of the smallest, and of the largest, quotients may be left out so that what is between
/// misses the true ratio with at most `alpha`. None when even all of them miss it more often.
fn outside(a: usize, b: usize, alpha: f64) -> Option<usize> {
    if a + b > EXACT_MAX {
        return Some(outside_by_normal(a, b, alpha));
    }
    let counts = rank_sums(a, b);
    let all: f64 = counts.iter().map(|count| *count as f64).sum();
    // The interval from the (k+1)-th smallest to the (k+1)-th largest misses when the statistic is
    // at most k on either side.
    let mut below = 0.0;
    let mut found = None;
    for (k, count) in counts.iter().enumerate().take(a * b / 2) {
        below += *count as f64;
        if 2.0 * below / all > alpha {
            break;
        }
        found = Some(k);
    }
    found
}

/// The same where counting is too long: the statistic is nearly normal.
fn outside_by_normal(a: usize, b: usize, alpha: f64) -> usize {
    let (a, b) = (a as f64, b as f64);
    let deviation = (a * b * (a + b + 1.0) / 12.0).sqrt();
    let k = a * b / 2.0 - quantile(1.0 - alpha / 2.0) * deviation - 1.0;
    k.max(0.0).floor() as usize
}

/// The number of standard deviations below which a share `p` of a normal distribution lies: by
/// halving, as nobody waits for it.
fn quantile(p: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if share_below(middle) < p { low = middle } else { high = middle }
    }
    low
}

/// The normal distribution, integrated by Simpson's rule from 0.
fn share_below(x: f64) -> f64 {
    const STEPS: u32 = 400;
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let h = x / f64::from(STEPS);
    let inner = (1..STEPS).map(|n| {
        let weight = if n % 2 == 1 { 4.0 } else { 2.0 };
        weight * density(h * f64::from(n))
    });
    0.5 + h / 3.0 * (density(0.0) + inner.sum::<f64>() + density(x))
}

/// In how many orders of `a` and `b` things the statistic of Mann and Whitney is 0, 1, 2, ..: the
/// coefficients of the Gaussian binomial, product of `(1 - q^(b+i)) / (1 - q^i)` for i in 1 to a.
fn rank_sums(a: usize, b: usize) -> Vec<i128> {
    let len = a * b + 1;
    let mut counts = vec![0_i128; len];
    counts[0] = 1;
    for i in 1..=a {
        for at in (b + i..len).rev() {
            counts[at] -= counts[at - b - i];
        }
        for at in i..len {
            counts[at] += counts[at - i];
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn the_distribution_is_that_of_the_tables() {
        assert_eq!(rank_sums(2, 2), [1, 1, 2, 1, 1]);
        assert_eq!(rank_sums(1, 3), [1, 1, 1, 1]);
        assert_eq!(rank_sums(3, 3).iter().sum::<i128>(), 20);
        assert_eq!(rank_sums(60, 60).iter().sum::<i128>(), binomial(120, 60));
        // Critical values of U, two-sided: for 0.05 with 5 and 5 it is 2, with 9 and 9 it is 17;
        // for 0.01 with 9 and 9 it is 11, with 4 and 4 there is none.
        assert_eq!(outside(5, 5, 0.05), Some(2));
        assert_eq!(outside(9, 9, 0.05), Some(17));
        assert_eq!(outside(9, 9, 0.01), Some(11));
        assert_eq!(outside(4, 4, 0.01), None);
        assert_eq!(outside(4, 4, 0.05), Some(0));
        assert_eq!(outside(3, 3, 0.05), None);
    }

    fn binomial(n: i128, k: i128) -> i128 {
        (1..=k).fold(1, |product, i| product * (n - k + i) / i)
    }

    #[test]
    fn counting_and_the_normal_distribution_agree_where_they_meet() {
        assert!((quantile(0.975) - 1.959_964).abs() < 1e-5);
        assert!((quantile(0.995) - 2.575_829).abs() < 1e-5);
        for alpha in [0.05, 0.01] {
            let (exact, normal) =
                (outside(60, 60, alpha).unwrap(), outside_by_normal(60, 60, alpha));
            assert!(exact.abs_diff(normal) <= 4, "{exact} and {normal}");
        }
    }

    #[test]
    fn a_known_ratio_is_found() {
        let a = [98.0, 99.0, 100.0, 101.0, 102.0, 100.5, 99.5];
        let shift = shift(&a, &a.map(|value| value * 0.9), 0.99).unwrap();
        assert!((shift.ratio - 0.9).abs() < 1e-9);
        let (low, high) = shift.interval.unwrap();
        assert!(low < 0.9 && 0.9 < high && high < 1.0, "{shift:?}");
    }

    #[test]
    fn nonsense_is_refused_and_few_have_no_interval() {
        for (a, b) in [
            (vec![], vec![1.0]),
            (vec![1.0], vec![]),
            (vec![0.0], vec![1.0]),
            (vec![1.0], vec![-1.0]),
            (vec![f64::NAN], vec![1.0]),
            (vec![1.0], vec![f64::INFINITY]),
        ] {
            assert_eq!(shift(&a, &b, 0.95), None);
        }
        assert_eq!(shift(&[1.0], &[2.0], 0.95), Some(Shift { ratio: 2.0, interval: None }));
    }

    /// Of the same thing measured twice, differences are invented as often as was asked for.
    #[test]
    fn the_confidence_is_kept() {
        let mut rng = Rng::new(7);
        // Not normal: most rounds alike, some much slower, as disks are.
        let mut round = || {
            let uniform = |rng: &mut Rng| rng.draw() as f64 / u64::MAX as f64;
            let slow = if rng.draw().is_multiple_of(5) { 0.6 } else { 1.0 };
            1000.0 * slow * (1.0 + 0.1 * (uniform(&mut rng) - 0.5))
        };
        for (count, confidence, most) in [(9, 0.95, 0.06), (9, 0.99, 0.015), (5, 0.95, 0.06)] {
            let trials = 4000;
            let missed = (0..trials).filter(|_| {
                let mut side = || (0..count).map(|_| round()).collect::<Vec<_>>();
                let (a, b) = (side(), side());
                let (low, high) = shift(&a, &b, confidence).unwrap().interval.unwrap();
                low > 1.0 || high < 1.0
            });
            let share = missed.count() as f64 / f64::from(trials);
            assert!(share <= most, "{count} rounds at {confidence}: {share}");
        }
    }
}
