//! Limits fixed at open, and the counters that hold requests and bytes in flight below them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What one shard takes in before it answers `Busy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardLimits {
    /// Requests that wait in the mailbox. Default 4096.
    pub mailbox_requests: usize,
    /// Appends not answered yet, of all clients. Default 8192.
    pub appends_in_flight: usize,
    /// Bytes of them. An append is always taken when none is in flight, however long. Default
    /// 256 MiB.
    pub append_bytes_in_flight: usize,
    /// Polls not answered yet, of all clients. Default 8192.
    pub polls_in_flight: usize,
    /// Most bytes one poll gets, whatever it asks for (one batch may be longer). Default 8 MiB.
    pub poll_bytes: usize,
    /// Requests that the shard hands out before it lets other tasks and I/O run. Default 64.
    pub run_requests: usize,
    /// Bytes of batches that the shard copies before it turns to its I/O (one batch may be longer):
    /// a copy holds up the device's next write. Default 256 KiB.
    pub run_bytes: usize,
    /// Partitions that are opened or closed side by side. Default 64.
    pub openings: usize,
}

impl Default for ShardLimits {
    fn default() -> Self {
        ShardLimits {
            mailbox_requests: 4096,
            appends_in_flight: 8192,
            append_bytes_in_flight: 256 << 20,
            polls_in_flight: 8192,
            poll_bytes: 8 << 20,
            run_requests: 64,
            run_bytes: 256 << 10,
            openings: 64,
        }
    }
}

/// What one client has in flight, on all shards together, before it is answered `Busy`. Clones of
/// a client share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimits {
    /// Requests not answered yet. Default 4096.
    pub requests_in_flight: usize,
    /// Bytes of appends not answered yet. An append is always taken when none is in flight,
    /// however long. Default 128 MiB.
    pub bytes_in_flight: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        ClientLimits { requests_in_flight: 4096, bytes_in_flight: 128 << 20 }
    }
}

/// Requests and bytes in flight, below a limit of each.
#[derive(Debug)]
pub(crate) struct Budget {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    requests_max: usize,
    bytes_max: usize,
    refused: AtomicU64,
}

impl Budget {
    pub(crate) fn new(requests_max: usize, bytes_max: usize) -> Self {
        Budget {
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            requests_max,
            bytes_max,
            refused: AtomicU64::new(0),
        }
    }

    /// Takes one request of `bytes` bytes, all of it or nothing.
    ///
    /// A request longer than the limit is taken when no bytes are in flight: it would be refused
    /// for ever otherwise.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let taken = add(&self.requests, |n| (n < self.requests_max).then(|| n + 1)) && {
            let fits = add(&self.bytes, |n| {
                let sum = n.checked_add(bytes)?;
                (sum <= self.bytes_max || n == 0).then_some(sum)
            });
            if !fits {
                self.requests.fetch_sub(1, Ordering::Relaxed);
            }
            fits
        };
        if !taken {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Gives back what [`Budget::take`] took.
    pub(crate) fn give(&self, bytes: usize) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Requests and bytes in flight now.
    pub(crate) fn in_flight(&self) -> (usize, usize) {
        (self.requests.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Requests that found no room.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// The counters order nothing but themselves, so relaxed is enough.
fn add(counter: &AtomicUsize, next: impl FnMut(usize) -> Option<usize>) -> bool {
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
}

/// One request's share of two budgets, given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    shard: Arc<Budget>,
    client: Option<Arc<Budget>>,
    bytes: usize,
}

impl Permit {
    /// Room for a request of `bytes` bytes at the shard and, if it has one, the client.
    pub(crate) fn take(
        shard: &Arc<Budget>,
        client: Option<&Arc<Budget>>,
        bytes: usize,
    ) -> Option<Self> {
        if client.is_some_and(|client| !client.take(bytes)) {
            return None;
        }
        if !shard.take(bytes) {
            if let Some(client) = client {
                client.give(bytes);
            }
            return None;
        }
        Some(Permit { shard: Arc::clone(shard), client: client.cloned(), bytes })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shard.give(self.bytes);
        if let Some(client) = &self.client {
            client.give(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_hold_and_what_is_refused_takes_nothing() {
        let budget = Budget::new(2, 100);
        assert!(budget.take(60));
        assert!(!budget.take(41), "bytes are over");
        assert_eq!(budget.in_flight(), (1, 60));
        assert!(budget.take(40));
        assert!(!budget.take(0), "requests are over");
        assert_eq!((budget.in_flight(), budget.refused()), ((2, 100), 2));
        budget.give(60);
        budget.give(40);
        assert_eq!(budget.in_flight(), (0, 0));
    }

    #[test]
    fn a_request_over_the_limit_passes_alone() {
        let budget = Budget::new(10, 100);
        assert!(budget.take(1000));
        assert!(!budget.take(1));
        budget.give(1000);
        assert!(budget.take(1));
        assert!(!budget.take(1000), "it waits until nothing is in flight");
        assert!(!budget.take(usize::MAX));
    }

    #[test]
    fn a_permit_is_whole_or_not_at_all() {
        let (shard, client) = (Arc::new(Budget::new(1, 100)), Arc::new(Budget::new(9, 900)));
        let permit = Permit::take(&shard, Some(&client), 70).unwrap();
        assert_eq!((shard.in_flight(), client.in_flight()), ((1, 70), (1, 70)));
        assert!(Permit::take(&shard, Some(&client), 1).is_none());
        assert_eq!((shard.in_flight(), client.in_flight()), ((1, 70), (1, 70)));
        drop(permit);
        assert_eq!((shard.in_flight(), client.in_flight()), ((0, 0), (0, 0)));
        drop(Permit::take(&shard, None, 100).unwrap());
        assert_eq!(shard.in_flight(), (0, 0));
    }

    #[test]
    fn threads_never_pass_the_limit() {
        let budget = Arc::new(Budget::new(3, 30));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        if budget.take(10) {
                            let (requests, bytes) = budget.in_flight();
                            assert!(requests <= 3 && bytes <= 30, "{requests} {bytes}");
                            budget.give(10);
                        }
                    }
                });
            }
        });
        assert_eq!(budget.in_flight(), (0, 0));
    }
}
