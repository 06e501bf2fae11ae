//! A pulse for each executor, because glommio can go to sleep over tasks that are ready to run.
//!
//! glommio 0.9 arms its preempt timer, and then looks whether it has fired BEFORE it runs the first
//! task. Where the thread was off its CPU in between, for longer than the timer (200 us; a busy
//! neighbour is enough), it runs nothing, takes that for "nothing to run", and parks: until some
//! later event, for ever where there is none. Measured on a loaded machine: once in about 50,000
//! wakes. A pending timer ends such a sleep, so each executor always has some.
//!
//! Some, as a timer that has fired is spent, and its own task may be the one that is slept over.
//! They stand in a row, one period apart, and each takes the end of the row when its task runs:
//! all eight must be slept over one after the other before none is left. A thread that stood still
//! for longer than the whole row (between an executor's making and its first request, say) finds all
//! of them due in one turn, and may sleep over that one: guards with ever longer periods stay behind.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Timers in the row.
const BEATS: usize = 8;

/// The period while the shard works: the bound of a stall.
const FAST: Duration = Duration::from_millis(1);

/// The period of a shard that has nothing to do, and so the bound of a stall of its first request:
/// the row stands this far apart until its beats have come round. 250 wakes a second; with 32 ms
/// instead, one durable append in a thousand took as long.
const SLOW: Duration = Duration::from_millis(4);

/// Timers behind the row: after a standstill, the first that is still ahead ends the sleep.
const GUARDS: [Duration; 6] = [
    Duration::from_millis(64),
    Duration::from_millis(256),
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(16),
    Duration::from_secs(64),
];

struct Row {
    end: Cell<Instant>,
    period: Cell<Duration>,
    /// Tasks the executor had run at the last beat.
    tasks: Cell<u64>,
}

/// Starts the pulse of the executor this is called on. It beats as long as the executor runs, over
/// all its `run` calls, and is leaked with it (a few small tasks).
pub(super) fn start() {
    let row = Row { end: Cell::new(Instant::now()), period: Cell::new(FAST), tasks: Cell::new(0) };
    let row = Rc::new(row);
    for _ in 0..BEATS {
        let row = Rc::clone(&row);
        glommio::spawn_local(async move {
            loop {
                glommio::timer::sleep(row.next_in(Instant::now())).await;
                let tasks = glommio::executor().executor_stats().tasks_executed();
                row.adapt(tasks);
            }
        })
        .detach();
    }
    for period in GUARDS {
        glommio::spawn_local(async move {
            loop {
                glommio::timer::sleep(period).await;
            }
        })
        .detach();
    }
}

impl Row {
    /// The time until the end of the row, which moves on by one period.
    fn next_in(&self, now: Instant) -> Duration {
        let end = self.end.get().max(now) + self.period.get();
        self.end.set(end);
        end - now
    }

    /// Fast where the shard has run anything but beats since the last one; slower step by step
    /// where it has not.
    fn adapt(&self, tasks: u64) {
        // The count is taken while this beat's run is not yet in it: between two beats of an idle
        // shard it grows by one.
        let worked = tasks.saturating_sub(self.tasks.replace(tasks)) > 1;
        let period = if worked { FAST } else { (self.period.get() * 2).min(SLOW) };
        self.period.set(period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(now: Instant) -> Row {
        Row { end: Cell::new(now), period: Cell::new(FAST), tasks: Cell::new(0) }
    }

    #[test]
    fn beats_stand_apart_also_when_all_are_late_at_once() {
        let start = Instant::now();
        let row = row(start);
        let due: Vec<_> = (1..=3).map(|_| row.next_in(start)).collect();
        assert_eq!(due, [FAST, 2 * FAST, 3 * FAST]);
        // The whole row was slept over: it stands up again, apart, from now on.
        let late = start + 100 * FAST;
        let due: Vec<_> = (1..=3).map(|_| row.next_in(late)).collect();
        assert_eq!(due, [FAST, 2 * FAST, 3 * FAST]);
    }

    #[test]
    fn an_idle_shard_beats_slower_and_a_working_one_fast() {
        let row = row(Instant::now());
        for tasks in 1..20 {
            row.adapt(tasks);
        }
        assert_eq!(row.period.get(), SLOW);
        row.adapt(40);
        assert_eq!(row.period.get(), FAST);
        row.adapt(41);
        assert_eq!(row.period.get(), 2 * FAST);
    }
}
