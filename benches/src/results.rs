//! What a run measured, in memory: phases, their rounds, and what each is held against.
//!
//! Filled by `run` and `phases`, told by `report`. Nothing is averaged here: a round keeps its own
//! histograms and its own pair, merging and medians are made of those.

use std::time::{Duration, Instant};

use crate::account::Used;
use crate::latency::Latency;
use crate::seconds::Seconds;
use crate::stats::{median, median_interval};

/// Length of an interval of a [`Series`].
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

/// One phase of the workload, over all rounds.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    /// Its word in every output; a JSON key.
    pub(crate) name: &'static str,
    /// What one operation is and what its answer promised, for people: "a batch, answered when
    /// written".
    pub(crate) operation: &'static str,
    /// The promise alone, for scripts: "written". Empty for reads.
    pub(crate) answered_when: &'static str,
    /// Who decides when the next operation is sent.
    pub(crate) pacing: Pacing,
    /// What is compared with the ceiling, and in which unit.
    pub(crate) figure: Figure,
    /// The ceiling it is held against: "sequential write".
    pub(crate) ceiling: &'static str,
    /// In the order they were run; the last one may have been cut short by the user.
    pub(crate) rounds: Vec<PhaseRound>,
}

/// Who decides when the next operation is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pacing {
    /// The answers do: so many operations are outstanding at any time. Latencies are service times
    /// and say nothing about what a stream of requests at a given rate would feel.
    Closed {
        /// Of all producers or consumers together.
        outstanding: usize,
    },
    /// A schedule does: so many operations a second, whatever the answers. Latencies run from the
    /// intended start.
    Open {
        /// Of all producers together.
        operations_per_s: f64,
    },
}

impl Pacing {
    /// The word for it in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Pacing::Closed { .. } => "closed",
            Pacing::Open { .. } => "open",
        }
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Throughput in MB/s.
    MbPerS,
    /// Operations a second.
    OperationsPerS,
    /// Median service time in microseconds; lower is better.
    P50Us,
    /// Time of the whole phase in milliseconds; lower is better.
    Ms,
}

impl Figure {
    /// The unit, as it is printed.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Figure::MbPerS => "MB/s",
            Figure::OperationsPerS => "/s",
            Figure::P50Us => "us",
            Figure::Ms => "ms",
        }
    }

    /// Whether a smaller figure is the better one.
    pub(crate) fn lower_is_better(self) -> bool {
        matches!(self, Figure::P50Us | Figure::Ms)
    }
}

/// One phase in one round.
#[derive(Debug, Clone)]
pub(crate) struct PhaseRound {
    /// When it began, since the run began.
    pub(crate) begun: Duration,
    /// Measured time, never 0.
    pub(crate) elapsed: Duration,
    /// Bytes of batches moved in it.
    pub(crate) bytes: u64,
    /// Messages in them.
    pub(crate) messages: u64,
    /// From an operation's real start to its answer; one sample an operation.
    pub(crate) service: Latency,
    /// From an operation's intended start to its answer; None in a closed loop, which has none.
    pub(crate) response: Option<Latency>,
    /// What was answered when.
    pub(crate) series: Series,
    /// What users feel, by second: response times where there are any, else service times.
    pub(crate) seconds: Seconds,
    /// CPU and the like, used by the whole process meanwhile.
    pub(crate) used: Used,
    /// The engine's figure.
    pub(crate) engine: f64,
    /// The ceiling's, measured next to it; None when the user stopped the run before.
    pub(crate) ceiling: Option<f64>,
}

impl Phase {
    /// Engine and ceiling of each round that has both.
    pub(crate) fn pairs(&self) -> Vec<(f64, f64)> {
        self.rounds.iter().filter_map(|round| Some((round.engine, round.ceiling?))).collect()
    }

    /// Median of the engine's figures; None when nothing was measured.
    pub(crate) fn engine(&self) -> Option<f64> {
        median(&self.rounds.iter().map(|round| round.engine).collect::<Vec<_>>())
    }

    /// Median of the ceiling's figures.
    pub(crate) fn ceiling_figure(&self) -> Option<f64> {
        median(&self.pairs().iter().map(|pair| pair.1).collect::<Vec<_>>())
    }

    /// Engine over ceiling: the median of the pairs' ratios.
    pub(crate) fn ratio(&self) -> Option<f64> {
        median(&self.ratios())
    }

    /// An interval that holds the true ratio with at least 95 %; None below 6 pairs.
    pub(crate) fn ratio_interval(&self) -> Option<(f64, f64)> {
        median_interval(&self.ratios())
    }

    /// How much of the ceiling is reached, as a fraction: 1 is all of it, whichever way the figure
    /// is better.
    pub(crate) fn of_ceiling(&self) -> Option<f64> {
        let ratio = self.ratio()?;
        Some(if self.figure.lower_is_better() { ratio.recip() } else { ratio })
    }

    fn ratios(&self) -> Vec<f64> {
        self.pairs().iter().map(|(engine, ceiling)| engine / ceiling).collect()
    }

