//! What a phase cost in CPU time: of the shard's thread, and of the whole process.
//!
//! The process has more threads than the shard: the benchmark's own, and the kernel's workers that
//! finish what io_uring could not do at once.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Shares of one CPU over a phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cpu {
    /// The shard's thread, 0 to 1.
    pub shard: f64,
    /// All threads of the process together.
    pub process: f64,
}

/// CPU time of the calling thread.
pub(super) fn of_thread() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// When a phase began, by all three clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    wall: Instant,
    process: Duration,
    shard: Duration,
}

impl Begun {
    /// Now; `shard` is what `of_thread` said on the shard.
    pub(super) fn now(shard: Duration) -> Begun {
        Begun { wall: Instant::now(), process: read(ClockId::ProcessCPUTime), shard }
    }

    /// The shares since then.
    pub(super) fn until(&self, end: &Begun) -> Cpu {
        let wall = end.wall.duration_since(self.wall).as_secs_f64().max(1e-9);
        let share = |begin: Duration, end: Duration| end.saturating_sub(begin).as_secs_f64() / wall;
        Cpu { shard: share(self.shard, end.shard), process: share(self.process, end.process) }
    }
}

pub(super) fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_is_charged_and_one_that_sleeps_is_not() {
        let before = of_thread();
        std::thread::sleep(Duration::from_millis(30));
        let slept = of_thread();
        while of_thread() < slept + Duration::from_millis(20) {}
        assert!(slept - before < Duration::from_millis(20));
        let begin = Begun { wall: Instant::now(), process: Duration::ZERO, shard: before };
        let end = Begun {
            wall: begin.wall + Duration::from_secs(1),
            process: Duration::from_millis(1500),
            shard: before + Duration::from_millis(250),
        };
        assert_eq!(begin.until(&end), Cpu { shard: 0.25, process: 1.5 });
    }
}
