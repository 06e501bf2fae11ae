//! What a phase used of the machine, counted for the whole process.

use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What was used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Used {
    /// CPU time of all threads, user and system.
    pub(crate) cpu: Duration,
}

impl Used {
    /// Adds another phase's or round's.
    pub(crate) fn add(&mut self, other: &Used) {
        self.cpu += other.cpu;
    }
}

/// Counts from `start` to `stop`.
#[derive(Debug)]
pub(crate) struct Meter {
    cpu: Duration,
}

impl Meter {
    /// Begins; the phase works in `dir`.
    pub(crate) fn start(_dir: &Path) -> Meter {
        Meter { cpu: cpu_time() }
    }

    /// What was used since.
    pub(crate) fn stop(&self) -> Used {
        Used { cpu: cpu_time().saturating_sub(self.cpu) }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
