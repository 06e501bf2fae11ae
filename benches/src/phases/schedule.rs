//! When appends are due on a schedule, whatever the answers.

use std::time::{Duration, Instant};

use crate::rng::Rng;

/// How the moments at which appends are due lie in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Arrivals {
    /// Evenly, as a metronome
    #[default]
    Even,
    /// At random, as independent users send (exponential gaps with the same mean)
    Poisson,
}

impl Arrivals {
    /// The word for it in every output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arrivals::Even => "even",
            Arrivals::Poisson => "poisson",
        }
    }
}

/// The schedule of all producers together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Schedule {
    /// Appends a second of all producers, more than 0.
    pub(crate) per_s: f64,
    pub(crate) arrivals: Arrivals,
    /// Appends of a producer that are due at the same moment, at least 1.
    pub(crate) burst: u32,
    /// Draws the gaps.
    pub(crate) seed: u64,
    /// What was due in the time of a phase is sent up to so long after its end: a log that only
    /// stalled is asked for all of it, and one that is too slow not for ever.
    pub(crate) late: Duration,
}

impl Schedule {
    /// When the appends of producer `number` of `producers` are due, from `start` on, without an
    /// end.
    pub(super) fn starts(&self, start: Instant, number: u16, producers: u16) -> Starts {
        let gap_s = f64::from(producers) * f64::from(self.burst) / self.per_s;
        let rng = match self.arrivals {
            Arrivals::Even => None,
            Arrivals::Poisson => Some(Rng::new(self.seed ^ u64::from(number) << 32)),
        };
        let mut starts = Starts { at: start, gap_s, rng, burst: self.burst, left: self.burst };
        // Producers take turns: their schedules are shifted against each other.
        let first = match self.arrivals {
            Arrivals::Even => {
                Duration::from_secs_f64(gap_s * f64::from(number) / f64::from(producers))
            }
            Arrivals::Poisson => starts.gap(),
        };
        starts.at += first;
        starts
    }
}

/// The intended starts of one producer's appends, in order.
#[derive(Debug)]
pub(super) struct Starts {
    at: Instant,
    /// Mean time from one burst to the next, in seconds.
    gap_s: f64,
    /// Draws the gaps; even without one.
    rng: Option<Rng>,
    burst: u32,
    /// Of the burst at `at`.
    left: u32,
}

impl Starts {
    pub(super) fn next(&mut self) -> Instant {
        if self.left == 0 {
            let gap = self.gap();
            self.at += gap;
            self.left = self.burst;
        }
        self.left -= 1;
        self.at
    }

    fn gap(&mut self) -> Duration {
        let factor = match &mut self.rng {
            None => 1.0,
            // 53 random bits are a number in 0..1, without the 1 whose logarithm has no end.
            Some(rng) => -(1.0 - (rng.draw() >> 11) as f64 / (1_u64 << 53) as f64).ln(),
        };
        Duration::from_secs_f64(self.gap_s * factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVEN: Schedule = Schedule {
        per_s: 100.0,
        arrivals: Arrivals::Even,
        burst: 1,
        seed: 7,
        late: Duration::ZERO,
    };

    fn starts(schedule: Schedule, number: u16, producers: u16, count: usize) -> Vec<f64> {
        let start = Instant::now();
        let mut starts = schedule.starts(start, number, producers);
        (0..count).map(|_| (starts.next() - start).as_secs_f64()).collect()
    }

    fn is_near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn producers_take_turns() {
        // 100 a second by four: each every 40 ms, 10 ms behind the one before.
        for number in 0..4 {
            for (nth, at) in starts(EVEN, number, 4, 5).into_iter().enumerate() {
                assert!(is_near(at, 0.01 * f64::from(number) + 0.04 * nth as f64), "{at}");
            }
        }
    }

    #[test]
    fn a_burst_is_due_at_once_and_the_rate_stays() {
        let starts = starts(Schedule { burst: 5, ..EVEN }, 0, 1, 100);
        assert!(starts[..5].iter().all(|at| *at == 0.0) && is_near(starts[5], 0.05), "{starts:?}");
        assert!(is_near(starts[99], 0.95), "{starts:?}");
    }

    #[test]
    fn random_gaps_have_the_mean_of_the_even_ones_and_scatter_as_much() {
        let poisson = Schedule { arrivals: Arrivals::Poisson, ..EVEN };
        let all = starts(poisson, 0, 1, 20_000);
        let gaps: Vec<f64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((0.0097..0.0103).contains(&mean), "{mean}");
        // The standard deviation of an exponential distribution is its mean.
        assert!((0.95..1.05).contains(&(variance.sqrt() / mean)), "{variance}");
        assert_eq!(all[..50], starts(poisson, 0, 1, 50), "a seed is a schedule");
        assert_ne!(all[..50], starts(poisson, 1, 1, 50), "producers have their own");
    }
}
