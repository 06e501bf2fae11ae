//! What this thread's executor has done so far. The only caller of glommio's `executor_stats`.

use std::cell::Cell;

/// Running totals of the executor of this thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::runtime) struct Counts {
    /// Turns: each ends with the submissions in the kernel's hands, and the due timers fired.
    pub(in crate::runtime) turns: u64,
    /// Tasks run, each time that one was run.
    pub(in crate::runtime) tasks: u64,
}

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { turns: 0, tasks: 0 }) };
}

/// The totals by now.
///
/// # Panics
///
/// Where no executor runs on this thread.
pub(in crate::runtime) fn counts() -> Counts {
    // glommio 0.9 takes its counters away with each reading: two readers would each see what the
    // other has left, so that the sums are kept here.
    let since = glommio::executor().executor_stats();
    let before = COUNTS.get();
    let now = Counts {
        // Each turn is followed by a run of the task queue.
        turns: before.turns + since.scheduler_runs(),
        tasks: before.tasks + since.tasks_executed(),
    };
    COUNTS.set(now);
    now
}
