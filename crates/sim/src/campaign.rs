//! Many seeds, on several threads, until time is up or one fails.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::{Failure, Probes, run};

/// Which seeds to run, and until when.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// The first seed.
    pub from: u64,
    /// So many seeds at most.
    pub count: u64,
    /// No seed begins after this.
    pub until: Option<Instant>,
    /// Threads.
    pub threads: usize,
    /// Events that a failure shows.
    pub events: usize,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Seeds that ended.
    pub seeds: u64,
    /// What they reached.
    pub probes: Probes,
    /// The lowest of the seeds that failed before all threads had stopped.
    pub failure: Option<Box<Failure>>,
}

impl Campaign {
    /// Runs the seeds in order, each on one thread; begins none after the first failure.
    pub fn run(&self) -> Outcome {
        let next = AtomicU64::new(self.from);
        let stop = AtomicBool::new(false);
        let outcome = Mutex::new(Outcome::default());
        let end = self.from.saturating_add(self.count);
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed)
                        && self.until.is_none_or(|until| Instant::now() < until)
                    {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            break;
                        }
                        let result = run(seed, self.events);
                        let mut outcome = outcome.lock().expect("nobody panics with it");
                        outcome.seeds += 1;
                        match result {
                            Ok(report) => outcome.probes.add(&report.probes),
                            Err(failure) => {
                                stop.store(true, Ordering::Relaxed);
                                if outcome.failure.as_ref().is_none_or(|f| failure.seed < f.seed) {
                                    outcome.failure = Some(failure);
                                }
                            }
                        }
                    }
                });
            }
        });
        outcome.into_inner().expect("nobody panicked with it")
    }
}
