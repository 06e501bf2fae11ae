//! What a phase moved, and when: each thread fills one, and they are merged at the end.

use std::time::{Duration, Instant};

use crate::latency::Latency;
use crate::results::Series;
use crate::seconds::Seconds;

/// An operation that was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    /// When the schedule wanted it sent; None in a closed loop.
    pub(crate) intended: Option<Instant>,
    /// When it was sent.
    pub(crate) sent: Instant,
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
}

/// Everything that was answered in a phase.
#[derive(Debug, Clone)]
pub(crate) struct Moved {
    start: Instant,
    end: Instant,
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    /// From sending to the answer.
    pub(crate) service: Latency,
    /// From the intended start to the answer; None until an operation had one.
    pub(crate) response: Option<Latency>,
    pub(crate) series: Series,
    /// What users feel, by second: response times where there are any, else service times.
    pub(crate) seconds: Seconds,
}

impl Moved {
    /// Nothing yet. The clock starts at `start`: what is answered before is warm-up and not counted.
    pub(crate) fn new(start: Instant) -> Moved {
        Moved {
            start,
            end: start,
            bytes: 0,
            messages: 0,
            service: Latency::default(),
            response: None,
            series: Series::new(start),
            seconds: Seconds::new(start),
        }
    }

    /// Counts an operation that was answered at `answered`.
    pub(crate) fn record(&mut self, operation: Operation, answered: Instant) {
        if answered < self.start {
            return;
        }
        let Operation { intended, sent, bytes, messages } = operation;
        self.end = self.end.max(answered);
        self.bytes += bytes;
        self.messages += messages;
        self.service.record(answered.saturating_duration_since(sent));
        if let Some(intended) = intended {
            let response = self.response.get_or_insert_default();
            response.record(answered.saturating_duration_since(intended));
        }
        self.series.record(answered, bytes, messages);
        let felt = answered.saturating_duration_since(intended.unwrap_or(sent));
        self.seconds.record(answered, felt);
    }

    /// Counts a phase that is one operation, from its start to `answered`.
    pub(crate) fn record_whole(&mut self, bytes: u64, answered: Instant) {
        let operation = Operation { intended: None, sent: self.start, bytes, messages: 0 };
        self.record(operation, answered);
    }

    /// Adds another thread's of the same phase.
    pub(crate) fn merge(&mut self, other: &Moved) {
        self.end = self.end.max(other.end);
        self.bytes += other.bytes;
        self.messages += other.messages;
        self.service.merge(&other.service);
        if let Some(response) = &other.response {
            self.response.get_or_insert_default().merge(response);
        }
        self.series.merge(&other.series);
        self.seconds.merge(&other.seconds);
    }

    /// From the start to the last answer, never 0.
    pub(crate) fn elapsed(&self) -> Duration {
        self.end.duration_since(self.start).max(Duration::from_nanos(1))
    }

    /// When the clock started.
    pub(crate) fn start(&self) -> Instant {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_is_not_counted_and_an_intended_start_counts_from_there() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let operation = |intended, sent| Operation { intended, sent, bytes: 10, messages: 1 };
        let mut moved = Moved::new(at(100));
        moved.record(operation(None, at(0)), at(99));
        assert_eq!((moved.bytes, moved.service.count()), (0, 0));
        moved.record(operation(Some(at(50)), at(150)), at(160));
        assert_eq!(moved.service.max_us(), 10_000.0);
        assert_eq!(moved.response.as_ref().unwrap().max_us(), 110_000.0);
        // By second as well it is the time that users feel.
        let seconds = moved.seconds.histograms(moved.elapsed());
        let felt = moved.response.as_ref().unwrap().nanos();
        assert_eq!(seconds.iter().map(|one| &one.2).collect::<Vec<_>>(), [felt]);
        let mut other = Moved::new(at(100));
        other.record(operation(None, at(170)), at(200));
        moved.merge(&other);
        assert_eq!((moved.bytes, moved.messages, moved.service.count()), (20, 2, 2));
        assert_eq!(moved.elapsed(), Duration::from_millis(100));
    }
}
