//! How many events of a kind go out: clients can provoke them as fast as they send.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Events of one kind in a second; more are counted.
const PER_SECOND: u64 = 20;

/// How many there were, and how many there may be. A few more than that do no harm, so that nothing
/// here is exact where threads meet.
pub(super) struct Pace {
    began: Instant,
    second: AtomicU64,
    in_second: AtomicU64,
    kept_back: AtomicU64,
}

impl Default for Pace {
    fn default() -> Pace {
        let zero = AtomicU64::default;
        Pace { began: Instant::now(), second: zero(), in_second: zero(), kept_back: zero() }
    }
}

impl Pace {
    /// Whether there may be one now, and how many were kept back before it.
    pub(super) fn allow(&self) -> Option<u64> {
        self.allow_in(self.began.elapsed().as_secs())
    }

    fn allow_in(&self, second: u64) -> Option<u64> {
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.in_second.store(0, Ordering::Relaxed);
        }
        if self.in_second.fetch_add(1, Ordering::Relaxed) < PER_SECOND {
            return Some(self.kept_back.swap(0, Ordering::Relaxed));
        }
        self.kept_back.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_counted() {
        let pace = Pace::default();
        let told = |second| (0..100).filter_map(|_| pace.allow_in(second)).collect::<Vec<u64>>();
        assert_eq!(told(0), [0; 20]);
        let next = told(1);
        assert_eq!((next.len(), next[0], next[1]), (20, 80, 0));
    }
}
