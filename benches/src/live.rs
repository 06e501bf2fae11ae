//! What is moving right now, for the line on a terminal. Results are made of what each phase counts
//! for itself (`phases::moved`), never of this.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Over which time "now" is taken.
const WINDOW: Duration = Duration::from_secs(1);

/// Counters that only grow. Clones share them; adding costs two uncontended instructions a batch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Live(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    bytes: AtomicU64,
    messages: AtomicU64,
}

impl Live {
    /// So much was answered; the ring, which knows no messages, says 0 of them.
    pub(crate) fn add(&self, bytes: u64, messages: u64) {
        // Relaxed: nobody concludes anything from the two together.
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.0.messages.fetch_add(messages, Ordering::Relaxed);
    }

    /// Bytes and messages until now.
    pub(crate) fn total(&self) -> (u64, u64) {
        (self.0.bytes.load(Ordering::Relaxed), self.0.messages.load(Ordering::Relaxed))
    }
}

/// How fast it was over the last second: looked at some times a second, it forgets what is older.
#[derive(Debug, Clone, Default)]
pub(crate) struct Speed {
    /// Times and totals, the oldest at least a second before the newest, if there is one.
    looks: VecDeque<(Instant, u64, u64)>,
}

impl Speed {
    /// The totals stand so at `now`.
    pub(crate) fn look(&mut self, now: Instant, (bytes, messages): (u64, u64)) {
        self.looks.push_back((now, bytes, messages));
        while self.looks.get(1).is_some_and(|second| now.duration_since(second.0) >= WINDOW) {
            self.looks.pop_front();
        }
    }

    /// Bytes and messages a second; None where nothing moved, or nobody looked twice.
    fn per_s(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.looks.front()?, self.looks.back()?);
        let seconds = last.0.duration_since(first.0).as_secs_f64();
        let (bytes, messages) = (last.1 - first.1, last.2 - first.2);
        let moved = seconds > 0.0 && bytes > 0;
        moved.then(|| (bytes as f64 / seconds, messages as f64 / seconds))
    }
}

/// `, 812 MB/s, 790 k messages/s`, or nothing.
impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((bytes, messages)) = self.per_s() else { return Ok(()) };
        let digits = if bytes < 10e6 { 1 } else { 0 };
        write!(f, ", {:.digits$} MB/s", bytes / 1e6)?;
        match messages {
            0.0 => f.write_str(" by the raw ring"),
            few if few < 10e3 => write!(f, ", {few:.0} messages/s"),
            some if some < 10e6 => write!(f, ", {:.0} k messages/s", some / 1e3),
            many => write!(f, ", {:.1} M messages/s", many / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_last_second_that_counts() {
        let start = Instant::now();
        let live = Live::default();
        let mut speed = Speed::default();
        let mut look = |ms, bytes, messages| {
            live.clone().add(bytes, messages);
            speed.look(start + Duration::from_millis(ms), live.total());
            speed.to_string()
        };
        assert_eq!(look(0, 0, 0), "");
        assert_eq!(look(250, 0, 0), "");
        assert_eq!(look(500, 100_000_000, 0), ", 200 MB/s by the raw ring");
        assert_eq!(look(1000, 400_000_000, 5_000), ", 500 MB/s, 5000 messages/s");
        // The start is more than a second ago: from 500 ms on.
        assert_eq!(look(1500, 100_000_000, 1_000_000), ", 500 MB/s, 1005 k messages/s");
        assert_eq!(look(2500, 2_500_000, 20_000_000), ", 2.5 MB/s, 20.0 M messages/s");
        assert_eq!(look(3500, 0, 0), "");
    }
}
