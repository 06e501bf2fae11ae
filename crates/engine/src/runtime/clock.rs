//! Wall time from the system, the stamping ceiling from the engine's clock keeper, the executor's timers.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use corelog_io::Clock;

use super::choice::Runtime;

/// The clock of a shard.
#[derive(Clone)]
pub(crate) struct RealClock {
    runtime: Runtime,
    floor: Arc<AtomicU64>,
    ceiling: Arc<AtomicU64>,
}

impl RealClock {
    /// A clock that shows at least `floor` and may stamp up to `ceiling`, which the clock keeper
    /// raises after the higher ceiling has become durable (Release there, Acquire here).
    pub(super) fn new(runtime: Runtime, floor: Arc<AtomicU64>, ceiling: Arc<AtomicU64>) -> Self {
        RealClock { runtime, floor, ceiling }
    }
}

impl Clock for RealClock {
    fn now_us(&self) -> u64 {
        // Before 1970 the clock is plainly wrong; stamping raises it to the last timestamp.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let system = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        system.max(self.floor.load(Ordering::Relaxed))
    }

    fn ceiling_us(&self) -> u64 {
        self.ceiling.load(Ordering::Acquire)
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + 'static {
        self.runtime.sleep(duration)
    }
}