    /// Bytes over all rounds.
    pub(crate) fn bytes(&self) -> u64 {
        self.rounds.iter().map(|round| round.bytes).sum()
    }

    /// Messages over all rounds.
    pub(crate) fn messages(&self) -> u64 {
        self.rounds.iter().map(|round| round.messages).sum()
    }

    /// Measured time over all rounds.
    pub(crate) fn elapsed(&self) -> Duration {
        self.rounds.iter().map(|round| round.elapsed).sum()
    }

    /// Service times of all rounds, merged.
    pub(crate) fn service(&self) -> Latency {
        merged(self.rounds.iter().map(|round| &round.service))
    }

    /// Response times of all rounds, merged; None in a closed loop.
    pub(crate) fn response(&self) -> Option<Latency> {
        let rounds = self.rounds.iter().filter_map(|round| round.response.as_ref());
        matches!(self.pacing, Pacing::Open { .. }).then(|| merged(rounds))
    }

    /// What users feel: response times where there are any, service times in a closed loop.
    pub(crate) fn latency(&self) -> Latency {
        self.response().unwrap_or_else(|| self.service())
    }
}

fn merged<'a>(all: impl Iterator<Item = &'a Latency>) -> Latency {
    all.fold(Latency::default(), |mut merged, one| {
        merged.merge(one);
        merged
    })
}

/// Bytes and operations by the time they were answered, in intervals of [`INTERVAL`] from `start`.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    start: Instant,
    slots: Vec<Slot>,
}

/// One interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    pub(crate) operations: u64,
}

impl Series {
    /// None yet; the phase's clock starts at `start`.
    pub(crate) fn new(start: Instant) -> Series {
        Series { start, slots: Vec::new() }
    }

    /// Counts an operation that was answered at `at`. One from before the start is the first
    /// interval's.
    pub(crate) fn record(&mut self, at: Instant, bytes: u64, messages: u64) {
        let since = at.saturating_duration_since(self.start);
        let index = usize::try_from(since.as_millis() / INTERVAL.as_millis()).unwrap_or(0);
        if self.slots.len() <= index {
            self.slots.resize(index + 1, Slot::default());
        }
        let slot = &mut self.slots[index];
        slot.bytes += bytes;
        slot.messages += messages;
        slot.operations += 1;
    }

    /// Adds another thread's, with the same start (asserted).
    pub(crate) fn merge(&mut self, other: &Series) {
        assert_eq!(self.start, other.start, "series of one phase have one start");
        if self.slots.len() < other.slots.len() {
            self.slots.resize(other.slots.len(), Slot::default());
        }
        for (into, from) in self.slots.iter_mut().zip(&other.slots) {
            into.bytes += from.bytes;
            into.messages += from.messages;
            into.operations += from.operations;
        }
    }

    /// Each interval: when it begins, its true length, and what was answered in it. The last one
    /// ends with the phase, so a rate is work over the time that it really took.
    pub(crate) fn intervals(
        &self,
        elapsed: Duration,
    ) -> impl Iterator<Item = (Duration, Duration, Slot)> + '_ {
        let all = self.slots.iter().zip(0_u32..);
        all.map(move |(slot, number)| {
            let begin = INTERVAL * number;
            let len = elapsed.saturating_sub(begin).clamp(Duration::from_nanos(1), INTERVAL);
            (begin, len, *slot)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_counts_by_the_time_of_the_answer_and_ends_with_the_phase() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut series = Series::new(start);
        series.record(at(0), 10, 1);
        series.record(at(99), 10, 1);
        let mut other = Series::new(start);
        other.record(at(250), 40, 4);
        series.merge(&other);
        let ms = Duration::from_millis;
        let slot = |bytes, messages, operations| Slot { bytes, messages, operations };
        assert_eq!(
            series.intervals(ms(260)).collect::<Vec<_>>(),
            [
                (ms(0), ms(100), slot(20, 2, 2)),
                (ms(100), ms(100), slot(0, 0, 0)),
                (ms(200), ms(60), slot(40, 4, 1)),
            ]
        );
    }

    #[test]
    fn the_share_of_the_ceiling_turns_a_ratio_where_lower_is_better() {
        let round = |engine, ceiling| PhaseRound {
            begun: Duration::ZERO,
            elapsed: Duration::from_secs(1),
            bytes: 0,
            messages: 0,
            service: Latency::default(),
            response: None,
            series: Series::new(Instant::now()),
            seconds: Seconds::new(Instant::now()),
            used: Used::default(),
            engine,
            ceiling,
        };
        let mut phase = Phase {
            name: "durable",
            operation: "",
            answered_when: "durable",
            pacing: Pacing::Closed { outstanding: 1 },
            figure: Figure::P50Us,
            ceiling: "",
            rounds: vec![round(200.0, Some(100.0)), round(999.0, None)],
        };
        assert_eq!((phase.ratio(), phase.of_ceiling()), (Some(2.0), Some(0.5)));
        phase.figure = Figure::MbPerS;
        assert_eq!(phase.of_ceiling(), Some(2.0));
        phase.rounds.clear();
        assert_eq!((phase.engine(), phase.of_ceiling()), (None, None));
    }
}
